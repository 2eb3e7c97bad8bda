"""Who a request says it is for, and from where: the Host and Origin headers.

A page of another site can make a browser send requests here; its Origin gives it away. With a name of its own that points to this
machine (DNS rebinding) it would be of the same origin; the Host header gives that away.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE: Final = ("", "0.0.0.0", "::", "*")  # noqa: S104 - these are compared with, not listened on


def host_name(host: str) -> str | None:
    """The name in `name`, `name:port` or `[address]:port`, in lower case; None if it is none of these.

    >>> host_name("LocalHost:3210"), host_name("[::1]:80"), host_name("a b"), host_name("::1")
    ('localhost', '::1', None, None)
    """
    host = host.strip().lower()
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        if not closed or (port and not port.startswith(":")) or ":" not in name:
            return None
        port = port[1:]
    else:
        name, _, port = host.partition(":")
    if not name or (port and not (port.isascii() and port.isdigit())) or any(char.isspace() or char in "/@\\" for char in name):
        return None
    return name


def listen_name(listen: str) -> str:
    """The host in an address to listen on.

    >>> listen_name("127.0.0.1:3210"), listen_name("[::1]:3210")
    ('127.0.0.1', '::1')
    """
    return listen.rpartition(":")[0].strip("[]").lower()


class Hosts:
    """The names that this daemon is known as, and the sites that may call it."""

    def __init__(self, listen: str, allowed_hosts: Iterable[str], allowed_origins: Iterable[str]) -> None:
        names = {*_LOOPBACK, *(host.lower() for host in allowed_hosts)}
        own = listen_name(listen)
        if own not in _EVERYWHERE:
            names.add(own)
        self._names = frozenset(names)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in allowed_origins)
        self._known: dict[bytes, bool] = {}

    def knows(self, host: bytes) -> bool:
        """Whether a Host header names us. Right ones are remembered: there are few."""
        if host in self._known:
            return True
        name = host_name(host.decode("latin-1"))
        if name is None or name not in self._names:
            return False
        if len(self._known) < 64:
            self._known[host] = True
        return True

    def is_listed(self, origin: bytes) -> bool:
        """Whether a site is one of those that may call from elsewhere."""
        return origin.decode("latin-1").lower() in self._origins

    def is_same(self, origin: bytes, host: bytes) -> bool:
        """Whether a page that came from here calls."""
        try:
            parts = urlsplit(origin.decode("latin-1").lower())
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc == host.decode("latin-1").strip().lower()
