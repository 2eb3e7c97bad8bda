"""Addresses of the web as scripts write them, read once: what is checked is what is asked for.

Where readers of URLs are known to differ, nothing is guessed: user names, backslashes, control characters, broken escapes and numbers that
are an IPv4 address only for some (octal, hexadecimal, with fewer than four parts) are refused.
"""

import ipaddress
import re
import unicodedata
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from holdfast.sandbox import HostError

PORTS: Final = {"http": 80, "https": 443}

_LONGEST: Final = 8192
_LONGEST_HOST: Final = 253
_SHOWN: Final = 200
_WHOLE: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(r"%([0-9a-fA-F]{2})")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_IN_PATH: Final = "/%:@!$&'()*+,;=~"
_IN_QUERY: Final = "/%:@!$'()*+,;=&?~[]{}|^`"
_MOST_ESCAPES: Final = 5


class Url(NamedTuple):
    """A URL in its parts, each as it is sent. `host` is a name in ASCII or an address."""

    scheme: str
    host: str
    port: int
    path: str
    query: str | None

    @property
    def target(self) -> str:
        """What the request asks for."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def authority(self) -> str:
        """The host as a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def shown(self) -> str:
        """For messages, without what may be secret."""
        return f"{self.scheme}://{self.authority}{self.path}"[:_SHOWN]

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """A whole URL of http or https.

    >>> str(parse_url("HTTPS://Example.com:443/a/../%7eb c?d=é#e"))
    'https://example.com/~b%20c?d=%C3%A9'
    """
    _check(text)
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise _refused("a URL begins with http:// or https://")
    scheme = found[1].lower()
    host, port = _authority(found[2], scheme)
    query = None if found[4] is None else quote(found[4], safe=_IN_QUERY)
    return Url(scheme, host, port, clean_path(found[3]), query)


def join_url(base: Url, text: str) -> Url:
    """Where a redirect leads. A server may give a whole URL, or what changes."""
    _check(text)
    text = text.partition("#")[0]
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        return parse_url(text)
    if text.startswith("//"):
        return parse_url(f"{base.scheme}:{text}")
    path, mark, query = text.partition("?")
    if not path:
        path = base.path
    elif not path.startswith("/"):
        path = base.path.rpartition("/")[0] + "/" + path
    return parse_url(f"{base.scheme}://{base.authority}{path}{mark}{query}")


def clean_path(text: str) -> str:
    """A path without detours, in the one way in which it is written."""
    if "\\" in text:
        raise _refused("a URL must not have a backslash in its path")
    if _BROKEN_ESCAPE.search(text):
        raise _refused("a URL must not have half an escape in its path")
    written = quote(_ESCAPE.sub(_one_escape, text), safe=_IN_PATH)
    names: list[str] = []
    parts = written.split("/")[1:]
    for part in parts:
        if part == "..":
            if names:
                names.pop()
        elif part != ".":
            names.append(part)
    if parts and parts[-1] in (".", ".."):
        names.append("")
    return "/" + "/".join(names)


def is_below(path: str, prefix: str) -> bool:
    """Whether a path lies below another one, for every server: also for those that undo escapes twice, or take other signs for a slash.

    >>> is_below("/api/v1", "/api"), is_below("/apis", "/api"), is_below("/api/..%2fadmin", "/api")
    (True, False, False)
    """
    if prefix == "/":
        return True
    if not (path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/")):
        return False
    plain = path
    for _ in range(_MOST_ESCAPES):
        try:
            before, plain = plain, unquote(plain, errors="strict")
        except UnicodeDecodeError:
            return False
        if before == plain:
            break
    else:
        return False
    plain = unicodedata.normalize("NFKC", plain)
    if _FORBIDDEN.search(plain):
        return False
    return not any(name.partition(";")[0].strip() in (".", "..") for name in re.split(r"[/\\]", plain))


def clean_host(text: str) -> str:
    """A name in ASCII and lower case, or an address as it is written in full."""
    if ":" in text:
        try:
            return str(ipaddress.IPv6Address(text[1:-1] if text[0] + text[-1] == "[]" else text))
        except ValueError:
            raise _refused("a URL names a host that is no address") from None
    if not text.isascii():
        text = _in_ascii(text)
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > _LONGEST_HOST or not all(_NAME.fullmatch(label) for label in labels):
        raise _refused("a URL names a host that cannot be one")
    if is_address(host):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise _refused("a URL names an address in another form than four numbers") from None
    return host


def is_address(host: str) -> bool:
    """Whether a clean host is an address, and no name."""
    return ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _authority(text: str, scheme: str) -> tuple[str, int]:
    if "@" in text:
        raise _refused("a URL must not have a user name in it")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise _refused("a URL must name a host, and perhaps a port")
    port = PORTS[scheme] if found[2] is None else int(found[2])
    if not 1 <= port <= 65_535:
        raise _refused("a port is from 1 to 65535")
    return clean_host(found[1]), port


def _in_ascii(text: str) -> str:
    import idna  # few need it, and it is large

    if len(text) > _LONGEST_HOST:  # it takes its time for long ones
        raise _refused("a URL names a host that cannot be one")
    try:
        return idna.encode(text, uts46=True).decode()
    except UnicodeError:
        raise _refused("a URL names a host that cannot be one") from None


def _one_escape(found: re.Match[str]) -> str:
    """An escape that need not be one is the character itself; others are written in capitals."""
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


def _check(text: str) -> None:
    if len(text) > _LONGEST:
        raise _refused(f"a URL has at most {_LONGEST} characters")
    if _FORBIDDEN.search(text):
        raise _refused("a URL must not have control characters in it")


def _refused(message: str) -> HostError:
    return HostError(message, code="INVALID_URL")
