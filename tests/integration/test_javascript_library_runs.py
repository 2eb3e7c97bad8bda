"""The library in JavaScript runs strategies: forks, pipes, evaluations. What the host does of it is played by the tests."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Breached, Host, HostError, Module, Modules, Paused
from tests.integration.javascript_runs import Talk, error, value

MODULES = Modules(
    {
        "shout": Module("module", "export const run = async ctx => ({...ctx, result: ctx.task.toUpperCase()})"),
        "asks": Module("module", "export default {async run(ctx) { return {...ctx, result: await llm(ctx.task)} }}"),
        "common": Module("commonjs", "exports.run = function (ctx) { return {result: this === exports} }"),
        "fails": Module("commonjs", "exports.run = () => { throw new Error('boom') }"),
        "bare": Module("commonjs", "exports.run = ctx => ctx.task"),
        "empty": Module("commonjs", "exports.meta = {}"),
        "broken": Module("module", "throw new Error('while loading')"),
        "syntax": Module("module", "export const = 1"),
        "scene": Module("module", "export default {name: 'my_test', cases: [{input: 'a', expected: 'A'}]}"),
        "cases": Module("module", "export const cases = [{input: 'a', expected: 'A'}]"),
        "number": Module("module", "export default 5"),
        "text": Module("json", '"text"'),
        "data": Module("json", '{"cases": [{"input": "a", "expected": "A"}]}'),
        "state": Module("functions", names=("get", "set", "has", "keys", "delete", "setNx", "incr", "namespace", "update")),
    }
)
KEPT = {"n": 1}


def namespace(name):
    raise HostError(f"Invalid namespace: '{name}'", code="INVALID_NAMESPACE")


HOST = Host(
    {
        "state.get": lambda key, fallback: KEPT.get(key, fallback),
        "state.namespace": namespace,
        "card.create": lambda card: {"card_id": "c1", "card": card},
        "card.get": lambda card_id: None,
        "card.find": lambda *args: list(args),
        "card.write_samples": lambda card_id, rows: {"path": card_id, "count": len(rows)},
    },
    MODULES,
)


@pytest.fixture
def sandbox(javascript):
    with javascript.create(host=HOST) as sandbox:
        yield sandbox


# ---- fork ----------------------------------------------------------------------------------------------------------------------------


def test_a_fork_is_a_tool_of_the_host_and_its_answer_is_the_result(sandbox):
    talk = Talk(
        sandbox, "await hf.fork(['a', () => 1, 'b-2'], {task: 't'})", {"results": [{"strategy": "a", "ok": True, "result": 5}]}
    )
    assert talk.rounds == [[{"name": "holdfast.fork", "args": {"strategies": ["a", "(inline-2)", "b-2"], "on_error": "skip"}}]]
    assert talk.value == [{"strategy": "a", "ok": True, "result": 5}]


@pytest.mark.parametrize(
    ("entry", "ctx", "last"),
    [
        ("'shout'", "{task: 'x'}", {"ok": True, "value": {"task": "x", "result": "X"}}),
        ("'common'", "{}", {"ok": True, "value": {"result": True}}),
        ("ctx => ctx.task + outer", "{task: 'x'}", {"ok": True, "value": "x!"}),
        ("async () => undefined", "{}", {"ok": True, "value": None}),
        ("() => NaN", "{}", {"ok": True, "value": None}),
        ("'fails'", "{}", {"ok": False, "error": "boom"}),
        ("() => { throw {get message() { throw 1 }} }", "{}", {"ok": False, "error": "an error that cannot be read"}),
        ("() => { throw null }", "{}", {"ok": False, "error": "null"}),
        ("() => () => 1", "{}", {"ok": False, "error": "hf.jsonEncode: a function has no JSON form"}),
        ("'empty'", "{}", {"ok": False, "error": "hf.fork: strategy 'empty' has no function run"}),
        ("'broken'", "{}", {"ok": False, "error": "while loading"}),
        ("'gone'", "{}", {"ok": False, "error": "Invalid module: there is no module 'gone'"}),
    ],
)
def test_a_branch_runs_its_entry_and_ends(javascript, entry, ctx, last):
    with javascript.create(host=HOST) as parent:
        outcome = parent.evaluate(f"const outer = '!'; await hf.fork(['shout', {entry}], {ctx}); throw new Error('went on')")
        (query,) = outcome.queries
        with javascript.fork(parent.freeze(), host=HOST) as child:
            outcome = child.resume({query.id: {"child": 2}})
            assert [(asked.kind, asked.payload) for asked in outcome.queries] == [
                ("tool", {"name": "holdfast.exit", "args": last})
            ]
            assert error(child.resume({outcome.queries[0].id: None})).code == "EXIT_REFUSED"


def test_a_branch_may_ask_and_fork_in_turn(javascript):
    with javascript.create(host=HOST) as parent:
        (query,) = parent.evaluate("await hf.fork([c => hf.fork(['asks'], c)], {task: 'deep?'})").queries
        with javascript.fork(parent.freeze(), host=HOST) as child:
            (inner,) = child.resume({query.id: {"child": 1}}).queries
            assert inner.payload["name"] == "holdfast.fork"
            with javascript.fork(child.freeze(), host=HOST) as grandchild:
                (asked,) = grandchild.resume({inner.id: {"child": 1}}).queries
                assert asked.payload == {"prompt": "deep?"}
                (end,) = grandchild.resume({asked.id: "yes"}).queries
                assert end.payload["args"] == {"ok": True, "value": {"task": "deep?", "result": "yes"}}
            results = [{"strategy": "asks", "ok": True, "result": 1}]
            (end,) = child.resume({inner.id: {"results": results}}).queries
            assert end.payload["args"] == {"ok": True, "value": results}


@pytest.mark.parametrize(("mode", "sent"), [("abort", "abort"), ("fail", "abort"), ("skip", "skip")])
def test_who_wants_all_of_them_hears_of_the_first_that_failed(sandbox, mode, sent):
    results = [{"strategy": "a", "ok": True, "result": 1}, {"strategy": "b", "ok": False, "error": "boom"}]
    talk = Talk(sandbox, f"await hf.fork(['a', 'b'], {{}}, {{onError: '{mode}'}})", {"results": results})
    assert talk.rounds[0][0]["args"]["on_error"] == sent
    if mode == "skip":
        assert talk.value == results
    else:
        assert talk.error.message == "hf.fork: strategy 'b' failed: boom"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("hf.fork([])", "hf.fork: strategies must be a non-empty array"),
        ("hf.fork('a')", "hf.fork: strategies must be a non-empty array"),
        ("hf.fork(['a', '../b'])", "hf.fork: invalid strategy name '../b'"),
        ("hf.fork(['9a'])", "hf.fork: invalid strategy name '9a'"),
        ("hf.fork(['a\\n'])", "hf.fork: invalid strategy name"),
        ("hf.fork([5])", "hf.fork: invalid strategy name '5'"),
        ("hf.fork([Symbol('x')])", "hf.fork: invalid strategy name"),
        ("hf.fork(['a'], {}, {onError: 'toString'})", "hf.fork: onError must be 'skip', 'abort' or 'fail'"),
        ("hf.exit(() => 1)", "no JSON form"),
    ],
)
def test_a_fork_that_makes_no_sense_asks_nobody(sandbox, call, message):
    outcome = sandbox.evaluate(f"await {call}")
    assert message in error(outcome).message
    assert outcome.events == ()


@pytest.mark.parametrize("answer", [None, 5, {}, {"results": 5}])
def test_an_answer_that_is_none_to_a_fork(sandbox, answer):
    assert Talk(sandbox, "await hf.fork(['a'])", answer).error.code == "BAD_ANSWER"


def test_exit_says_what_the_execution_ends_with(sandbox):
    (query,) = sandbox.evaluate("await hf.exit({a: 1}); 'went on'").queries
    assert (query.kind, query.payload) == ("tool", {"name": "holdfast.exit", "args": {"ok": True, "value": {"a": 1}}})
    assert error(sandbox.resume({query.id: None})).code == "EXIT_REFUSED"
    (query,) = sandbox.evaluate("await hf.exit()").queries
    assert query.payload["args"] == {"ok": True, "value": None}


# ---- pipe ----------------------------------------------------------------------------------------------------------------------------


def test_a_pipe_hands_results_on(sandbox):
    source = """const seen = [], ctx = {task: 'x', keep: 1};
        const made = await hf.pipe(['shout', async c => ({...c, result: {said: c.task}}), 'asks'], ctx, {onStage: (i, name, c) => { seen.push([i, name, c.task]) }});
        [made, seen, ctx]"""
    made, seen, ctx = Talk(sandbox, source, "done").value
    history = [
        {"strategy": "shout", "result": "X"},
        {"strategy": "(inline-2)", "result": {"said": "X"}},
        {"strategy": "asks", "result": "done"},
    ]
    assert made == {"task": '{"said":"X"}', "keep": 1, "result": "done", "pipe_history": history}
    assert seen == [[0, "shout", "x"], [1, "(inline-2)", "X"], [2, "asks", '{"said":"X"}']]
    assert ctx == {"task": "x", "keep": 1}
    assert value(sandbox.evaluate("await hf.pipe([], {a: 1})")) == {"a": 1, "pipe_history": []}


@pytest.mark.parametrize("mode", ["skip", "continue"])
def test_62_stages_that_fail_are_passed_over(sandbox, mode):
    talk = Talk(sandbox, f"await hf.pipe(['fails', 'shout', 'bare'], {{task: 'x'}}, {{onError: '{mode}'}})")
    first, second, third = talk.value["pipe_history"]
    assert (first, second) == ({"strategy": "fails", "error": "boom"}, {"strategy": "shout", "result": "X"})
    assert third["error"] == "hf.pipe: stage 'bare' must return an object, got string"
    assert talk.value["result"] == "X"
    assert [record["level"] for _, record in talk.records] == ["warn", "warn"]
    failing = Talk(sandbox, f"await hf.pipe(['fails', 'fails'], {{task: 'x'}}, {{onError: '{mode}'}})").value
    assert (failing["task"], len(failing["pipe_history"])) == ("x", 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("hf.pipe(['fails'], {})", "boom"),
        ("hf.pipe(['fails'], {}, {onError: 'abort'})", "boom"),
        ("hf.pipe(['gone'], {}, {onError: 'skip'})", "there is no module 'gone'"),
        ("hf.pipe(['empty'], {}, {onError: 'skip'})", "hf.pipe: strategy 'empty' has no function run"),
        ("hf.pipe(['a\\0b'], {})", "NUL"),
        ("hf.pipe([5], {})", "hf.pipe: a strategy must be a name or a function, got number"),
        ("hf.pipe('x', {})", "hf.pipe: strategies must be an array"),
        ("hf.pipe([], 5)", "hf.pipe: ctx must be an object"),
        ("hf.pipe([], {}, {onError: 'x'})", "hf.pipe: onError must be"),
        ("hf.pipe([], {}, {onStage: 'x'})", "hf.pipe: onStage must be a function"),
    ],
)
def test_62_other_failures_are_raised(sandbox, call, message):
    assert message in error(sandbox.evaluate(f"await {call}")).message


# ---- state and cards -------------------------------------------------------------------------------------------------------------------


def test_state_is_the_module_and_ctx_names_a_part_of_it(javascript, sandbox):
    assert value(sandbox.evaluate("[hf.state.get('n'), hf.state.get('x'), hf.state.get('x', 5)]")) == [1, None, 5]
    for ordinary in ("''", "'default'", "5", "undefined"):
        assert value(sandbox.evaluate(f"globalThis.ctx = {{_ns: {ordinary}}}; hf.state.get('n')")) == 1
    outcome = sandbox.evaluate("globalThis.ctx = {_ns: '../evil'}; hf.state.get('n')")
    assert (error(outcome).code, error(outcome).message) == ("INVALID_NAMESPACE", "Invalid namespace: '../evil'")
    with javascript.create() as without:
        assert error(without.evaluate("hf.state.get('n')")).code == "MODULE_NOT_FOUND"


def test_cards_are_functions_of_the_host(javascript, sandbox):
    assert value(sandbox.evaluate("hf.card.get('x')")) is None
    assert value(sandbox.evaluate("hf.card.find({pkg: 'p', orderBy: '-a', where: {orderBy: 1}})")) == [
        {"pkg": "p", "order_by": "-a", "where": {"orderBy": 1}}
    ]
    assert value(sandbox.evaluate("hf.card.create({orderBy: 1})"))["card"] == {"orderBy": 1}
    with javascript.create() as without:
        assert error(without.evaluate("hf.card.list()")).code == "HOST_FUNCTION_NOT_FOUND"


# ---- eval ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("hf.eval()", "hf.eval: scenario is required"),
        ("hf.eval(5, 'shout')", "hf.eval: scenario must be a string or object"),
        ("hf.eval({cases: []})", "hf.eval: strategy must be a string package name"),
        ("hf.eval({}, 'shout')", "hf.eval: scenario must have cases"),
        ("hf.eval({cases: []}, ' ')", "hf.eval: strategy must be a string package name"),
        ("hf.eval({cases: []}, 'shout', {strategyOpts: 5})", "hf.eval: strategyOpts must be an object"),
        ("hf.eval({cases: [{input: 'a'}, {expected: 1}]}, 'shout')", "hf.eval: case #2 must have an 'input' field"),
        ("hf.eval({cases: [{input: 'a'}], graders: ['toString']}, 'shout')", "hf.eval: unknown grader 'toString'"),
        ("hf.eval({cases: [{input: 'a'}], bind: [{grader: 'contains', weight: -1}]}, 'shout')", "weight"),
        ("hf.eval('gone', 'shout')", "hf.eval: could not resolve scenario 'gone'"),
        ("hf.eval('number', 'shout')", "hf.eval: scenario resolved to number, expected object"),
        ("hf.eval('text', 'shout')", "hf.eval: scenario resolved to string, expected object"),
    ],
)
def test_63_66_what_cannot_be_evaluated(sandbox, call, message):
    assert message in error(sandbox.evaluate(f"await {call}")).message


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ("'scene'", "shout:my_test"),
        ("'cases'", "shout:cases"),
        ("'data'", "shout:data"),
        ("{cases: [{input: 'a', expected: 'A'}]}", "shout:inline"),
    ],
)
def test_66_scenarios_by_name_and_in_place(sandbox, scenario, name):
    report = value(sandbox.evaluate(f"await hf.eval({scenario}, 'shout')"))
    assert (report["name"], report["aggregated"]["passed"], report["failures"]) == (name, 1, [])
    assert "1 of 1 passed (100.0 %)" in report["summary"]
    assert "card_id" not in report


def test_64_a_report(sandbox):
    source = """await hf.eval({name: 'mixed', graders: ['contains'], cases: [
        {input: 'apple', expected: 'APP', tags: ['fruit', '__proto__']}, {input: 'pear', expected: 'x', tags: ['fruit']},
        {input: 'oak', expected: 'OAK'}, {input: 'elm', expected: ['y', 'ELM']}]}, 'shout', {strategyOpts: {extra: 1}})"""
    report = value(sandbox.evaluate(source))
    figures = report["aggregated"]
    assert (figures["total"], figures["passed"], figures["pass_rate"], figures["pass_at_1"]) == (4, 3, 0.75, 0.75)
    assert {key: round(number, 6) for key, number in figures["scores"].items()} == {
        "n": 4,
        "mean": 0.75,
        "std_dev": 0.5,
        "min": 0,
        "max": 1,
        "median": 1,
    }
    assert figures["ci_95"]["upper"] == 1
    assert figures["ci_95"]["lower"] == 0
    assert figures["by_tag"]["fruit"] == {"total": 2, "passed": 1, "pass_rate": 0.5, "mean_score": 0.5}
    assert figures["by_tag"]["__proto__"]["total"] == 1
    assert "pass_at_5" not in figures
    (failed,) = report["failures"]
    assert (failed["input"], failed["output"], failed["score"], failed["passed"]) == ("pear", "PEAR", 0, False)
    assert [case["passed"] for case in report["results"]] == [True, False, True, True]


def test_64_pass_at_k(sandbox):
    report = value(
        sandbox.evaluate(
            "await hf.eval({cases: [...Array(10).keys()].map(i => ({input: 'a', expected: i < 2 ? 'A' : 'x'}))}, 'shout')"
        )
    )
    figures = report["aggregated"]
    assert round(figures["pass_at_5"], 6) == round(1 - (8 * 7 * 6 * 5 * 4) / (10 * 9 * 8 * 7 * 6), 6)
    assert figures["pass_at_10"] == 1


@pytest.mark.parametrize(
    ("grader", "expected", "score"),
    [
        ("'exact_match'", "'TEXT 1,000'", 1),
        ("'exact_match'", "'TEXT'", 0),
        ("'starts_with'", "'TEXT'", 1),
        ("'regex'", "'^T.*\\\\d$'", 1),
        ("'regex'", "'['", 0),
        ("'contains'", "null", 0),
        ("'json_valid'", "null", 0),
        ("'valid_json_response'", "null", 0),
        ("'not_empty'", "null", 1),
        ("{grader: 'length', max: 10}", "null", 1),
        ("'length'", "{min: 11}", 0),
        ("'latency'", "{max_ms: 100}", 1),
        ("{grader: 'latency', max_ms: -1}", "null", 0),
        ("'flexible_match'", "'text'", 1),
        ("'flexible_match'", "'tex'", 0),
        ("'flexible_match'", "'1000'", 1),
        ("'flexible_match'", "'100'", 0),
        ("(answer, options) => answer.expected + options.more", "null", 0),
        ("{grader: (answer, options) => answer.expected + options.more, more: 0.25}", "0.25", 0.5),
        ("() => NaN", "null", 0),
        ("async answer => answer.text.length === 10 && answer.case.input === answer.input", "null", 1),
        ("() => 7", "null", 1),
    ],
)
def test_graders(sandbox, grader, expected, score):
    report = value(
        sandbox.evaluate(
            f"await hf.eval({{cases: [{{input: 'text 1,000', expected: {expected}}}], graders: [{grader}]}}, 'shout')"
        )
    )
    assert report["results"][0]["score"] == score


@pytest.mark.parametrize(
    ("said", "expected"), [("The answer is: Paris.", "paris"), ("1,000", "1000"), ("It costs 3.50.", "3.50"), ("  Yes ", "yes")]
)
def test_flexible_match(sandbox, said, expected):
    sandbox.evaluate(f"globalThis.scenario = {{cases: [{{input: 'q', expected: '{expected}'}}], graders: ['flexible_match']}}")
    assert Talk(sandbox, "(await hf.eval(scenario, 'asks')).results[0].score", said).value == 1


def test_64_graders_have_weights_and_a_case_passes_only_with_all(sandbox):
    source = "await hf.eval({cases: [{input: 'ab', expected: 'A'}], bind: [{grader: 'contains', weight: 3}, {grader: 'exact_match'}]}, 'shout')"
    (case,) = value(sandbox.evaluate(source))["results"]
    assert (case["score"], case["passed"]) == (0.75, False)
    assert case["graders"] == [
        {"grader": "contains", "score": 1, "weight": 3},
        {"grader": "exact_match", "score": 0, "weight": 1},
    ]


@pytest.mark.parametrize("strategy", ["fails", "empty", "gone", "broken"])
def test_66_a_strategy_that_does_not_run_has_failed_cases(sandbox, strategy):
    report = value(sandbox.evaluate(f"await hf.eval({{cases: [{{input: 'a', expected: ''}}]}}, '{strategy}')"))
    assert report["aggregated"]["passed"] == 0
    assert report["failures"][0]["error"]


def test_65_a_card_of_the_evaluation(sandbox):
    source = """const report = await hf.eval('scene', 'shout', {autoCard: true}); report.card_id"""
    assert value(sandbox.evaluate(source)) == "c1"


def test_cases_go_one_after_the_other(sandbox):
    talk = Talk(
        sandbox,
        "(await hf.eval({cases: [{input: 'a', expected: '1'}, {input: 'b', expected: '2'}]}, 'asks')).aggregated.passed",
        "1",
        "2",
    )
    assert (talk.prompts, talk.value) == ([["a"], ["b"]], 2)


# ---- limits and rest ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["hf.log('info', 'x')", "hf.progress(1, 2)", "hf.stats.record('k', 1)"])
def test_records_count_as_events_and_output(javascript, call):
    with javascript.create(limits=Limits(max_events=10)) as sandbox:
        outcome = sandbox.evaluate(f"for (;;) {call}")
        assert isinstance(outcome, Breached)
        assert len(outcome.events) == 10
    with javascript.create(limits=Limits(max_output_kb=16)) as sandbox:
        assert isinstance(sandbox.evaluate(f"for (;;) {call}"), Breached)


def test_a_session_is_thawed_in_the_middle_of_everything(javascript):
    with javascript.create(host=HOST) as sandbox:
        outcome = sandbox.evaluate(
            "await hf.pipe([c => hf.parallel([1, 2], x => 'p' + x, {schema: {type: 'integer'}}).then(result => ({result})), 'asks'], {})"
        )
        image = sandbox.freeze()
    for answer in ("1", {}, 7, "end"):
        assert isinstance(outcome, Paused)
        with javascript.thaw(image, host=HOST) as thawed:
            outcome = thawed.resume({outcome.open[0]: answer})
            image = thawed.freeze()
            last = outcome
    assert value(last)["result"] == "end"


WEIRD = """[undefined, null, NaN, -1, 1e300, '', 'x', [], [undefined], ['x'], {}, () => 1, Symbol('s'), 10n, [[[]]], new Map(), new Date(NaN), /x/,
    Promise.resolve(1), {then: 5}, Object.create(null), {get a() { throw new Error('mine') }}, {toJSON() { throw new Error('mine') }}, {toString: null},
    new Proxy({}, {get() { throw new Error('mine') }, ownKeys() { throw new Error('mine') }}), new Proxy([], {get() { throw new Error('mine') }}),
    Proxy.revocable({}, {}).proxy, {length: -1}, Object.assign([], {length: 3}), new Proxy(() => 1, {apply() { throw new Error('mine') }})]"""


def test_anything_at_all_is_taken_or_refused_by_all_functions(javascript):
    limits = Limits(wall_ms=60_000, cpu_ms=60_000, max_events=0, max_output_kb=0)
    with javascript.create(limits=limits, host=Host(modules=MODULES)) as sandbox:
        outcome = sandbox.evaluate(f"""
            const weird = {WEIRD}, all = [], quiet = async call => {{ try {{ await call() }} catch {{}} }};
            for (const part of [hf, hf.state, hf.stats, hf.card])
                for (const name of Object.keys(part)) if (typeof part[name] === 'function' && name !== 'sleep') all.push(part[name]);
            for (const call of all) weird.forEach((a, i) => [a, weird[(i * 7 + 3) % weird.length]].forEach(b => quiet(() => call(a, b, b))));
            all.length
        """)
        assert value(outcome) > 50
        assert {event.type for event in outcome.events} <= {"query", "cancelled", "log", "progress", "stat"}
        assert value(sandbox.evaluate("hf.jsonEncode({still: 'here'})")) == '{"still":"here"}'
