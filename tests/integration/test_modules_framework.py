"""Native modules of other packages: found by entry point, checked, journaled, limited and counted like ours."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "own_module"

_PROGRAM = """
import asyncio, json, pathlib, sys
from holdfast import Capability, Holdfast
from holdfast.domain import HoldfastError

folder = sys.argv[1]
SCRIPTS = {
    "javascript": '''
        const t = require("tickets"), r = [Object.keys(t).join(), t.open("one"), t.open("two", true)];
        r.push(t.find("tw"));
        const attempt = f => { try { r.push(f()) } catch (e) { r.push(e.code) } };
        attempt(() => t.open(7));
        attempt(() => t.open("three"));
        for (let i = 0; i < 5; i++) attempt(() => t.find("nothing"));
        try { await t.closed("1") } catch (e) { r.push(e.code) }
        try { await t.closed(1) } catch (e) { r.push(e.code) }
        r.push(await t.closed(2));
        r''',
    "lua": '''
        local t, r = require("tickets"), {}
        local ok, e = pcall(t.open, "three")
        table.insert(r, e.code)
        table.insert(r, t.closed(2))
        return r''',
}

async def close_the_second():
    file = pathlib.Path(folder, "2.json")
    while not file.exists() or not file.read_text():
        await asyncio.sleep(0.01)
    other = file.parent.with_name("closed.json")
    other.write_text(json.dumps({"title": "two", "urgent": True, "answer": "put out"}))
    other.rename(file)

async def main():
    out = {}
    closing = asyncio.create_task(close_the_second())
    async with Holdfast.open("memory:") as hf:
        config = {"folder": folder, "most_open": 2, "timeout_ms": 500, "max_calls": 7}
        for language, script in SCRIPTS.items():
            grant = Capability("module", "tickets", True, config)
            await hf.templates.create(language, language=language, capabilities=[grant])
            session = await hf.sessions.create(language)
            turn = await hf.executions.run(session.id, script)
            out[language] = turn.execution.result and turn.execution.result["json"], turn.execution.error
            events = await hf.executions.events(turn.execution.id)
            out[language + " refused"] = [e.payload["call"] for e in events if e.type == "system" and e.payload.get("call")]
        for bad in ({"folder": "relative"}, {"most_open": "x"}, {"nope": 1}, {"timeout_ms": 0}, {"max_calls": True}):
            try:
                await hf.templates.create("bad", capabilities=[Capability("module", "tickets", True, bad)])
            except HoldfastError as error:
                out.setdefault("bad", []).append(error.details.get("field"))
        out["called"] = sorted({(c.function, c.outcome, c.calls) for c in hf.module_calls})
        from holdfast.capabilities import modules
        out["modules"] = list(modules())
    print(json.dumps(out))

asyncio.run(main())
"""


def _installed(site: Path, name: str, points: dict[str, str]) -> None:
    """A distribution as an installer leaves it."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (about / "entry_points.txt").write_text(f"[holdfast.capabilities]\n{lines}")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What a process finds in which the example is installed, and a package whose modules are no good."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("tickets")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    _installed(site, "holdfast_tickets", project["entry-points"]["holdfast.capabilities"])
    (site / "holdfast_tickets.py").write_text((EXAMPLE / "holdfast_tickets.py").read_text())
    (site / "bad.py").write_text(
        "from holdfast.capabilities import NativeModule\n"
        "class Taken(NativeModule):\n    name = 'fs'\n    description = ''\n"
        "class Odd(NativeModule):\n    name = 'No Name'\n    description = ''\n"
    )
    bad = {"gone": "no_such_file:X", "taken": "bad:Taken", "odd": "bad:Odd", "number": "os:O_RDONLY"}
    _installed(site, "bad", bad)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", _PROGRAM, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for name in bad:
        assert f"the capability {name} cannot be used" in done.stderr
    return json.loads(done.stdout)


def test_it_is_there_and_does_what_it_says(out: dict) -> None:
    assert "tickets" in out["modules"]
    result, error = out["javascript"]
    assert error is None
    names, first, second, found, *rest = result
    assert (names, first, second) == ("open,find,closed", 1, 2)
    assert [(ticket["title"], ticket["urgent"]) for ticket in found] == [("two", True)]
    assert rest[0] == "INVALID_ARGUMENT"
    assert rest[1] == "TICKETS_NOT_ALLOWED"
    assert rest[2:7] == [[], [], "CALLS_EXCEEDED", "CALLS_EXCEEDED", "CALLS_EXCEEDED"]
    assert rest[7:] == ["INVALID_ARGUMENT", "TICKET_OPEN", "put out"]
    assert out["lua"] == [["TICKETS_NOT_ALLOWED", "put out"], None]


def test_what_is_no_module_is_left_out(out: dict) -> None:
    assert "No Name" not in out["modules"]
    assert out["modules"].count("fs") == 1


def test_what_was_refused_is_told(out: dict) -> None:
    assert out["javascript refused"] == out["lua refused"] == ["tickets.open"]


def test_bad_configs_are_refused_by_field(out: dict) -> None:
    fields = ["folder", "most_open", "nope", "timeout_ms", "max_calls"]
    assert out["bad"] == [f"capabilities[0].config.{field}" for field in fields]


def test_calls_are_counted(out: dict) -> None:
    counted = {(function, outcome): calls for function, outcome, calls in out["called"]}
    assert counted["open", "ok"] == 2
    assert counted["open", "refused"] == 2
    assert counted["open", "error"] == 1
    assert counted["find", "ok"] == 3
    assert counted["find", "error"] == 3
    assert counted["closed", "ok"] == 2
    assert counted["closed", "error"] == 2
