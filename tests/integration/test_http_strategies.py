"""Strategies, runs and transcripts over a real socket: what each route takes, tells and refuses."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from pydantic import TypeAdapter

from holdfast.http.models import _executions
from holdfast.http.models import _strategies as models
from tests.http_server import Served, served

NOBODY = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
BOTH = "const [a, b] = await Promise.all([llm('a'), llm('b')]); a + b"
REPLY: TypeAdapter[Any] = TypeAdapter(models.Reply)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("runs")) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def refused(response: httpx2.Response, status: int, code: str) -> str:
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text
    return str(response.json()["error"]["message"])


def reply(response: httpx2.Response) -> Any:
    """A reply, which has one of the documented shapes."""
    found = ok(response)
    REPLY.validate_python(found)
    return found


def run(api: httpx2.Client, code: str, **more: Any) -> Any:
    return reply(api.post("/runs", json={"code": code, **more}))


def told(api: httpx2.Client, session: str, **body: Any) -> Any:
    return reply(api.post(f"/runs/{session}/continue", json=body))


def test_a_run_from_its_question_to_its_transcript(api: httpx2.Client) -> None:
    asks = run(
        api,
        "return alc.llm('Capital of ' .. ctx.country .. '?', {system = 'Be brief.'})",
        ctx={"country": "Peru"},
        name="capital",
    )
    session = asks["session_id"]
    assert asks == {
        "status": "needs_response",
        "session_id": session,
        "query_id": "q-1",
        "prompt": "Capital of Peru?",
        "system": "Be brief.",
        "max_tokens": 1024,
    }
    where = f"/runs/{session}"
    assert reply(api.get(f"{where}/outcome")) == asks
    (query,) = ok(api.get(f"{where}/queries"))
    assert (_executions.Query.model_validate(query).id, query["session_id"]) == ("q-1", session)
    active = models.RunList.model_validate(ok(api.get("/runs", params={"pending_filter": "meta"})))
    (mine,) = [one for one in active.sessions if one.session_id == session]
    assert (mine.strategy, mine.pending) == ("capital", [{"query_id": "q-1", "max_tokens": 1024}])

    said = {
        "response": "Lima",
        "usage": {"prompt_tokens": 7, "completion_tokens": 1},
        "model": "small",
        "finish_reason": "stop",
    }
    done = told(api, session, **said)
    assert (done["status"], done["result"], done["stats"]["auto"]["llm_calls"]) == ("completed", "Lima", 1)
    assert told(api, session, query_id="q-1", **said) == done  # the same once more changes nothing
    refused(api.post(f"{where}/continue", json={"response": "Quito", "query_id": "q-1"}), 409, "ANSWER_CONFLICT")
    assert ok(api.get(where))["phase"] == "completed"
    assert ok(api.get(where, params={"include_history": True}))["metrics"]["conversation_history"][0]["response"] == "Lima"

    there = f"/transcripts/{session}"
    assert models.NotesCount.model_validate(ok(api.post(f"{there}/notes", json={"content": "easy"}), 201)).notes_count == 1
    found = models.Transcript.model_validate(ok(api.get(there)))
    (exchange,) = found.transcript
    assert (exchange.prompt, exchange.response, exchange.usage) == ("Capital of Peru?", "Lima", said["usage"])
    assert (exchange.model, exchange.finish_reason, found.notes[0].content) == ("small", "stop", "easy")
    (line,) = ok(api.get("/transcripts", params={"strategy": "capital", "limit": 1}))
    assert ok(api.get("/transcripts", params={"strategy": "capita"})) == []
    assert models.TranscriptSummary.model_validate(line).session_id == session
    figures = models.TranscriptStats.model_validate(
        ok(api.get("/transcripts/stats", params={"strategy": "capital", "days": 1}))
    )
    assert figures.strategies["capital"].count == figures.total_sessions == 1
    lines = api.get(f"{there}/export")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(each)["prompt"] for each in lines.text.splitlines() if "prompt" in json.loads(each)] == [
        "Capital of Peru?"
    ]
    page = api.get(f"{there}/export", params={"format": "markdown"})
    assert page.headers["content-type"].startswith("text/markdown")
    assert "Lima" in page.text


def test_several_questions_are_answered_one_by_one_or_together(api: httpx2.Client) -> None:
    asks = run(api, BOTH, language="javascript")
    session = asks["session_id"]
    assert [(one["id"], one["prompt"]) for one in asks["queries"]] == [("q-1", "a"), ("q-2", "b")]
    refused(api.post(f"/runs/{session}/continue", json={"response": "1"}), 409, "ANSWER_AMBIGUOUS")
    wrong = {"responses": [{"query_id": "q-1", "response": "1"}, {"query_id": "q-9", "response": "2"}]}
    refused(api.post(f"/runs/{session}/continue", json=wrong), 404, "QUERY_NOT_FOUND")
    assert told(api, session, response="2", query_id="q-2") == {"status": "accepted", "session_id": session, "remaining": 1}
    assert told(api, session, response="1")["result"] == "12"
    asks = run(api, BOTH, language="javascript")
    both = [{"query_id": "q-2", "response": "2"}, {"query_id": "q-1", "error": "no model"}]
    failed = told(api, asks["session_id"], responses=both)
    assert failed["status"] == "error"
    assert "no model" in failed["error"]
    caught = run(api, "local _, problem = pcall(alc.llm, '?') return problem.message")
    assert told(api, caught["session_id"], error="nobody is there", query_id="q-1")["result"] == "nobody is there"


def test_branches_are_answered_through_their_run(api: httpx2.Client) -> None:
    code = "return alc.fork({function() return alc.llm('a') end, function() return alc.llm('b') .. alc.llm('c') end}, ctx)"
    asks = run(api, code)
    session = asks["session_id"]
    assert [(one["id"], one["prompt"]) for one in asks["queries"]] == [("f-1-0-2", "a"), ("f-1-1-2", "b")]
    listed = [_executions.Query.model_validate(one) for one in ok(api.get(f"/runs/{session}/queries"))]
    assert [(one.id, one.session_id) for one in listed] == [("f-1-0-2", session), ("f-1-1-2", session)]
    assert told(api, session, response="B", query_id="f-1-1-2")["queries"][1]["id"] == "f-1-1-3"
    both = [{"response": "A", "query_id": "f-1-0-2"}, {"response": "C", "query_id": "f-1-1-3", "model": "small"}]
    done = told(api, session, responses=both)
    assert [one["result"] for one in done["result"]] == ["A", "BC"]
    found = models.Transcript.model_validate(ok(api.get(f"/transcripts/{session}")))
    assert {one.query_id: one.response for one in found.transcript} == {"f-1-0-2": "A", "f-1-1-2": "B", "f-1-1-3": "C"}


def test_a_script_that_fails_is_an_answer(api: httpx2.Client) -> None:
    failed = run(api, "error('not today')")
    assert failed["status"] == "error"
    assert "not today" in failed["error"]
    assert run(api, "return {n = 1}")["result"] == {"n": 1}
    budgeted = run(api, "return alc.llm('?')", budget={"max_llm_calls": 0})
    assert "max_llm_calls (0) reached" in budgeted["error"]


def test_what_nobody_is_asked_for_waits_and_is_cancelled(api: httpx2.Client) -> None:
    waits = run(api, "await hf.sleep(60_000); 1", language="javascript", wait_s=0)
    session = waits["session_id"]
    assert waits["status"] == "waiting"
    assert waits["wake_at"] > 0
    assert reply(api.get(f"/runs/{session}/outcome", params={"wait_s": 0.01})) == waits
    refused(api.post(f"/runs/{session}/continue", json={"response": "1"}), 409, "ANSWER_AMBIGUOUS")
    assert reply(api.post(f"/runs/{session}/cancel"))["status"] == "cancelled"
    assert reply(api.post(f"/runs/{session}/cancel"))["status"] == "cancelled"
    assert reply(api.get(f"/runs/{session}/outcome"))["status"] == "cancelled"


def test_a_second_run_goes_on_from_a_checkpoint(api: httpx2.Client) -> None:
    session = run(api, "return alc.llm('a') .. alc.llm('b')")["session_id"]
    assert told(api, session, response="1")["prompt"] == "b"
    history = models.RunHistory.model_validate(ok(api.get(f"/runs/{session}/history")))
    assert [node.open for node in history.nodes] == [[], ["q-1"], ["q-2"]]
    other = reply(api.post(f"/runs/{session}/fork", json={"checkpoint": 1, "name": "other"}))
    assert (other["prompt"], other["session_id"] != session) == ("a", True)
    assert told(api, other["session_id"], response="x")["prompt"] == "b"
    assert told(api, session, response="2")["result"] == "12"
    for nowhere in ({"checkpoint": 99}, {}):  # at its end nothing waits
        refused(api.post(f"/runs/{session}/fork", json=nowhere), 404, "CHECKPOINT_NOT_FOUND")


def test_the_same_call_again(api: httpx2.Client) -> None:
    key = {"Idempotency-Key": f"run {uuid4()}"}
    body = {"code": "return alc.llm('?')"}
    first = reply(api.post("/runs", json=body, headers=key))
    assert reply(api.post("/runs", json=body, headers=key)) == first
    refused(api.post("/runs", json={"code": "return 1"}, headers=key), 409, "IDEMPOTENCY_CONFLICT")
    answer = {"Idempotency-Key": f"answer {uuid4()}"}
    where = f"/runs/{first['session_id']}/continue"
    done = reply(api.post(where, json={"response": "!"}, headers=answer))
    assert reply(api.post(where, json={"response": "!"}, headers=answer)) == done
    refused(api.post(where, json={"response": "?"}, headers=answer), 409, "IDEMPOTENCY_CONFLICT")


def test_strategies_that_there_are(api: httpx2.Client) -> None:
    found = [models.Strategy.model_validate(one) for one in ok(api.get("/strategies", params={"limit": 1000}))]
    assert found
    one = ok(api.get(f"/strategies/{found[0].name}", params={"language": found[0].language}))
    assert models.StrategyDetail.model_validate(one).text
    assert {each["language"] for each in ok(api.get("/strategies", params={"language": "lua"}))} <= {"lua"}
    refused(api.get("/strategies/nobody_has_this"), 404, "PACKAGE_NOT_FOUND")
    refused(api.post("/runs", json={"strategy": "nobody_has_this"}), 404, "PACKAGE_NOT_FOUND")


BAD_RUNS: list[tuple[Any, str]] = [
    ({}, "VALIDATION_ERROR"),
    ({"code": "return 1", "strategy": "x"}, "VALIDATION_ERROR"),
    ({"code": "return 1", "opts": {}}, "VALIDATION_ERROR"),
    ({"strategy": "x", "ctx": {}}, "VALIDATION_ERROR"),
    ({"code": " "}, "VALIDATION_ERROR"),
    ({"code": 1}, "INVALID_REQUEST"),
    ({"code": "return 1", "ctx": []}, "INVALID_REQUEST"),
    ({"code": "return 1", "shell": "sh"}, "INVALID_REQUEST"),
    ({"code": "return 1", "language": "cobol"}, "VALIDATION_ERROR"),
    ({"code": "return 1", "wait_s": 301}, "VALIDATION_ERROR"),
    ({"code": "return 1", "wait_s": -1}, "VALIDATION_ERROR"),
    ({"code": "return 1", "wait_s": "1"}, "INVALID_REQUEST"),
    ({"code": "return 1", "budget": {"max_llm_calls": -1}}, "VALIDATION_ERROR"),
    ({"code": "return 1", "ctx": {"budget": 3}}, "VALIDATION_ERROR"),
    ({"strategy": "../secret"}, "VALIDATION_ERROR"),
    ({"strategy": "a/b"}, "VALIDATION_ERROR"),
    ({"strategy": "x", "task": 7}, "INVALID_REQUEST"),
]


def test_runs_that_make_no_sense(api: httpx2.Client) -> None:
    for body, code in BAD_RUNS:
        refused(api.post("/runs", json=body), 400, code)
    refused(api.post("/runs", json={"code": "return 1", "template": "nobody has this"}), 404, "TEMPLATE_NOT_FOUND")


BAD_ANSWERS: list[tuple[Any, int, str]] = [
    ({}, 400, "VALIDATION_ERROR"),
    ({"responses": []}, 400, "VALIDATION_ERROR"),
    ({"response": "a", "responses": [{"response": "b"}]}, 400, "VALIDATION_ERROR"),
    ({"response": "a", "error": "b"}, 400, "VALIDATION_ERROR"),
    ({"responses": [{"query_id": "q-1", "response": "b"}], "usage": {}}, 400, "VALIDATION_ERROR"),
    ({"responses": [{"query_id": "q-1"}]}, 400, "VALIDATION_ERROR"),
    ({"responses": [{"query_id": "q-1", "response": "a", "error": "b"}]}, 400, "VALIDATION_ERROR"),
    ({"responses": {"q-1": "a"}}, 400, "INVALID_REQUEST"),
    ({"response": "a", "query_id": "q-0"}, 400, "VALIDATION_ERROR"),
    ({"response": "a", "query_id": "f-1-2"}, 400, "VALIDATION_ERROR"),
    ({"response": "a", "query_id": 1}, 400, "INVALID_REQUEST"),
    ({"response": "a", "query_id": "q-2"}, 404, "QUERY_NOT_FOUND"),
    ({"response": "a", "usage": {"prompt_tokens": -1}}, 400, "VALIDATION_ERROR"),
    ({"response": "a", "usage": {"prompt_tokens": "1"}}, 400, "INVALID_REQUEST"),
    ({"response": "a", "usage": {str(n): n for n in range(21)}}, 400, "VALIDATION_ERROR"),
    ({"response": "a", "model": 4}, 400, "INVALID_REQUEST"),
    ({"response": "a", "wait_s": 1e9}, 400, "VALIDATION_ERROR"),
    ({"response": {"not": "text"}, "query_id": "q-1", "wait_s": None, "secret": 1}, 400, "INVALID_REQUEST"),
]


def test_answers_that_make_no_sense_change_nothing(api: httpx2.Client) -> None:
    session = run(api, "return #alc.llm('?')")["session_id"]
    for body, status, code in BAD_ANSWERS:
        refused(api.post(f"/runs/{session}/continue", json=body), status, code)
    assert api.post(f"/runs/{session}/continue", json={"response": "a", "query_id": "f-1-0-1"}).status_code == 404
    too_much = refused(api.post(f"/runs/{session}/continue", json={"response": "x" * 10_000_000}), 413, "BODY_TOO_LARGE")
    assert too_much == "the body of a request may have at most 4194304 bytes"
    assert told(api, session, response="x" * 1_000_000)["result"] == 1_000_000


@pytest.mark.parametrize("where", ["", "/outcome", "/queries", "/history"])
def test_what_is_not_there(api: httpx2.Client, where: str) -> None:
    refused(api.get(f"/runs/{NOBODY}{where}"), 404, "SESSION_NOT_FOUND")
    refused(api.get(f"/runs/nobody{where}"), 400, "VALIDATION_ERROR")


def test_parameters_that_make_no_sense(api: httpx2.Client) -> None:
    session = run(api, "return alc.llm('?')")["session_id"]
    for where, given in [
        ("/runs", {"pending_filter": "all"}),
        (f"/runs/{session}", {"include_history": "perhaps"}),
        (f"/runs/{session}/outcome", {"wait_s": 301}),
        (f"/runs/{session}/outcome", {"wait_s": "nan"}),
        (f"/runs/{session}/outcome", {"wait_s": "soon"}),
        (f"/runs/{session}/history", {"limit": 0}),
        (f"/transcripts/{session}", {"max_chars": -1}),
        (f"/transcripts/{session}/export", {"format": "pdf"}),
        ("/transcripts/stats", {"days": 0}),
        ("/strategies", {"language": "cobol"}),
        ("/strategies/.secret", {}),
    ]:
        assert refused(api.get(where, params=given), 400, "VALIDATION_ERROR")
    refused(api.get(f"/runs/{session}/outcome", params={"until": 1}), 400, "INVALID_REQUEST")
    refused(api.get(f"/transcripts/{NOBODY}"), 404, "SESSION_NOT_FOUND")
    refused(api.get(f"/transcripts/{NOBODY}/export"), 404, "SESSION_NOT_FOUND")
    refused(api.post(f"/transcripts/{NOBODY}/notes", json={"content": "x"}), 404, "SESSION_NOT_FOUND")
    refused(api.post(f"/transcripts/{session}/notes", json={"content": " "}), 400, "VALIDATION_ERROR")


def test_who_may_do_what(server: Served, api: httpx2.Client) -> None:
    with server.client(server.made("answers", "answer")) as answers, server.client(server.made("reads", "read")) as reads:
        refused(answers.post("/runs", json={"code": "return 1"}), 403, "FORBIDDEN")
        session = run(api, "return alc.llm('?')")["session_id"]
        refused(reads.post(f"/runs/{session}/continue", json={"response": "1"}), 403, "FORBIDDEN")
        refused(answers.post(f"/runs/{session}/cancel"), 403, "FORBIDDEN")
        refused(answers.post(f"/transcripts/{session}/notes", json={"content": "x"}), 403, "FORBIDDEN")
        assert told(answers, session, response="1")["result"] == "1"
        assert ok(reads.get(f"/transcripts/{session}"))["result"] == "1"
