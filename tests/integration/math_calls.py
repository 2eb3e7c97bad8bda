"""Ways to call alc.math in Lua and hf.math in JavaScript that their tests share."""

import math

from holdfast.domain import Limits
from holdfast.sandbox import Finished

NOW = 1_700_000_000_000.0
LIMITS = Limits(wall_ms=30_000, cpu_ms=30_000, max_output_kb=4_000)
GROUPS = (
    "rng_create rng_float rng_int shuffle sample_with_replacement",
    "normal_sample beta_sample gamma_sample exp_sample uniform_sample lognormal_sample student_t_sample chi_squared_sample",
    "poisson_sample binomial_sample dirichlet_sample categorical_sample",
    "mean variance stddev median percentile iqr covariance correlation softmax log_normalize histogram wilson_ci",
    "normal_cdf beta_cdf gamma_cdf poisson_cdf normal_inverse_cdf normal_ppf beta_ppf beta_mean beta_variance",
    "erf erfc lgamma beta ln_beta regularized_incomplete_beta regularized_incomplete_gamma digamma factorial ln_factorial",
    "logsumexp logit expit",
    "welch_t_test mann_whitney_u chi_squared_test ks_test",
    "rank spearman_correlation kendall_tau ndcg mrr",
    "entropy kl_divergence js_divergence cross_entropy",
    "moving_average ewma autocorrelation",
    "permutations",
)
NAMES = [name for group in GROUPS for name in group.split()]


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def literal(value, language):
    lua = language == "lua"
    if isinstance(value, list):
        inside = ", ".join(literal(item, language) for item in value)
        return f"{{{inside}}}" if lua else f"[{inside}]"
    if isinstance(value, dict):
        fields = [
            f"{key if lua else camel(key)} {'=' if lua else ':'} {literal(item, language)}" for key, item in value.items()
        ]
        return "{" + ", ".join(fields) + "}"
    if value is None:
        return "nil" if lua else "undefined"
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    if math.isnan(value):
        return "(0/0)"
    if math.isinf(value):
        return "(1/0)" if value > 0 else "(-1/0)"
    return repr(value)


def written(name, args, language):
    function = f"alc.math.{name}" if language == "lua" else f"hf.math.{camel(name)}"
    return f"{function}({', '.join(literal(arg, language) for arg in args)})"


def program(calls, language):
    """A snippet that makes all calls, and gives a list of what each gave, or of its error as {"error": message}."""
    made = [written(name, args, language) for name, args in calls]
    if language == "lua":
        lines = [f"keep(pcall(function() return {call} end))" for call in made]
        head = "local out = {} local function keep(ok, value) out[#out + 1] = ok and value or {error = value} end\n"
        return head + "\n".join(lines) + "\nreturn out"
    lines = [f"keep(() => {call})" for call in made]
    head = "const out = [], keep = f => { try { out.push(f()) } catch (e) { out.push({error: e.message}) } };\n"
    return head + ";\n".join(lines) + ";\nout"


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def run(template, source):
    """The value of a snippet in a sandbox of its own."""
    with template.create(seed=7, limits=LIMITS) as sandbox:
        return value(sandbox.evaluate(source, now=NOW))


def call_all(template, language, calls):
    """What calls of functions give, each with its arguments."""
    return run(template, program(calls, language))


def close(actual, expected, tolerance=1e-12):
    if isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(close(actual[key], expected[key], tolerance) for key in expected)
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(
            close(one, other, tolerance) for one, other in zip(actual, expected, strict=True)
        )
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(actual)
    return actual == expected or math.isclose(actual, expected, rel_tol=tolerance, abs_tol=1e-300)


def same_bits(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_bits, one, other))
    return float(one).hex() == float(other).hex()


def counted_from_one(name, result):
    """What JavaScript counts from 0 and Lua from 1, as Lua has it."""
    if name == "permutations":
        return [[item + 1 for item in row] for row in result]
    return result + 1 if name == "categorical_sample" else result
