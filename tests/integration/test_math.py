"""alc.math in Lua and hf.math in JavaScript: 68 functions, the same in both.

What they give is compared with Python's own modules, with exact sums, and with published values.
"""

import itertools
import math
import statistics
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from tests.integration.math_calls import NAMES, call_all, camel, close, counted_from_one, run, same_bits


@pytest.fixture(scope="module")
def template(engine, plain, language):
    return plain(engine, language)


def test_all_are_there(template, language):
    names = {
        "lua": "local names = {} for name in pairs(alc.math) do names[#names + 1] = name end return names",
        "javascript": "Object.keys(hf.math)",
    }
    expected = NAMES if language == "lua" else [camel(name) for name in NAMES]
    assert len(NAMES) == 68
    assert sorted(run(template, names[language])) == sorted(expected)


def test_in_javascript_they_cannot_be_replaced(javascript):
    frozen = (
        "Object.isFrozen(hf.math) && Object.values(hf.math).every(Object.isFrozen) && hf.math.welchTTest.name === 'welchTTest'"
    )
    assert run(javascript, frozen) is True


# ---- values --------------------------------------------------------------------------------------------------------------------

DATA = [3.1, -2.0, 7.5, 7.5, 0.25, 12.0, -4.5, 1e3, 2.0, 5.0]
OTHER = [2.0, 1.5, 9.0, 4.0, 4.0, 20.0, -1.0, 500.0, 3.0, 8.0]
P, Q = [0.1, 0.2, 0.3, 0.4, 0.0], [0.25, 0.25, 0.2, 0.2, 0.1]


def exact_beta_cdf(x, a, b):
    """By the binomial distribution, for whole a and b."""
    x, n = Fraction(x), a + b - 1
    return float(sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1)))


def exact_poisson_cdf(k, rate):
    with localcontext() as context:
        context.prec = 60
        rate = Decimal(rate)
        return float((-rate).exp() * sum(rate**i / math.factorial(i) for i in range(k + 1)))


def ranks(values):
    return [sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 for one in values]


def tau_b(xs, ys):
    pairs = list(itertools.combinations(zip(xs, ys, strict=True), 2))
    signs = [((a > c) - (a < c), (b > d) - (b < d)) for (a, b), (c, d) in pairs]
    return sum(a * b for a, b in signs) / math.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a)


def wilson(successes, n, confidence):
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    share, part = successes / n, z * z / n
    center = (share + part / 2) / (1 + part)
    margin = z / (1 + part) * math.sqrt(share * (1 - share) / n + part / n / 4)
    return {"lower": center - margin, "upper": center + margin, "center": center}


def welch(xs, ys):
    a, b = statistics.variance(xs) / len(xs), statistics.variance(ys) / len(ys)
    df = (a + b) ** 2 / (a * a / (len(xs) - 1) + b * b / (len(ys) - 1))
    return (statistics.mean(xs) - statistics.mean(ys)) / math.sqrt(a + b), df


def student_tails(t, df):
    """Both tails of Student's distribution with an even number of degrees of freedom, by its finite sum."""
    share = t / math.sqrt(df + t * t)
    rest = 1 - share * share
    terms = itertools.accumulate(
        (Fraction(2 * i - 1, 2 * i) for i in range(1, df // 2)), lambda a, b: a * b, initial=Fraction(1)
    )
    return 1 - share * sum(float(term) * rest**i for i, term in enumerate(terms))


def upper_tails(z):
    return math.erfc(abs(z) / math.sqrt(2))


NORMAL = statistics.NormalDist()
PAIRED_T, PAIRED_DF = welch([1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 3.0, 4.0, 5.0, 6.0])
EULER = 0.5772156649015329

VALUES = [
    # Python has them
    ("mean", [DATA], statistics.fmean(DATA)),
    ("mean", [[0.1] * 10], 0.1),
    ("mean", [[1e308, 1e308, 1e308]], 1e308),
    ("mean", [[1e16, 1.0, -1e16]], 1 / 3),
    ("variance", [DATA], statistics.variance(DATA)),
    ("variance", [[1e9 + 1, 1e9 + 2, 1e9 + 3]], 1.0),
    ("variance", [[0.1] * 7], 0.0),
    ("variance", [[42.0]], 0.0),
    ("stddev", [DATA], statistics.stdev(DATA)),
    ("median", [DATA], statistics.median(DATA)),
    ("median", [[3, 1, 2]], 2.0),
    ("median", [[5]], 5.0),
    *(("percentile", [DATA, p], statistics.quantiles(DATA, n=100, method="inclusive")[p - 1]) for p in (1, 10, 25, 50, 83, 99)),
    ("percentile", [DATA, 0], min(DATA)),
    ("percentile", [DATA, 100], max(DATA)),
    ("percentile", [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 25], 3.25),
    ("iqr", [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]], 4.5),
    ("covariance", [DATA, OTHER], statistics.covariance(DATA, OTHER)),
    ("correlation", [DATA, OTHER], statistics.correlation(DATA, OTHER)),
    ("correlation", [[1e200, 2e200, 3e200], [3e-200, 2e-200, 1e-200]], -1.0),
    ("spearman_correlation", [DATA, OTHER], statistics.correlation(ranks(DATA), ranks(OTHER))),
    *(("normal_cdf", [x], 0.5 * math.erfc(-x / math.sqrt(2))) for x in (-37.0, -8.5, -1.0, 0.0, 0.3, 6.0)),
    ("normal_cdf", [12.5, 10.0, 2.0], statistics.NormalDist(10, 2).cdf(12.5)),
    *(
        ("normal_ppf", [p], NORMAL.inv_cdf(p))
        for p in (1e-300, 1e-20, 0.001, 0.2, 0.3999, 0.5, 0.500001, 0.79, 0.975, 1 - 1e-16)
    ),
    ("normal_ppf", [0], -math.inf),
    ("normal_ppf", [1], math.inf),
    ("normal_inverse_cdf", [0.9, 10, 2], statistics.NormalDist(10, 2).inv_cdf(0.9)),
    *(("erf", [x], math.erf(x)) for x in (-3.0, -0.1, 0.0, 1e-300, 0.5, 2.5, math.inf)),
    *(("erfc", [x], math.erfc(x)) for x in (-3.0, 0.0, 0.5, 5.0, 26.0)),
    *(("lgamma", [x], math.lgamma(x)) for x in (1e-10, 0.5, 1.0, 1.5, 10.0, 171.5, 1e10, -0.5, -3.7)),
    ("lgamma", [0], math.inf),
    *(("factorial", [n], float(math.factorial(n))) for n in (0, 1, 5, 20, 100, 170)),
    *(("ln_factorial", [n], math.lgamma(n + 1)) for n in (0, 1, 7, 170, 171, 10**6)),
    *(
        ("permutations", [n, k], [list(row) for row in itertools.permutations(range(n), k)])
        for n, k in ((4, 2), (3, 3), (5, 1), (3, 0))
    ),
    ("permutations", [4], [list(row) for row in itertools.permutations(range(4))]),
    ("permutations", [0], [[]]),
    # definitions
    ("softmax", [[1, 2, 3]], [math.exp(i) / sum(map(math.exp, (1, 2, 3))) for i in (1, 2, 3)]),
    ("softmax", [[1000, 1000]], [0.5, 0.5]),
    ("logsumexp", [[1000, 1001, 1002]], 1002 + math.log(1 + math.exp(-1) + math.exp(-2))),
    ("log_normalize", [[1, 10, 100]], [100 * math.log1p(x) / math.log1p(100) for x in (1, 10, 100)]),
    ("log_normalize", [[0, 5]], [0.0, 100.0]),
    ("histogram", [[1, 2, 2, 3, 3, 3, 4, 4, 5], 5], {"counts": [1, 2, 3, 2, 1], "edges": [1.0, 1.8, 2.6, 3.4, 4.2, 5.0]}),
    ("histogram", [[2, 2, 2], 2], {"counts": [3, 0], "edges": [2.0, 2.5, 3.0]}),
    ("histogram", [[-1e308, 1e308], 2], {"counts": [1, 1], "edges": [-1e308, 0.0, 1e308]}),
    ("wilson_ci", [50, 100, 0.95], wilson(50, 100, 0.95)),
    ("wilson_ci", [50, 100], wilson(50, 100, 0.95)),
    ("wilson_ci", [3, 7, 0.5], wilson(3, 7, 0.5)),
    ("wilson_ci", [3, 10, 0], {"lower": 0.3, "upper": 0.3, "center": 0.3}),
    ("wilson_ci", [3, 10, 1], {"lower": 0.0, "upper": 1.0, "center": 0.5}),
    ("logit", [0.73], math.log(0.73 / 0.27)),
    ("logit", [0.5], 0.0),
    ("logit", [0], -math.inf),
    ("expit", [0], 0.5),
    ("expit", [-1000], 0.0),
    ("expit", [3.2], 1 / (1 + math.exp(-3.2))),
    ("beta_mean", [2, 5], 2 / 7),
    ("beta_variance", [2, 5], 10 / (49 * 8)),
    ("beta", [3, 4], 1 / 60),
    ("beta", [0.5, 0.5], math.pi),
    ("ln_beta", [1, 1], 0.0),
    ("ln_beta", [100, 200], math.lgamma(100) + math.lgamma(200) - math.lgamma(300)),
    ("ln_beta", [2, 1e12], -math.log(1e12) - math.log1p(1e12)),
    ("rank", [[3, 1, 3, 2]], [3.5, 1.0, 3.5, 2.0]),
    ("rank", [DATA], ranks(DATA)),
    ("kendall_tau", [DATA, OTHER], tau_b(DATA, OTHER)),
    ("kendall_tau", [[1, 1, 2, 3, 3, 3], [2, 1, 1, 3, 3, 2]], tau_b([1, 1, 2, 3, 3, 3], [2, 1, 1, 3, 3, 2])),
    ("kendall_tau", [[1, 2, 3], [3, 2, 1]], -1.0),
    ("ndcg", [[3, 2, 1]], 1.0),
    ("ndcg", [[1, 2, 3], 2], (1 + 2 / math.log2(3)) / (3 + 2 / math.log2(3))),
    ("ndcg", [[1, 2, 3], 100], (1 + 2 / math.log2(3) + 3 / 2) / (3 + 2 / math.log2(3) + 1 / 2)),
    ("ndcg", [[0, 0]], 0.0),
    ("mrr", [[1, 2, 5]], (1 + 1 / 2 + 1 / 5) / 3),
    ("mrr", [[0, 1]], 0.5),
    ("mrr", [[[0, 1, 1], [1], [0, 0], []]], (1 / 2 + 1) / 4),
    ("entropy", [[0.25, 0.25, 0.25, 0.25]], math.log(4)),
    ("entropy", [[1.0, 0.0]], 0.0),
    ("kl_divergence", [P, Q], kl(P, Q)),
    ("kl_divergence", [Q, P], math.inf),
    ("kl_divergence", [P, P], 0.0),
    ("cross_entropy", [P, Q], kl(P, Q) - sum(p * math.log(p) for p in P if p)),
    ("js_divergence", [P, Q], sum(kl(one, [(p + q) / 2 for p, q in zip(P, Q, strict=True)]) / 2 for one in (P, Q))),
    ("js_divergence", [[1, 0], [0, 1]], math.log(2)),
    ("moving_average", [[1, 2, 3, 4, 5], 3], [2.0, 3.0, 4.0]),
    ("moving_average", [[1e16, 1, 1, 1, 1, 1, 1], 2], [5e15, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ("moving_average", [[4, 5], 2], [4.5]),
    ("ewma", [[10, 20, 30], 1], [10.0, 20.0, 30.0]),
    ("ewma", [[1, 2, 3], 0.5], [1.0, 1.5, 2.25]),
    ("autocorrelation", [[1, 2, 3, 4, 5], 0], 1.0),
    ("autocorrelation", [[1, 2, 3, 4, 5], 1], 0.4),
    ("autocorrelation", [[1, 2, 3, 4, 5], 4], -0.4),
    # exact sums
    *(
        ("beta_cdf", [x, a, b], exact_beta_cdf(x, a, b))
        for x, a, b in ((0.3, 2, 5), (0.9, 20, 3), (0.001, 4, 9), (0.5, 150, 160))
    ),
    ("regularized_incomplete_beta", [0.25, 7, 3], exact_beta_cdf(0.25, 7, 3)),
    ("beta_cdf", [-1, 2, 3], 0.0),
    ("beta_cdf", [2, 2, 3], 1.0),
    *(("poisson_cdf", [k, rate], exact_poisson_cdf(k, rate)) for k, rate in ((0, 1.0), (3, 2.5), (60, 90.0), (130, 90.0))),
    ("poisson_cdf", [-1, 2.0], 0.0),
    ("poisson_cdf", [5, 0], 1.0),
    ("gamma_cdf", [1, 1, 1], 1 - math.exp(-1)),
    ("gamma_cdf", [6, 3, 2], 1 - exact_poisson_cdf(2, 3.0)),
    ("gamma_cdf", [-1, 3, 2], 0.0),
    ("gamma_cdf", [math.inf, 3, 2], 1.0),
    ("regularized_incomplete_gamma", [0.5, 2.25], math.erf(1.5)),
    ("regularized_incomplete_gamma", [3, 0], 0.0),
    # published
    ("digamma", [1], -EULER),
    ("digamma", [0.5], -EULER - 2 * math.log(2)),
    ("digamma", [10], 2.251752589066721),
    ("digamma", [-0.5], 0.03648997397857652),
    ("digamma", [0], math.nan),
    ("digamma", [-3], math.nan),
    ("regularized_incomplete_gamma", [1, 5.991464547107982 / 2], 0.95),  # chi-squared, 2 degrees of freedom
    ("chi_squared_test", [[10, 20, 30], [20, 20, 20]], {"chi2_stat": 10.0, "df": 2.0, "p_value": math.exp(-5)}),
    ("chi_squared_test", [[25] * 4, [25] * 4], {"chi2_stat": 0.0, "df": 3.0, "p_value": 1.0}),
    (
        "welch_t_test",
        [[1, 2, 3, 4, 5], [2, 3, 4, 5, 6]],
        {"t_stat": PAIRED_T, "df": PAIRED_DF, "p_value": student_tails(1.0, 8)},
    ),
    (
        "mann_whitney_u",
        [[19, 22, 16, 29, 24], [20, 11, 17, 12]],  # ages; published with its p-value
        {"u_stat": 3.0, "z_score": -6.5 / math.sqrt(50 / 3), "p_value": 0.11134688653314041},
    ),
    (
        "mann_whitney_u",
        [[1, 2, 2, 3], [2, 3, 4], {"continuity_correction": False}],
        {"u_stat": 2.5, "z_score": -3.5 / math.sqrt(8 - 30 / 42), "p_value": upper_tails(3.5 / math.sqrt(8 - 30 / 42))},
    ),
    (
        "mann_whitney_u",
        [[1, 2, 2, 3], [2, 3, 4], {"continuity_correction": False, "tie_correction": False}],
        {"u_stat": 2.5, "z_score": -3.5 / math.sqrt(8), "p_value": upper_tails(3.5 / math.sqrt(8))},
    ),
    ("mann_whitney_u", [[5, 5], [5, 5]], {"u_stat": 2.0, "z_score": 0.0, "p_value": 1.0}),
    ("ks_test", [[1, 2, 3], [1, 2, 3]], {"d_stat": 0.0, "p_value": 1.0}),
    (
        "ks_test",
        [[1, 2, 3, 4], [3, 4, 5, 6]],
        {
            "d_stat": 0.5,
            "p_value": 2
            * sum(
                (-1) ** (k - 1) * math.exp(-2 * (k * 0.5 * (math.sqrt(2) + 0.12 + 0.11 / math.sqrt(2))) ** 2)
                for k in range(1, 99)
            ),
        },
    ),
]


def test_values(template, language):
    found = call_all(template, language, [(name, args) for name, args, _ in VALUES])
    for (name, args, expected), actual in zip(VALUES, found, strict=True):
        wanted = counted_from_one(name, expected) if language == "lua" else expected
        assert close(actual, wanted), (name, args, actual, wanted)


def test_both_languages_give_the_same(lua, javascript):
    calls = [(name, args) for name, args, _ in VALUES]
    found = zip(calls, call_all(lua, "lua", calls), call_all(javascript, "javascript", calls), strict=True)
    for (name, args), one, other in found:
        assert same_bits(one, counted_from_one(name, other)), (name, args)


def test_whole_numbers_are_integers_in_lua(lua):
    source = """
        local m, r = alc.math, alc.math.rng_create(1)
        local numbers = {m.rng_int(r, 1, 6), m.poisson_sample(r, 3), m.binomial_sample(r, 5, 0.5), m.categorical_sample(r, {1, 1}),
                         m.histogram({1, 2}, 1).counts[1], m.permutations(2)[1][1], m.mean({1}), m.factorial(3)}
        for i, number in ipairs(numbers) do numbers[i] = math.type(number) end
        return numbers
    """
    assert run(lua, source) == ["integer"] * 6 + ["float"] * 2


# ---- properties ----------------------------------------------------------------------------------------------------------------

SHAPES = [(0.1, 0.2), (0.5, 0.5), (1.0, 3.0), (2.5, 2.5), (40.0, 3.0), (1e4, 2e4), (1e7, 3e7), (5e8, 2e8), (2.0, 1e12)]
SHARES = [1e-12, 1e-3, 0.1, 0.35, 0.5, 0.8, 0.999]


def test_a_quantile_is_where_the_distribution_has_that_mass(lua):
    cases = [(p, a, b) for a, b in SHAPES for p in SHARES]
    quantiles = call_all(lua, "lua", [("beta_ppf", [*case]) for case in cases])
    found = [(x, a, b) for x, (_, a, b) in zip(quantiles, cases, strict=True)]
    masses = call_all(lua, "lua", [("beta_cdf", [*case]) for case in found])
    below = call_all(lua, "lua", [("beta_cdf", [math.nextafter(x, 0), a, b]) for x, a, b in found])
    for case, mass, less in zip(cases, masses, below, strict=True):
        assert less < case[0] <= mass, case
    assert call_all(lua, "lua", [("beta_ppf", [0, 2, 3]), ("beta_ppf", [1, 2, 3])]) == [0.0, 1.0]
    shares = [p / 200 for p in range(1, 200)]
    found = call_all(lua, "lua", [("normal_ppf", [p]) for p in shares])
    assert all(math.isclose(NORMAL.cdf(x), p, rel_tol=1e-12) for x, p in zip(found, shares, strict=True))


def test_distributions_rise_and_are_symmetric(lua):
    points = [i / 200 for i in range(201)]
    for a, b in SHAPES:
        masses = call_all(lua, "lua", [("beta_cdf", [x, a, b]) for x in points])
        others = call_all(lua, "lua", [("beta_cdf", [1 - x, b, a]) for x in points])
        assert (masses[0], masses[-1]) == (0, 1)
        assert masses == sorted(masses), (a, b)
        if b < 1e12:  # 1 - x has too few digits for that
            assert all(abs(one + other - 1) < 1e-9 for one, other in zip(masses, others, strict=True)), (a, b)
    for shape in (0.1, 1, 7.5, 300, 1e6, 1e8 - 1, 1e8 + 1, 1e12):
        spread = math.sqrt(shape)
        places = [max(0.0, shape + spread * step / 10) for step in range(-60, 61)]
        masses = call_all(lua, "lua", [("regularized_incomplete_gamma", [shape, x]) for x in places])
        assert all(one <= other + 1e-12 for one, other in itertools.pairwise(masses)), shape
        assert masses[0] < 0.001, shape
        assert masses[-1] > 0.99, shape


def test_series_and_asymptotic_forms_meet(lua):
    below, above = 1e8 * (1 - 1e-9), 1e8 * (1 + 1e-9)
    for step in (-4, -1, 0, 0.01, 2):
        gamma = call_all(lua, "lua", [("regularized_incomplete_gamma", [a, a + step * 1e4]) for a in (below, above)])
        beta = call_all(lua, "lua", [("beta_cdf", [0.5 + step * 0.5e-4 / math.sqrt(2), a, a]) for a in (below, above)])
        assert math.isclose(*gamma, rel_tol=1e-6), step
        assert math.isclose(*beta, rel_tol=1e-6), step
