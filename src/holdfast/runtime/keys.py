"""The key that images are sealed with, and other secrets of a store.

Beside each secret the store keeps a checksum. So a secret that was damaged in the store is told apart from one that does not fit: a
flipped byte is `STORE_DAMAGED` and not `KEY_MISMATCH`.
"""

import hashlib
import hmac
import os
from typing import Final

from holdfast.domain import InvalidValue
from holdfast.runtime._errors import KeyMismatch
from holdfast.store import Store, StoreDamaged

_SIZES: Final = range(16, 65)
_SUM: Final = " sum"
KEY: Final = "key"
CHECK: Final = "key check"


def settle_key(store: Store, given: bytes | None) -> bytes:
    """The key of a store: the one that was given when it was made, or one that it keeps itself."""
    if given is not None and (not isinstance(given, bytes) or len(given) not in _SIZES):
        raise InvalidValue("a key has 16 to 64 bytes")
    _check_kept(store, given)
    key = given if given is not None else keep_secret(store, KEY, os.urandom(32))
    check = check_of(key)
    if not hmac.compare_digest(keep_secret(store, CHECK, check), check):
        raise KeyMismatch
    return key


def _check_kept(store: Store, given: bytes | None) -> None:
    """Raise `StoreDamaged` if a secret is missing that every store with a session has. A new one in its place would fit no image."""
    for name in (KEY, CHECK) if given is None else (CHECK,):
        if store.find_secret(name) is not None or not store.list_sessions(limit=1).items:
            continue
        if name == KEY and store.find_secret(CHECK) is not None and store.find_secret(sum_name(KEY)) is None:
            raise KeyMismatch  # the store was made with a key that it does not keep
        if store.find_secret(name) is None:  # else another process has made the store just now
            message = f"The store has sessions, but its {name!r} is missing. Restore it from a backup."
            raise StoreDamaged(message).with_details(kind="secret", id=name, missing=True)


def find_key(store: Store, given: bytes | None) -> bytes | None:
    """Return the key of a store as `settle_key` does, but write nothing. None: the store is new and has none."""
    _check_kept(store, given)
    key, check = given if given is not None else store.find_secret(KEY), store.find_secret(CHECK)
    if key is not None and check is not None and not hmac.compare_digest(check_of(key), check):
        raise KeyMismatch
    return key


def check_of(key: bytes) -> bytes:
    """Return what a store keeps of its key, to know it again."""
    return hashlib.blake2b(b"holdfast key check", key=key, digest_size=16).digest()


def keep_secret(store: Store, name: str, fresh: bytes) -> bytes:
    """Return the secret of this name: `fresh`, if the store had none. Raises `StoreDamaged` if it is not what was kept."""
    secret = store.secret(name, fresh)
    kept = store.secret(name + _SUM, sum_of(secret))
    if not hmac.compare_digest(kept, sum_of(secret)):
        message = (
            f"The secret {name!r} of the store, or its checksum, is damaged. "
            "Run `holdfast store check --repair`, or restore the store from a backup."
        )
        raise StoreDamaged(message).with_details(kind="secret", id=name)
    return secret


def sum_of(secret: bytes) -> bytes:
    """Return the checksum that is kept beside a secret."""
    return hashlib.blake2b(secret, digest_size=16, person=b"holdfast sum").digest()


def sum_name(name: str) -> str:
    """Return the name under which the checksum of a secret is kept."""
    return name + _SUM


def mended(secret: bytes, wanted: bytes) -> bytes | None:
    """Return the secret that has this checksum and differs in at most one byte; None if there is none."""
    if sum_of(secret) == wanted:
        return secret
    if len(secret) >= _SIZES.stop:  # no secret that Holdfast makes is longer, and each byte costs 256 attempts
        return None
    for at in range(len(secret)):
        for byte in range(256):
            candidate = secret[:at] + bytes([byte]) + secret[at + 1 :]
            if sum_of(candidate) == wanted:
                return candidate
    return None
