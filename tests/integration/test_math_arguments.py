"""Arguments of alc.math and hf.math: what is refused, what is copied, and limits that hold inside."""

import math

import pytest

from holdfast.domain import Limit
from holdfast.sandbox import Breached, Failed
from tests.integration.math_calls import LIMITS, NAMES, NOW, call_all, camel, run, value, written

NUMBERS = "must be a non-empty array of finite numbers"
BAD = [
    ("mean", [[]], f"values {NUMBERS}"),
    ("mean", [[1, math.nan]], f"values {NUMBERS}"),
    ("mean", [[1, math.inf]], f"values {NUMBERS}"),
    ("mean", [["1"]], f"values {NUMBERS}"),
    ("mean", [[[1]]], f"values {NUMBERS}"),
    ("mean", [{"a": 1}], f"values {NUMBERS}"),
    ("mean", ["text"], f"values {NUMBERS}"),
    ("mean", [3], f"values {NUMBERS}"),
    ("mean", [True], f"values {NUMBERS}"),
    ("percentile", [[1], 101], "p must be a number from 0 to 100"),
    ("percentile", [[1], math.nan], "p must be a number from 0 to 100"),
    ("percentile", [[1], "50"], "p must be a number from 0 to 100"),
    ("covariance", [[1, 2], [1]], "xs and ys must have the same length"),
    ("correlation", [[1], [1]], "xs and ys must have at least two values"),
    ("correlation", [[0.1] * 7, [1, 2, 3, 4, 5, 6, 7]], "of a constant array there is no correlation"),
    ("spearman_correlation", [[1, 2], [3, 3]], "of a constant array there is no correlation"),
    ("kendall_tau", [[1, 2], [3, 3]], "of a constant array there is no correlation"),
    ("autocorrelation", [[2, 2], 1], "of a constant array there is no correlation"),
    ("autocorrelation", [[1, 2], 2], "lag must be less than the number of values"),
    ("histogram", [[1], 0], "bins must be an integer above 0"),
    ("histogram", [[1], 1.5], "bins must be an integer above 0"),
    ("histogram", [[1], 10**7], "bins must be at most 1000000"),
    ("wilson_ci", [2, 1], "successes must not be more than total"),
    ("wilson_ci", [0, 0], "total must be a finite number above 0"),
    ("wilson_ci", [1, 2, 95], "confidence must be a number from 0 to 1"),
    ("log_normalize", [[1, -1]], "values must be an array of finite numbers of at least 0, one of them above 0"),
    ("normal_cdf", [1, 0, 0], "sigma must be a finite number above 0"),
    ("normal_ppf", [1.5], "p must be a number from 0 to 1"),
    ("beta_cdf", [0.5, 0, 1], "alpha must be a finite number above 0"),
    ("factorial", [171], "n must be at most 170"),
    ("factorial", [-1], "n must be an integer of at least 0"),
    ("factorial", [2.5], "n must be an integer of at least 0"),
    ("factorial", [math.inf], "n must be an integer of at least 0"),
    ("welch_t_test", [[1], [1, 2]], "xs and ys must have at least two values each"),
    ("welch_t_test", [[1, 1], [2, 2]], "the values of xs and ys do not vary"),
    ("chi_squared_test", [[1, 2], [1, 0]], "expected must only have values above 0"),
    ("chi_squared_test", [[1, -2], [1, 1]], "observed must not have values below 0"),
    ("chi_squared_test", [[1], [1]], "observed and expected must have at least two values"),
    ("mann_whitney_u", [[1], [2], {"tie_correction": 1}], "tie_correction must be true or false"),
    ("mann_whitney_u", [[1], [2], 3], "continuity_correction must be true or false"),
    ("mrr", [[1.5]], "rankings must be a non-empty array of ranks, or of arrays of relevances"),
    ("mrr", [[[["deep"]]]], "rankings must be a non-empty array of ranks, or of arrays of relevances"),
    ("ndcg", [[1], 0], "k must be an integer above 0"),
    ("entropy", [[0.5, 0.4]], "probs must be an array of probabilities that add up to 1"),
    ("entropy", [[1.5, -0.5]], "probs must be an array of probabilities that add up to 1"),
    ("kl_divergence", [[1], [0.5, 0.5]], "p and q must have the same length"),
    ("cross_entropy", [[0.5, 0.5], [1]], "p and q must have the same length"),
    ("moving_average", [[1, 2], 3], "window must not be larger than the number of values"),
    ("ewma", [[1], 0], "alpha must be a number above 0 and at most 1"),
    ("permutations", [9], "there are more than 40320 permutations"),
    ("permutations", [2**53 - 1, 2**53 - 1], "there are more than 40320 permutations"),
    ("permutations", [3, 4], "k must not be larger than n"),
    ("rng_create", [1.5], "seed must be an integer"),
    ("rng_create", ["1"], "seed must be an integer"),
    ("rng_float", [{}], "rng must be a generator of random numbers"),
    ("rng_float", [42], "rng must be a generator of random numbers"),
    ("normal_sample", [None, 0, 1], "rng must be a generator of random numbers"),
]
BAD_WITH_RNG = [
    ("rng_int", [3, 2], "min must not be greater than max"),
    ("rng_int", [1, 2.5], "max must be an integer"),
    ("normal_sample", [0, -1], "stddev must be a finite number of at least 0"),
    ("normal_sample", [0, math.nan], "stddev must be a finite number of at least 0"),
    ("gamma_sample", [0, 1], "shape must be a finite number above 0"),
    ("uniform_sample", [2, 2], "low must be less than high"),
    ("uniform_sample", [-1e308, 1e308], "low and high are too far apart"),
    ("poisson_sample", [1e16], "lambda must be at most 1e15"),
    ("binomial_sample", [-1, 0.5], "n must be an integer of at least 0"),
    ("binomial_sample", [2**53 - 1, 0.5], "n must be at most 1e15"),
    ("dirichlet_sample", [[1]], "alphas must be an array of two or more finite numbers above 0"),
    ("categorical_sample", [[0, 0]], "weights must be an array of finite numbers of at least 0, one of them above 0"),
    ("shuffle", [5], "values must be an array"),
    ("sample_with_replacement", [[], 3], "values must not be empty"),
    ("sample_with_replacement", [[1], 10**9], "n must be at most 67108864"),
]


@pytest.fixture(scope="module")
def template(engine, plain, language):
    return plain(engine, language)


def message(found, name, language):
    prefix = f"alc.math.{name}: " if language == "lua" else f"hf.math.{camel(name)}: "
    assert prefix in found["error"], found
    return found["error"].split(prefix)[1]


def test_what_is_wrong_is_said(template, language):
    found = call_all(template, language, [(name, args) for name, args, _ in BAD])
    for (name, _, expected), actual in zip(BAD, found, strict=True):
        option = expected.split()[0]
        assert message(actual, name, language) == (expected if language == "lua" else expected.replace(option, camel(option)))
    for name, args, expected in BAD_WITH_RNG:
        call = written(name, ["RNG", *args], language).replace("'RNG'", "r")
        source = {
            "lua": f"local r = alc.math.rng_create(1) local ok, message = pcall(function() return {call} end) return {{error = message}}",
            "javascript": f"let r = hf.math.rngCreate(1), error; try {{ {call} }} catch (e) {{ error = e.message }} ({{error}})",
        }
        assert message(run(template, source[language]), name, language) == expected


def test_any_argument_is_refused_or_taken(template, language):
    """Whatever is passed, the guest lives on: a call gives something, or an error that names the function."""
    odd = [
        None,
        True,
        "x",
        -1,
        0,
        0.5,
        2,
        1e300,
        -1e300,
        math.nan,
        math.inf,
        [],
        [1],
        [1, 2, 3],
        [0.5, 0.5],
        [1e308] * 3,
        [[1, 0]],
        {"a": 1},
    ]
    calls = [(name, [one] * count) for name in NAMES for count in (0, 1, 3) for one in (odd if count else [None])]
    calls += [(name, [odd[i % len(odd)], odd[i * 5 % len(odd)], odd[i * 7 % len(odd)]]) for i, name in enumerate(NAMES * 4)]
    found = call_all(template, language, calls)
    for (name, _), result in zip(calls, found, strict=True):
        if isinstance(result, dict) and "error" in result:
            assert message(result, name, language)


def test_a_message_says_where_in_lua(lua):
    with lua.create(seed=7) as sandbox:
        outcome = sandbox.evaluate("local x = 1\nreturn alc.math.mean({})", "work.lua", now=NOW)
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "work.lua:2: alc.math.mean: values must be a non-empty array of finite numbers"


def test_lua_tables_are_taken_as_they_are(lua):
    source = """
        local hidden = setmetatable({}, {__index = function() return 1 end, __len = function() return 3 end})
        local locked = setmetatable({3, 1, 2}, {__newindex = error, __index = error})
        local r = alc.math.rng_create(1)
        return {(pcall(alc.math.mean, hidden)), alc.math.median(locked), alc.math.shuffle(r, locked) == locked,
                alc.math.sample_with_replacement(r, {1}, 0)}
    """
    assert run(lua, source) == [False, 2.0, True, []]


def test_javascript_arrays_of_any_kind(javascript):
    source = """
        const log = [], m = hf.math, r = m.rngCreate(3);
        const getter = [1, 2, 3];
        Object.defineProperty(getter, 1, {get() { log.push('get'); getter.length = 2; return 5; }, configurable: true});
        const attempt = f => { try { return f() } catch (e) { return e.message } };
        const typed = m.shuffle(r, Float64Array.of(1, 2, 3, 4));
        [m.mean(Float64Array.of(1, 2, 6)), m.mean(new Uint8Array([1, 3])), m.median(Object.freeze([3, 1, 2])),
         attempt(() => m.mean(getter)), log.length,
         attempt(() => m.mean([1, , 3])), attempt(() => m.mean(new Array(4e9))), attempt(() => m.mean(BigInt64Array.of(1n))),
         attempt(() => m.mean({get 0() { throw new Error('inside') }, length: 1, __proto__: Array.prototype})),
         attempt(() => m.mean(Object.defineProperty([1], 0, {get() { throw new Error('inside') }}))),
         attempt(() => m.shuffle(r, Object.freeze([1, 2]))),
         [...typed].sort().join(), typed instanceof Float64Array, m.sampleWithReplacement(r, [1], 0).length, m.mean([1, 2], 'more')]
    """
    refused = "hf.math.mean: values must be a non-empty array of finite numbers"
    assert run(javascript, source) == [
        3, 2, 2, refused, 1, refused, refused, refused, refused, "inside", "'0' is read-only", "1,2,3,4", True, 0, 1.5,
    ]  # fmt: skip


# ---- limits --------------------------------------------------------------------------------------------------------------------


def test_nothing_is_left_of_calls_that_fail(template, language):
    """Thousands of calls that fail after they have copied much: their memory would not fit into the limit."""
    source = {
        "lua": """
            local t = {} for i = 1, 5000 do t[i] = i end
            t[5001] = 'no number'
            for i = 1, 700 do assert(not pcall(alc.math.mean, t)) assert(not pcall(alc.math.covariance, {1}, {1, 2})) end
            t[5001] = nil
            for i = 1, 100 do alc.math.rank(t) end
            return alc.math.mean(t)
        """,
        "javascript": """
            const t = Array.from({length: 5000}, (_, i) => i + 1), bad = [...t, 'no number'];
            for (let i = 0; i < 700; i++) { try { hf.math.mean(bad); throw 1 } catch (e) { if (e === 1) throw e } }
            for (let i = 0; i < 100; i++) hf.math.rank(t);
            hf.math.mean(t)
        """,
    }
    with template.create(seed=7, limits=LIMITS.but(mem_mb=24)) as sandbox:
        assert value(sandbox.evaluate(source[language], now=NOW)) == 2500.5


@pytest.mark.parametrize("limit", ["cpu", "memory"])
def test_limits_hold_inside(template, language, limit):
    source = {
        "lua": "local r, t = alc.math.rng_create(1), {1, 2, 3} while true do alc.math.sample_with_replacement(r, t, SIZE) end",
        "javascript": "const r = hf.math.rngCreate(1); for (;;) hf.math.sampleWithReplacement(r, [1, 2, 3], SIZE)",
    }[language]
    size, limits = ("100000", {"cpu_ms": 100}) if limit == "cpu" else ("60000000", {"mem_mb": 64})
    with template.create(seed=7, limits=LIMITS.but(**limits)) as sandbox:
        outcome = sandbox.evaluate(source.replace("SIZE", size), now=NOW)
    assert isinstance(outcome, Breached)
    assert outcome.breach.limit == (Limit.CPU if limit == "cpu" else Limit.MEMORY)
