"""Which addresses of the network a script may reach, whatever name they hide behind.

A name is looked up once; every address that it has is checked, and one of these very addresses is connected to. So it makes no difference
what the name leads to a moment later. Addresses that carry another address within them (IPv4 in IPv6, in all its forms) are refused as
they are: where they lead is decided elsewhere.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from holdfast.sandbox import HostError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PRIVATE: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "100.64.0.0/10",
        "::1/128",
        "fc00::/7",
        "fe80::/10",
    )
)
"""This machine, networks of one's own, those of one link (where clouds keep their metadata), those of a provider."""

_NEVER: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this machine, for many systems
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",  # Teredo, and others that IETF gave away for protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3ffe::/16",
        "3fff::/20",
    )
)
_GLOBAL: Final = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is given to networks of the world. What is not in here is mapped, translated (NAT64), local or not assigned."""

_LOOK_S: Final = 0.05
_LOOKING: Final = threading.BoundedSemaphore(32)
"""For threads that look for names. One goes on for as long as the system likes, also when nobody waits for it any more."""


def is_public(address: Address) -> bool:
    """Whether an address is one of the world's.

    >>> [is_public(ipaddress.ip_address(text)) for text in ("1.1.1.1", "10.0.0.1", "2606:4700::1", "::ffff:1.1.1.1")]
    [True, False, True, False]
    """
    if any(address in network for network in (*PRIVATE, *_NEVER)):
        return False
    return address.version == 4 or address in _GLOBAL


def find(
    host: str, look_up: Callable[[str], Sequence[str]], granted: Sequence[Network], time_left: Callable[[], float]
) -> list[str]:
    """The addresses of a host, all of which a script may reach. `time_left` raises when nobody waits any more."""
    literal = _literal(host)
    texts = [host] if literal is not None else _look_up(host, look_up, time_left)
    for text in texts:
        address = _literal(text)
        if address is None or not (is_public(address) or any(address in network for network in granted)):
            raise HostError(f"the address of {host} is not one that the template allows", code="ADDRESS_NOT_ALLOWED")
    return list(dict.fromkeys(texts))


def _literal(text: str) -> Address | None:
    """An address as it is written in full. One that is for one network card only is none."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def system_addresses(host: str) -> list[str]:
    """What the system says."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _look_up(host: str, look_up: Callable[[str], Sequence[str]], time_left: Callable[[], float]) -> Sequence[str]:
    """On a thread, since the system's own call takes as long as it likes."""
    found: list[Sequence[str]] = []
    done = threading.Event()

    def look() -> None:
        try:
            found.append(look_up(host))
        except (OSError, UnicodeError):
            pass  # there is no such name
        finally:
            _LOOKING.release()
            done.set()

    while not _LOOKING.acquire(timeout=min(_LOOK_S, time_left())):
        pass
    threading.Thread(target=look, name="holdfast-names", daemon=True).start()
    while not done.wait(min(_LOOK_S, time_left())):
        pass
    if not found or not found[0]:
        raise HostError(f"there is no address for {host}", code="NAME_NOT_RESOLVED")
    return found[0]
