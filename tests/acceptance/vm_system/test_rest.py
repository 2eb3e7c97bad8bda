"""What is left: lines of 5.8, 5.12 and 5.13, and that each line has a test."""

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from benchmarks.libraries import library
from holdfast import Holdfast
from holdfast.store import StoreFull
from holdfast.store.memory import MemoryStore
from tests.acceptance.scenes import scene
from tests.acceptance.vm_system.conftest import Make, in_worktree, ok, refused, repl, run_file
from tests.daemon import Daemon

LINES = {
    "TPL": 12,
    "SES": 10,
    "EXE": 13,
    "ERR": 14,
    "SAF": 5,
    "MOD": 7,
    "LIB": 4,
    "VEX": 7,
    "PTH": 4,
    "CAC": 4,
    "DMN": 4,
    "COR": 4,
    "IDS": 1,
    "JSN": 3,
    "CLI": 7,
}
"""How many lines the sections 5.1 to 5.12 have of each kind. The shell suites of 5.13 are SMK, E2E and MTX."""


def test_every_line_has_a_test() -> None:
    names = set()
    for file in Path(__file__).parents[2].rglob("test_*.py"):
        for name in re.findall(r"def (test_\w+)", file.read_text()):
            names |= set(re.findall(r"([A-Z]{3}_\d\d|SMK|E2E|MTX)(?=_|$)", name.upper()))
    wanted = {f"{kind}_{number:02}" for kind, count in LINES.items() for number in range(1, count + 1)}
    assert (wanted | {"SMK", "E2E", "MTX"}) - names == set()


class _Full(MemoryStore):
    """A store whose disk is full from a moment on."""

    full = False

    def commit(self, commits: Any) -> Any:
        if self.full:
            raise StoreFull
        return super().commit(commits)


@scene
async def test_VEX_05_VEX_06_VEX_07_fixed_an_execution_is_stored_whole_or_not_at_all() -> None:
    """There it may fail at the row, at an event or at the end, and leaves half of it. Here it is one commit."""
    store = _Full()
    async with Holdfast.open(store) as hf:
        await hf.templates.create("t")
        session = await hf.sessions.create("t")
        store.full = True
        with pytest.raises(StoreFull):
            await hf.executions.run(session.id, "console.log('x'); globalThis.kept = 1")
        assert (await hf.executions.list(session.id)).items == []
        store.full = False  # what the step came to is kept in memory until there is room, and then it is there as a whole
        turn = await hf.executions.run(session.id, "typeof kept")
        assert turn.execution.result is not None
        assert turn.execution.result["json"] == "number"
        _, first = (await hf.executions.list(session.id)).items
        assert first.status == "ok"
        assert [event.type for event in await hf.executions.events(first.id)] == [
            "input_echo",
            "console",
            "value",
            "checkpoint",
        ]


def test_IDS_01(api: httpx2.Client, create: Make) -> None:
    session = create()
    for form in (session["id"], session["id"].upper(), session["id"].replace("-", "")):
        assert ok(api.get(f"/sessions/{form}"))["id"] == session["id"]
    for bad in ("not-a-uuid", "%20", "%20%20%20"):
        refused(api.get(f"/sessions/{bad}"), 400, "VALIDATION_ERROR")


def test_JSN_01_JSN_02_JSN_03(api: httpx2.Client, create: Make) -> None:
    session = create()
    assert repl(api, session, "({a: [1, null]})")["result"]["json"] == {"a": [1, None]}
    for unwritable in ("() => 1", "NaN", "const c = {}; c.c = c; c"):
        result = repl(api, session, unwritable)["result"]
        assert "json" not in result
        assert result["preview"]
    assert repl(api, session, "undefined")["result"]["json"] is None


def test_E2E(api: httpx2.Client, template: dict[str, Any], worktree: Path) -> None:
    for index, name in ((10, "first"), (20, "second")):
        (worktree / f"{name}.js").write_text(f"globalThis.{name} = {index}")
        given = {"path": f"{name}.js", "order_index": index}
        ok(api.post(f"/templates/{template['id']}/startup-files", json=given), 201)
    (worktree / "app.js").write_text("first + second")
    session = ok(api.post("/sessions", json=in_worktree(template, worktree)), 201)
    assert repl(api, session, "first")["result"]["json"] == 10
    assert run_file(api, session, "app.js")["result"]["json"] == 30
    assert session["id"] in [found["id"] for found in ok(api.get("/sessions"))]
    kinds = [found["kind"] for found in ok(api.get("/executions", params={"session_id": session["id"]}))]
    assert kinds == ["run_file", "repl", "startup", "startup"]
    assert ok(api.get("/runtime/summary"))["active_sessions"] >= 1


def test_MTX(api: httpx2.Client, daemon: Daemon, worktree: Path) -> None:
    """With lodash as it is published."""
    folder = daemon.folder / "data" / "libraries"
    folder.mkdir(exist_ok=True)
    (folder / "lodash-4.18.1.js").write_text(library("lodash"))
    (worktree / "map.js").write_text("_.map([1, 2], n => n * 2)")
    template = ok(api.post("/templates", json={"name": f"matrix {uuid4()}"}), 201)
    plain = ok(api.post("/sessions", json=in_worktree(template, worktree)), 201)
    assert repl(api, plain, "JSON.stringify([1])")["status"] == "ok"
    assert run_file(api, plain, "map.js")["status"] == "error"
    ok(api.post(f"/templates/{template['id']}/libraries", json={"name": "lodash-4.18.1"}), 201)
    loaded = ok(api.post("/sessions", json=in_worktree(template, worktree)), 201)
    assert run_file(api, loaded, "map.js")["result"]["json"] == [2, 4]
    assert run_file(api, plain, "map.js")["status"] == "error"  # it keeps the version that it started from
