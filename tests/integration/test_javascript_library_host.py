"""The library in JavaScript, in real sessions: lasting state, budgets, cards and what is recorded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Budget, Capability, Holdfast
from tests.acceptance.scenes import opened, scene, value


@asynccontextmanager
async def session(*modules: str, **config: Any) -> AsyncIterator[tuple[Holdfast, Any]]:
    """A session whose template grants these modules."""
    async with opened("memory:") as hf:
        granted = [Capability("module", name, True, config if name == "state" else {}) for name in modules]
        made = await hf.templates.create("t", language="javascript", capabilities=granted)
        yield hf, (await hf.sessions.create(made.id)).id


async def outcome(hf: Holdfast, of: Any, source: str, ctx: dict[str, Any] | None = None, **options: Any) -> Any:
    """What comes of a strategy: its value, or the code and message of its error. Models say `said`."""
    turn = await hf.executions.strategy(of, source, ctx or {}, **options)
    while turn.execution.status == "paused":
        turn = await hf.queries.answer_many(of, {query.id: "said" for query in turn.queries})
    error = turn.execution.error
    return value(turn) if error is None else (error.get("code"), error["message"])


STATE: list[tuple[str, Any]] = [
    ("[hf.state.get('a'), hf.state.get('a', 5)]", [None, 5]),
    ("hf.state.set('a', {n: [1]}); [hf.state.get('a', 5), hf.state.has('a'), hf.state.has('b')]", [{"n": [1]}, True, False]),
    ("[hf.state.setNx('b', 1), hf.state.setNx('b', 2), hf.state.get('b')]", [True, False, 1]),
    ("[hf.state.incr('n'), hf.state.incr('n', 5), hf.state.incr('n', 10), hf.state.incr('m', 10, 100)]", [1, 6, 16, 110]),
    ("hf.state.incr('a')", ("STATE_NOT_A_NUMBER", "incr: value at 'a' is not a number")),
    ("hf.state.keys()", ["a", "b", "m", "n"]),
    ("[hf.state.delete('b'), hf.state.delete('b')]", [True, False]),
    ("[hf.state.compareAndSet('n', 1, 2), hf.state.compareAndSet('n', 16, 2)]", [False, True]),
    ("await hf.state.update('u', was => [was], 'first')", ["first"]),
    ("await hf.state.update('u', was => [...was, 2])", ["first", 2]),
    ("await hf.state.update('u', async was => [...was, await llm('?')])", ["first", 2, "said"]),
    ("await hf.state.update('v', was => was)", None),
    ("[hf.state.get('u'), hf.state.get('v', 1)]", [["first", 2, "said"], None]),
]


@scene
async def test_46_57_state() -> None:
    async with session("state") as (hf, of):
        for source, expected in STATE:
            assert await outcome(hf, of, source) == expected
        assert await outcome(hf, of, "hf.state.keys()", {"_ns": "x"}) == (
            "NAMESPACE_NOT_ALLOWED",
            "state: the template does not allow other namespaces",
        )
    async with session() as (hf, of):
        assert (await outcome(hf, of, "hf.state.get('a')"))[0] == "MODULE_NOT_GRANTED"


@scene
async def test_46_a_run_has_the_namespace_that_its_ctx_names() -> None:
    async with session("state", spaces=True) as (hf, of):
        await outcome(hf, of, "hf.state.set('k', 'own')", {"_ns": "one"})
        for name, found in (("one", "own"), ("two", None), ("", None), ("default", None), (5, None)):
            assert await outcome(hf, of, "hf.state.get('k')", {"_ns": name}) == found
        for name in ("../evil", "a/b", "a\\b", "\0"):
            code, message = await outcome(hf, of, "hf.state.get('k')", {"_ns": name})
            assert code == "INVALID_NAMESPACE"
            assert message.startswith("Invalid namespace: '")


@scene
async def test_36_37_budgets() -> None:
    source = "const first = [hf.budgetRemaining(), hf.budgetCheck()]; await llm('x'); [...first, hf.budgetRemaining().llm_calls, hf.budgetCheck()]"
    async with session() as (hf, of):
        assert await outcome(hf, of, "[hf.budgetRemaining(), hf.budgetCheck()]") == [None, True]
        unset = {"llm_calls": 1, "elapsed_ms": None, "tokens": None}
        assert await outcome(hf, of, source, budget=Budget(max_llm_calls=1)) == [unset, True, 0, False]
        assert await outcome(hf, of, "hf.budgetCheck()", {"budget": {"max_tokens": 0}}) is False
        code, message = await outcome(
            hf, of, "await llm('x'); await hf.llm('y', {schema: {}})", {"budget": {"max_llm_calls": 1}}
        )
        assert "budget_exceeded: max_llm_calls (1) reached (1 used)" in message, code


@scene
async def test_a_wrong_option_is_raised_where_it_is_asked() -> None:
    async with session() as (hf, of):
        for call in (
            "llm('p', {max_tokens: 'many'})",
            "hf.llm('p', {maxTokens: -1, schema: {}})",
            "hf.llmBatch([{prompt: 'p', temperature: 'hot'}])",
            "hf.parallel([1], x => 'p', {system: 5})",
        ):
            code, message = await outcome(hf, of, f"await {call}")
            assert message.startswith("llm: "), (code, message)


@scene
async def test_50_65_cards() -> None:
    source = """globalThis.cards = hf.card.create({pkg: {name: 'p'}, stats: {pass_rate: 1}});
        [hf.card.get(cards.card_id).pkg.name, hf.card.list({pkg: 'p'}).length, hf.card.get('gone'), hf.card.find({orderBy: '-created_at', limit: 1}).length]"""
    async with session("card") as (hf, of):
        assert await outcome(hf, of, source) == ["p", 1, None, 1]
        assert await outcome(hf, of, "hf.card.writeSamples(cards.card_id, [{n: 1}]); hf.card.readSamples(cards.card_id)") == [
            {"n": 1}
        ]
        assert (
            await outcome(hf, of, "hf.card.aliasSet('best', cards.card_id, {note: 'n'}); hf.card.getByAlias('best').card_id")
        )[:1] == "p"
        assert await outcome(hf, of, "hf.card.lineage({cardId: cards.card_id, includeStats: false}).nodes.length") == 1
        source = """const report = await hf.eval({cases: [{input: 'a', expected: ''}]}, 'gone', {autoCard: true, cardPkg: 'mine'});
            const made = hf.card.get(report.card_id); [made.pkg.name, made.stats.pass_rate, made.stats.n, hf.card.readSamples(report.card_id).length]"""
        assert await outcome(hf, of, source) == ["mine", 0, 1, 1]


@scene
async def test_44_what_a_script_records_is_kept() -> None:
    source = "hf.log('loud', 'hello'); hf.progress(1, 2, 'half'); hf.stats.record('k', {n: 1}); hf.stats.get('k')"
    async with session() as (hf, of):
        turn = await hf.executions.strategy(of, source)
        assert (value(turn), turn.execution.custom) == ({"n": 1}, {"k": {"n": 1}})
        assert await outcome(hf, of, "hf.stats.get('k')") is None


@scene
async def test_branches_are_executions_of_their_own() -> None:
    source = """const own = 'closed over', given = {task: 't'};
        const made = await hf.fork([ctx => { ctx.task += '!'; return [ctx.task, own] }, () => { throw new Error('boom') },
            async () => { await hf.sleep(1); return await hf.fork([() => 'deep'], {}) }, () => hf.exit('early')], given);
        [made, given]"""
    async with session() as (hf, of):
        made, given = await outcome(hf, of, source)
        assert given == {"task": "t"}
        assert made == [
            {"strategy": "(inline-1)", "ok": True, "result": ["t!", "closed over"]},
            {"strategy": "(inline-2)", "ok": False, "error": "boom"},
            {"strategy": "(inline-3)", "ok": True, "result": [{"strategy": "(inline-1)", "ok": True, "result": "deep"}]},
            {"strategy": "(inline-4)", "ok": True, "result": "early"},
        ]
        failed = await outcome(hf, of, "await hf.fork(['gone'], {}, {onError: 'fail'})")
        assert failed[1].startswith("hf.fork: strategy 'gone' failed: ")
        assert await outcome(hf, of, "await hf.exit({a: 1}); 'went on'") == {"a": 1}
