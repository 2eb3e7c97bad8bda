"""Who may call the daemon: bearer tokens, with what each may do.

They are kept in `tokens.json` of the data directory, which the CLI writes and the daemon reads; a file lock keeps their changes apart.
"""

import hashlib
import json
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final

from holdfast.daemon._errors import TokenNotFound, TokensUnusable
from holdfast.daemon._files import OTHERS, OTHERS_WRITE, locked, private_folder, read_whole, write_private
from holdfast.daemon._held import HeldFolder
from holdfast.daemon.spool import AuditSpool
from holdfast.domain import DEFAULT_TENANT, InvalidValue, NameTaken, check_tenant

_log: Final = logging.getLogger("holdfast.daemon")
_SECRET: Final = re.compile(r"hf_[A-Za-z0-9_-]{43}")
_LONGEST_NAME: Final = 100
_LONGEST_SECRET: Final = 1_000
_LARGEST: Final = 1 << 24
_FORMAT: Final = 1
_WITH_TENANTS: Final = 2
"""Format of a file that has a token of another tenant than the default: a version of Holdfast that does not know of tenants must not
take such a token for one of its own.
"""
FIRST: Final = "first"
"""The name of the token that the first start makes."""


class Scope(StrEnum):
    """What a token may do."""

    ADMIN = "admin"
    RUN = "run"
    ANSWER = "answer"
    READ = "read"


IMPLIED: Final = {
    Scope.ADMIN: frozenset(Scope),
    Scope.RUN: frozenset({Scope.RUN, Scope.READ}),
    Scope.ANSWER: frozenset({Scope.ANSWER, Scope.READ}),
    Scope.READ: frozenset({Scope.READ}),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret, which nobody but its owner has. Times are milliseconds since 1970."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: int
    expires_at: int | None
    digest: bytes
    granted: frozenset[Scope] = frozenset()
    """What its scopes allow, with all that they imply."""
    tenant: str = DEFAULT_TENANT

    @property
    def is_operator(self) -> bool:
        """Whether it administers all tenants: an admin token of the default tenant."""
        return self.tenant == DEFAULT_TENANT and Scope.ADMIN in self.granted

    def allows(self, scope: str) -> bool:
        """Whether it may do what needs this scope."""
        return scope in self.granted

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at


_Listed = list[Token]


def _now() -> float:
    return time.time() * 1000


def _digest(secret: str) -> bytes:
    """What is stored of a secret. A plain hash is right here, and a slow one would not be: the secret is 256 random bits, so there are no
    likely guesses to slow down, and it is hashed for every request."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def _token(
    token_id: str,
    name: str,
    scopes: Iterable[str],
    created_at: int,
    expires_at: int | None,
    digest: bytes,
    tenant: str = DEFAULT_TENANT,
) -> Token:
    given = {Scope(scope) for scope in scopes}
    ordered = tuple(scope for scope in Scope if scope in given)
    granted = frozenset[Scope]().union(*(IMPLIED[scope] for scope in ordered))
    return Token(token_id, name, ordered, created_at, expires_at, digest, granted, check_tenant(tenant))


class Tokens:
    """The tokens of a data directory.

    `verify` is called for every request and looks into memory only; `refresh` sees what others have changed in the file. A change is
    durable when its call returns. The folder is held open: raises `DirectoryReplaced` if another takes its place, and then all stay.
    """

    def __init__(self, folder: Path, *, token_file: Path | None = None, clock: Callable[[], float] = _now) -> None:
        self._folder = folder
        self._held = HeldFolder(folder)
        self._clock = clock
        self._seen: tuple[int, ...] | None = None
        self._by_digest: dict[bytes, Token] = {}
        self.token_file = token_file or folder / "token"
        self.reload()

    @property
    def folder(self) -> Path:
        """The data directory, reached through its descriptor where the system can."""
        return self._held.path

    @property
    def _path(self) -> Path:
        return self._held.path / "tokens.json"

    # ---- asking --------------------------------------------------------------------------------------------------------------------

    def verify(self, secret: str) -> Token | None:
        """Whose secret this is, or None if it is nobody's, or its time is over."""
        digest = _digest(secret)
        token = self._by_digest.get(digest)
        if token is None or not compare_digest(token.digest, digest) or token.expired(self._clock()):
            return None
        return token

    def stands(self, token: Token) -> bool:
        """Whether a token that was good once still is: neither revoked, nor over."""
        known = self._by_digest.get(token.digest)
        return known is not None and not known.expired(self._clock())

    def list(self) -> _Listed:
        """All of them, the oldest first, also those whose time is over."""
        return sorted(self._by_digest.values(), key=lambda token: (token.created_at, token.id))

    @property
    def usable(self) -> bool:
        """Whether anybody has a token that is good now."""
        now = self._clock()
        return any(not token.expired(now) for token in self._by_digest.values())

    def reload(self) -> None:
        """Reads the file. Raises TokensUnusable, and then all stay as they were."""
        seen, found = self._read()
        self._by_digest = {token.digest: token for token in found}
        self._seen = seen

    def refresh(self) -> bool:
        """Reads the file if it has changed since. Tells whether it had."""
        if self._stamp() == self._seen:
            return False
        self.reload()
        return True

    # ---- changing ------------------------------------------------------------------------------------------------------------------

    def create(
        self, name: str, scopes: Iterable[str], expires_at: int | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> tuple[Token, str]:
        """A new token and its secret, which is told this once and never stored."""
        token, secret = self._made(name, scopes, expires_at, tenant), new_secret()
        token = replace(token, digest=_digest(secret))
        with self._changing():
            now = self._clock()
            kept = [one for one in self.list() if one.name != name or not one.expired(now)]
            if any(one.name == name for one in kept):
                raise NameTaken("a token of this name exists already")
            self._write([*kept, token])
            self._note("token create", token)
        return token, secret

    def revoke(self, which: str) -> Token:
        """Takes a token back, by its id or its name. If its secret is in the token file, that goes too."""
        with self._changing():
            found = next((one for one in self.list() if which in (one.id, one.name)), None)
            if found is None:
                raise TokenNotFound
            self._write([one for one in self.list() if one.id != found.id])
            token_file = self._held.reach(self.token_file)
            secret = read_secret(token_file)
            if secret is not None and compare_digest(_digest(secret), found.digest):
                token_file.unlink(missing_ok=True)
            self._note("token revoke", found)
        return found

    def first(self) -> Path | None:
        """Makes the first token, which may do everything, and writes its secret to the token file; once in a data directory's life.

        The secret is written before its hash: after a crash in between, the next start takes the one that is there, unless others can have
        written it. Gives the file if there is one.
        """
        with self._changing():
            if self._seen is None:
                kept = read_secret(self._held.reach(self.token_file), trusted=True)
                secret = kept or new_secret()
                if kept is None:
                    self._write_secret(secret)
                first = replace(self._made(FIRST, [Scope.ADMIN], None), digest=_digest(secret))
                self._write([first])
                self._note("token create", first)
        return self.token_file if self._held.reach(self.token_file).is_file() else None

    def _note(self, action: str, token: Token) -> None:
        """Put a change into the audit log. The change stands, also if that fails."""
        try:
            AuditSpool(self.folder).append(action, "token", token.id, tenant=token.tenant)
        except OSError as error:
            _log.warning("audit.spool_failed action=%r error=%s", action, error.strerror)

    def _write_secret(self, secret: str) -> None:
        try:
            private_folder(self.token_file.parent)
            write_private(self._held.reach(self.token_file), f"{secret}\n".encode())
        except OSError as error:
            raise TokensUnusable(f"the token file cannot be written: {error.strerror}") from None

    def _made(self, name: str, scopes: Iterable[str], expires_at: int | None, tenant: str = DEFAULT_TENANT) -> Token:
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable() or name != name.strip():
            raise InvalidValue(f"a token's name has 1 to {_LONGEST_NAME} printable characters")
        asked = [scopes] if isinstance(scopes, str) else [*scopes]
        if not asked or not all(scope in frozenset(Scope) for scope in asked):
            raise InvalidValue(f"a token has one or more of the scopes {', '.join(Scope)}")
        now = int(self._clock())
        if expires_at is not None and (type(expires_at) is not int or not now < expires_at < 1 << 53):
            raise InvalidValue("a token expires in the future")
        return _token(secrets.token_hex(6), name, asked, now, expires_at, b"", tenant)

    # ---- the file ------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Holds the lock, with what is in the file at that time."""
        with ExitStack() as held:
            try:
                private_folder(self._folder)
                self._held.hold()
                held.enter_context(locked(self.folder / "tokens.lock"))
            except OSError as error:
                raise TokensUnusable(f"the lock of the tokens cannot be taken: {error.strerror}") from None
            self.refresh()
            yield

    def _stamp(self) -> tuple[int, ...] | None:
        self._held.check()
        try:
            return _stamp_of(self._path.stat())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TokensUnusable(f"tokens.json cannot be read: {error.strerror}") from None

    def _read(self) -> tuple[tuple[int, ...] | None, _Listed]:
        self._held.check()
        try:
            data, status = read_whole(self._path, _LARGEST)
        except FileNotFoundError:
            return None, []
        except OSError as error:
            raise TokensUnusable(f"tokens.json cannot be read: {error.strerror}") from None
        if sys.platform != "win32" and (status.st_mode & OTHERS_WRITE or status.st_uid not in self._trusted()):
            raise TokensUnusable(
                "tokens.json can be written by others, so its tokens cannot be trusted: check it, then chmod 600"
            )
        if len(data) > _LARGEST:
            raise TokensUnusable("tokens.json is too large")
        try:
            return _stamp_of(status), [_from_json(row) for row in _rows(json.loads(data))]
        except (ValueError, KeyError, TypeError, RecursionError, InvalidValue) as error:
            raise TokensUnusable("tokens.json cannot be read: restore it, or remove it and make new tokens") from error

    def _trusted(self) -> set[int]:
        """Who may own the file: this user or root; and for root, who commands this daemon too, the user that it runs as."""
        user = os.geteuid()
        return {0, user} if user else {0, self.folder.stat().st_uid}

    def _write(self, tokens: Iterable[Token]) -> None:
        rows = [_to_json(token) for token in tokens]
        try:
            write_private(self._path, json.dumps({"format": _format_of(rows), "tokens": rows}, indent=1).encode())
        except OSError as error:
            raise TokensUnusable(f"tokens.json cannot be written: {error.strerror}") from None
        self.reload()


def new_secret() -> str:
    """256 random bits, in letters; the beginning says what it is, also to programs that look for secrets in the wrong places."""
    return f"hf_{secrets.token_urlsafe(32)}"


def read_secret(path: Path, *, trusted: bool = False) -> str | None:
    """The secret in a token file, or None. One that others can read is used, with a warning: it may be known to them.

    With `trusted` it is used only if nobody but this user, or root, can have written it.
    """
    try:
        data, status = read_whole(path, _LONGEST_SECRET)
        text = data.decode().strip()
    except (OSError, ValueError):
        return None
    if not _SECRET.fullmatch(text):
        return None
    if sys.platform != "win32":
        if trusted and (status.st_mode & OTHERS_WRITE or status.st_uid not in (0, os.geteuid())):
            return None
        if status.st_mode & OTHERS:
            _log.warning(
                "the token file can be read by others: revoke that token if they should not have it, and chmod 600 the file"
            )
    return text


def _stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode, status.st_uid


def _rows(content: Any) -> list[dict[str, Any]]:
    if content["format"] not in (_FORMAT, _WITH_TENANTS):
        raise ValueError("another format")
    rows: list[dict[str, Any]] = content["tokens"]
    return rows


def _format_of(rows: Iterable[dict[str, Any]]) -> int:
    return _FORMAT if all(row["tenant"] == DEFAULT_TENANT for row in rows) else _WITH_TENANTS


def _to_json(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "tenant": token.tenant,
        "scopes": list(token.scopes),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "sha256": token.digest.hex(),
    }


def _from_json(row: dict[str, Any]) -> Token:
    digest = bytes.fromhex(row["sha256"])
    created_at, expires_at = row["created_at"], row["expires_at"]
    if len(digest) != 32 or type(created_at) is not int or type(expires_at) not in (int, type(None)):
        raise ValueError("not a token")
    tenant = row.get("tenant", DEFAULT_TENANT)
    return _token(str(row["id"]), str(row["name"]), row["scopes"], created_at, expires_at, digest, tenant)
