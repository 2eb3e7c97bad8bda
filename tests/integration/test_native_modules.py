"""Native modules: what each does, and above all what it refuses, in sessions that really run."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast import Capability, Holdfast, Settings, StartupFile
from holdfast.capabilities import Meter, NativeModule, NativeModules, Scope, effect, modules, waits
from holdfast.capabilities.native import Grant
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError
from tests.acceptance.scenes import evaluate, opened, refused, scene, until, value
from tests.modules import place

SHELL = {"programs": ["/bin/sh"], "timeout_ms": 10_000}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A worktree beside a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "tree"
    (folder / "lib").mkdir(parents=True)
    (folder / "note.txt").write_text("héllo")
    (folder / "lib" / "one.txt").write_text("one")
    return folder


# ---- what is granted


@scene
async def test_only_what_is_exposed_is_there(tree: Path) -> None:
    async with place(tree, fs=None) as at:
        here = await at.session()
        assert await at.run(here, "Object.keys(require('fs')).join()") == ",".join(modules()["fs"].exports())
        assert await at.run(here, "require('holdfast:fs') === require('fs')") is True
        for name in ("exec", "database", "holdfast:exec"):
            turn = await at.hf.executions.run(here, f"require('{name}')")
            assert turn.execution.error is not None
            assert turn.execution.error["message"].startswith(f"Invalid module: there is no module '{name}'")
            told = [event for event in await at.hf.executions.events(turn.execution.id) if event.type == "system"]
            assert [event.payload["code"] for event in told] == ["MODULE_NOT_GRANTED"]
        assert await at.fails(here, "hf.call('exec.run', '/bin/echo')") == "HOST_FUNCTION_NOT_FOUND"
        imported = "import fs, {existsSync} from 'holdfast:fs'; export default [fs.readFileSync('note.txt'), existsSync('no')]"
        assert value(await at.hf.executions.run_file(here, imported, "main.mjs")) == ["héllo", False]
        await at.hf.templates.remove_module("t", "fs")
        assert await at.fails(await at.session(), "require('fs')") == "MODULE_NOT_GRANTED"
        assert await at.run(here, "require('fs').existsSync('note.txt')") is True  # a session keeps its version


@scene
async def test_lua(tree: Path) -> None:
    async with place(tree, language="lua", fs={"write": True}, exec={"programs": ["/bin/echo"]}, database=None) as at:
        here = await at.session()
        assert (
            await at.run(here, "fs = require('fs') fs.writeFileSync('b', 'a\\255') return #fs.readFileSync('b', 'buffer')") == 2
        )
        assert await at.run(here, "return require('exec').run('/bin/echo', {'one', 'two'})") == "one two\n"
        assert await at.run(here, "return require('exec').run('/bin/echo', {})") == "\n"
        source = """
            local db = require('database')
            db.configure('sqlite3', ':memory:')
            db.exec('create table t (a, b)')
            local done = db.exec('insert into t values (?, ?)', {'x', 2})
            return {done.rowsAffected, db.query('select * from t where a = ?', 'x')[1].b}
        """
        assert await at.run(here, source) == [1, 2]
        assert await at.fails(here, "fs.readFileSync('../secret.txt')") == "INVALID_PATH"
        assert await at.fails(here, "require('exec').run('/bin/ls')") == "PROGRAM_NOT_ALLOWED"
        assert await at.run(here, "local ok, e = pcall(fs.readFileSync, 'no') return e.code") == "FILE_NOT_FOUND"


@pytest.mark.parametrize(
    ("module", "config", "field"),
    [
        ("fs", {"write": "yes"}, "config.write"),
        ("fs", {"root": "/"}, "config.root"),
        ("exec", {"programs": "/bin/echo"}, "config.programs"),
        ("exec", {"timeout_ms": 600_001}, "config.timeout_ms"),
        ("exec", {"timeout_ms": True}, "config.timeout_ms"),
        ("database", {"files": 1}, "config.files"),
    ],
)
@scene
async def test_a_bad_config_is_refused_when_it_is_given(module: str, config: dict[str, Any], field: str) -> None:
    async with place(None) as at:
        with refused("CAPABILITY_INVALID") as raised:
            await at.hf.templates.add_capability("t", "module", module, config=config)
        assert field in str(raised.error)


@scene
async def test_without_a_worktree_nothing_is_read_or_run() -> None:
    async with place(None, fs=None, exec=SHELL, database={"files": True}) as at:
        here = await at.session()
        assert await at.fails(here, "require('fs').readFileSync('note.txt')") == "WORKTREE_NOT_FOUND"
        assert await at.fails(here, "require('exec').run('/bin/sh')") == "WORKTREE_NOT_FOUND"
        assert await at.fails(here, "require('database').configure('sqlite3', 'a.db')") == "WORKTREE_NOT_FOUND"
        assert await at.run(here, "require('database').configure('sqlite3', ':memory:')") is None


class _Adder(NativeModule):
    name = "adder"
    description = "Adds."

    @effect(EffectKind.READ)
    def add(self, first: int, second: float = 1, *more: int | str) -> float:
        return first + second + len(more)

    def hidden(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ((1, 2), 3.0),
        ((1.0,), 2.0),
        ((1, None, "a", 3), 4.0),
        ((), "first is missing"),
        ((None,), "first is missing"),
        (("1",), "first must be a whole number"),
        ((True,), "first must be a whole number"),
        ((1.5,), "first must be a whole number"),
        ((1 << 60,), "first must be a whole number"),
        ((1, 2, None), "argument 2 must be a whole number or text"),
        ((1, 2, "\ud800"), "argument 2 must be a whole number or text"),
    ],
)
def test_arguments_are_checked_by_the_signature(given: tuple[Any, ...], result: Any) -> None:
    made = NativeModules([Grant(_Adder, {})], Scope(uuid4(), uuid4(), None), Meter())
    ((name, call, kind),) = made.functions()
    assert (name, kind) == ("adder.add", EffectKind.READ)
    if isinstance(result, float):
        assert call(*given) == result
        return
    with pytest.raises(HostError, match=f"adder.add: {result}") as raised:
        call(*given)
    assert raised.value.script_code == "INVALID_ARGUMENT"


# ---- sessions that sleep, end, and go on


@scene
async def test_modules_are_there_when_a_session_starts(tree: Path) -> None:
    async with place(tree, fs=None) as at:
        await at.hf.templates.update(
            "t", startup=[StartupFile("start.js", "globalThis.note = require('fs').readFileSync('note.txt')", "session")]
        )
        assert await at.run(await at.session(), "note") == "héllo"


# ---- modules that do not behave

NO_NEWS = {"exit": SystemExit(3), "stop": StopIteration(), "cancel": asyncio.CancelledError(), "base": BaseException("x")}
RUN = """
    const odd = require("odd"), r = [];
    for (const what of {}) {{ try {{ await odd.raises(what); r.push(0) }} catch (e) {{ r.push(e.code) }} }}
    r"""


@dataclass(frozen=True)
class _OddConfig:
    fragile: bool = False


class _Odd(NativeModule):
    """Raises what would end a loop, gives what nobody can take, ignores that it was told to stop, and fails when it is closed."""

    name = "odd"
    description = "Odd."
    config_type = _OddConfig
    open = threading.Event()
    later = threading.Event()
    begun: list[float] = []  # noqa: RUF012 - shared on purpose
    closed = 0

    @waits(once=False)
    def raises(self, what: str) -> Any:
        self.begun.append(0)
        if what != "deep":
            raise NO_NEWS[what]
        value: list[Any] = []
        for _ in range(300):
            value = [value]
        return value

    @waits(once=False)
    def deaf(self) -> str:
        self.begun.append(0)
        self.open.wait(30)
        return "done"

    @effect(EffectKind.READ)
    def slow(self) -> None:
        self.begun.append(0)
        self.later.wait(30)

    @effect(EffectKind.READ)
    def refuses(self) -> None:
        raise HostError("no", code="ODD_NOT_ALLOWED")

    @effect(EffectKind.READ)
    def fails(self) -> None:
        raise ValueError("odd")

    def close(self) -> None:
        type(self).closed += 1
        if self.config.fragile:
            raise ValueError("odd")


@contextlib.asynccontextmanager
async def odd(monkeypatch: pytest.MonkeyPatch, settings: Settings | None = None, **config: Any) -> AsyncIterator[Holdfast]:
    monkeypatch.setitem(modules(), "odd", _Odd)  # type: ignore[arg-type]
    for name, fresh in (("open", threading.Event()), ("later", threading.Event()), ("begun", []), ("closed", 0)):
        monkeypatch.setattr(_Odd, name, fresh)
    async with opened("memory:", settings=settings) as hf:
        await hf.templates.create("odd", capabilities=[Capability("module", "odd", True, config)])
        try:
            yield hf
        finally:
            _Odd.open.set()
            _Odd.later.set()


async def new(hf: Holdfast) -> UUID:
    return (await hf.sessions.create("odd")).id


@scene
async def test_whatever_a_function_raises_or_gives_the_script_goes_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch, Settings(lease_ms=300)) as hf, asyncio.timeout(20):
        cases = [*NO_NEWS, "deep"]
        assert await evaluate(hf, await new(hf), RUN.format(cases)) == ["HOST_FAILED"] * len(cases)
        assert len(_Odd.begun) == len(cases)


ALL_AT_ONCE = "const odd = require('odd'); (await Promise.all(Array.from({length: 20}, () => odd.deaf()))).length"


@scene
async def test_what_waits_for_a_thread_is_not_begun_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch) as hf:
        turns = [await hf.executions.run(await new(hf), ALL_AT_ONCE, background=True) for _ in range(5)]
        await until(lambda: len(_Odd.begun) == 64)
        for turn in turns:
            await hf.executions.cancel(turn.execution.id)
        _Odd.open.set()
        await until(lambda: not any(thread.name.startswith("holdfast-native") for thread in threading.enumerate()))
        assert len(_Odd.begun) == 64


@scene
async def test_one_session_does_not_take_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch) as hf:
        made = await new(hf)
        running = asyncio.create_task(hf.executions.run(made, ALL_AT_ONCE))
        await until(lambda: len(_Odd.begun) == 16)
        other = asyncio.create_task(hf.executions.run(await new(hf), "await require('odd').deaf()"))
        await until(lambda: len(_Odd.begun) == 17)
        _Odd.open.set()
        assert value(await running) == 20
        assert value(await other) == "done"
        assert len(_Odd.begun) == 21


@scene
async def test_a_session_is_there_when_its_startup_has_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch) as hf:
        _Odd.open.set()
        wait = StartupFile("a.js", "globalThis.said = await require('odd').deaf()")
        await hf.templates.update("odd", startup=[wait, StartupFile("b.js", "said += ' twice'")])
        made = await hf.sessions.create("odd")
        assert made.state == "ready"
        assert await evaluate(hf, made.id, "said") == "done twice"
        await hf.templates.update("odd", startup=[StartupFile("a.js", "await ask('Who?')")])
        assert (await hf.sessions.create("odd")).state == "paused"  # somebody else has to do something


@scene
async def test_whoever_waits_for_a_call_hears_of_the_end_of_what_comes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch) as hf:
        _Odd.open.set()
        running = asyncio.create_task(hf.executions.run(await new(hf), "const o = require('odd'); await o.deaf(); o.slow()"))
        await until(lambda: len(_Odd.begun) == 2)
        assert (await asyncio.wait([running], timeout=1.3))[0] == set()  # by then it is in the store that it runs
        _Odd.later.set()
        assert (await running).execution.status == "ok"


@scene
async def test_what_a_rewind_waits_for_again_is_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.runtime.HORIZON_MS", 60_000)  # nobody looks around meanwhile
    async with odd(monkeypatch, Settings(lease_ms=60_000)) as hf:
        _Odd.open.set()
        made = await new(hf)
        await evaluate(hf, made, "await require('odd').deaf()")
        await hf.sessions.rewind(made, 1)
        assert value(await hf.executions.wait((await hf.executions.list(made)).items[0].id, timeout=8)) == "done"


@scene
async def test_a_step_waits_for_so_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch, max_calls=3) as hf:
        _Odd.open.set()
        source = """
            const odd = require("odd"), r = [];
            for (let i = 0; i < 2; i++)
              for (const one of await Promise.allSettled(Array.from({length: 5}, () => odd.deaf())))
                r.push(one.value ?? one.reason.code);
            r.join()"""
        each = "done,done,done,CALLS_EXCEEDED,CALLS_EXCEEDED"
        assert await evaluate(hf, await new(hf), source) == f"{each},{each}"


@scene
async def test_a_module_that_cannot_be_closed_does_not_keep_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch, Settings(resident=1), fragile=True) as hf:
        _Odd.open.set()
        _Odd.later.set()
        first, second = await new(hf), await new(hf)
        for _ in range(2):
            for made in (first, second):
                assert await evaluate(hf, made, "require('odd').slow()") is None
        assert await evaluate(hf, first, "await require('odd').deaf()") == "done"
        assert await evaluate(hf, first, "require('odd').slow()") is None
        assert (await hf.sessions.close(first)).state == "closed"
        await hf.sessions.delete(second)
        assert _Odd.closed > 2


@scene
async def test_what_was_refused_before_a_fault_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with odd(monkeypatch) as hf:
        source = "const odd = require('odd'); try { odd.refuses() } catch {} odd.fails()"
        turn = await hf.executions.run(await new(hf), source)
        told = [event.payload["code"] for event in await hf.executions.events(turn.execution.id) if event.type == "system"]
        assert told == ["ODD_NOT_ALLOWED", "HOST_FAILED"]


_LEAVES = """
import asyncio
from tests.integration.test_native_modules import _Odd, modules, new, Capability, opened, until

async def main():
    modules()["odd"] = _Odd
    async with opened("memory:") as hf:
        await hf.templates.create("odd", capabilities=[Capability("module", "odd", True, {})])
        await hf.executions.run(await new(hf), "await require('odd').deaf()", background=True)
        await until(lambda: _Odd.begun)

asyncio.run(main())
"""


def test_a_function_that_does_not_stop_does_not_keep_the_process() -> None:
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", _LEAVES], cwd=root, timeout=25, check=True)
