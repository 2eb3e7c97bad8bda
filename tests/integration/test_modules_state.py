"""The module `state`: what a step does to it is done with the step, once, or not at all."""

import asyncio
import itertools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import Capability, EffectKind, Function, Holdfast, HoldfastError, Limits, Settings
from holdfast.capabilities import Overlay
from holdfast.capabilities.state import overlay as overlays
from holdfast.domain import shared_root
from holdfast.runtime import dispatch, jobs
from holdfast.store import Commit, StateWrite, Store, open_store
from tests.acceptance.scenes import Clock, elsewhere, evaluate, grants, opened, scene, value
from tests.postgres import fresh_schema

JS, LUA = "javascript", "lua"
names = itertools.count()


def state(**config: Any) -> Capability:
    return Capability("module", "state", True, config)


async def session(hf: Holdfast, language: str = JS, *more: Capability, limits: Limits | None = None, **config: Any) -> UUID:
    """One of a template of its own, with the module at hand."""
    made = await hf.templates.create(f"t{next(names)}", language=language, capabilities=[state(**config), *more], limits=limits)
    return await another(hf, made.id)


async def another(hf: Holdfast, template_id: UUID) -> UUID:
    found = await hf.sessions.create(template_id)
    await hf.executions.run(found.id, "state = require('state')")
    return found.id


async def end(hf: Holdfast, session_id: UUID, source: str) -> Any:
    """What comes of a script: its value, or the code and the message of its error."""
    turn = await hf.executions.run(session_id, source)
    while turn.execution.status == "paused":
        turn = await hf.executions.wait(turn.execution.id)
    error = turn.execution.error
    return value(turn) if error is None else (error.get("code"), error["message"])


# ---- what scripts see --------------------------------------------------------------------------------------------------------------

SAME: list[tuple[str, Any]] = [
    ("state.get('a')", None),
    ("state.get('a', 'default')", "default"),
    ("state.set('a', 'text')", None),
    ("state.get('a', 'default')", "text"),
    ("state.has('a')", True),
    ("state.has('b')", False),
    ("state.set_nx('a', 1)", False),
    ("state.set_nx('b', 1)", True),
    ("state.get('a') .. state.get('b')", "text1"),
    ("state.incr('n')", 1),
    ("state.incr('n', 5)", 6),
    ("state.incr('n', 10, 1000)", 16),
    ("state.incr('m', 10, 100)", 110),
    ("state.incr('f', 0.5)", 0.5),
    ("state.incr('a')", ("STATE_NOT_A_NUMBER", "incr: value at 'a' is not a number")),
    ("state.incr('m', 1e300 * 1e300)", ("STATE_NOT_A_NUMBER", "incr: value at 'm' would be too large")),
    ("state.keys()", ["a", "b", "f", "m", "n"]),
    ("state.keys('n')", ["n"]),
    ("state.delete('b')", True),
    ("state.delete('b')", False),
    ("state.compare_and_set('a', 'other', 2)", False),
    ("state.compare_and_set('a', 'text', 2)", True),
    ("state.compare_and_set('new', null, 1)", True),
    ("state.compare_and_set('new', null, 2)", False),
    ("state.compare_and_set('n', 16.0, 17)", True),
    ("state.set('', 1)", ("INVALID_ARGUMENT", "state: a key has 1 to 512 bytes, and no control characters")),
    (
        "state.set('a', 1, {ttlMs= 0})",
        ("INVALID_ARGUMENT", "state: ttlMs must be a positive number of milliseconds, at most 100 years"),
    ),
    (
        "state.set('a', 1, {other= 1})",
        ("INVALID_ARGUMENT", "state.set: options.other is not known here; there is ttlMs, ttl_ms"),
    ),
    ("state.set(7, 1)", ("INVALID_ARGUMENT", "state.set: key must be text")),
    (
        "state.set('a', 1 / 0)",
        ("INVALID_ARGUMENT", "state: a value is null, true, false, a finite number, text, or a list or object of such"),
    ),
    ("state.namespace('x')", ("NAMESPACE_NOT_ALLOWED", "state: the template does not allow other namespaces")),
]
OWN: dict[str, list[tuple[str, Any]]] = {
    JS: [
        ("state.set('o', {z: [1, null, undefined], a: {}, u: undefined}); state.get('o')", {"z": [1, None, None], "a": {}}),
        ("Object.keys(state.get('o'))", ["z", "a"]),
        ("state.compareAndSet('o', {a: {}, z: [1, null, null]}, '\\ud800')", True),
        ("state.get('o') === '\\ud800'", True),
        ("state.setNx('o', 1)", False),
        ("state.set('nothing', null); [state.get('nothing', 1), state.has('nothing')]", [None, True]),
        ("state.update('u', (was) => [...was, 1], [])", [1]),
        ("state.update('u', (was) => { was.push(2); return was })", [1, 2]),
        ("await state.update('u', async (was) => { await hf.sleep(1); return was.length })", 2),
        ("let n = 0; state.update('u', (was) => { if (n++ < 2) state.incr('u'); return was * 10 })", 40),
        ("state.update('u', () => state.incr('u'))", ("STATE_CONFLICT", "state: others change this key again and again")),
        (
            "state.set('d', new Date(0))",
            ("INVALID_ARGUMENT", "state: a value is null, true, false, a finite number, text, or a list or object of such"),
        ),
        (
            "state.set('d', 10n)",
            ("INVALID_ARGUMENT", "state: a value is null, true, false, a finite number, text, or a list or object of such"),
        ),
    ],
    LUA: [
        ("state.set('o', {z = {1, 2}, a = {}}) return state.get('o')", {"z": [1, 2], "a": {}}),
        ("return state.compare_and_set('o', {a = {}, z = {1, 2.0}}, 3)", True),
        ("return state.update('u', function(was) return (was or 0) + 1 end)", 1),
        ("return state.update('u', function(was) alc.sleep(1) return was + 1 end)", 2),
        ("return state.update('w', function(was) return was .. '!' end, 'hi')", "hi!"),
        ("return type(state.namespace)", "function"),
    ],
}


def written(language: str, source: str) -> str:
    if language == LUA:
        return "return " + source.replace("null", "nil")
    return source.replace("..", "+").replace("{ttlMs=", "{ttlMs:").replace("{other=", "{other:")


@scene
async def test_what_scripts_see() -> None:
    async with opened("memory:") as hf:
        for language in (JS, LUA):
            made = await session(hf, language)
            cases = [(written(language, source), expected) for source, expected in SAME]
            for source, expected in [*cases, *OWN[language]]:
                assert await end(hf, made, source) == expected, (language, source)


@scene
async def test_who_shares_what_and_for_how_long() -> None:
    clock = Clock()
    async with opened("memory:", settings=Settings(clock=clock)) as hf:
        one = await session(hf)
        template = (await hf.sessions.get(one)).template_id
        other, stranger = await another(hf, template), await session(hf)
        await evaluate(
            hf, one, "state.set('k', 'kept'); state.set('soon', 1, {ttlMs: 100}); state.set_nx('lock', 'one', {ttl_ms: 100})"
        )
        assert await evaluate(hf, other, "state.get('k')") == "kept", "sessions of a template share"
        assert await evaluate(hf, stranger, "state.keys()") == [], "templates do not"

        # lifetimes
        clock.now += 60
        assert await evaluate(hf, other, "state.compare_and_set('lock', 'one', 'one', {ttlMs: 100})") is True
        assert await evaluate(hf, other, "[state.set_nx('lock', 'other'), state.incr('soon')]") == [False, 2]
        clock.now += 40
        assert await evaluate(hf, other, "[state.get('soon', 'gone'), state.has('lock'), state.keys()]") == [
            "gone",
            True,
            ["k", "lock"],
        ]
        clock.now += 60
        assert await evaluate(hf, other, "[state.delete('lock'), state.set_nx('lock', 'other')]") == [False, True]
        assert (await hf.sweep())["state"] == 1
        assert await evaluate(hf, one, "state.incr('soon')") == 1

        # named ones, and those of a session
        first, second = await session(hf, namespace="both"), await session(hf, LUA, namespace="both", spaces=True)
        await evaluate(hf, first, "state.set('k', 'common')")
        assert await evaluate(hf, second, "return state.get('k')") == "common"
        await evaluate(hf, second, "state.namespace('inner').set('k', 2)")
        assert await evaluate(hf, second, "return {state.namespace('inner').get('k'), state.get('k')}") == [2, "common"]
        for name in ("../evil", "a/b", "a\\\\b", "", "a\\0b"):
            code, message = await end(hf, second, f"return state.namespace('{name}')")
            assert (code, message[:18]) == ("INVALID_NAMESPACE", "Invalid namespace:")
        own = await session(hf, session=True)
        sibling = await another(hf, (await hf.sessions.get(own)).template_id)
        await evaluate(hf, own, "state.set('k', 'mine')")
        assert await evaluate(hf, sibling, "state.get('k', 'none')") == "none"

        # going back, and going away
        await hf.sessions.rewind(own, 1)
        assert await evaluate(hf, own, "state.get('k')") == "mine", "what was committed is not undone"
        fork = await hf.sessions.fork(own)
        assert await evaluate(hf, fork.id, "state.get('k', 'none')") == "none"


@scene
async def test_how_much_there_may_be() -> None:
    async with opened("memory:") as hf:
        made = await session(hf, max_keys=3, max_value_bytes=10, spaces=True)
        full = ("STATE_TOO_LARGE", "state: there are 3 keys already")
        for source, expected in [
            ("state.set('a', '12345678')", None),
            ("state.set('a', '123456789')", ("STATE_TOO_LARGE", "state: a value has at most 10 bytes")),
            ("state.set('a', 'éééé')", None),
            ("state.set('b', 1); state.namespace('inner').set('c', 1)", None),
            ("state.set('d', 1)", full),
            ("state.namespace('inner').incr('d')", full),
            ("state.set('a', 2); state.delete('b'); state.set('d', 1); state.keys()", ["a", "d"]),
            ("state.set('e', 1)", full),
        ]:
            assert await end(hf, made, source) == expected, source
        large = await session(hf, max_value_bytes=1024 * 1024)
        source = "for (let i = 0; i < 12; i++) state.set('k' + i % {}, 'x'.repeat(1e6))"
        assert (await end(hf, large, source.format(9)))[0] == "STATE_TOO_LARGE"
        assert await end(hf, large, source.format(5) + "; state.keys().length") == 8, "what was set before an error stays"
        for config, field in [
            ({"namespace": "a/b"}, "config.namespace"),
            ({"namespace": "a", "session": True}, "config.namespace"),
            ({"max_keys": 0}, "config.max_keys"),
            ({"max_value_bytes": 1 << 30}, "config.max_value_bytes"),
            ({"file": "x"}, "config.file"),
        ]:
            with pytest.raises(HoldfastError) as refusal:
                await hf.templates.create(f"t{next(names)}", capabilities=[state(**config)])
            assert field in str(refusal.value)


# ---- with the step -----------------------------------------------------------------------------------------------------------------


@scene
async def test_a_step_that_is_rolled_back_changes_nothing() -> None:
    async with opened("memory:", settings=Settings(begin_after_ms=1)) as hf:
        made = await session(hf, limits=Limits(max_output_kb=16, wall_ms=60_000, cpu_ms=60_000))
        watcher = await another(hf, (await hf.sessions.get(made)).template_id)
        assert await end(hf, made, "state.set('a', 1); state.set('b', 1); throw new Error('own')") == (None, "own")
        assert await evaluate(hf, watcher, "state.keys()") == ["a", "b"], "a script that raises has run to its end"
        flood = "state.incr('a'); state.delete('b'); state.set('c', 1); for (;;) console.log('x'.repeat(1000))"
        assert (await end(hf, made, flood))[0] == "LIMIT_EXCEEDED"
        running = asyncio.ensure_future(hf.executions.run(made, "state.incr('a'); for (;;);"))
        while (await hf.executions.list(made)).items[0].status != "running":
            await asyncio.sleep(0.01)  # it is durable by now that it runs, and nothing of what it did
        assert await evaluate(hf, watcher, "state.get('a')") == 1
        await hf.executions.cancel((await hf.executions.list(made)).items[0].id)
        assert (await running).execution.status == "cancelled"
        assert await evaluate(hf, watcher, "[state.get('a'), state.keys()]") == [1, ["a", "b"]]
        assert await evaluate(hf, made, "state.incr('a')") == 2


@scene
async def test_what_follows_an_effect_is_rolled_back_with_its_step() -> None:
    functions = [Function("w.pay", lambda: 1, EffectKind.ONCE)]
    async with opened("memory:", functions=functions) as hf:
        made = await session(hf, JS, *grants(functions), limits=Limits(max_output_kb=16))
        flood = "state.incr('a'); hf.call('w.pay'); state.incr('a'); for (;;) console.log('x'.repeat(1000))"
        assert (await end(hf, made, flood))[0] == "LIMIT_EXCEEDED"
        assert await evaluate(hf, made, "state.get('a')") == 1, "what was before the effect stays"


async def many(hf: Holdfast, sessions: list[UUID], times: int) -> list[Any]:
    """Each session adds one so often, all at once."""

    async def add(made: UUID) -> list[Any]:
        return [await evaluate(hf, made, "state.incr('n')") for _ in range(times)]

    return [seen for found in await asyncio.gather(*map(add, sessions)) for seen in found]


@scene
async def test_sessions_that_count_at_once_lose_nothing() -> None:
    async with opened("memory:") as hf:
        first = await session(hf)
        template = (await hf.sessions.get(first)).template_id
        sessions = [first, *[await another(hf, template) for _ in range(9)]]
        assert sorted(await many(hf, sessions, 20)) == list(range(1, 201))


COUNTS = """
async with opened(address) as hf:
    made = given['session']
    seen = []
    for n in range(given['times']):
        seen.append(await evaluate(hf, made, "state.incr('n')"))
    return seen
"""


@pytest.mark.parametrize(("kind", "times"), [("sqlite", 100), ("postgresql", 20)])
@scene
async def test_two_processes_that_count_at_once_lose_nothing(kind: str, times: int, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/two.db" if kind == "sqlite" else fresh_schema()
    async with opened(address) as hf:
        here = await session(hf)
        there = await another(hf, (await hf.sessions.get(here)).template_id)
        work = asyncio.ensure_future(asyncio.to_thread(elsewhere, address, COUNTS, {"session": there, "times": times}))
        while not await evaluate(hf, here, "state.has('n')"):  # until the other one has begun
            await asyncio.sleep(0.005)
        seen = [await evaluate(hf, here, "state.incr('n')") for _ in range(times)]
        assert sorted(seen + await work) == list(range(1, 2 * times + 1))


# ---- in the way of others ----------------------------------------------------------------------------------------------------------

SPACE = shared_root("met")


class Others:
    """A session elsewhere that changes the key `n` while a script runs, the first few times that the script comes by."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.session: UUID | None = None
        self.meets = 0
        self.left = 0
        self.acts: list[str] = []

    def functions(self) -> list[Function]:
        return [
            Function("w.meet", self.meet, EffectKind.READ),
            Function("w.act", self.act, EffectKind.ONCE),
            Function("w.wait", self.wait, EffectKind.READ),
        ]

    def meet(self) -> None:
        self.meets += 1
        if self.left:
            self.left -= 1
            assert self.session is not None
            old = self.store.get_session(self.session)
            row = self.store.get_state(SPACE, "n")
            text = "100" if row is None else str(int(row.value) + 100)
            changed = replace(old, version=old.version + 1)
            commit = Commit(changed, old.version, old.fence, 1 << 40 | self.meets, state=[StateWrite(SPACE, "n", text)])
            assert self.store.commit([commit]) == [None]

    def act(self, word: str) -> str:
        self.acts.append(word)
        return f"did {word}"

    def wait(self, session_id: str) -> None:
        """Until it is durable that the step runs."""
        while self.store.load(UUID(session_id)).begun is None:
            pass


GET, MEET, SET = "var v = state.get('n', 0); ", "hf.call('w.meet'); ", "state.set('n', v + 1); "
ACT = "var did = hf.call('w.act', 'a'); "


@scene
async def test_a_step_that_meets_another_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory:")
    others = Others(store)
    async with Holdfast.open(store, functions=others.functions(), settings=Settings(begin_after_ms=1)) as hf:
        made = await session(hf, JS, *grants(others.functions()), namespace="met")
        others.session = await another(hf, (await hf.sessions.get(made)).template_id)

        async def told(source: str, meets: int) -> tuple[Any, Any, int, list[str]]:
            """What came of it, what is in the state then, how often the script came by, and what it did outside."""
            others.meets, others.left, others.acts = 0, meets, []
            await evaluate(hf, made, "state.set('n', 0); state.delete('a')")
            said = await end(hf, made, source)
            kept = await evaluate(hf, made, "[state.get('n'), state.get('a', null)]")
            return said, kept, others.meets, others.acts

        plain = GET + MEET + SET + "v"
        assert await told(plain, 0) == (0, [1, None], 1, [])
        assert await told(plain, 3) == (300, [301, None], 4, [])
        assert await told(MEET + "state.set('n', 7)", 1) == (None, [7, None], 1, []), "what was not read is written in any case"

        # The step is in the store that runs, with what it may keep: the calls before the first that depends on state.
        slow = f"hf.call('w.wait', '{made}'); "
        assert await told(GET + slow + MEET + SET + "v", 2) == (200, [201, None], 3, [])

        # What must not happen twice happens once, wherever others come in between; what was done before it stays.
        assert await told(GET + MEET + SET + ACT + "[v, did]", 2) == ([200, "did a"], [201, None], 3, ["a"])
        after = "state.incr('a'); " + ACT + GET + MEET + SET + "[v, did]"
        assert await told(after, 2) == ([200, "did a"], [201, 1], 3, ["a"])
        twice = ACT + GET + MEET + SET + "var also = hf.call('w.act', 'b'); state.incr('a'); [v, did, also]"
        assert await told(twice, 2) == ([200, "did a", "did b"], [201, 1], 3, ["a", "b"])

        # Again and again, until it is given up.
        monkeypatch.setattr(dispatch, "MOST_CONFLICTS", 4)
        monkeypatch.setattr(jobs, "MOST_CONFLICTS", 4)
        others.left = 1000
        try:  # who asked hears of it, or the execution ends so if it was durable that it runs
            code = (await end(hf, made, plain))[0]
        except HoldfastError as error:
            code = error.code
        assert code == "STATE_CONFLICT"
        said, kept, meets, acts = await told("state.incr('a'); " + ACT + plain, 1000)
        assert (said[0], kept, meets, acts) == ("STATE_CONFLICT", [500, 1], 5, ["a"])
        assert await told(plain, 0) == (0, [1, None], 1, []), "the session goes on"


# One process, killed in the middle of two steps: one that was durable because it took long, and one that was about to act.
DIES = """
import signal, threading
from uuid import UUID

def act():
    os.kill(os.getpid(), signal.SIGKILL)

def wait():
    while store.load(UUID(given['slow'])).begun is None:
        time.sleep(0.001)
    ready.set()
    time.sleep(60)

store, ready = open_store(address), threading.Event()
functions = [Function('w.act', act, EffectKind.ONCE), Function('w.wait', wait, EffectKind.READ)]
async with Holdfast.open(store, functions=functions, settings=Settings(lease_ms=300, begin_after_ms=1)) as hf:
    slow = asyncio.ensure_future(hf.executions.run(given['slow'], given['sources'][0]))
    await asyncio.to_thread(ready.wait)
    await hf.executions.run(given['acts'], given['sources'][1])
"""


@scene
async def test_a_process_that_is_killed_changes_state_once(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/killed.db"
    sources = [
        "state.incr('slow'); hf.call('w.wait'); state.incr('slow', 10)",
        "var was; state.incr('acts'); try { hf.call('w.act') } catch (e) { was = e.code }; [was, state.incr('acts', 10)]",
    ]
    functions = [Function("w.act", lambda: "acted", EffectKind.ONCE), Function("w.wait", lambda: None, EffectKind.READ)]
    async with opened(address, functions=functions) as hf:
        slow = await session(hf, JS, *grants(functions))
        acts = await another(hf, (await hf.sessions.get(slow)).template_id)
    await asyncio.to_thread(elsewhere, address, DIES, {"slow": slow, "acts": acts, "sources": sources}, dies=True)
    async with opened(address, functions=functions, settings=Settings(lease_ms=300)) as hf:
        ends = [await hf.executions.wait((await hf.executions.list(made)).items[0].id) for made in (slow, acts)]
        assert [value(turn) for turn in ends] == [11, ["EFFECT_UNCERTAIN", 11]]
        assert await evaluate(hf, slow, "[state.get('slow'), state.get('acts')]") == [11, 11]


@scene
async def test_a_step_keeps_little_of_what_it_has_looked_at() -> None:
    """One emoji makes each character of a text take four bytes in memory, and a step may look at many such values."""
    store = open_store("memory:")
    async with opened(store, settings=Settings(clock=Clock())) as hf:
        limits = Limits(wall_ms=60_000, cpu_ms=30_000)
        here = await session(hf, JS, namespace="many", max_value_bytes=1024 * 1024, limits=limits)
        fill = "const v = 'a'.repeat(1e6) + '\U0001f600'; for (let i = {0}; i < {0} + 2; i++) state.set('k' + i, v + i)"
        for first in range(0, 20, 2):
            assert await end(hf, here, f"{{{fill.format(first)}}}") is None
        assert (await end(hf, here, f"{{{fill.format(0).replace('+ 2', '+ 3')}}}"))[0] == "STATE_TOO_LARGE"
        overlay, namespace = Overlay(store, lambda: 0), shared_root("many")
        assert all(overlay.has(namespace, f"k{number}") for number in range(20))
        assert sum(sys.getsizeof(seen.value) for seen in overlay._seen.values()) < 5e6
        all_of_them = "let n = 0; for (let i = 0; i < 20; i++) n += state.has('k' + i); "
        last = "state.get('k19').endsWith('19') && !state.set_nx('k19', 1) && state.delete('k19') && state.has('k19')"
        assert await end(hf, here, f"{{{all_of_them}[n, {last}]}}") == [20, False]
        assert await end(hf, here, f"{{{all_of_them}n}}") == 19


@scene
async def test_names_of_keys_take_a_bounded_part_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("memory:", settings=Settings(clock=Clock())) as hf:
        here = await session(hf)
        assert await end(hf, here, "for (let i = 0; i < 50; i++) state.set('k'.repeat(400) + i, i)") is None
        monkeypatch.setattr(overlays, "_MOST_LISTED", 10_000)
        assert (await end(hf, here, "state.keys()"))[0] == "STATE_TOO_LARGE"
        assert await end(hf, here, "state.keys('k'.repeat(400) + '1').length") == 11
        monkeypatch.setattr(overlays, "_MOST_SEEN", 10_000)
        assert (await end(hf, here, "for (let i = 0; i < 50; i++) state.has('k' + i)"))[0] == "STATE_TOO_LARGE"
        assert await end(hf, here, "for (let i = 0; i < 50; i++) state.has('k'); true") is True
