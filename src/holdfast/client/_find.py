"""Where the daemon is, and the token that it wants.

The address: the argument, HOLDFAST_SERVER_URL, or the daemon's default. The token: the argument, HOLDFAST_TOKEN, or the file that a
daemon on this machine leaves in its data directory. That file's token is for this machine: it is never sent anywhere else.
"""

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from holdfast.domain import InvalidValue

DEFAULT_URL: Final = "http://127.0.0.1:3210"
_LONGEST_TOKEN: Final = 4096


@dataclass(frozen=True, slots=True)
class Server:
    """A daemon's address, without a slash at its end, and the token for it."""

    url: str
    local: bool
    token: str | None = field(default=None, repr=False)


def find_server(server_url: str | None = None, token: str | None = None) -> Server:
    """The daemon to talk to."""
    url, local = _checked(server_url or os.environ.get("HOLDFAST_SERVER_URL") or DEFAULT_URL)
    secret = token or os.environ.get("HOLDFAST_TOKEN") or (_token_of_this_machine() if local else None)
    return Server(url, local, None if secret is None else _checked_token(secret))


def _checked(url: str) -> tuple[str, bool]:
    """The address without what follows its path, and whether it is on this machine."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidValue("the server's address is not like http://127.0.0.1:3210")
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("a server's address has no user and password: give a token")
    if parts.query or parts.fragment:
        raise InvalidValue("a server's address has no query and no fragment")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", _is_local(host)


def _is_local(host: str) -> bool:
    """Whether an address is surely on this machine. A name other than localhost may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _token_of_this_machine() -> str | None:
    try:
        with (data_dir() / "token").open(encoding="ascii") as file:
            return file.read(_LONGEST_TOKEN + 2).strip() or None
    except (OSError, UnicodeError):
        return None


def data_dir() -> Path:
    """The daemon's data directory, by HOLDFAST_DATA_DIR or by the platform's conventions."""
    given = os.environ.get("HOLDFAST_DATA_DIR")
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_data_dir("holdfast", appauthor=False))


def _checked_token(token: str) -> str:
    token = token.strip()
    if not 0 < len(token) <= _LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidValue("a token is text without spaces")
    return token
