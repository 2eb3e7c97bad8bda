"""`http`: what it gets from a real server on the loopback, and above all where it does not go. Only names are looked up by a table."""

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import Capability
from holdfast.capabilities import Scope
from holdfast.capabilities._kinds import take
from holdfast.capabilities.http.addresses import is_public, system_addresses
from holdfast.capabilities.http.module import Ask, Http
from holdfast.domain import InvalidValue
from holdfast.sandbox import HostError
from tests.acceptance.scenes import eventually, opened, scene, value
from tests.web import CERTIFICATES, Web, web

NAMES = {
    "here.test": ["127.0.0.1"],
    "other.test": ["127.0.0.1"],
    "good.test": ["127.0.0.1"],
    "down.here.test": ["127.0.0.1"],
    "gone-first.test": ["127.0.0.2", "127.0.0.1"],
    "mixed.test": ["93.184.216.34", "127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "card.test": ["fe80::1%lo"],
    "strange.test": ["localhost"],
}
MOST = 100_000


@pytest.fixture(scope="module")
def server() -> Iterator[Web]:
    with web() as running:
        yield running


@pytest.fixture(scope="module")
def other() -> Iterator[Web]:
    with web() as running:
        yield running


@pytest.fixture(scope="module")
def safe() -> Iterator[Web]:
    with web(tls=True) as running:
        yield running


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str) -> list[str]:
        try:
            return NAMES[host]
        except KeyError:
            raise socket.gaierror from None

    monkeypatch.setattr(Http, "look_up", staticmethod(look_up))


def rule(server: Web, host: str = "here.test", **more: Any) -> dict[str, Any]:
    return {"host": host, "scheme": "http", "port": server.port, "methods": ["GET", "HEAD", "POST", "PUT"], **more}


def ask(config: dict[str, Any], url: str, *, is_stopped: Any = bool, **options: Any) -> dict[str, Any]:
    """As the runtime calls it, without a session around it."""
    given = Http.read_config({"private": True, "max_response_bytes": MOST, **config})
    module = Http(Scope(uuid4(), uuid4(), None, is_stopped=is_stopped, time_left=lambda computing: 20.0), given)
    return module.sendSync(take(Ask, {"url": url, **options}))


def refusal(config: dict[str, Any], url: str, **options: Any) -> str:
    with pytest.raises(HostError) as raised:
        ask(config, url, **options)
    assert "127.0.0" not in str(raised.value) or "127.0.0" in url
    return raised.value.script_code


# ---- what a script sees


JAVASCRIPT = [
    ("const r = await h.fetch(at + '/a?b=1'); [r.ok, r.status, r.statusText, r.headers.get('X-Two'), (await r.json()).target]", [True, 200, "OK", "a, b", "/a?b=1"]),
    ("const s = h.fetchSync(at + '/status/404'); [s.ok, s.status, s.statusText, s.json()]", [False, 404, "Said", {"why": "so"}]),
    ("const q = await (await h.fetch(at, {method: 'post', headers: {A: 'b'}, body: 'é'})).json(); [q.method, q.headers.a, q.headers['content-type'], q.headers['content-length'], q.body]", ["POST", "b", "text/plain;charset=UTF-8", "2", "Ã©"]),
    ("(await (await h.fetch(at, {method: 'POST', body: new Uint8Array([255, 1])})).json()).body", "ÿ\x01"),
    ("h.fetchSync(at, {method: 'PUT', body: new URLSearchParams({a: 'b c'}), headers: [['X', '1'], ['X', '2']]}).json().body", "a=b+c"),
    ("[await (await h.fetch(at + '/text')).text(), Array.from(await (await h.fetch(at + '/bytes')).bytes()), h.fetchSync(at + '/bytes', {responseType: 'bytes'}).data.length]", ["héllo", [255, 0, 254], 3]),
    ("const p = await h.post(at + '/x', {a: 1}, {params: {q: [1, 2], z: 'a b'}, headers: {K: 'v'}}); [p.status, p.config.method, p.headers['content-type'], p.data.target, p.data.headers['content-type'], p.data.body]", [200, "post", "application/json", "/x?q%5B%5D=1&q%5B%5D=2&z=a+b", "application/json", '{"a":1}']),
    ("(await h.request({url: '/x', baseURL: at + '/base/', responseType: 'text'})).data.includes('/base/x')", True),
    ("[(await h.head(at + '/x')).status, (await h.put(at, 'a')).data.method, (await h.get(at + '/status/500', {validateStatus: null})).status]", [200, "PUT", 500]),
    ("try { await h.get(at + '/status/404') } catch (e) { [e.message, e.code, e.response.status, e.response.data.why] }", ["Request failed with status code 404", "ERR_BAD_REQUEST", 404, "so"]),
    ("(await Promise.all([1, 2, 3].map(i => h.get(at + '/' + i)))).map(r => r.data.target)", ["/1", "/2", "/3"]),
    ("const codes = []; for (const f of [h.fetch, h.fetchSync, h.get]) try { await f('http://other.test/') } catch (e) { codes.push(e.code) }; codes", ["URL_NOT_ALLOWED"] * 3),
    ("try { await hf.tool('http.read', [{url: at, method: 'POST'}]) } catch (e) { e.code }", "INVALID_ARGUMENT"),
    ("try { hf.call('http.readSync', {url: at, method: 'pUt'}) } catch (e) { e.code }", "INVALID_ARGUMENT"),
    ("try { await h.fetch(at, {method: 'POST', body: {}}) } catch (e) { e.code }", "INVALID_ARGUMENT"),
    ("try { await h.fetch(at, {timeoutMs: 'x'}) } catch (e) { e.code }", "INVALID_ARGUMENT"),
]  # fmt: skip
LUA = [
    ("local r = h.fetch(at .. '/a?b=1') return {r.ok, r.status, r.statusText, r.headers.get('X-Two'), r.headers['X-TWO'], r.json().target}", [True, 200, "OK", "a, b", "a, b", "/a?b=1"]),
    ("local s = h.fetchSync(at .. '/status/404') return {s.ok, s.status, s.json().why}", [False, 404, "so"]),
    ("local q = h.fetch(at, {method = 'post', headers = {A = 'b', X = {'1', '2'}}, body = '\\255\\1'}).json() return {q.method, q.headers.a, q.headers.x, q.body}", ["POST", "b", "2", "ÿ\x01"]),
    ("return {#h.fetch(at .. '/bytes').bytes(), h.fetchSync(at .. '/gzip').text()}", [3, "packed"]),
    ("local p = h.post(at .. '/x', {a = 1}, {params = {q = {1, 2}, z = 'a b'}}) return {p.status, p.data.target, p.data.headers['content-type'], p.data.body}", [200, "/x?q%5B%5D=1&q%5B%5D=2&z=a%20b", "application/json", '{"a":1}']),
    ("return {h.request({url = '/x', baseURL = at .. '/base/'}).data.target, h.head(at).status, h.put(at, 'a').data.method}", ["/base/x", 200, "PUT"]),
    ("local ok, e = pcall(h.get, at .. '/status/404') return {e.message, e.code, e.response.status, e.response.data.why}", ["Request failed with status code 404", "ERR_BAD_REQUEST", 404, "so"]),
    ("local codes = {} for i, f in ipairs({h.fetch, h.fetchSync, h.get}) do local ok, e = pcall(f, 'http://other.test/') codes[i] = e.code end return codes", ["URL_NOT_ALLOWED"] * 3),
    ("local ok, e = pcall(h.fetch, at, {method = 'POST', body = {}}) return e.code", "INVALID_ARGUMENT"),
    ("local ok, e = pcall(function() return h.fetch(at .. '/text').json() end) return e.code", "NOT_JSON"),
]  # fmt: skip


@scene
async def test_scripts_make_requests_and_wait_for_them(server: Web) -> None:
    begin = {"javascript": "var h = require('http'), at = {!r}", "lua": "h = require('http') at = {!r}"}
    async with opened("memory:") as hf:
        for language, cases in (("javascript", JAVASCRIPT), ("lua", LUA)):
            await hf.templates.create(language, language=language)  # type: ignore[arg-type]
            config = {"allow": [rule(server)], "private": ["127.0.0.1"]}
            await hf.templates.add_capability(language, "module", "http", enabled=True, config=config)
            here = (await hf.sessions.create(language)).id
            await hf.executions.run(here, begin[language].format(f"http://here.test:{server.port}"))
            for source, expected in cases:
                assert value(await hf.executions.run(here, source)) == expected, source


@scene
async def test_a_request_that_is_waited_for_is_stopped_with_its_execution(server: Web) -> None:
    async with opened("memory:") as hf:
        await hf.templates.create("t")
        config = {"allow": [rule(server)], "private": True, "timeout_ms": 60_000}
        await hf.templates.add_capability("t", "module", "http", enabled=True, config=config)
        here = (await hf.sessions.create("t")).id
        at = f"http://here.test:{server.port}"

        async def is_hanging() -> bool:
            return server.hanging > 0

        async def is_gone() -> bool:
            return server.hanging == 0

        async def under_way() -> Any:
            """A step within which something takes long is in the store a little later."""
            items = (await hf.executions.list(here)).items
            return [found for found in items if found.status in ("running", "paused")]

        await eventually(is_gone)
        for source in (f"await require('http').get('{at}/silent')", f"require('http').fetchSync('{at}/stalled')"):
            running = asyncio.ensure_future(hf.executions.run(here, source))
            await eventually(is_hanging)
            found = await eventually(under_way)
            await hf.executions.cancel(found[0].id)
            assert (await running).execution.status == "cancelled"
            await eventually(is_gone)


@scene
async def test_after_a_restart_what_only_reads_is_asked_again_and_nothing_else_is(server: Web, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/store.db"
    at = f"http://here.test:{server.port}"
    sources = {
        "/second?get": f"(await require('http').get('{at}/second?get')).status",
        "/second?post": f"try {{ await require('http').post('{at}/second?post') }} catch (e) {{ e.code }}",
    }

    async def are_hanging() -> bool:
        return server.hanging == len(sources)

    async with opened(address) as hf:
        await hf.templates.create("t")
        config = {"allow": [rule(server)], "private": True}
        await hf.templates.add_capability("t", "module", "http", enabled=True, config=config)
        sessions = [(await hf.sessions.create("t")).id for _ in sources]
        running = [asyncio.ensure_future(hf.executions.run(*pair)) for pair in zip(sessions, sources.values(), strict=True)]
        await eventually(are_hanging)
    await asyncio.gather(*running, return_exceptions=True)
    async with opened(address) as hf:

        async def ended() -> Any:
            found = [(await hf.executions.list(session)).items[0] for session in sessions]
            return all(execution.status == "ok" for execution in found) and [execution.result["json"] for execution in found]

        assert await eventually(ended, 20) == [200, "EFFECT_UNCERTAIN"]
    asked = [one.target for one in server.asked]
    assert [asked.count(target) for target in sources] == [2, 1]


# ---- what comes back


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/gzip", "packed"),
        ("/deflate", "packed"),
        ("/raw", "packed"),
        ("/until-closed", "all of it"),
        ("/chunked", "onetwo"),
        ("/interim", "ok"),
        (f"/sized?{MOST}", "x" * MOST),
    ],
)
def test_bodies(server: Web, path: str, text: str) -> None:
    assert ask({"allow": [rule(server)]}, f"http://here.test:{server.port}{path}")["text"] == text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/bomb", "RESPONSE_TOO_LARGE"),
        ("/endless", "RESPONSE_TOO_LARGE"),
        ("/endless-chunks", "RESPONSE_TOO_LARGE"),
        ("/crumbs?50000", "RESPONSE_TOO_LARGE"),
        ("/many-headers", "RESPONSE_TOO_LARGE"),
        (f"/sized?{MOST + 1}", "RESPONSE_TOO_LARGE"),
        ("/endless-head", "RESPONSE_INVALID"),
        ("/endless-line", "RESPONSE_INVALID"),
        ("/endless-trailers", "RESPONSE_INVALID"),
        ("/endless-interim", "RESPONSE_INVALID"),
        ("/twice", "RESPONSE_INVALID"),
        ("/brotli", "RESPONSE_INVALID"),
        ("/half", "RESPONSE_INVALID"),
        ("/not-packed", "RESPONSE_INVALID"),
        ("/short", "RESPONSE_INVALID"),
        ("/bad-chunk", "RESPONSE_INVALID"),
        ("/bad-length", "RESPONSE_INVALID"),
        ("/two-lengths", "RESPONSE_INVALID"),
        ("/bad-head", "RESPONSE_INVALID"),
        ("/switch", "RESPONSE_INVALID"),
        ("/nothing", "RESPONSE_INVALID"),
        ("/silent", "HTTP_TIMEOUT"),
        ("/stalled", "HTTP_TIMEOUT"),
        ("/trickle", "HTTP_TIMEOUT"),
    ],
)
def test_a_server_that_misbehaves_is_an_error(server: Web, path: str, code: str) -> None:
    options = {"timeoutMs": 60} if code == "HTTP_TIMEOUT" else {}
    assert refusal({"allow": [rule(server)]}, f"http://here.test:{server.port}{path}", **options) == code


def test_a_head_without_a_body_may_say_how_it_would_be_packed(server: Web) -> None:
    got = ask({"allow": [rule(server)]}, f"http://here.test:{server.port}/brotli", method="HEAD")
    assert (got["status"], got["text"]) == (200, "")


def test_servers_that_are_not_there(server: Web) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        config = {"allow": [rule(server), rule(server, "no.test"), rule(server, port=port), rule(server, "gone-first.test")]}
        assert refusal(config, f"http://here.test:{port}/") == "CONNECTION_FAILED"
        assert refusal(config, f"http://no.test:{server.port}/") == "NAME_NOT_RESOLVED"
        assert ask(config, f"http://gone-first.test:{server.port}/")["status"] == 200


def test_a_response_in_many_small_pieces_is_stopped_between_them(server: Web) -> None:
    config = {"allow": [rule(server)]}
    url = f"http://here.test:{server.port}/crumbs?5000"
    assert ask(config, url)["text"] == "x" * 5000
    looks = itertools.count()
    with pytest.raises(HostError, match="cancelled"):
        ask(config, url, is_stopped=lambda: next(looks) > 2000)
    assert next(looks) < 2010


@scene
async def test_what_a_request_computes_counts_for_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(module: Http, given: Ask) -> dict[str, Any]:
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass
        raise HostError("no", code="NO")

    monkeypatch.setattr(Http, "_answer", compute)
    async with opened("memory:") as hf:
        await hf.templates.create("t", capabilities=[Capability("module", "http", True, {})])
        here = (await hf.sessions.create("t")).id
        source = "try { await require('http').fetch('https://here.test/') } catch (e) { e.code }"
        turn = await hf.executions.run(here, source)
        while turn.execution.status == "paused":
            turn = await hf.executions.wait(turn.execution.id)
        assert value(turn) == "NO"
        assert turn.execution.metrics.as_dict()["cpu_ms"] > 300
        assert (await hf.sessions.get(here)).usage.total.cpu_us > 300_000


def test_a_name_that_is_looked_for_too_long(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    found = threading.Event()
    monkeypatch.setattr(Http, "look_up", staticmethod(lambda host: found.wait(20) and []))
    assert refusal({"allow": [rule(server)]}, f"http://here.test:{server.port}/", timeoutMs=50) == "HTTP_TIMEOUT"
    with pytest.raises(HostError, match="cancelled"):
        ask({"allow": [rule(server)]}, f"http://here.test:{server.port}/", is_stopped=lambda: True)
    found.set()


# ---- where it does not go


ALLOWED = [
    "http://here.test:{port}/api",
    "http://HERE.test:{port}/api/x?y#z",
    "http://here.test.:{port}/api/",
    "http://here.test:{port}/api/a/../b",
    "http://here.test:{port}/x/%2e%2e/%61pi/é b",
    "http://down.here.test:{port}/any/thing",
]
REFUSED = [
    # another scheme, host, port or path
    "https://here.test:{port}/api", "http://here.test/api", "http://other.test:{port}/api", "http://here.test:1/api",
    "http://here.test:{port}/", "http://here.test:{port}/apis", "http://here.test:{port}/API", "http://xhere.test:{port}/api",
    "http://here.test.other.test:{port}/api", "http://x.down.here.test.test:{port}/", "http://127.0.0.1:{port}/api",
    # paths that are something else for some servers
    "http://here.test:{port}/api/../x", "http://here.test:{port}/api/%2e%2e/x", "http://here.test:{port}/api/.%2E/x",
    "http://here.test:{port}/api/%252e%252e/x", "http://here.test:{port}/api/..%2fx", "http://here.test:{port}/api/%2e%2e%2fx",
    "http://here.test:{port}/api/..;/x", "http://here.test:{port}/api/..%3b/x", "http://here.test:{port}/api/x%5c..%5cy",
    "http://here.test:{port}/api/%c0%ae%c0%ae/x", "http://here.test:{port}/api/\uff0e\uff0e/x", "http://here.test:{port}/api/%00",
    "http://here.test:{port}/api/%0d%0aX: y", "http://here.test:{port}/api/%2525252525252e", "http://here.test:{port}//api",
    "http://here.test:{port}/api/..%20/x",
]  # fmt: skip
INVALID = [
    "", "here.test", "//here.test/api", "/api", "file:///etc/passwd", "ftp://here.test/", "gopher://here.test/", "data:,x", "http:here.test",
    "http:/here.test/api", "http://", "http:///api", "http://here.test:0/", "http://here.test:65536/", "http://here.test:/", "http://here.test:x/",
    "http://user@here.test/api", "http://here.test:80@other.test/", "http://user:pw@here.test/", "http://here.test\\@other.test/",
    "http://here.test\\api", "http://here.test/api\\..\\x", "http://here.test/api\r\nHost: other.test", "http://here.test/\x00", "http://here.test/\t",
    "http://here test/", "http://here..test/", "http://-here.test/", "http://here%2etest/", "http://here.test%00.other.test/", "http://[::1/", "http://::1/", "http://[127.0.0.1]/",
    "http://[::1%25lo]/", "http://[fe80::1%lo]/", "http://here.test/%zz", "http://here.test/%", "http://" + "a" * 64 + ".test/", "http://a/" + "x" * 9000,
    # 127.0.0.1 for some
    "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://127.1/", "http://127.0.1/",
    "http://127.0.0.01/", "http://0/", "http://127.0.0.1.0/", "http://127.0.0.256/", "http://0x/", "http://\uff11\uff12\uff17\uff0e\uff11/", "http://" + "é" * 300 + "/",
]  # fmt: skip


def test_what_the_list_allows(server: Web) -> None:
    config = {"allow": [rule(server, path_prefix="/api"), rule(server, "*.here.test")]}
    for url in ALLOWED:
        before = len(server.asked)
        got = ask(config, url.format(port=server.port))
        assert (got["status"], len(server.asked)) == (200, before + 1), url
        assert server.asked[-1].target.startswith("/")
        assert ".." not in server.asked[-1].target


def test_what_the_list_does_not_allow(server: Web) -> None:
    config = {"allow": [rule(server, path_prefix="/api"), rule(server, "*.down.here.test")]}
    before = len(server.asked)
    for url in REFUSED:
        assert refusal(config, url.format(port=server.port)) == "URL_NOT_ALLOWED", url
    for url in INVALID:
        assert refusal(config, url) == "INVALID_URL", url
    assert refusal({}, f"http://here.test:{server.port}/api") == "URL_NOT_ALLOWED"
    reads = {"allow": [{"host": "here.test", "scheme": "http", "port": server.port}]}
    here = f"http://here.test:{server.port}/"
    for method in (
        "POST",
        "post",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "GET ",
        "PRI",
        "",
        "GET / HTTP/1.1\r\nX:",
        "PO\u017fT",
    ):
        assert refusal(reads, here, method=method) == "METHOD_NOT_ALLOWED", method
    assert refusal({"allow": [rule(server)]}, here, text="body") == "INVALID_ARGUMENT"
    assert len(server.asked) == before


PRIVATE = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "[::1]", "[fd00::1]", "[fe80::1]", "[fc00::1]",
]  # fmt: skip
NEVER = [
    "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "192.88.99.1", "[::]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::ffff:1.1.1.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[2001:db8::1]", "[ff02::1]", "[fec0::1]", "[100::1]", "[3fff::1]", "[5f00::1]", "[::2]",
]  # fmt: skip


def test_addresses_that_are_not_of_the_world(server: Web) -> None:
    names = [name for name in NAMES if name not in ("here.test", "gone-first.test", "good.test", "down.here.test")]
    for host in (*PRIVATE, *NEVER, *names):
        config = {"allow": [rule(server, host)], "private": False}
        assert refusal(config, f"http://{host}:{server.port}/") == "ADDRESS_NOT_ALLOWED", host
    for host in (*NEVER, "mapped.test", "card.test", "strange.test"):
        assert refusal({"allow": [rule(server, host)]}, f"http://{host}:{server.port}/") == "ADDRESS_NOT_ALLOWED", host
    assert not any(is_public(ip_address(found)) for found in system_addresses("localhost"))
    config = {"allow": [rule(server), rule(server, "metadata.test")], "private": ["127.0.0.0/8"]}
    assert ask(config, f"http://here.test:{server.port}/")["status"] == 200
    assert refusal(config, f"http://metadata.test:{server.port}/") == "ADDRESS_NOT_ALLOWED"


def test_a_name_is_looked_up_once_and_its_address_is_used(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name leads to the second time makes no difference."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    monkeypatch.setattr(Http, "look_up", staticmethod(lambda host: next(answers)))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    config = {"allow": [rule(server)], "private": ["127.0.0.1"]}
    assert ask(config, f"http://here.test:{server.port}/")["status"] == 200
    assert refusal(config, f"http://here.test:{server.port}/") == "ADDRESS_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([["Host", "other.test"]], "HEADER_NOT_ALLOWED"),
        ([["hOST", "other.test"]], "HEADER_NOT_ALLOWED"),
        ([["Content-Length", "0"]], "HEADER_NOT_ALLOWED"),
        ([["Transfer-Encoding", "chunked"]], "HEADER_NOT_ALLOWED"),
        ([["Connection", "keep-alive"]], "HEADER_NOT_ALLOWED"),
        ([["Upgrade", "h2c"]], "HEADER_NOT_ALLOWED"),
        ([["Expect", "100-continue"]], "HEADER_NOT_ALLOWED"),
        ([["Proxy-Authorization", "x"]], "HEADER_NOT_ALLOWED"),
        ([["X-HTTP-Method-Override", "DELETE"]], "HEADER_NOT_ALLOWED"),
        ([["X", "a\r\nY: b"]], "INVALID_ARGUMENT"),
        ([["X", "a\nY: b"]], "INVALID_ARGUMENT"),
        ([["X", "a\0"]], "INVALID_ARGUMENT"),
        ([["X", "日本"]], "INVALID_ARGUMENT"),
        ([["X\r\nY", "a"]], "INVALID_ARGUMENT"),
        ([["X:", "a"]], "INVALID_ARGUMENT"),
        ([[" Host", "a"]], "INVALID_ARGUMENT"),
        ([["Host ", "a"]], "INVALID_ARGUMENT"),
        ([["", "a"]], "INVALID_ARGUMENT"),
        ([["X"]], "INVALID_ARGUMENT"),
        ([["X", "a"]] * 101, "REQUEST_TOO_LARGE"),
        ([["X", "a" * 20_000]], "REQUEST_TOO_LARGE"),
    ],
)
def test_headers_that_are_refused(server: Web, headers: list[list[str]], code: str) -> None:
    before = len(server.asked)
    assert refusal({"allow": [rule(server)]}, f"http://here.test:{server.port}/", headers=headers) == code
    assert len(server.asked) == before


def test_bodies_that_are_refused(server: Web) -> None:
    here = f"http://here.test:{server.port}/"
    config = {"allow": [rule(server)], "max_request_bytes": 10}
    assert ask(config, here, method="POST", text="x" * 10, headers=[["X", "é"]])["status"] == 200
    assert server.asked[-1].headers["x"] == "é"
    assert refusal(config, here, method="POST", text="é" * 6) == "REQUEST_TOO_LARGE"
    assert refusal(config, here, method="POST", base64="not base64") == "INVALID_ARGUMENT"


# ---- redirects


def test_redirects_are_followed_as_browsers_do(server: Web, other: Web) -> None:
    here = f"http://here.test:{server.port}"
    config = {"allow": [rule(server), rule(other, "other.test")]}
    secret = [["Authorization", "s"], ["Cookie", "s"], ["X-Api-Key", "s"], ["Accept", "a/b"], ["Content-Type", "c/d"]]
    for status, method in (("301", "GET"), ("302", "GET"), ("303", "GET"), ("307", "POST"), ("308", "POST")):
        got = ask(config, f"{here}/redirect/{status}?/at?x=1", method="POST", text="body", headers=secret)
        assert (got["url"], got["redirected"]) == (f"{here}/at?x=1", True)
        asked = server.asked[-1]
        assert (asked.method, asked.body) == (method, b"body" if method == "POST" else b""), status
        assert asked.headers["authorization"] == "s"
    ask(config, f"{here}/redirect/307?http://other.test:{other.port}/to", method="POST", text="body", headers=secret)
    asked = other.asked[-1]
    assert (asked.method, asked.target, asked.body) == ("POST", "/to", b"body")
    assert set(asked.headers) == {
        "host",
        "accept",
        "user-agent",
        "content-length",
        "content-type",
        "accept-encoding",
        "connection",
    }
    assert asked.headers["host"] == f"other.test:{other.port}"
    manual = ask(config, f"{here}/redirect/302?http://127.0.0.1/", redirect="manual")
    assert (manual["status"], dict(manual["headers"])["location"]) == (302, "http://127.0.0.1/")
    assert ask(config, f"{here}/redirect/302?../x/./y")["url"] == f"{here}/x/y"


def test_each_redirect_is_checked(server: Web, other: Web) -> None:
    here = f"http://here.test:{server.port}"
    only_reads = rule(other, "good.test", methods=["GET"])
    config = {"allow": [rule(server), rule(other, "metadata.test"), only_reads], "private": ["127.0.0.1"]}
    before = len(other.asked)
    refusals = {
        f"http://127.0.0.1:{other.port}/": "URL_NOT_ALLOWED",
        f"http://localhost:{other.port}/": "URL_NOT_ALLOWED",
        f"http://here.test:{other.port}/": "URL_NOT_ALLOWED",
        f"//other.test:{other.port}/": "URL_NOT_ALLOWED",
        f"http://metadata.test:{other.port}/latest": "ADDRESS_NOT_ALLOWED",
        f"http://good.test:{other.port}/": "METHOD_NOT_ALLOWED",
        f"http://here.test:{server.port}@other.test/": "INVALID_URL",
        f"http://2130706433:{other.port}/": "INVALID_URL",
        "http://[::ffff:127.0.0.1]/": "URL_NOT_ALLOWED",
        "file:///etc/passwd": "INVALID_URL",
        "javascript:alert(1)": "INVALID_URL",
        "/\\other.test/": "INVALID_URL",
    }
    for where, code in refusals.items():
        assert refusal(config, f"{here}/redirect/307?{where}", method="POST") == code, where
    assert len(other.asked) == before
    again = "/redirect/302?/redirect/302"
    assert refusal(config, f"{here}/redirect/302?{again}", redirect="error") == "REDIRECTED"
    count = len(server.asked)
    assert refusal(config, f"{here}/loop") == "TOO_MANY_REDIRECTS"
    assert len(server.asked) == count + 11


# ---- TLS


def test_a_certificate_must_be_for_the_name(safe: Web, server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ("good.test", "other.test", "127.0.0.1")
    rules = [{"host": host, "port": port} for host in hosts for port in (safe.port, server.port)]
    before = len(safe.asked)
    assert refusal({"allow": rules}, f"https://good.test:{safe.port}/") == "TLS_FAILED"  # nobody vouches for it
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "ca.pem"))
    for host in hosts[1:]:
        assert refusal({"allow": rules}, f"https://{host}:{safe.port}/") == "TLS_FAILED"
    assert refusal({"allow": rules}, f"https://good.test:{server.port}/", timeoutMs=50000) == "TLS_FAILED"  # it speaks no TLS
    assert len(safe.asked) == before
    # The end of the connection is the end of the body: but anybody in between can end a connection, and nobody signed this end.
    assert refusal({"allow": rules}, f"https://good.test:{safe.port}/until-closed") == "CONNECTION_FAILED"
    assert len(ask({"allow": rules}, f"https://good.test:{safe.port}/sized?{MOST}")["text"]) == MOST
    assert refusal({"allow": rules}, f"https://good.test:{safe.port}/silent", timeoutMs=100) == "HTTP_TIMEOUT"
    assert (
        refusal({"allow": rules}, f"https://good.test:{safe.port}/redirect/302?http://good.test:{safe.port}/")
        == "URL_NOT_ALLOWED"
    )


# ---- config


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"allow": [{}]}, "config.allow[0].host"),
        ({"allow": [{"host": "a.test"}, {"host": "a.test", "scheme": "ftp"}]}, "config.allow[1].scheme"),
        ({"allow": [{"host": "http://a.test"}]}, "config.allow[0].host"),
        ({"allow": [{"host": "*"}]}, "config.allow[0].host"),
        ({"allow": [{"host": "a.*.test"}]}, "config.allow[0].host"),
        ({"allow": [{"host": "*.1.1"}]}, "config.allow[0].host"),
        ({"allow": [{"host": "*.127.0.0.1"}]}, "config.allow[0].host"),
        ({"allow": [{"host": "0x7f.1"}]}, "config.allow[0].host"),
        ({"allow": [{"host": ""}]}, "config.allow[0].host"),
        ({"allow": [{"host": "a.test", "port": 0}]}, "config.allow[0].port"),
        ({"allow": [{"host": "a.test", "path_prefix": "api"}]}, "config.allow[0].path_prefix"),
        ({"allow": [{"host": "a.test", "path_prefix": "/a?b"}]}, "config.allow[0].path_prefix"),
        ({"allow": [{"host": "a.test", "path_prefix": "/..%2f"}]}, "config.allow[0].path_prefix"),
        ({"allow": [{"host": "a.test", "methods": ["TRACE"]}]}, "config.allow[0].methods"),
        ({"allow": [{"host": "a.test", "methods": []}]}, "config.allow[0].methods"),
        ({"private": ["10.0.0.0/8", "home"]}, "config.private[1]"),
        ({"private": "yes"}, "config.private"),
        ({"max_response_bytes": 1 << 30}, "config.max_response_bytes"),
        ({"proxy": "x"}, "config.proxy"),
    ],
)
def test_a_bad_config_names_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        Http.read_config(config)
    assert str(raised.value).startswith(field)
