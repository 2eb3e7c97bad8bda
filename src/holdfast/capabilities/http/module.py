"""`http`: requests to the servers that a template allows.

What is asked for is checked by the template's list, and every address by where it lies, before anything is sent; and so is each redirect.
A script waits for a request, durably, or has it done within a step. Requests that change nothing may be made again after a crash, all
others are made once.
"""

import base64
import binascii
import ipaddress
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from holdfast.capabilities.http.addresses import PRIVATE, Network, find, system_addresses
from holdfast.capabilities.http.urls import PORTS, Url, clean_host, clean_path, is_address, is_below, join_url, parse_url
from holdfast.capabilities.native import NativeModule, effect, waits
from holdfast.domain import EffectKind, InvalidValue
from holdfast.sandbox import HostError, jsontext

_METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_READS: Final = _METHODS[:3]
_MOST_RULES: Final = 100
_LARGEST: Final = 4 << 20
_MOST_HEADERS: Final = 100
_LARGEST_HEADERS: Final = 16 << 10
_MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_OURS: Final = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # They ask for another method than the one that is checked.
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ]
)
"""Headers that say how a request is made, not what it is about."""
_HARMLESS: Final = frozenset(["accept", "accept-language", "content-language", "content-type", "user-agent"])
"""Headers that go with a redirect to another server. In any other there may be a secret."""
_NOT_PLAIN: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be asked for. `host` is a name, `*.` and a name for all below it, or an address."""

    host: str
    scheme: Literal["https", "http"] = "https"
    port: int | None = None
    path_prefix: str = "/"
    methods: tuple[str, ...] = ("GET", "HEAD")

    def __post_init__(self) -> None:
        star = "*." if self.host.startswith("*.") else ""
        try:
            host = clean_host(self.host.removeprefix(star))
        except HostError:
            host = ""
        if not host or (star and is_address(host)):
            raise InvalidValue("host must be a name, '*.' and a name, or an address")
        try:
            prefix = clean_path(self.path_prefix)
        except HostError:
            prefix = ""
        if not self.path_prefix.startswith("/") or set("?#") & set(self.path_prefix) or not is_below(prefix, prefix):
            raise InvalidValue("path_prefix must be a path that begins with /, without detours")
        if self.port is not None and not 1 <= self.port <= 65_535:
            raise InvalidValue("port must be from 1 to 65535")
        methods = tuple(method.upper() for method in self.methods)
        if not methods or not set(methods) <= set(_METHODS):
            raise InvalidValue(f"methods must be some of {', '.join(_METHODS)}")
        for name, value in {"host": star + host, "path_prefix": prefix, "methods": methods}.items():
            object.__setattr__(self, name, value)

    def covers(self, url: Url) -> bool:
        """Whether this is about a URL, if not about what is done with it."""
        if (url.scheme, url.port) != (self.scheme, self.port or PORTS[self.scheme]):
            return False
        below = self.host.startswith("*.") and url.host.endswith(self.host[1:])
        return (below or url.host == self.host) and is_below(url.path, self.path_prefix)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """What scripts may ask for, which addresses of one's own network they may reach, and how much may be sent and come back."""

    allow: tuple[Rule, ...] = ()
    private: bool | tuple[str, ...] = False
    max_request_bytes: int = 1 << 20
    max_response_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if len(self.allow) > _MOST_RULES:
            raise InvalidValue(f"allow must have at most {_MOST_RULES} rules")
        for at, text in enumerate(self.private if isinstance(self.private, tuple) else ()):
            try:
                ipaddress.ip_network(text, strict=False)
            except ValueError:
                raise InvalidValue(f"private[{at}] must be an address or a network, as 10.1.0.0/16") from None
        for name in ("max_request_bytes", "max_response_bytes"):
            if not 1 <= getattr(self, name) <= _LARGEST:
                raise InvalidValue(f"{name} must be from 1 to {_LARGEST}")

    @property
    def networks(self) -> tuple[Network, ...]:
        """What may be reached although it is not of the world."""
        if isinstance(self.private, tuple):
            return tuple(ipaddress.ip_network(text, strict=False) for text in self.private)
        return PRIVATE if self.private else ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as glue passes it on. Bytes are in base64: what a script waits for is JSON."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, ...], ...] = ()
    text: str | None = None
    base64: str | None = None
    redirect: Literal["follow", "manual", "error"] = "follow"
    timeoutMs: float | None = None  # noqa: N815 - the name that scripts see


class _Sent(NamedTuple):
    """A request, checked but for where it goes."""

    method: str
    headers: list[tuple[str, str]]
    body: bytes


def _glue(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


class Http(NativeModule):
    """Scripts see what the glue makes of these functions."""

    name: ClassVar[str] = "http"
    description: ClassVar[str] = (
        "Makes requests to the servers that its config allows (fetch, and get, post ... as axios has them)."
    )
    config_type: ClassVar[type[Any]] = HttpConfig
    confined_fields: ClassVar[frozenset[str]] = frozenset({"allow", "max_request_bytes", "max_response_bytes"})
    javascript: ClassVar[str] = _glue("glue.js")
    lua: ClassVar[str] = _glue("glue.lua")
    members: ClassVar[tuple[str, ...]] = (
        "fetch",
        "fetchSync",
        "request",
        "get",
        "head",
        "options",
        "post",
        "put",
        "patch",
        "delete",
    )
    look_up: ClassVar[Any] = staticmethod(system_addresses)

    @waits(once=False)
    def read(self, ask: Ask) -> dict[str, Any]:
        return self._reads(ask)

    @waits(once=True)
    def send(self, ask: Ask) -> dict[str, Any]:
        return self._answer(ask)

    @effect(EffectKind.READ)
    def readSync(self, ask: Ask) -> dict[str, Any]:  # noqa: N802
        return self._reads(ask)

    @effect(EffectKind.ONCE)
    def sendSync(self, ask: Ask) -> dict[str, Any]:  # noqa: N802
        return self._answer(ask)

    @effect(EffectKind.READ)
    def unpack(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise _invalid("this is not base64") from None

    @effect(EffectKind.READ)
    def pack(self, data: str | bytes) -> str:
        return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()

    @effect(EffectKind.READ)
    def parse(self, text: str) -> Any:
        """For a language that cannot read JSON."""
        try:
            return jsontext.loads(text.encode("utf-8", "surrogatepass"), decode=_read)
        except jsontext.TooLarge as error:
            raise HostError(f"the JSON has {error}", code="RESPONSE_TOO_LARGE") from None
        except (ValueError, RecursionError):
            raise HostError("the text is not JSON", code="NOT_JSON") from None

    @effect(EffectKind.READ)
    def dump(self, value: Any) -> str:
        try:
            return jsontext.dumps(value, _write)
        except (TypeError, ValueError):
            raise _invalid("this cannot be written as JSON") from None

    def _reads(self, ask: Ask) -> dict[str, Any]:
        if ask.method.upper() not in _READS:
            raise _invalid("a method that may change something is sent once")
        return self._answer(ask)

    def _answer(self, ask: Ask) -> dict[str, Any]:
        from holdfast.capabilities.http.requests import Deadline, exchange  # TLS and the protocol: for those who need them

        if ask.timeoutMs is not None and not ask.timeoutMs > 0:
            raise _invalid("timeoutMs must be more than 0")
        seconds = min(self.scope.time_left(), (ask.timeoutMs or float("inf")) / 1000)
        deadline = Deadline(seconds, self.scope.is_stopped)
        url, sent = parse_url(ask.url), self._checked(ask)
        for redirects in range(_MOST_REDIRECTS + 1):
            self._allow(sent.method, url)
            addresses = find(url.host, self.look_up, self.config.networks, deadline.left)
            headers = _with_ours(sent, url)
            reply = exchange(addresses, url, sent.method, headers, sent.body, self.config.max_response_bytes, deadline)
            location = next((value for name, value in reply.headers if name == "location"), None)
            if reply.status not in _REDIRECTS or location is None or ask.redirect == "manual":
                return {
                    "status": reply.status,
                    "statusText": reply.reason,
                    "url": str(url),
                    "redirected": redirects > 0,
                    "headers": [list(pair) for pair in reply.headers],
                    **_as_json(reply.body),
                }
            if ask.redirect == "error":
                raise HostError("the server redirects to another place", code="REDIRECTED")
            before, url = url, join_url(url, location)
            sent = _redirected(sent, reply.status, is_same=before.origin == url.origin)
        raise HostError(f"the server redirects more than {_MOST_REDIRECTS} times", code="TOO_MANY_REDIRECTS")

    def _allow(self, method: str, url: Url) -> None:
        rules = [rule for rule in self.config.allow if rule.covers(url)]
        if not rules:
            raise HostError(f"the template does not allow requests to {url.shown}", code="URL_NOT_ALLOWED")
        if not any(method in rule.methods for rule in rules):
            raise HostError(f"the template does not allow {method} {url.shown}", code="METHOD_NOT_ALLOWED")

    def _checked(self, ask: Ask) -> _Sent:
        method = ask.method.upper()
        if method not in _METHODS:
            raise HostError(f"a method is one of {', '.join(_METHODS)}", code="METHOD_NOT_ALLOWED")
        body = self.unpack(ask.base64) if ask.base64 is not None else (ask.text or "").encode()
        if method in _READS and body:
            raise _invalid(f"{method} has no body")
        if len(body) > self.config.max_request_bytes:
            raise HostError(f"a body has at most {self.config.max_request_bytes} bytes", code="REQUEST_TOO_LARGE")
        if len(ask.headers) > _MOST_HEADERS or sum(len(part) for pair in ask.headers for part in pair) > _LARGEST_HEADERS:
            raise HostError(f"at most {_MOST_HEADERS} headers of {_LARGEST_HEADERS} characters", code="REQUEST_TOO_LARGE")
        return _Sent(method, [_checked_header(pair) for pair in ask.headers], body)


def _checked_header(pair: tuple[str, ...]) -> tuple[str, str]:
    if len(pair) != 2 or not _HEADER_NAME.fullmatch(pair[0]):
        raise _invalid("a header has a name, of letters and few signs, and a value")
    name, value = pair[0].lower(), pair[1].strip(" \t")
    if not _HEADER_VALUE.fullmatch(value):
        raise _invalid(f"the value of the header {name[:40]} must be text of one line, in Latin letters")
    if name in _OURS or name.startswith("proxy-"):
        raise HostError(f"the header {name} is not one that scripts may set", code="HEADER_NOT_ALLOWED")
    return name, value


def _with_ours(sent: _Sent, url: Url) -> list[tuple[str, str]]:
    given = {name for name, _ in sent.headers}
    defaults = {"accept": "*/*", "user-agent": "holdfast"}
    ours = [("host", url.authority), *((name, value) for name, value in defaults.items() if name not in given)]
    if sent.method not in _READS and (sent.body or sent.method != "DELETE"):
        ours.append(("content-length", str(len(sent.body))))
    return [*ours, ("accept-encoding", "gzip, deflate"), ("connection", "close"), *sent.headers]


def _redirected(sent: _Sent, status: int, *, is_same: bool) -> _Sent:
    """The request that follows, as browsers make it; but to another server goes only what is no secret."""
    method, headers, body = sent
    if not is_same:
        headers = [pair for pair in headers if pair[0] in _HARMLESS]
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", b""
        headers = [pair for pair in headers if not pair[0].startswith("content-")]
    return _Sent(method, headers, body)


def _as_json(body: bytes) -> dict[str, str]:
    """As text if it is some; whatever comes back from that is the same bytes."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    return {"base64": base64.b64encode(body).decode()} if _NOT_PLAIN.search(text) else {"text": text}


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _invalid(message: str) -> HostError:
    return HostError(message, code="INVALID_ARGUMENT")


_read: Final = json.JSONDecoder(parse_constant=_no_constant).decode
_write: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
