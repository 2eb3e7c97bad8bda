"""Sections 5.3 and 5.8."""

from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.acceptance.vm_system.conftest import Make, events, ok, refused, repl, run_file


@pytest.fixture
def session(create: Make, worktree: Path) -> dict[str, Any]:
    (worktree / "calc.js").write_text("console.log('calculating'); 40 + 2")
    (worktree / "contract.js").write_text("console.log(__ARGS__.a); 42")
    return create()


def _types(found: list[dict[str, Any]]) -> list[str]:
    """Without those that only we have."""
    return [event["type"] for event in found if event["type"] not in ("checkpoint", "query", "answer")]


def test_EXE_01(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "21 * 2")
    assert made["id"]
    assert made["status"] == "ok"


def test_EXE_02(api: httpx2.Client, session: dict[str, Any]) -> None:
    assert run_file(api, session, "calc.js")["status"] == "ok"


def test_EXE_03(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "1")
    found = ok(api.get(f"/executions/{made['id']}"))
    assert (found["id"], found["kind"]) == (made["id"], "repl")


def test_EXE_04_EXE_10(api: httpx2.Client, session: dict[str, Any]) -> None:
    for _ in range(3):
        repl(api, session, "1")
    for limit in (1, 2):
        found = ok(api.get("/executions", params={"session_id": session["id"], "limit": limit}))
        assert [execution["session_id"] for execution in found] == [session["id"]] * limit


def test_EXE_05(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "1")
    everything = events(api, made, after_seq=0)
    assert everything
    assert events(api, made, after_seq=1) == everything[1:]


def test_EXE_06(api: httpx2.Client) -> None:
    refused(api.get(f"/executions/{uuid4()}"), 404, "EXECUTION_NOT_FOUND")


def test_EXE_07(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "1 + 1")
    assert made["session_id"] == session["id"]
    assert (made["kind"], made["status"], made["input"]) == ("repl", "ok", "1 + 1")
    assert datetime.fromisoformat(made["started_at"]) <= datetime.fromisoformat(made["ended_at"])
    assert made["metrics"]["steps"] == 1
    assert made["result"]["preview"] == "2"
    assert (made["args"], made["env"]) == ([], {})


def test_EXE_08_EXE_09(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = run_file(api, session, "contract.js", args={"a": 1})
    assert (made["kind"], made["path"], made["status"]) == ("run_file", "contract.js", "ok")
    found = ok(api.get(f"/executions/{made['id']}"))
    assert (found["kind"], found["result"]) == ("run_file", made["result"])


def test_EXE_11(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "console.log('x'); 1")
    found = events(api, made)
    assert [event["seq"] for event in found] == [*range(1, len(found) + 1)]
    for event in found:
        assert event["execution_id"] == made["id"]
        assert event["type"]
        assert datetime.fromisoformat(event["ts"]).year > 2000
        assert isinstance(event["payload"], dict)


def test_EXE_12(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "1")
    found = events(api, made)
    assert events(api, made, after_seq=found[-1]["seq"] - 1) == found[-1:]


def test_EXE_13(api: httpx2.Client, session: dict[str, Any]) -> None:
    assert _types(events(api, run_file(api, session, "calc.js")))[-1] == "value"


def test_VEX_01(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "console.log('repl'); 20 + 22")
    assert made["status"] == "ok"
    assert made["ended_at"]
    assert made["error"] is None
    assert made["result"]["preview"] == "42"
    assert _types(events(api, made)) == ["input_echo", "console", "value"]


def test_VEX_02(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(api, session, "throw new Error('broken')")
    assert made["status"] == "error"
    assert "broken" in made["error"]["message"]
    assert made["result"] is None
    assert _types(events(api, made)) == ["input_echo", "exception"]


def test_VEX_03(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = run_file(api, session, "contract.js", args={"a": 1}, env={"env": "test"})
    assert (made["kind"], made["status"], made["path"]) == ("run_file", "ok", "contract.js")
    assert made["result"]["preview"] == "42"
    assert _types(events(api, made)) == ["console", "value"]
    found = ok(api.get(f"/executions/{made['id']}"))
    assert (found["args"], found["env"]) == ({"a": 1}, {"env": "test"})


def test_VEX_04(api: httpx2.Client, session: dict[str, Any], worktree: Path) -> None:
    (worktree / "nothing.js").write_text("console.log('x'); undefined")
    made = run_file(api, session, "nothing.js")
    assert made["status"] == "ok"
    assert made["result"] == {"type": "undefined", "preview": "undefined", "json": None}
    assert _types(events(api, made))[1] == "value"


def test_fixed_types_are_those_of_the_language(api: httpx2.Client, session: dict[str, Any]) -> None:
    for source, kind in {"1": "number", "'a'": "string", "true": "boolean", "[1]": "Array", "({})": "Object"}.items():
        assert repl(api, session, source)["result"]["type"] == kind


def test_fixed_the_console_has_all_levels_and_spaces(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = repl(
        api, session, "console.log('a', 'b'); console.warn(1, 2); console.error('e'); console.info('i'); console.debug('d')"
    )
    said = [event["payload"] for event in events(api, made) if event["type"] == "console"]
    assert [(one["level"], one["text"]) for one in said] == [
        ("log", "a b"),
        ("warn", "1 2"),
        ("error", "e"),
        ("info", "i"),
        ("debug", "d"),
    ]


def test_fixed_an_endless_loop_is_stopped(api: httpx2.Client, template: dict[str, Any], create: Make) -> None:
    ok(api.patch(f"/templates/{template['id']}/settings", json={"limits": {"wall_ms": 200}}))
    session = create()
    made = repl(api, session, "for (;;) {}")
    assert made["status"] == "timeout"
    assert made["error"]["code"] == "LIMIT_EXCEEDED"
    assert repl(api, session, "1")["status"] == "ok"


def test_fixed_executions_of_a_session_that_is_not_there(api: httpx2.Client) -> None:
    refused(api.get("/executions", params={"session_id": str(uuid4())}), 404, "SESSION_NOT_FOUND")
    refused(api.get(f"/executions/{uuid4()}/events"), 404, "EXECUTION_NOT_FOUND")


def test_args_are_seen_by_the_file(api: httpx2.Client, session: dict[str, Any]) -> None:
    made = run_file(api, session, "contract.js", args={"a": "seen"})
    said = [event["payload"]["text"] for event in events(api, made) if event["type"] == "console"]
    assert said == ["seen"]
