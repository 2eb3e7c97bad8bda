"""Effects inside a step: done once, replayed after a crash, and said to be uncertain where nobody knows."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import EffectKind, Function, Holdfast, HostError, Settings, Tool
from holdfast.runtime import journal
from holdfast.store import Commit, open_store
from tests.acceptance.scenes import (
    both,
    durable_stores,
    elsewhere,
    evaluate,
    grants,
    opened,
    refused,
    scene,
    session,
    template,
    value,
)

LEASE = Settings(lease_ms=300, begin_after_ms=20)
CALL = {"javascript": "hf.call({})", "lua": "alc.call({})"}

# Another process, which dies where it is told to. What it does outside is one line in a file each time.
DIES = """
def note(word):
    with open(given['world'], 'a') as world:
        world.write(word + '\\n')

def effect(name, dies):
    def call(*args):
        note(name)
        if dies:
            os._exit(9)
        return [name, *args]
    return call

functions = [Function('w.' + name, effect(name, name == given['dies']), EffectKind(kind)) for name, kind in given['functions']]
async def slow(args):
    note('tool')
    if given['dies'] == 'tool':
        os._exit(9)
    return 'from the tool'
tools = [Tool('slow', slow, once=given.get('once', True))]
settings = Settings(lease_ms=300, begin_after_ms=given.get('begin_after_ms', 20))
async with opened(address, functions=functions, tools=tools, settings=settings) as hf:
    name = await template(hf, given['language'], 't', capabilities=grants(functions, tools), limits=Limits(**given.get('limits', {})))
    made = await hf.sessions.create(name)
    await hf.executions.run(made.id, 'kept = 1')
    await hf.executions.run(made.id, given['source'])
"""
FUNCTIONS = [("read", "read"), ("same", "idempotent"), ("once", "once"), ("pay", "once")]


class World:
    """What effects did, in this process and in the one that died."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "world"
        self.here: list[str] = []

    def done(self) -> list[str]:
        return (self.path.read_text().split() if self.path.exists() else []) + self.here

    def functions(self) -> list[Function]:
        def effect(name: str) -> Any:
            def call(*args: Any) -> list[Any]:
                self.here.append(name)
                return [name + " again", *args]

            return call

        return [Function("w." + name, effect(name), EffectKind(kind)) for name, kind in FUNCTIONS]

    def tools(self, once: bool = True) -> list[Tool]:
        async def slow(args: Any) -> str:
            self.here.append("tool")
            return "from the second tool"

        return [Tool("slow", slow, once=once)]

    async def die(self, address: str, language: str, source: str, dies: str, **more: Any) -> None:
        given = {"world": str(self.path), "functions": FUNCTIONS, "dies": dies, "language": language, "source": source} | more
        await asyncio.to_thread(elsewhere, address, DIES, given, dies=True)


def calls(language: str, *names: str) -> str:
    """Calls one after the other; what each gave, or the code of what it raised."""
    if language == "javascript":
        tries = "".join(
            f"try {{ r.push(hf.call('w.{name}', {n})) }} catch (e) {{ r.push(e.code) }}; " for n, name in enumerate(names)
        )
        return f"var r = []; {tries} r"
    tries = "".join(
        f"do local ok, e = pcall(alc.call, 'w.{name}', {n}) table.insert(r, ok and e or e.code) end "
        for n, name in enumerate(names)
    )
    return f"local r = {{}} {tries} return r"


async def _last(hf: Any) -> Any:
    return (await hf.executions.list(limit=1)).items[0]


@durable_stores
@scene
async def test_a_crash_in_an_effect_that_must_not_happen_twice(address: str, language: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.die(address, language, calls(language, "read", "once", "same", "pay", "read", "once"), "pay")
    assert world.done() == ["read", "once", "same", "pay"]
    async with opened(address, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        execution = await _last(hf)
        turn = await hf.executions.wait(execution.id, timeout=20)
        assert value(turn) == [
            ["read", 0],
            ["once", 1],
            ["same", 2],
            "EFFECT_UNCERTAIN",
            ["read again", 4],
            ["once again", 5],
        ]
        assert world.here == ["read", "once"]
        assert (await hf.summary())["recovered"] == 1
        assert turn.session.state == "ready"
        assert turn.execution.metrics.steps == 1
        events = await hf.executions.events(execution.id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("language", ["lua"])
@scene
async def test_an_uncertain_effect_that_nobody_catches(sqlite: str, language: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.die(sqlite, language, CALL[language].format("'w.pay', 1"), "pay")
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        assert turn.execution.status == "error"
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "EFFECT_UNCERTAIN"
        assert world.here == []
        assert await evaluate(hf, turn.session.id, {"javascript": "kept", "lua": "return kept"}[language]) == 1


@pytest.mark.parametrize("language", ["javascript"])
@scene
async def test_a_crash_in_an_effect_that_may_happen_twice(sqlite: str, language: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.die(sqlite, language, calls(language, "once", "same"), "same", begin_after_ms=60_000)
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        # The result of the first was durable before the second began, which may follow from it.
        assert value(turn) == [["once", 0], ["same again", 1]]
        assert world.done() == ["once", "same", "same"]


@pytest.mark.parametrize("language", ["lua"])
@scene
async def test_a_quick_step_without_lasting_effects_was_never_asked_for(sqlite: str, language: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.die(sqlite, language, calls(language, "same", "read"), "read", begin_after_ms=60_000)
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        assert (await hf.sessions.list()).items[0].state == "ready"
        assert len((await hf.executions.list()).items) == 1
        assert (await hf.summary())["recovered"] == 0


@pytest.mark.parametrize("language", ["javascript", "lua"])
@scene
async def test_an_intent_is_durable_before_the_effect(sqlite: str, language: str) -> None:
    seen: list[Any] = []

    def look(kind: str) -> Any:
        def call(n: int) -> int | None:
            store = open_store(sqlite)
            try:
                loaded = store.load(here)
                seen.append(
                    (kind, loaded.session.state, None if loaded.begun is None else [e[0::2] for e in loaded.begun.effects])
                )
            finally:
                store.close()
            return None if kind == "idempotent" else n

        return call

    functions = [Function(f"w.{kind.value}", look(kind.value), kind) for kind in EffectKind]
    async with opened(sqlite, functions=functions, settings=Settings(begin_after_ms=60_000)) as hf:
        here = await session(hf, language, capabilities=grants(functions))
        source = ";".join(
            CALL[language].format(f"'w.{kind}', {n}")
            for n, kind in enumerate(("idempotent", "idempotent", "read", "once", "read", "idempotent"))
        )
        assert (await hf.executions.run(here, source)).execution.status == "ok"
        assert [(kind, state) for kind, state, _ in seen] == [
            ("idempotent", "ready"),
            ("idempotent", "ready"),  # the one before it told nothing
            ("read", "ready"),
            ("once", "running"),
            ("read", "running"),
            ("idempotent", "running"),
        ]
        assert all(begun is None for _, _, begun in seen[:3])
        before, mine = seen[3][2][:3], seen[3][2][3]
        assert [name for name, _ in before] == ["w.idempotent", "w.idempotent", "w.read"]
        assert all(reply is not None for _, reply in before)
        assert mine == ("w.once", None)  # an intent, and no result
        assert [name for name, _ in seen[5][2]][3:] == ["w.once", "w.read", "w.idempotent"]  # what was read before it as well
        store = open_store(sqlite)
        assert store.load(here).begun is None  # the journal is cut with the commit
        store.close()


class Watched:
    """A store that notes what is written of a journal: where it begins, and how many effects."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.written: list[tuple[int, int]] = []

    def close(self) -> None:
        pass

    def commit(self, commits: list[Commit]) -> Any:
        self.written += [(commit.begun.since, len(commit.begun.effects)) for commit in commits if commit.begun is not None]
        return self._store.commit(commits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@scene
async def test_an_effect_is_written_with_its_intent_and_with_its_reply_and_not_again() -> None:
    found: list[Any] = []

    def once(n: int) -> int:
        begun = watched.load(here).begun
        found.append([(effect.name, effect.reply) for effect in begun.effects])
        return n

    functions = [Function("w.once", once), Function("w.read", lambda n: n, EffectKind.READ)]
    async with opened("memory:") as hf:
        watched = Watched(hf._address)
        async with Holdfast.open(watched, functions=functions, settings=Settings(begin_after_ms=60_000)) as other:
            here = await session(other, capabilities=grants(functions))
            source = "for (let n = 0; n < 20; n++) { hf.call('w.read', n); hf.call('w.once', n) }"
            assert (await other.executions.run(here, source)).execution.status == "ok"
            # An intent, with the read before it; then its reply, the next read and the next intent.
            assert watched.written == [(0, 2), *((2 * n - 1, 3) for n in range(1, 20))]
            whole = [(f"w.{kind}", f"v{n}") for n in range(20) for kind in ("read", "once")]
            assert found == [[*whole[: 2 * n + 1], ("w.once", None)] for n in range(20)]


def _tamper(address: str, change: Callable[[list[Any]], None]) -> None:
    """Changes the journal of the one step that is under way: itself, and after it its effects."""
    with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
        places, texts = zip(*connection.execute("SELECT place, data FROM journal ORDER BY place"), strict=True)
        assert [place - places[0] for place in places] == list(range(len(places)))
        journal = [json.loads(text) for text in texts]
        change(journal)
        rows = [(places[0] + number, json.dumps(row)) for number, row in enumerate(journal)]
        connection.executemany("INSERT OR REPLACE INTO journal (place, data) VALUES (?, ?)", rows)
    connection.close()


def _edit(what: str) -> Callable[[list[Any]], None]:
    """A change of a journaled effect: its name, or the hash of its arguments."""

    def change(journal: list[Any]) -> None:
        if what == "more":  # than the script calls
            journal.append(["w.read", "0" * 32, "v1", journal[0][2]])
            return
        once = next(effect for effect in journal[1:] if effect[0] == "w.once")
        once[0 if what == "name" else 1] = "w.other" if what == "name" else "0" * 32

    return change


@pytest.mark.parametrize(("language", "what"), [("javascript", "name"), ("lua", "arguments"), ("lua", "more")])
@scene
async def test_a_replay_that_does_something_else_is_given_up(sqlite: str, language: str, tmp_path: Path, what: str) -> None:
    world = World(tmp_path)
    await world.die(sqlite, language, calls(language, "once", "pay"), "pay")
    _tamper(sqlite, _edit(what))
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        assert turn.execution.status == "error"
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "REPLAY_DIVERGED"
        assert world.here == []
        entries = (await hf.sessions.errors(turn.session.id)).items
        assert [entry.kind for entry in entries] == ["REPLAY_DIVERGED"]
        assert await evaluate(hf, turn.session.id, {"javascript": "kept", "lua": "return kept"}[language]) == 1


@pytest.mark.parametrize("language", ["lua"])
@scene
async def test_a_slow_step_goes_on_after_a_crash_free_of_limits_where_it_has_been(
    sqlite: str, language: str, tmp_path: Path
) -> None:
    work = {
        "javascript": "let x = 0; for (let i = 0; i < %d; i++) x += i; ",
        "lua": "local x = 0 for i = 1, %d do x = x + i end ",
    }[language]
    world = World(tmp_path)
    # The part before the crash takes longer than the limit of wall time that the second process has for the rest.
    body = {
        "javascript": work % 12_000_000
        + "var first = hf.call('w.once', 1); var second; try { second = hf.call('w.pay', 2) } catch (e) { second = e.code } [first, second]",
        "lua": work % 30_000_000
        + "local first = alc.call('w.once', 1) local ok, e = pcall(alc.call, 'w.pay', 2) return {first, ok or e.code}",
    }[language]
    await world.die(sqlite, language, body, "pay", limits={"wall_ms": 20_000, "cpu_ms": 0})
    with sqlite3.connect(sqlite.removeprefix("sqlite:///")) as connection:  # a version with less time
        rows = connection.execute("SELECT rowid, spec FROM template_versions").fetchall()
        for rowid, spec in rows:
            assert '"wall_ms":20000' in spec.replace(" ", "")
            connection.execute("UPDATE template_versions SET spec = ? WHERE rowid = ?", (spec.replace("20000", "50"), rowid))
    connection.close()
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=30)
        assert value(turn) == [["once", 1], "EFFECT_UNCERTAIN"]
        assert turn.execution.metrics.cpu_us > 50_000


@both
def test_what_a_step_is_told_by_its_calls_has_a_bound(address: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it is kept until the step is over: it must not be the host's memory that ends first."""
    monkeypatch.setattr(journal, "_MOST_BYTES", 10_000)
    _told_much(address, language)


@scene
async def _told_much(address: str, language: str) -> None:
    functions = [Function("page", lambda: "x" * 1000, EffectKind.READ)]
    calls = {
        "javascript": "let n = 0; try { for (;;) { hf.call('page'); n++ } } catch (error) { [n, error.code] }",
        "lua": "local n = 0 local ok, why = pcall(function() while true do alc.call('page') n = n + 1 end end) return {n, why.code}",
    }
    async with opened(address, functions=functions) as hf:
        here = await session(hf, language, capabilities=grants(functions))
        for _ in range(2):  # each step has as much
            assert await evaluate(hf, here, calls[language]) == [10, "CALLS_EXCEEDED"]


@both
def test_a_step_makes_only_so_many_calls(address: str, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MOST_CALLS", 10)
    _told_much(address, language)


@durable_stores
@scene
async def test_a_step_that_was_only_slow_goes_on(address: str, language: str) -> None:
    source = {
        "javascript": "console.log('again'); let x = 0; for (let i = 0; i < 3e6; i++) x += i; const a = await ask('?'); [x, a]",
        "lua": "print('again') local x = 0 for i = 1, 3000000 do x = x + i end local a = alc.ask('?') return {x, a}",
    }[language]
    await asyncio.to_thread(
        elsewhere,
        address,
        """
        import threading
        async with opened(address, settings=Settings(lease_ms=300, begin_after_ms=1)) as hf:
            name = await template(hf, given['language'])
            made = await hf.sessions.create(name)
            turn = await hf.executions.run(made.id, given['source'], background=True)
            os._exit(9)
        """,
        {"language": language, "source": source},
        dies=True,
    )
    async with opened(address, settings=LEASE) as hf:
        execution = await _last(hf)
        turn = await hf.executions.wait(execution.id, timeout=20)
        assert [query.payload for query in turn.queries] == [{"question": "?"}]
        assert (await hf.summary())["recovered"] == 1
        turn = await hf.queries.answer(turn.session.id, "yes")
        assert value(turn)[1] == "yes"
        events = await hf.executions.events(execution.id)
        assert [event.type for event in events] == [
            *("input_echo", "console", "query", "checkpoint"),
            *("answer", "value", "checkpoint"),
        ]
        assert turn.execution.metrics.queries == 1


@pytest.mark.parametrize("language", ["javascript", "lua"])
@scene
async def test_what_was_read_before_an_effect_is_what_it_is_done_again_with(sqlite: str, language: str, tmp_path: Path) -> None:
    """An effect that may be done again is the same then: it does not follow from what it has changed itself."""
    world = World(tmp_path)
    source = {
        "javascript": "const n = hf.call('w.read', 1); hf.call('w.same', n)",
        "lua": "local n = alc.call('w.read', 1) return alc.call('w.same', n)",
    }[language]
    await world.die(sqlite, language, source, "same")
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        assert value(turn) == ["same again", ["read", 1]]
        assert world.here == ["same"]


@pytest.mark.parametrize("language", ["javascript"])
@scene
async def test_a_step_that_always_brings_its_process_down_is_given_up(sqlite: str, language: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.die(sqlite, language, calls(language, "once", "same"), "same", begin_after_ms=60_000)
    await asyncio.to_thread(
        elsewhere,
        sqlite,
        """
        functions = [Function('w.once', lambda n: n), Function('w.same', lambda n: os._exit(9), EffectKind.IDEMPOTENT)]
        async with opened(address, functions=functions, settings=Settings(lease_ms=300)) as hf:
            await asyncio.sleep(20)
        """,
        dies=True,
    )

    def often(journal: list[Any]) -> None:
        assert journal[0][-1] == 2  # each attempt is counted before it is made
        journal[0][-1] = 1000

    _tamper(sqlite, often)
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        assert turn.execution.status == "error"
        assert turn.execution.error is not None
        assert turn.execution.error["code"] == "RECOVERY_FAILED"
        assert await evaluate(hf, turn.session.id, {"javascript": "kept", "lua": "return kept"}[language]) == 1
        assert world.here == []


@pytest.mark.parametrize("language", ["javascript", "lua"])
@scene
async def test_a_crash_after_a_pause_keeps_the_answer(sqlite: str, language: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    source = {
        "javascript": "const a = await ask('?'); let r; try { r = hf.call('w.pay', a) } catch (e) { r = e.code } [a, r]",
        "lua": "local a = alc.ask('?') local ok, e = pcall(alc.call, 'w.pay', a) return {a, ok or e.code}",
    }[language]
    body = DIES.replace("given['source'])", "given['source'])\n    await hf.queries.answer(made.id, 'mine')")
    given = {"world": str(world.path), "functions": FUNCTIONS, "dies": "pay", "language": language, "source": source}
    await asyncio.to_thread(elsewhere, sqlite, body, given, dies=True)
    async with opened(sqlite, functions=world.functions(), tools=world.tools(), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        assert value(turn) == ["mine", "EFFECT_UNCERTAIN"]
        assert value(await hf.queries.answer(turn.session.id, "mine", query="q-1")) == value(turn)
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(turn.session.id, "other", query="q-1")
        assert (turn.execution.metrics.rounds, turn.execution.metrics.steps) == (1, 2)


# ---- tools -------------------------------------------------------------------------------------------------------------------------

USE = {
    "javascript": "let r; try { r = await hf.tool('slow', {n: 1}) } catch (e) { r = [e.message, e.code] } r",
    "lua": "local ok, e = pcall(alc.tool, 'slow', {n = 1}) if ok then return e end return {e.message, e.code}",
}


@pytest.mark.parametrize("once", [True, False])
@durable_stores
@scene
async def test_a_crash_while_a_tool_runs(address: str, language: str, tmp_path: Path, once: bool) -> None:
    world = World(tmp_path)
    await world.die(address, language, USE[language], "tool", once=once)
    async with opened(address, functions=world.functions(), tools=world.tools(once), settings=LEASE) as hf:
        turn = await hf.executions.wait((await _last(hf)).id, timeout=20)
        if once:
            assert value(turn)[1] == "EFFECT_UNCERTAIN"
            assert world.done() == ["tool"]
        else:
            assert value(turn) == "from the second tool"
            assert world.done() == ["tool", "tool"]


@both
@scene
async def test_tools_are_run_and_the_script_goes_on(address: str, language: str) -> None:
    meeting = asyncio.Barrier(2)
    given: list[Any] = []

    async def meet(args: Any) -> Any:
        given.append(args)
        await meeting.wait()  # both run at once, or neither ends
        return {"got": args}

    tools = [Tool("meet", meet)]
    source = {
        "javascript": "await Promise.all([hf.tool('meet', [1]), hf.tool('meet', {two: 2})])",
        "lua": "return alc.tool('meet', {1})",
    }[language]
    async with opened(address, tools=tools) as hf:
        here = await session(hf, language, capabilities=grants(tools=tools))
        if language == "lua":
            other = (await hf.sessions.create((await hf.sessions.get(here)).template_id)).id
            turns = await asyncio.gather(*(hf.executions.run(each, source) for each in (here, other)))
            assert [value(turn) for turn in turns] == [{"got": [1]}] * 2
        else:
            assert value(await hf.executions.run(here, source)) == [{"got": [1]}, {"got": {"two": 2}}]
            assert given == [[1], {"two": 2}]
        assert {query.state for query in (await hf.queries.list(here, states=[])).items} == {"answered"}


@both
@scene
async def test_tools_that_fail(address: str, language: str, caplog: pytest.LogCaptureFixture) -> None:
    doing: dict[str, Any] = {}

    async def slow(args: Any) -> Any:
        return doing["it"]()

    def fails(error: Exception) -> Any:
        def it() -> None:
            raise error

        return it

    tools = [Tool("slow", slow)]
    async with opened(address, tools=tools) as hf:
        here = await session(hf, language, capabilities=grants(tools=tools))
        for it, said in (
            (fails(RuntimeError("a secret")), ["tool slow failed", "HOST_FAILED"]),
            (fails(HostError("sold out", code="SOLD_OUT")), ["sold out", "SOLD_OUT"]),
            (lambda: float("nan"), ["tool slow failed", "HOST_FAILED"]),
            (lambda: {1, 2}, ["tool slow failed", "HOST_FAILED"]),
            (lambda: "x" * (17 << 20), ["tool slow failed", "HOST_FAILED"]),
            (lambda: ("a", 1), ["a", 1]),
        ):
            doing["it"] = it
            assert value(await hf.executions.run(here, USE[language])) == said
        events = await hf.executions.events((await _last(hf)).id)
        assert "secret" not in str(events)


@both
@scene
async def test_tools_that_nobody_has_are_answered_by_hand(address: str, language: str) -> None:
    ran: list[Any] = []

    async def slow(args: Any) -> None:
        ran.append(args)

    async with opened(address, tools=[Tool("slow", slow)]) as hf:
        here = await session(hf, language)  # not granted
        turn = await hf.executions.run(here, USE[language])
        assert [(q.kind, q.payload) for q in turn.queries] == [("tool", {"name": "slow", "args": {"n": 1}})]
        assert value(await hf.queries.answer(here, "by hand")) == "by hand"
        assert ran == []


@both
@scene
async def test_a_tool_that_is_too_late(address: str, language: str) -> None:
    gate = asyncio.Event()

    async def slow(args: Any) -> str:
        await gate.wait()
        return "late"

    tools = [Tool("slow", slow)]
    source = {
        "javascript": "let r; try { r = await hf.query('tool', {name: 'slow', timeout_ms: 50}) } catch (e) { r = e.code } const a = await ask('next'); [r, a]",
        "lua": "local ok, e = pcall(alc.query, 'tool', {name = 'slow', timeout_ms = 50}) local a = alc.ask('next') return {ok or e.code, a}",
    }[language]
    async with opened(address, tools=tools) as hf:
        here = await session(hf, language, capabilities=grants(tools=tools))
        turn = await hf.executions.run(here, source)
        assert [query.payload.get("question") for query in turn.queries] == ["next"]
        gate.set()
        await asyncio.sleep(0.02)
        assert value(await hf.queries.answer(here, "a")) == ["QUERY_EXPIRED", "a"]


@both
@scene
async def test_cancelling_what_waits_for_a_tool(address: str, language: str) -> None:
    gate, started = asyncio.Event(), asyncio.Event()

    async def slow(args: Any) -> str:
        started.set()
        await gate.wait()
        return "late"

    tools = [Tool("slow", slow)]
    async with opened(address, tools=tools) as hf:
        here = await session(hf, language, capabilities=grants(tools=tools))
        call = asyncio.ensure_future(hf.executions.run(here, USE[language]))
        await started.wait()
        execution = await _last(hf)
        assert (await hf.executions.cancel(execution.id)).status == "cancelled"
        assert (await call).execution.status == "cancelled"
        gate.set()
        assert await evaluate(hf, here, {"javascript": "2", "lua": "return 2"}[language]) == 2


@scene
async def test_a_store_can_be_looked_at_from_inside(sqlite: str) -> None:
    """A function runs while its session does: it may use everything else."""
    loop = asyncio.get_running_loop()

    def ask_other() -> Any:
        return (
            asyncio.run_coroutine_threadsafe(hf.executions.run(other, "return 41 + 1"), loop)
            .result(20)
            .execution.result["json"]
        )

    functions = [Function("w.other", ask_other)]
    async with opened(sqlite, functions=functions) as hf:
        await template(hf, "lua", "t", capabilities=grants(functions))
        here, other = [(await hf.sessions.create("t")).id for _ in range(2)]
        assert await evaluate(hf, here, "return alc.call('w.other')") == 42
