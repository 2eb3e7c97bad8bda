"""What was acknowledged is there: after closing, in another process, after a month, whatever the clock does."""

import asyncio
from typing import Any

from holdfast import Holdfast, Settings
from tests.acceptance.scenes import (
    Clock,
    both,
    durable_stores,
    elsewhere,
    evaluate,
    eventually,
    opened,
    refused,
    scene,
    session,
    template,
    value,
)

STEPS = {
    "javascript": """
const trail = []; let state = {n: 0};
for (let i = 1; i <= 12; i++) {
  const [a, b] = await Promise.all([ask('a' + i), llm('b' + i + trail.join())]);
  state = {n: state.n + a, last: b, nested: [state.n, {deep: b}]};
  trail.push(a + ':' + b + ':' + Math.floor(Math.random() * 1e6));
  console.log(trail.length);
}
({trail, state})""",
    "lua": """
local trail, state = {}, {n = 0}
for i = 1, 12 do
  local both = alc.llm_batch({'a' .. i, 'b' .. i .. table.concat(trail, ',')})
  state = {n = state.n + both[1], last = both[2], nested = {state.n, {deep = both[2]}}}
  table.insert(trail, both[1] .. ':' .. both[2] .. ':' .. math.random(1000000))
  print(#trail)
end
return {trail = trail, state = state}""",
}


async def _drive(address: str, language: str, reopen: bool, seed: int) -> tuple[Any, list[Any]]:
    """The result and events of a script of twelve rounds, with everything closed at each pause or not."""
    hf = opened(address)
    await hf.__aenter__()
    try:
        here = await session(hf, language)
        seeded = {"javascript": "", "lua": f"math.randomseed({seed})"}[language]
        if seeded:
            await hf.executions.run(here, seeded)
        turn = await hf.executions.run(here, STEPS[language])
        while turn.queries:
            number = len(turn.queries)
            query = turn.queries[-1]
            answer = query.number if number == 2 else f"x{query.number}"
            if query.kind == "llm" and language == "lua":
                answer = f"y{query.number}" if number == 2 else query.number
            elif query.kind == "llm":
                answer = f"y{query.number}"
            elif query.kind == "ask":
                answer = query.number
            turn = await hf.queries.answer(here, answer, query=query.id)
            if reopen:
                await hf.__aexit__(None, None, None)
                hf = opened(address)
                await hf.__aenter__()
        events = await hf.executions.events(turn.execution.id, limit=10_000)
        return value(turn), [(e.seq, e.type, e.payload) for e in events if e.type != "checkpoint"]
    finally:
        await hf.__aexit__(None, None, None)


@durable_stores
@scene
async def test_reopening_at_every_pause_changes_nothing(address: str, language: str, tmp_path: Any) -> None:
    result, events = await _drive(address, language, True, 7)
    other, unbroken = await _drive(f"sqlite:///{tmp_path}/other.db", language, False, 7)
    if language == "javascript":  # sessions are seeded apart; in Lua a script may seed itself
        for each in (result, other):
            each["trail"] = [entry.rpartition(":")[0] for entry in each["trail"]]
        events, unbroken = [[e for e in es if e[1] != "value"] for es in (events, unbroken)]
    assert result == other
    assert [e[:2] for e in events] == [e[:2] for e in unbroken]
    assert len(result["trail"]) == 12


@durable_stores
@scene
async def test_another_process_answers(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        source = {
            "javascript": "const a = await ask('one'); const b = await ask('two'); ({a, b})",
            "lua": "local a = alc.ask('one'); local b = alc.ask('two'); return {a = a, b = b}",
        }[language]
        await hf.executions.run(here, source)
        # Also while this one is open and has the session in memory.
        said = await asyncio.to_thread(
            elsewhere,
            address,
            """
            async with Holdfast.open(address) as hf:
                turn = await hf.queries.answer(given, 'from elsewhere')
                return [query.id for query in turn.queries]
            """,
            here,
        )
        assert said == ["q-2"]
        again = await hf.queries.answer(here, "from elsewhere", query="q-1")
        assert [query.id for query in again.queries] == ["q-2"]
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(here, "other", query="q-1")
        turn = await hf.queries.answer(here, "from here")
        assert value(turn) == {"a": "from elsewhere", "b": "from here"}


@both
@scene
async def test_sessions_that_do_not_fit_take_turns(address: str, language: str) -> None:
    async with opened(address, settings=Settings(resident=1)) as hf:
        name = await template(hf, language)
        made = [(await hf.sessions.create(name)).id for _ in range(10)]
        source = {
            "javascript": "let sum = 0; for (let i = 0; i < 4; i++) sum += await ask('more'); sum",
            "lua": "local sum = 0 for i = 1, 4 do sum = sum + alc.ask('more') end return sum",
        }[language]
        for each in made:
            await hf.executions.run(each, source)
            assert (await hf.summary())["resident"] <= 1
        for round_ in range(4):
            turns = [await hf.queries.answer(each, n * 10 + round_) for n, each in enumerate(made)]
        assert [value(turn) for turn in turns] == [4 * n * 10 + 6 for n in range(10)]
        together = await asyncio.gather(*(evaluate(hf, each, "1" if language == "javascript" else "return 1") for each in made))
        assert together == [1] * 10
        assert (await hf.summary())["resident"] <= 1


SLEEP = {"javascript": "await hf.sleep({}); 'awake'", "lua": "alc.sleep({}) return 'awake'"}


@durable_stores
@scene
async def test_timers_survive(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, SLEEP[language].format(3_600_000))
        assert [(q.kind, q.payload) for q in turn.queries] == [("timer", {"wake_at": clock.now + 3_600_000})]
    clock.now += 3_599_999
    async with opened(address, settings=Settings(clock=clock)) as hf:
        assert (await hf.executions.get(turn.execution.id)).status == "paused"
    clock.now += 2
    async with opened(address, settings=Settings(clock=clock)) as hf:
        ended = await hf.executions.wait(turn.execution.id, timeout=10)
        assert value(ended) == "awake"
        assert ended.execution.metrics.elapsed_ms == 3_600_001
        assert (await hf.queries.get(here, "q-1")).state == "answered"


@both
@scene
async def test_timers_ring_while_it_is_open(address: str, language: str) -> None:
    async with opened(address) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, SLEEP[language].format(30))
        assert turn.execution.status == "paused"
        assert value(await hf.executions.wait(turn.execution.id, timeout=10)) == "awake"


@both
@scene
async def test_a_clock_that_jumps_forward_rings(address: str, language: str) -> None:
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, SLEEP[language].format(8_000))
        clock.now += 9_000
        assert value(await hf.executions.wait(turn.execution.id, timeout=10)) == "awake"


@both
@scene
async def test_a_clock_that_jumps_backward_disorders_nothing(address: str, language: str) -> None:
    clock = Clock()
    source = {
        "javascript": "const seen = [Date.now()]; await ask('?'); seen.push(Date.now()); await ask('?'); seen.push(Date.now()); seen",
        "lua": "local seen = {alc.time()} alc.ask('?') seen[2] = alc.time() alc.ask('?') seen[3] = alc.time() return seen",
    }[language]
    if language == "lua":
        source = source.replace("alc.time()", "os.time()")
    async with opened(address, settings=Settings(clock=clock)) as hf:
        here = await session(hf, language)
        turn = await hf.executions.run(here, source)
        clock.now -= 3_600_000
        await hf.queries.answer(here, 1)
        clock.now -= 3_600_000
        turn = await hf.queries.answer(here, 2)
        assert value(turn) == sorted(value(turn))
        events = await hf.executions.events(turn.execution.id)
        assert [event.ts for event in events] == sorted(event.ts for event in events)
        assert turn.execution.ended_at is not None
        assert turn.execution.ended_at >= turn.execution.started_at
        assert turn.execution.metrics.elapsed_ms >= 0
        nodes = await hf.sessions.checkpoints(here)
        assert [node.created_at for node in nodes] == sorted(node.created_at for node in nodes)


DEADLINES = {
    "javascript": "let r; try { r = await ask('?', {timeout_ms: 1000, %s}) } catch (e) { r = e.code } r",
    "lua": "local ok, e = pcall(alc.ask, '?', {timeout_ms = 1000, %s}) return ok and e or e.code",
}


@durable_stores
@scene
async def test_a_query_that_nobody_answers_in_time(address: str, language: str) -> None:
    js = language == "javascript"
    clock = Clock()
    async with opened(address, settings=Settings(clock=clock)) as hf:
        name = await template(hf, language)
        plain, default, early = [(await hf.sessions.create(name)).id for _ in range(3)]
        turns = [
            await hf.executions.run(plain, DEADLINES[language] % ""),
            await hf.executions.run(default, DEADLINES[language] % ("default: [7]" if js else "default = {7}")),
            await hf.executions.run(early, DEADLINES[language] % ""),
        ]
        assert turns[0].queries[0].deadline == clock.now + 1000
        clock.now += 999
        assert value(await hf.queries.answer(early, "in time")) == "in time"
    clock.now += 1
    async with opened(address, settings=Settings(clock=clock)) as hf:  # it expired while nobody was there

        async def all_ended() -> bool:
            return (await hf.executions.list(status="paused")).items == []

        await eventually(all_ended)
        assert value(await hf.executions.turn(turns[0].execution.id)) == "QUERY_EXPIRED"
        assert value(await hf.executions.turn(turns[1].execution.id)) == [7]
        query = await hf.queries.get(plain, "q-1")
        assert (query.state, query.closed_at) == ("expired", clock.now)
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(plain, "late", query="q-1")
        with refused("ANSWER_CONFLICT"):
            await hf.queries.answer(default, [7], query="q-1")
        assert (await hf.queries.get(early, "q-1")).state == "answered"


@both
@scene
async def test_an_answer_at_the_deadline_and_the_deadline_meet_once(address: str, language: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, language)
        for _ in range(3):
            here = (await hf.sessions.create(name)).id
            turn = await hf.executions.run(here, (DEADLINES[language] % "").replace("1000", "40"))
            await asyncio.sleep(0.039)
            outcome = (await asyncio.gather(hf.queries.answer(here, "answer", query="q-1"), return_exceptions=True))[0]

            async def over(execution_id: Any = turn.execution.id) -> Any:
                now = await hf.executions.turn(execution_id)
                return now if now.execution.status != "paused" else None

            ended = await eventually(over)
            won = not isinstance(outcome, BaseException)
            assert value(ended) == ("answer" if won else "QUERY_EXPIRED")
            assert (await hf.queries.get(here, "q-1")).state == ("answered" if won else "expired")


@durable_stores
@scene
async def test_all_that_was_seen_is_seen_again(address: str, language: str) -> None:
    async with opened(address) as hf:
        name = await template(hf, language)
        here = await hf.sessions.create(name, name="mine", meta={"for": ["me", None, 1.5]})
        await hf.executions.run(here.id, {"javascript": "x = 1; await ask('?')", "lua": "x = 1; alc.ask('?')"}[language])
        fork = await hf.sessions.fork(here.id)
        await hf.queries.answer(here.id, 1)
        await hf.executions.run(here.id, "oops(")

        async def all_of_it(hf: Holdfast) -> list[Any]:
            seen: list[Any] = []
            for each in (here.id, fork.id):
                got = await hf.sessions.get(each)
                seen += [got, (await hf.executions.list(each)).items, (await hf.queries.list(each, states=[])).items]
                seen += [
                    await hf.sessions.checkpoints(each),
                    await hf.sessions.tree(each),
                    (await hf.sessions.errors(each)).items,
                ]
                seen += [list(await hf.executions.events(e.id)) for e in (await hf.executions.list(each)).items]
            return seen

        before = await all_of_it(hf)
    async with opened(address) as hf:
        after = await all_of_it(hf)
        assert after == before
        assert (await hf.queries.answer(fork.id, 2)).execution.status == "ok"


@scene
async def test_the_key_matters(sqlite: str) -> None:
    async with opened(sqlite, key=b"k" * 32) as hf:
        here = await session(hf, "lua")
        await evaluate(hf, here, "n = 5")
    with refused("KEY_MISMATCH"):
        async with opened(sqlite, key=b"x" * 32):
            pass
    with refused("KEY_MISMATCH"):
        async with opened(sqlite):
            pass
    with refused("VALIDATION_ERROR"):
        async with opened(sqlite, key=b"short"):
            pass
    async with opened(sqlite, key=b"k" * 32) as hf:
        assert await evaluate(hf, here, "return n") == 5


@scene
async def test_two_open_at_once_on_one_store(sqlite: str) -> None:
    async with opened(sqlite) as one, opened(sqlite) as two:
        here = await session(one, "lua")
        assert await evaluate(one, here, "n = 1 return n") == 1
        for n in range(2, 6):
            hf = (one, two)[n % 2]
            assert await evaluate(hf, here, "n = n + 1 return n") == n
        turn = await one.executions.run(here, "return alc.ask('?')")
        with refused("SESSION_BUSY"):
            await two.executions.run(here, "return 1")
        done = await asyncio.gather(
            *(hf.queries.answer(here, n, query="q-1") for n, hf in enumerate((one, two))), return_exceptions=True
        )
        assert sorted(getattr(each, "code", "won") for each in done) == ["ANSWER_CONFLICT", "won"]

        async def ended() -> bool:
            return (await two.executions.get(turn.execution.id)).status == "ok"

        await eventually(ended)
