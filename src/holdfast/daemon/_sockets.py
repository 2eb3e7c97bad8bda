"""The socket that is listened on."""

import errno
import ipaddress
import socket
import sys
from typing import Final

from holdfast.daemon._errors import CannotListen

_BACKLOG: Final = 1024
_REASONS: Final = {
    errno.EADDRINUSE: "another program listens there; choose another address with --listen",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user may not; ports below 1024 are often reserved",
}


def bind(host: str, port: int) -> socket.socket:
    """Listens at once, so that nobody else can: whoever connects waits until the daemon is ready. Raises CannotListen."""
    place = shown(host, port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise CannotListen(f"cannot listen on {place}: there is no host of this name") from None
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] is not socket.AF_INET)  # for a name that has both
    listening = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there it would let two listen on one address
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise CannotListen(f"cannot listen on {place}: {_REASONS.get(error.errno or 0, error.strerror)}") from None
    listening.setblocking(False)
    return listening


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    address = ipaddress.ip_address(listening.getsockname()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def url_of(listening: socket.socket) -> str:
    """What to call it by."""
    host, port = listening.getsockname()[:2]
    return f"http://{shown(host, port)}"


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
