"""Random numbers of alc.math and hf.math: the documented stream, samples of distributions, and generators as a part of the state."""

import math
import statistics

import pytest

from holdfast.sandbox import Globals
from tests.integration.math_calls import NOW, counted_from_one, run, same_bits, value, written


@pytest.fixture(scope="module")
def template(engine, plain, language):
    return plain(engine, language)


class Stream:
    """ChaCha with 12 rounds, keyed by PCG from a seed, as the crates rand_core and rand_chacha document it."""

    def __init__(self, seed):
        self.key, self.words, self.block = [], [], 0
        for _ in range(8):
            seed = (seed * 6364136223846793005 + 11634580027462260723) % 2**64
            mixed, turn = ((seed >> 18 ^ seed) >> 27) % 2**32, seed >> 59
            self.key.append((mixed >> turn | mixed << 32 - turn) % 2**32)

    def _more(self):
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *self.key, self.block % 2**32, self.block >> 32, 0, 0]
        x = list(start)
        columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
        diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
        for a, b, c, d in (columns + diagonals) * 6:
            for one, other, third, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[one] = (x[one] + x[other]) % 2**32
                mixed = x[third] ^ x[one]
                x[third] = (mixed << turn | mixed >> 32 - turn) % 2**32
        self.words += [(one + other) % 2**32 for one, other in zip(x, start, strict=True)]
        self.block += 1

    def bits(self, count=64):
        while len(self.words) * 32 < count:
            self._more()
        return sum(self.words.pop(0) << 32 * i for i in range(count // 32))

    def real(self):
        return (self.bits() >> 11) / 2**53

    def below(self, bound, size):
        """The whole part of bound times a random fraction, whose bits are drawn as long as they matter."""
        drawn, count = self.bits(size) * bound, size
        while drawn % 2**count + bound > 2**count:
            drawn, count = (drawn << size) + self.bits(size) * bound, count + size
        return drawn >> count


def test_a_seed_gives_what_it_gives_elsewhere(template, language):
    """Published of StdRng::seed_from_u64(42), in the crate rand 0.8 and later."""
    source = {
        "lua": "local r, m = alc.math.rng_create(42), alc.math return {m.rng_float(r), m.rng_float(r), m.rng_float(r)}",
        "javascript": "const r = hf.math.rngCreate(42), m = hf.math; [m.rngFloat(r), m.rngFloat(r), m.rngFloat(r)]",
    }
    assert run(template, source[language]) == [0.5265574090027738, 0.5427252099031439, 0.6364650991438949]


@pytest.mark.parametrize("seed", [0, 1, -1, 2**53 - 1])
def test_the_stream_is_the_documented_one(template, language, seed):
    source = {
        "lua": """
            local m, r, out = alc.math, alc.math.rng_create(SEED), {}
            for i = 1, 40 do
                out[#out + 1] = m.rng_float(r)
                out[#out + 1] = m.rng_int(r, -5, i * i)
                out[#out + 1] = m.rng_int(r, -9007199254740991, 9007199254740991)
                out[#out + 1] = m.shuffle(r, {1, 2, 3, 4, 5, 6, 7})
                out[#out + 1] = m.sample_with_replacement(r, {1, 2, 3}, 5)
            end
            return out
        """,
        "javascript": """
            const m = hf.math, r = m.rngCreate(SEED), out = [];
            for (let i = 1; i <= 40; i++)
                out.push(m.rngFloat(r), m.rngInt(r, -5, i * i), m.rngInt(r, -9007199254740991, 9007199254740991),
                         m.shuffle(r, [1, 2, 3, 4, 5, 6, 7]), m.sampleWithReplacement(r, [1, 2, 3], 5));
            out
        """,
    }
    stream, expected = Stream(seed % 2**64), []
    for i in range(1, 41):
        expected += [stream.real(), stream.below(i * i + 6, 64) - 5, stream.below(2**54 - 1, 64) - 2**53 + 1]
        order = list(range(1, 8))
        for at in range(6, 0, -1):
            other = stream.below(at + 1, 32)
            order[at], order[other] = order[other], order[at]
        expected += [order, [stream.below(3, 32) + 1 for _ in range(5)]]
    assert run(template, source[language].replace("SEED", str(seed))) == expected


def test_integers_of_64_bits_in_lua(lua):
    source = """
        local m, r, odd = alc.math, alc.math.rng_create(5), 0
        for i = 1, 1000 do
            local n = m.rng_int(r, math.mininteger, math.maxinteger)
            odd = odd + (n & 1)
            assert(m.rng_int(r, math.maxinteger, math.maxinteger) == math.maxinteger)
            assert(m.rng_int(r, math.mininteger, math.mininteger + 1) < 2 - math.maxinteger)
        end
        return odd
    """
    assert 400 < run(lua, source) < 600


SAMPLES = [  # a sample, its mean, and its variance
    ("normal_sample", [3, 2], 3, 4),
    ("beta_sample", [2, 5], 2 / 7, 10 / 392),
    ("beta_sample", [0.3, 0.6], 1 / 3, 0.18 / (0.81 * 1.9)),
    ("gamma_sample", [0.4, 3], 1.2, 3.6),
    ("gamma_sample", [9, 0.5], 4.5, 2.25),
    ("exp_sample", [4], 0.25, 1 / 16),
    ("uniform_sample", [-2, 4], 1, 3),
    ("lognormal_sample", [0, 0.5], math.exp(0.125), (math.exp(0.25) - 1) * math.exp(0.25)),
    ("student_t_sample", [12], 0, 1.2),
    ("chi_squared_sample", [5], 5, 10),
    ("poisson_sample", [2.5], 2.5, 2.5),
    ("poisson_sample", [400], 400, 400),
    ("binomial_sample", [12, 0.2], 2.4, 1.92),
    ("binomial_sample", [500, 0.7], 350, 105),
    ("categorical_sample", [[1, 0, 3]], 2.5, 0.75),
]


COUNT = 1500
DRAWN = {
    "lua": """
        local out = {}
        for i, f in ipairs{FUNCTIONS} do
            local r, t = alc.math.rng_create(9), {}
            for j = 1, COUNT do t[j] = f(r) end
            out[i] = t
        end
        return out
    """,
    "javascript": """
        [FUNCTIONS].map(f => { const r = hf.math.rngCreate(9); return Array.from({length: COUNT}, () => f(r)) })
    """,
}


def drawn(template, language):
    calls = [written(name, ["RNG", *args], language).replace("'RNG'", "r") for name, args, _, _ in SAMPLES]
    functions = [f"function(r) return {call} end" if language == "lua" else f"r => {call}" for call in calls]
    return run(template, DRAWN[language].replace("FUNCTIONS", ", ".join(functions)).replace("COUNT", str(COUNT)))


def test_samples_have_the_moments_of_their_distributions(lua, javascript):
    found = drawn(lua, "lua")
    for (name, args, mean, variance), one, other in zip(SAMPLES, found, drawn(javascript, "javascript"), strict=True):
        assert same_bits(one, [counted_from_one(name, item) for item in other]), name
        assert abs(statistics.fmean(one) - mean) < 4 * math.sqrt(variance / COUNT), (name, args)
        assert abs(statistics.variance(one) / variance - 1) < 0.35, (name, args)
    assert set(found[-1]) == {1, 3}  # what has no weight is never taken


def test_shares_by_dirichlet_add_up(template, language):
    source = {
        "lua": """
            local m, r, out = alc.math, alc.math.rng_create(2), {}
            for i, alphas in ipairs{{1, 2, 3}, {1e-9, 1e-9}, {1e-300, 1e-310, 5}, {1e9, 1e9}} do out[i] = m.dirichlet_sample(r, alphas) end
            return out
        """,
        "javascript": """
            const r = hf.math.rngCreate(2);
            [[1, 2, 3], [1e-9, 1e-9], [1e-300, 1e-310, 5], [1e9, 1e9]].map(alphas => hf.math.dirichletSample(r, alphas))
        """,
    }
    found = run(template, source[language])
    assert [len(shares) for shares in found] == [3, 2, 3, 2]
    assert all(min(shares) >= 0 and math.isclose(sum(shares), 1) for shares in found)


ADVANCE = {"lua": "return alc.math.rng_float(r)", "javascript": "hf.math.rngFloat(r)"}


def test_a_generator_is_frozen_and_forked_with_everything_else(template, language):
    make = {"lua": "r = alc.math.rng_create(7)", "javascript": "var r = hf.math.rngCreate(7); 0"}[language]
    stream = Stream(7)
    with template.create(seed=1) as sandbox:
        sandbox.evaluate(make, now=NOW)
        assert [value(sandbox.evaluate(ADVANCE[language], now=NOW)) for _ in range(5)] == [stream.real() for _ in range(5)]
        image = sandbox.freeze()
        expected = [stream.real() for _ in range(20)]
        with template.thaw(image) as thawed, template.fork(image) as forked:
            for one in (thawed, sandbox, forked):
                assert [value(one.evaluate(ADVANCE[language], now=NOW)) for _ in range(20)] == expected


def test_a_generator_that_has_moved_on_is_a_change(template, language):
    make = {"lua": "r = alc.math.rng_create(7)", "javascript": "var r = hf.math.rngCreate(7); 0"}[language]
    with template.create(seed=1) as sandbox:
        digests = []
        for source in (make, ADVANCE[language], make, "1"):
            sandbox.evaluate(source, now=NOW)
            digests.append(value(sandbox.step(Globals(), now=NOW))["r"]["digest"])
        assert digests[0] != digests[1]
        assert digests[0] == digests[2] == digests[3]
