"""`/mcp` of a real daemon: behind the same gate as the API, and for several hosts at once."""

import concurrent.futures
import functools
import json
import socket

import httpx2
import pytest
from mcp import types

from holdfast.daemon import Tokens
from tests.daemon import NO_TLS, Daemon
from tests.mcp_host import MCPError, Remote, text, until

TWO = "return {alc.llm('first?'), alc.llm('second?')}"
FOREVER = "alc.sleep(1000000)"
MODERN = "2026-07-28"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    running = Daemon(tmp_path_factory.mktemp("mcp"), heartbeat_s="0.1").start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def connect(daemon):
    """Connects hosts, once for each kind. Those of the present protocol do not mind if the daemon is started again."""
    hosts = {}

    def connected(name="plain", mode="auto", token=None, **options):
        if name not in hosts:
            hosts[name] = Remote(f"{daemon.url}/mcp", token or daemon.token, mode, **options)
            hosts[name].start()
        return hosts[name]

    yield connected
    for host in hosts.values():
        host.stop()


@pytest.fixture
def host(connect):
    return connect()


@pytest.fixture(scope="module")
def asked(connect):
    """A host whose model counts, and whose user is Ada."""

    async def samples(context, params):
        return text(f"answer to {params.messages[-1].content.text}")

    async def elicits(context, params):
        (name,) = params.requested_schema["properties"]
        return types.ElicitResult(action="accept", content={name: True if name == "approved" else "Ada"})

    return connect("asked", sampling_callback=samples, elicitation_callback=elicits)


@pytest.fixture(scope="module")
def caller():
    with httpx2.Client(timeout=30, verify=NO_TLS) as client:
        yield client


@pytest.fixture(scope="module")
def token(daemon, caller):
    """The secret of a token with a scope, which the daemon knows by now."""

    @functools.cache
    def made(scope, name=None):
        secret = Tokens(daemon.folder / "data").create(name or f"only {scope}", [scope])[1]
        until(lambda: caller.get(f"{daemon.url}/mcp", headers={"Authorization": f"Bearer {secret}"}).status_code != 401)
        return secret

    return made


@pytest.fixture(scope="module")
def begun(daemon, caller):
    """The headers of a session of an earlier protocol, which a token has begun."""

    def beginning(token=None):
        given = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        theirs = headers(daemon, **({} if token is None else {"Authorization": f"Bearer {token}"}))
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": given}
        session = caller.post(f"{daemon.url}/mcp", json=begin, headers=theirs).headers["mcp-session-id"]
        return theirs | {"Mcp-Session-Id": session}

    return beginning


def headers(daemon, **more):
    return {"Authorization": f"Bearer {daemon.token}", "Accept": "application/json, text/event-stream"} | more


def message(tool, number=1, token=None, **given):
    """A call as it is on the wire."""
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    if token is not None:
        meta["progressToken"] = token
    params = {"name": tool, "arguments": given, "_meta": meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def posted(daemon, tool, number=1, token=None, key=None, **given):
    """The bytes of such a call."""
    body = json.dumps(message(tool, number, token, **given)).encode()
    lines = {
        **headers(daemon),
        "Host": f"127.0.0.1:{daemon.port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
        **({} if key is None else {"Idempotency-Key": key}),
    }
    return (
        b"POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode() + b"\r\n" + body
    )


def asleep(host):
    """The session of the run that only waits for the clock, if there is one."""
    waiting = (one for one in host.call("status")["sessions"] if one["state"] == "paused")
    return next((one["session_id"] for one in waiting if one["pending_queries"] == 0), None)


def heard(connection, wanted):
    """What comes over a connection, until something has come."""
    found = b""
    while wanted not in found:
        part = connection.recv(65_536)
        assert part, found
        found += part
    return found


# ---- the gate ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_it_is_where_it_is_said_to_be_and_wants_a_token(daemon, caller, path):
    for method in ("GET", "POST", "DELETE"):
        refused = caller.request(method, daemon.url + path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": message("x")["params"]["_meta"]}}
    modern = headers(daemon, **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    listed = caller.post(daemon.url + path, json=listing, headers=modern)
    assert listed.status_code == 200
    assert len(listed.json()["result"]["tools"]) == 10
    assert caller.get(daemon.url + path, headers=headers(daemon)).status_code == 400  # there is no session
    assert caller.delete(daemon.url + path, headers=headers(daemon)).status_code == 400


def test_whatever_the_gate_refuses_has_the_envelope_of_the_api(daemon, caller):
    def code(method, path, **options):
        answer = caller.request(method, daemon.url + path, headers=headers(daemon, **options.pop("headers", {})), **options)
        return answer.status_code, answer.json()["error"]["code"]

    for path in ("/mcp/x", "/mcpx", "/mcp//", "/MCP"):
        assert code("POST", path, json={}) == (404, "NOT_FOUND")
    assert code("PUT", "/mcp", json={}) == (405, "METHOD_NOT_ALLOWED")
    assert code("POST", "/mcp") == (400, "INVALID_REQUEST")
    assert code("POST", "/mcp", content=b"{}", headers={"Content-Type": "text/plain"}) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert code("POST", "/mcp", json={}, headers={"Host": "evil.example"}) == (421, "HOST_NOT_ALLOWED")
    assert code("POST", "/mcp", json={}, headers={"Origin": "https://evil.example"}) == (403, "FORBIDDEN")
    large = {"content": b"[" * 4_200_000, "headers": {"Content-Type": "application/json"}}
    assert code("POST", "/mcp", **large) == (413, "BODY_TOO_LARGE")
    assert caller.head(daemon.url + "/mcp", headers=headers(daemon)).status_code == 405


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b"{}", b'{"jsonrpc": "2.0", "id": [], "method": "x"}', b"[" * 100_000])
@pytest.mark.parametrize("version", [MODERN, "2025-11-25"])
def test_a_body_that_is_no_message_is_refused(daemon, caller, body, version):
    given = headers(daemon, **{"Content-Type": "application/json", "MCP-Protocol-Version": version})
    answer = caller.post(f"{daemon.url}/mcp", content=body, headers=given)
    assert answer.status_code in (202, 400)
    assert "Traceback" not in answer.text
    assert "/site-packages/" not in answer.text


def test_what_is_no_text_does_not_get_far(daemon, caller, host):
    given = headers(daemon, **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "run"})
    half = json.dumps(message("run", code="return '\ud800'"))
    refused = caller.post(f"{daemon.url}/mcp", content=half, headers=given | {"Content-Type": "application/json"}).json()
    assert refused["result"]["content"][0]["text"] == "VALIDATION_ERROR: the arguments have half of a surrogate pair"
    done = host.call("run", code=r"'\ud800'", language="javascript")
    assert done["result"] == "\ufffd"


def test_a_token_has_only_so_many_sessions(daemon, caller, token, begun):
    """Sessions of earlier protocols are kept until they end; those of one token do not keep others out."""
    greedy = token("run", "greedy")
    sessions = [begun(greedy) for _ in range(64)]
    given = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": given}
    theirs = headers(daemon, Authorization=f"Bearer {greedy}")
    refused = caller.post(f"{daemon.url}/mcp", json=begin, headers=theirs)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert "64 MCP sessions" in refused.json()["error"]["message"]
    assert "Mcp-Session-Id" in begun()  # of another token
    assert caller.delete(f"{daemon.url}/mcp", headers=sessions[0]).status_code == 200
    assert caller.post(f"{daemon.url}/mcp", json=begin, headers=theirs).status_code == 200
    for one in sessions[1:]:
        caller.delete(f"{daemon.url}/mcp", headers=one)


def test_a_key_that_is_there_twice_is_refused(daemon, caller):
    body = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "tools/list"}'
    refused = caller.post(f"{daemon.url}/mcp", content=body, headers=headers(daemon) | {"Content-Type": "application/json"})
    assert refused.status_code == 400
    assert "twice" in refused.json()["error"]["message"]


def test_a_token_may_do_what_its_scopes_say(token, connect, asked):
    reads, answers, runs = (connect(scope, token=token(scope), **asked.options) for scope in ("read", "answer", "run"))
    session_id = runs.call("run", code=TWO)["session_id"]  # and its model is not asked, since it may not answer
    needs_run = "FORBIDDEN: this needs a token with the scope run"
    assert reads.call("status", session_id=session_id)["phase"] == "paused"
    assert reads.read(f"holdfast://sessions/{session_id}")
    for refused in (reads.refused("run", code=TWO), answers.refused("cancel", session_id=session_id)):
        assert refused == needs_run
    assert reads.refused("transcripts", session_id=session_id, note="n") == needs_run
    assert (
        runs.refused("continue", session_id=session_id, response="one") == "FORBIDDEN: this needs a token with the scope answer"
    )
    assert answers.call("continue", session_id=session_id, query_id="q-1", response="one")["result"] == [
        "one",
        "answer to second?",
    ]
    assert runs.call("cancel", session_id=session_id)["status"] == "completed"


# ---- runs --------------------------------------------------------------------------------------------------------------------------


def test_a_run_pauses_is_killed_and_goes_on_and_so_do_questions_in_the_middle_of_a_call(daemon, host, asked):
    paused = host.call("run", code=TWO)
    call = {"code": "return {alc.llm('one?'), alc.ask('two?')}"}
    first = asked.once("run", call)
    assert list(first.input_requests) == ["q-1"]
    daemon.kill()
    daemon.start()
    session_id = paused["session_id"]
    assert host.call("continue", session_id=session_id, query_id="q-1", response="one")["prompt"] == "second?"
    assert host.call("continue", session_id=session_id, query_id="q-2", response="two")["result"] == ["one", "two"]
    second = asked.once("run", call, {"q-1": text("1")}, first.request_state)
    assert list(second.input_requests) == ["q-2"]
    said = {"q-2": types.ElicitResult(action="accept", content={"answer": "2"})}
    done = asked.once("run", call, said, second.request_state).structured_content
    assert done["result"] == ["1", "2"]
    again = asked.once("run", call, said, second.request_state).structured_content  # whose answer was lost
    assert again == done


def test_a_client_is_asked_until_the_end(asked):
    code = "return {alc.llm('a'), alc.ask('who?'), alc.approve('sure?'), unpack(alc.llm_batch({{prompt='b'}, {prompt='c'}}))}"
    done = asked.call("run", code=code.replace("unpack", "table.unpack"))
    assert done["result"] == ["answer to a", "Ada", True, "answer to b", "answer to c"]
    exchanges = asked.call("transcripts", session_id=done["session_id"])["transcript"]
    assert (exchanges[0]["model"], exchanges[0]["finish_reason"]) == ("m-1", "endTurn")


def test_nobody_takes_the_state_of_another_call_or_of_another_token(token, asked, connect):
    call = {"code": "return alc.llm('one?')"}
    first = asked.once("run", call)
    answers = {"q-1": text("1")}
    thief = connect("run", token=token("run"), **asked.options)
    for who, what, state in (
        (asked, {"code": "return alc.llm('other?')"}, first.request_state),
        (asked, call, first.request_state[:-2] + "AA"),
        (asked, call, "v1.AAAA"),
        (thief, call, first.request_state),
    ):
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            who.once("run", what, answers, state)
    assert asked.once("run", call, answers, first.request_state).structured_content["result"] == "1"


def test_two_hosts_at_once(host, connect):
    """With the same token and, for all that the server knows, the same numbers for their requests."""
    other = connect("other")
    hosts = [host, other] * 2
    calls = [one.begin("run", code="return alc.llm(ctx.n)", ctx={"n": str(n)}) for n, one in enumerate(hosts)]
    runs = [call.result(60).structured_content for call in calls]
    assert len({run["session_id"] for run in runs}) == len(hosts)
    assert [run["prompt"] for run in runs] == [str(n) for n in range(len(hosts))]
    answers = [
        one.begin("continue", session_id=run["session_id"], query_id="q-1", response=run["prompt"])
        for one, run in zip(reversed(hosts), runs, strict=True)
    ]
    assert [answer.result(60).structured_content["result"] for answer in answers] == [run["prompt"] for run in runs]


def test_a_session_of_an_earlier_protocol_is_cancelled_by_notification(daemon, host, connect):
    old = connect("old", "legacy")
    assert old.client.protocol_version == "2025-11-25"
    assert old.call("run", code=TWO)["status"] == "needs_response"
    assert old.refused("run", file="x.lua").startswith("VALIDATION_ERROR: `file` is for a server on the host's own machine")
    running = old.begin("run", code=FOREVER)
    session_id = until(lambda: asleep(host))
    running.cancel()
    until(lambda: host.call("status", session_id=session_id)["phase"] == "cancelled")


def test_who_may_not_cancel_a_run_does_not_by_cancelling_a_request(daemon, caller, host, token, begun):
    session_id = host.call("run", code="alc.llm('?') alc.sleep(1000000)")["session_id"]
    post = functools.partial(caller.post, f"{daemon.url}/mcp", headers=begun(token("answer")))
    arguments = {"session_id": session_id, "query_id": "q-1", "response": ""}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "continue", "arguments": arguments}}
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        answering = thread.submit(post, json=call)
        until(lambda: host.call("status", session_id=session_id)["pending_queries"] == 0)
        post(json={"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        assert "Request cancelled" in answering.result(30).text
    post(json={"jsonrpc": "2.0", "id": 8, "method": "ping"})
    assert host.call("status", session_id=session_id)["phase"] == "paused"
    assert host.call("cancel", session_id=session_id)["status"] == "cancelled"


def test_a_session_of_an_earlier_protocol_belongs_to_its_token(daemon, caller, token, begun):
    ping, ours = {"jsonrpc": "2.0", "id": 2, "method": "ping"}, begun()
    assert caller.post(f"{daemon.url}/mcp", json=ping, headers=ours).status_code == 200
    theirs = ours | {"Authorization": f"Bearer {token('admin')}"}
    assert caller.post(f"{daemon.url}/mcp", json=ping, headers=theirs).status_code == 404
    assert caller.delete(f"{daemon.url}/mcp", headers=ours).status_code == 200
    assert caller.post(f"{daemon.url}/mcp", json=ping, headers=ours).status_code == 404


def test_the_header_of_a_session_means_nothing_where_there_are_none(daemon, caller):
    given = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "run", "Mcp-Session-Id": "of another"}
    call = message("run", code=TWO)
    replies = [caller.post(f"{daemon.url}/mcp", json=call, headers=headers(daemon, **given)).json() for _ in range(2)]
    assert len({reply["result"]["structuredContent"]["session_id"] for reply in replies}) == 2


# ---- connections that are lost -----------------------------------------------------------------------------------------------------


def test_a_connection_that_is_lost_before_the_reply_loses_the_reply_and_nothing_else(daemon, host):
    before = len(host.call("transcripts", limit=1000)["transcripts"])
    slow = {"code": "alc.sleep(200) return 'late'"}
    request = posted(daemon, "run", key="lost", **slow)
    for part in (request[:100], request[:-1], request):  # in the headers, in the body, before the reply
        with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
            connection.sendall(part)
    until(lambda: len(host.call("transcripts", limit=1000)["transcripts"]) > before)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
        connection.sendall(posted(daemon, "run", number=2, key="lost", **slow))
        heard(connection, b'"result":"late"')
    assert len(host.call("transcripts", limit=1000)["transcripts"]) == before + 1


def test_a_stream_that_is_closed_does_not_end_the_run(daemon, host):
    code = "alc.sleep(1) alc.sleep(100) return alc.llm('still here?')"
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
        connection.sendall(posted(daemon, "run", token="p", code=code))
        assert b"text/event-stream" in heard(connection, b"notifications/progress")
    session_id = until(
        lambda: [
            one["session_id"]
            for one in host.call("status", pending_filter="full")["sessions"]
            if [query.get("prompt") for query in one.get("pending", ())] == ["still here?"]
        ]
    )[0]
    assert host.call("cancel", session_id=session_id)["status"] == "cancelled"


def test_cancelling_by_the_present_protocol_is_a_closed_stream_and_the_tool_cancels(host):
    running = host.begin("run", code=FOREVER)
    session_id = until(lambda: asleep(host))
    running.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        running.result(30)
    assert host.call("status", session_id=session_id)["phase"] == "paused"
    assert host.call("cancel", session_id=session_id)["status"] == "cancelled"


def test_a_stream_ends_when_its_token_does(daemon, caller, token, begun):
    theirs = begun(token("read", "soon gone"))
    with caller.stream("GET", f"{daemon.url}/mcp", headers=theirs) as stream:
        assert stream.status_code == 200
        Tokens(daemon.folder / "data").revoke("soon gone")
        assert b"".join(stream.iter_raw()) == b""
    assert caller.get(f"{daemon.url}/mcp", headers=theirs).status_code == 401


def test_streams_end_when_the_daemon_stops(daemon, caller, begun):  # the last one: there is no daemon afterwards
    with caller.stream("GET", f"{daemon.url}/mcp", headers=begun() | {"Last-Event-ID": "7"}) as stream:
        assert stream.status_code == 200
        assert daemon.stop() == 0
        assert b"".join(stream.iter_raw()) is not None
    assert "did not end in time" not in daemon.log
    assert "Traceback" not in daemon.log
