"""Asking models in Lua: options, batches, wrappers, cache, forks. The numbers are those of algocline's conformance list."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import Breached, Failed, Failure, Finished, Host, Module, Modules, Paused
from tests.integration.lua_runs import NOW, answered, failure, run, value


def asked(events):
    return [event.payload["payload"] for event in events if event.type == "query"]


def levels(events):
    return [event.payload["level"] for event in events if event.type == "log"]


# ---- options ---------------------------------------------------------------------------------------------------------------------------


def test_all_options_reach_whoever_answers(lua):
    source = """alc.llm('p', {system = 's', max_tokens = 512.0, temperature = 0, model = 'm', role = 'critic', stop = {'a', 'b'}, grounded = true,
      underspecified = false, timeout_ms = 5, default = {1}, own = {x = {}}})"""
    (query,) = run(lua, source).queries
    assert query.payload == {
        "prompt": "p",
        "system": "s",
        "max_tokens": 512,
        "temperature": 0,
        "model": "m",
        "role": "critic",
        "stop": ["a", "b"],
        "grounded": True,
        "underspecified": False,
        "timeout_ms": 5,
        "default": [1],
        "own": {"x": {}},
    }
    assert type(query.payload["max_tokens"]) is int


def test_nothing_is_filled_in(lua):
    assert run(lua, "alc.llm('p')").queries[0].payload == {"prompt": "p"}
    assert run(lua, "alc.llm('p', {system = alc.null})").queries[0].payload == {"prompt": "p", "system": None}
    assert run(lua, "alc.llm(5)").queries[0].payload == {"prompt": "5"}


WRONG = [
    ("system = 5", "system must be a string, got 5"),
    ("max_tokens = '10'", "max_tokens must be a whole number above 0, got string"),
    ("max_tokens = 0", "max_tokens must be a whole number above 0, got 0"),
    ("max_tokens = 1.5", "max_tokens must be a whole number above 0, got 1.5"),
    ("temperature = 'hot'", "temperature must be a number, got string"),
    ("temperature = 0/0", "temperature must be a number"),
    ("model = {}", "model must be a string, got table"),
    ("role = true", "role must be a string, got boolean"),
    ("stop = {1}", "stop must be a string or a list of strings, got table"),
    ("grounded = 1", "grounded must be true or false, got 1"),
    ("timeout_ms = 'x'", "timeout_ms must be a number, got string"),
    ("schema = {}, retries = -1", "retries must be a whole number, not negative"),
    ("prompt = alc.null", "a prompt or messages are needed"),
]


@pytest.mark.parametrize(("option", "message"), WRONG)
def test_a_wrong_option_raises_at_the_call(lua, option, message):
    outcome = run(lua, f"alc.llm({{prompt = 'p', {option}}})")
    assert f"alc.llm: {message}" in failure(outcome).message
    assert outcome.events == ()
    outcome = run(lua, f"alc.llm_batch({{'a', {{prompt = 'p', {option}}}}})")
    assert f"item 2: {message}" in failure(outcome).message
    assert outcome.events == ()


# ---- batches ---------------------------------------------------------------------------------------------------------------------------


def test_an_empty_batch_is_an_error(lua):
    assert failure(run(lua, "alc.llm_batch({})")).message.endswith("alc.llm_batch: empty items array")


PARALLEL = [
    ("alc.parallel({}, print)", "alc.parallel: items must be a non-empty array"),
    ("alc.parallel(5, print)", "alc.parallel: items must be a non-empty array"),
    ("alc.parallel({1}, 'x')", "alc.parallel: prompt_fn must be a function"),
    ("alc.parallel({1}, function() return 5 end)", "alc.parallel: prompt_fn must return string or table, got number at index 1"),
    ("alc.parallel({1, 2}, function(n) if n == 1 then return 'x' end end)", "alc.parallel: prompt_fn must return string or table, got nil at index 2"),
    ("alc.parallel({1}, function() return {} end)", "alc.parallel: prompt_fn returned table without .prompt at index 1"),
    ("alc.parallel({1}, tostring, {post_fn = 5})", "alc.parallel: post_fn must be a function"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "message"), PARALLEL)
def test_51_parallel_refuses(lua, source, message):
    outcome = run(lua, source)
    assert message in failure(outcome).message
    assert outcome.events == ()


def test_parallel_asks_everything_in_one_round(lua):
    source = """
    return alc.parallel({'a', 'b'}, function(item, i)
      if i == 1 then return item .. i end
      return {prompt = item .. i, max_tokens = 7}
    end, {system = 's', temperature = 0.5, post_fn = function(answer, item, i) return answer .. item .. i end})
    """
    with lua.create() as sandbox:
        outcome = sandbox.evaluate(source)
        assert [query.payload for query in outcome.queries] == [
            {"prompt": "a1", "system": "s", "temperature": 0.5},
            {"prompt": "b2", "max_tokens": 7},
        ]
        assert value(sandbox.resume({1: "x", 2: "y"})) == ["xa1", "yb2"]


def test_prompts_may_be_asked_for_too(lua):
    source = "return alc.parallel({'a', 'b'}, function(x) return alc.llm('prompt for ' .. x) end, {post_fn = function(r) return alc.llm(r) end})"
    outcome, events, _ = answered(lua, source, lambda query: f"{query.id}", thawed=True)
    assert value(outcome) == ["5", "6"]
    assert [query["prompt"] for query in asked(events)] == ["prompt for a", "prompt for b", "1", "2", "3", "4"]


# ---- wrappers --------------------------------------------------------------------------------------------------------------------------


def test_58_llm_safe(lua):
    outcome, events, _ = answered(lua, "return alc.llm_safe('p', {system = 's'}, 'd')")
    assert (value(outcome), asked(events), levels(events)) == ("a1", [{"prompt": "p", "system": "s"}], [])
    outcome, events, _ = answered(lua, "return alc.llm_safe('p', nil, 'd')", lambda _: Failure("gone", "BUSY"))
    assert (value(outcome), levels(events)) == ("d", ["warn"])
    assert "gone" in next(event.payload["message"] for event in events if event.type == "log")
    outcome, _, _ = answered(lua, "return alc.llm_safe('p') == nil", lambda _: Failure("gone"))
    assert value(outcome) is True
    outcome = run(lua, "return alc.llm_safe('p', {max_tokens = 'x'}, 'd')")
    assert (value(outcome), levels(outcome.events)) == ("d", ["warn"])


def test_59_llm_json(lua):
    source = "local t, raw = alc.llm_json('List it', {max_tokens = 9, system = 'own'}) return {t = t, raw = raw}"
    for answer in ('{"a": 1}', 'so:\n```json\n{"a": 1}\n```'):
        outcome, events, _ = answered(lua, source, lambda _, answer=answer: answer)
        assert (value(outcome), len(asked(events)), levels(events)) == ({"t": {"a": 1}, "raw": answer}, 1, [])
    answers = iter(["broken {", "[2]"])
    outcome, events, _ = answered(lua, source, lambda _: next(answers))
    assert (value(outcome), levels(events)) == ({"t": [2], "raw": "[2]"}, ["warn"])
    first, second = asked(events)
    assert first == {"prompt": "List it", "max_tokens": 9, "system": "own"}
    assert second["max_tokens"] == 9
    assert "JSON" in second["system"]
    assert "broken {" in second["prompt"]
    assert "List it" in second["prompt"]
    outcome, events, _ = answered(lua, source, lambda _: "none")
    assert (value(outcome), levels(events), len(asked(events))) == ({"raw": "none"}, ["warn", "warn"], 2)
    outcome, _, _ = answered(lua, source, lambda _: {"a": 1})
    assert value(outcome) == {"t": {"a": 1}, "raw": '{"a":1}'}


def test_ground_and_specify(lua):
    source = "local o = {grounded = false, system = 's'} alc.ground('c', o) alc.specify('p') return o"
    outcome, events, _ = answered(lua, source)
    assert value(outcome) == {"grounded": False, "system": "s"}
    assert asked(events) == [{"prompt": "c", "grounded": True, "system": "s"}, {"prompt": "p", "underspecified": True}]


# ---- cache -----------------------------------------------------------------------------------------------------------------------------


def test_52_the_cache_asks_once(lua):
    source = """
    local first = alc.cache_info()
    local a, b = alc.cache('p', {system = 's'}), alc.cache('p', {system = 's'})
    local c, d, e = alc.cache('P', {system = 's'}), alc.cache('p'), alc.cache('p', {system = 's', temperature = 1})
    return {first, a, b, c, d, e, alc.cache_info()}
    """
    outcome, events, _ = answered(lua, source)
    first, *answers, last = value(outcome)
    assert first == {"entries": 0, "hits": 0, "misses": 0, "max_entries": 256}
    assert answers == ["a1", "a1", "a2", "a3", "a4"]
    assert last == {"entries": 4, "hits": 1, "misses": 4, "max_entries": 256}
    assert asked(events)[0] == {"prompt": "p", "system": "s"}


def test_keys_skipping_and_clearing(lua):
    source = """
    local a, b = alc.cache('p', {cache_key = 'k'}), alc.cache('other', {cache_key = 'k'})
    local c = alc.cache('p', {cache_key = 'k', cache_skip = true})
    alc.cache_clear()
    local zero = alc.cache_info()
    local d = alc.cache('p', {cache_key = 'k'})
    return {a, b, c, d, zero, alc.cache_info()}
    """
    outcome, events, _ = answered(lua, source)
    *answers, zero, last = value(outcome)
    assert answers == ["a1", "a1", "a2", "a3"]
    assert (zero["entries"], zero["hits"], last["entries"], last["misses"]) == (0, 0, 1, 1)
    assert all("cache_key" not in query and "cache_skip" not in query for query in asked(events))


def test_the_oldest_answer_goes_and_tables_are_copied(lua):
    source = """
    for i = 1, 257 do alc.cache('p' .. i) end
    local t = alc.cache('p257') t.n = 'changed'
    return {alc.cache_info().entries, alc.cache('p257').n, alc.cache('p2').n, alc.cache('p1').n}
    """
    outcome, _, _ = answered(lua, source, lambda query: {"n": query.id})
    assert value(outcome) == [256, 257, 2, 258]


def test_the_cache_lives_as_long_as_the_session(lua):
    with lua.create() as sandbox:
        sandbox.evaluate("return alc.cache('p')")
        sandbox.resume({1: "x"})
        assert value(sandbox.evaluate("return alc.cache('p')")) == "x"


# ---- forks -----------------------------------------------------------------------------------------------------------------------------

PACKAGES = Modules(
    {
        "good": Module("script", "return {run = function(ctx) return {result = ctx.task .. '!'} end}"),
        "asks": Module("script", "return {run = function(ctx) return alc.llm(ctx.task) end}"),
        "bad": Module("script", "return {run = function() error({code = 'X', message = 'deliberate'}) end}"),
        "odd": Module("script", "return {run = function() return print end}"),
        "none": Module("script", "return {run = function() end}"),
        "runless": Module("script", "return {}"),
    }
)
HOST = Host({}, PACKAGES)
FORK = "local here = 'kept' return alc.fork({'good', 'asks', 'bad', 'odd', 'none', 'runless', 'missing', function(c) return here .. c.task end}, {task = 't'})"
NAMES = ["good", "asks", "bad", "odd", "none", "runless", "missing", "(inline-8)"]


def forked(lua, source=FORK):
    sandbox = lua.create(host=HOST, seed=7)
    outcome = sandbox.evaluate(source, now=NOW)
    assert isinstance(outcome, Paused), outcome
    return sandbox, outcome.queries[0]


def child(lua, sandbox, index):
    """What a branch asks when it is told that it is one."""
    with lua.thaw(sandbox.freeze(), host=HOST) as branch:
        outcome = branch.resume({1: {"child": index}}, now=NOW)
        while isinstance(outcome, Paused) and outcome.queries[0].kind == "llm":
            outcome = branch.resume({outcome.queries[0].id: "said"}, now=NOW)
        (query,) = outcome.queries
        assert (query.kind, query.payload["name"]) == ("tool", "holdfast.exit")
        return query.payload["args"]


def test_32_a_fork_asks_the_runtime(lua):
    sandbox, query = forked(lua)
    assert query.kind == "tool"
    assert query.payload == {"name": "holdfast.fork", "args": {"strategies": NAMES, "on_error": "skip"}}
    sandbox.close()


def test_32_each_branch_runs_its_own_entry_and_leaves(lua):
    sandbox, _ = forked(lua)
    said = [child(lua, sandbox, index) for index in range(1, 9)]
    assert said[0] == {"ok": True, "value": {"result": "t!"}}
    assert said[1] == {"ok": True, "value": "said"}
    assert said[2] == {"ok": False, "error": "deliberate"}
    assert said[3]["ok"] is False
    assert "unsupported value type" in said[3]["error"]
    assert said[4] == {"ok": True, "value": None}
    assert "has no function run" in said[5]["error"]
    assert "missing" in said[6]["error"]
    assert said[7] == {"ok": True, "value": "keptt"}
    sandbox.close()


def test_32_the_parent_gets_the_results_in_order(lua):
    sandbox, query = forked(lua)
    results = [{"strategy": name, "ok": True, "result": name} for name in NAMES[:-1]]
    results.append({"strategy": "(inline-8)", "ok": False, "error": "e"})
    assert value(sandbox.resume({query.id: {"results": results}})) == results
    sandbox.close()


def test_a_fork_waits_and_branches_anywhere(lua):
    source = """
    local co = coroutine.wrap(function()
      local ok, results = pcall(alc.fork, {function() return alc.llm('in') end}, {})
      return {ok, results}
    end)
    return co()
    """
    sandbox, query = forked(lua, source)
    assert child(lua, sandbox, 1) == {"ok": True, "value": "said"}
    assert value(sandbox.resume({query.id: {"results": []}})) == [True, []]
    sandbox.close()


@pytest.mark.parametrize(("mode", "sent"), [("abort", "abort"), ("fail", "abort"), ("skip", "skip")])
def test_what_a_failed_branch_does(lua, mode, sent):
    sandbox, query = forked(lua, f"return alc.fork({{'good', 'bad'}}, {{}}, {{on_error = '{mode}'}})")
    assert query.payload["args"]["on_error"] == sent
    results = [{"strategy": "good", "ok": True, "result": 1}, {"strategy": "bad", "ok": False, "error": "deliberate"}]
    outcome = sandbox.resume({query.id: {"results": results}})
    if mode == "skip":
        assert value(outcome) == results
    else:
        assert "alc.fork: strategy 'bad' failed: deliberate" in failure(outcome).message
    sandbox.close()


FORKS = [
    ("alc.fork({}, {})", "alc.fork: strategies must be a non-empty array"),
    ("alc.fork('good', {})", "alc.fork: strategies must be a non-empty array"),
    ("alc.fork({'a/b'}, {})", "alc.fork: invalid strategy name 'a/b'"),
    ("alc.fork({'../x'}, {})", "alc.fork: invalid strategy name '../x'"),
    ("alc.fork({'1a'}, {})", "alc.fork: invalid strategy name '1a'"),
    ("alc.fork({''}, {})", "alc.fork: invalid strategy name ''"),
    ("alc.fork({'good', 5}, {})", "alc.fork: invalid strategy name '5'"),
    ("alc.fork({'good'}, {}, {on_error = 'retry'})", "alc.fork: on_error must be 'skip', 'abort' or 'fail'"),
    ("alc.fork({'good'}, {}, 5)", "alc.fork: options must be a table"),
]


@pytest.mark.parametrize(("source", "message"), FORKS)
def test_wrong_forks_are_refused(lua, source, message):
    outcome = run(lua, source)
    assert message in failure(outcome).message
    assert outcome.events == ()


def test_a_fork_that_is_refused_raises(lua):
    outcome, _, _ = answered(lua, "return alc.fork({'good'}, {})", lambda _: Failure("too many", "FORK_LIMIT"))
    assert outcome.error.code == "FORK_LIMIT"
    for nonsense in ("text", 5, None, {}):
        outcome, _, _ = answered(lua, "return alc.fork({'good'}, {})", lambda _, nonsense=nonsense: nonsense)
        assert outcome.error.code == "BAD_ANSWER"


def test_exit_ends_the_execution_with_a_value(lua):
    (query,) = run(lua, "alc.exit({a = {1}, b = alc.null}) error('not reached')").queries
    assert (query.kind, query.payload) == (
        "tool",
        {"name": "holdfast.exit", "args": {"ok": True, "value": {"a": [1], "b": None}}},
    )
    assert run(lua, "pcall(alc.exit)").queries[0].payload["args"] == {"ok": True, "value": None}
    outcome, _, _ = answered(lua, "alc.exit(1) return 'reached'")
    assert failure(outcome).code == "EXIT_REFUSED"


# ---- limits ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "while true do alc.log('info', 'x') end",
        "while true do alc.stats.record('k', 1) end",
        "local t = {} for i = 1, 1e6 do t[i] = 'p' end return alc.llm_batch(t)",
        "local t = {} t.t = t return alc.llm('p', t)",
        "local function f() return alc.map({1}, f) end return f()",
        "return alc.pipe({function(c) return alc.pipe({c.f}, c) end}, {f = nil})",
        "return alc.json_encode(('x'):rep(2^24))",
        "return alc.fingerprint(('a b'):rep(2^22))",
        "return alc.json_extract(('{\"a\":['):rep(2^18))",
        "return alc.chunk(('x'):rep(2^20), {mode = 'chars', size = 1})",
        "return alc.match_enum(('x'):rep(2^20), {'y', ('x'):rep(2^19) .. 'y'})",
        "local t = {} for i = 1, 64 do t = {t, t} end return alc.json_encode(t)",
        "return alc.cache('p', {deep = (function() local t = {} for i = 1, 300 do t = {t} end return t end)()})",
    ],
)
def test_hostile_input_ends_by_the_limits(lua, source):
    outcome = run(lua, source, limits=Limits(cpu_ms=100, wall_ms=5000, max_events=1000))
    assert isinstance(outcome, (Breached, Failed, Finished, Paused))
