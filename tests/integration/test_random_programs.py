"""Random programs that pause: thawed at every pause they do what they do undisturbed, and deltas tell the same story."""

import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.sandbox import Evaluate, Finished, Label, Paused

KEY = b"a key of the random programs' own"
NOW = 1_700_000_000_000.0

STATEMENTS = {
    "javascript": {
        "ask": "s += await llm('q' + n++);",
        "catch": "try { s += await llm('q' + n++); throw 1 } catch (e) { s += 'c' }",
        "both": "s += (await Promise.all([llm('a' + n++), llm('b' + n++)])).join('');",
        "grow": "items.push({n, s, m: new Map([[n, [s]]])});",
        "drop": "items.length >>= 1;",
        "random": "s += Math.floor(Math.random() * 100);",
        "call": "await (async x => { s += x + await llm('c' + n++) })('f');",
        "generator": "for (const x of (function* () { yield n++; yield n++ })()) s += x;",
        "cycle": "{ const a = {n: n++}; a.a = a; items.push(a) }",
    },
    "lua": {
        "ask": "s = s .. alc.llm('q' .. n) n = n + 1",
        "catch": "pcall(function() s = s .. alc.llm('q' .. n) n = n + 1 error('x') end) s = s .. 'c'",
        "both": "s = s .. table.concat(alc.llm_batch({'a' .. n, 'b' .. n})) n = n + 2",
        "grow": "items[#items + 1] = {n = n, s = s, m = {[n] = {s}}}",
        "drop": "for i = #items, #items // 2 + 1, -1 do items[i] = nil end",
        "random": "s = s .. math.random(0, 99)",
        "call": "(function(x) s = s .. x .. alc.llm('c' .. n) n = n + 1 end)('f')",
        "generator": "for x in coroutine.wrap(function() coroutine.yield(n) alc.llm('g' .. n) coroutine.yield(n + 1) end) do s = s .. x n = n + 1 end",
        "cycle": "do local a = {n = n} a.a = a items[#items + 1] = a n = n + 1 end",
    },
}
FRAMES = {
    "javascript": ("let s = '', n = 0, items = [];\n", "\ns + items.length"),
    "lua": ("local s, n, items = '', 0, {}\n", "\nreturn s .. #items"),
}
names = st.lists(st.sampled_from(sorted(STATEMENTS["lua"])), min_size=1, max_size=8)


def finish(template, source, seed, between):
    """Runs a program to its end; `between` may replace the sandbox at each pause."""
    sandbox = template.create(seed=seed)
    outcome = sandbox.step(Evaluate(source), now=NOW)
    pauses = 0
    while isinstance(outcome, Paused):
        pauses += 1
        sandbox = between(sandbox, pauses)
        query = min(outcome.open)
        outcome = sandbox.resume({query: f"<{query}>"}, now=NOW + pauses)
    assert isinstance(outcome, Finished), outcome
    content = sandbox.content()
    sandbox.close()
    return outcome.result.value, content


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=names, seed=st.integers(0, 2**64 - 1))
def test_thawed_at_every_pause_or_never(engine, plain, language, names, seed):
    template = plain(engine, language)
    first, last = FRAMES[language]
    source = first + ";\n".join(STATEMENTS[language][name] for name in names) + last

    def thawed(sandbox, _):
        sealed = sandbox.freeze().seal(KEY, template)
        sandbox.close()
        return template.thaw(template.open(sealed, KEY))

    session, images, stored = uuid.UUID(int=1), {0: template.create(seed=0).freeze()}, {}

    def by_deltas(sandbox, number):
        """Keeps image n as a delta against image n & (n - 1), and goes on from what the deltas give."""
        images[number] = sandbox.freeze(Label(session, number))
        sandbox.close()
        stored[number] = images[number].seal(KEY, images[number & (number - 1)])
        opened = images[0]
        for step in sorted({number & ~((1 << bit) - 1) for bit in range(number.bit_length())} - {0}):
            opened = template.open(stored[step], KEY, opened)
        return template.thaw(opened)

    undisturbed = finish(template, source, seed, lambda sandbox, _: sandbox)
    assert finish(template, source, seed, thawed) == undisturbed
    assert finish(template, source, seed, by_deltas) == undisturbed
