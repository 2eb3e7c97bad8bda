"""Messages over stdin and stdout: what becomes of lines that are none, and how a server ends."""

import os
import signal
import threading

import pytest

from holdfast.mcp import _pipes
from tests.mcp_host import Pipes


def test_a_line_that_is_no_message_is_answered_and_nothing_else_suffers(monkeypatch):
    monkeypatch.setattr(_pipes, "LONGEST", 1000)
    pipes = Pipes().started()
    lines = {
        b"this is no message": (None, -32700),
        b"[" * 900: (None, -32700),
        b"\xff\xfe": (None, -32700),
        b"[]": (None, -32600),
        b'[{"jsonrpc": "2.0", "id": "in a batch", "method": "ping"}]': (None, -32600),
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}': (None, -32600),
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}': (None, -32600),
        b'{"jsonrpc": "2.0", "id": true, "method": "ping"}': (None, -32600),
        b'{"jsonrpc": "2.0", "id": "list", "method": "ping", "params": []}': ("list", -32600),
        b'{"jsonrpc": "2.0", "id": "half", "method": "ping", "params": {"x": "\\ud800"}}': ("half", -32600),
        b'"' + b"x" * 5000: (None, -32600),
    }
    for line in lines:
        pipes.say(line + b"\n")
    unknown = b'{"jsonrpc": "2.0", "id": 99, "result": {}}\n\n{"jsonrpc": "2.0", "method": "notifications/none"}\n'
    pipes.say(unknown)  # these are messages, and nobody is owed anything
    pipes.call("at last", "status", {})
    assert pipes.reply("at last")["result"]["structuredContent"]["sessions"] == []
    *refused, _ = pipes.end()
    assert [(one["id"], one["error"]["code"]) for one in refused] == list(lines.values())


def test_an_answer_of_ten_megabytes_is_taken():
    pipes = Pipes().started()
    pipes.call("run", "run", {"code": "return #alc.llm('long?')"})
    session_id = pipes.reply("run")["result"]["structuredContent"]["session_id"]
    pipes.call("long", "continue", {"session_id": session_id, "query_id": "q-1", "response": "x" * 10_000_000})
    assert pipes.reply("long")["result"]["structuredContent"]["result"] == 10_000_000
    pipes.end()


def test_what_no_line_can_carry_is_replaced():
    pipes = Pipes().started()
    pipes.call("odd", "run", {"code": r"[await llm('\udc00'), '\ud800']", "language": "javascript"}, {"sampling": {}})
    asked = pipes.reply("odd")["result"]["inputRequests"]["q-1"]
    assert asked["params"]["messages"][0]["content"]["text"] == "\ufffd"
    pipes.end()


def test_what_was_asked_before_the_end_of_stdin_is_answered_and_nobody_waits_for_what_was_cancelled(monkeypatch):
    monkeypatch.setattr(_pipes, "_LAST_WORDS_S", 1000)
    pipes = Pipes().started()
    pipes.call("cancelled", "run", {"code": "alc.sleep(1000000)"})
    pipes.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "cancelled"}})
    pipes.call("quick", "run", {"code": "return 1"})
    (quick,) = pipes.end()
    assert quick["result"]["structuredContent"]["result"] == 1


def test_what_takes_longer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(_pipes, "_LAST_WORDS_S", 0.1)
    pipes = Pipes().started()
    pipes.call("slow", "run", {"code": "alc.sleep(1000000)"})
    (slow,) = pipes.end()
    assert (slow["id"], slow["error"]["message"]) == ("slow", "Connection closed")


def test_a_host_that_does_not_read_keeps_nobody_from_the_end(monkeypatch):
    monkeypatch.setattr(_pipes, "_LAST_WORDS_S", 0.1)
    pipes = Pipes(reads=False).started()
    code = "for n = 1, 500 do alc.progress(n, 500, string.rep('x', 1000)) end return 1"
    pipes.call("long", "run", {"code": code}, token="t")
    pipes.call("other", "status", {})
    assert pipes.end() == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_is_the_end_also_of_a_script_that_runs(name):
    number, pipes, missed = getattr(signal, name), Pipes(), []

    def ends():
        pipes.reply("ready")
        os.kill(os.getpid(), number)

    def miss(*_):
        missed.append(name)
        pipes.end()

    before = signal.signal(number, miss)
    ending = threading.Thread(target=ends)
    ending.start()
    try:
        pipes.call("spin", "run", {"code": "while true do end"})
        pipes.call("ready", "status", {})
        pipes.serving()
    finally:
        signal.signal(number, before)
        ending.join()
    assert missed == []
    assert [one["error"]["message"] for one in pipes.end() if one["id"] == "spin"] == ["Connection closed"]
