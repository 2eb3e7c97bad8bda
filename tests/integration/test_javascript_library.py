"""The library in JavaScript: what it makes of texts, lists, JSON and settings. Numbers are those of the lines of algocline's list."""

import pytest

from tests.integration.javascript_runs import Talk, error, value

# (source, value): each is one line of code
PLAIN = {
    "45: JSON": [
        (
            """hf.jsonDecode(hf.jsonEncode({a: [1, 2.5, 'x', true, null], 'q"': {}}))""",
            {"a": [1, 2.5, "x", True, None], 'q"': {}},
        ),
        ("[hf.jsonEncode(undefined), hf.jsonEncode(null), hf.jsonDecode('null')]", ["null", "null", None]),
        ("hf.jsonEncode({b: 1, a: 2, 10: 3, 9: 4, c: undefined, d: [undefined]})", '{"10":3,"9":4,"a":2,"b":1,"d":[null]}'),
        ("hf.jsonEncode({'\\u{1F600}': 1, '\\uFFFD': 2, '': 3, a: 4, aa: 5})", '{"":3,"a":4,"aa":5,"\ufffd":2,"\U0001f600":1}'),
        ("hf.jsonEncode([NaN, Infinity, -0, 1e300, 12345678901234567890n])", "[null,null,0,1e+300,12345678901234567890]"),
        (
            "hf.jsonEncode({when: new Date(0), own: {toJSON: key => 'as ' + key}})",
            '{"own":"as own","when":"1970-01-01T00:00:00.000Z"}',
        ),
        ("hf.jsonEncode('\\ud800\\n')", '"\\ud800\\n"'),
        ("(() => { const x = {a: 1}; return hf.jsonEncode([x, x]) })()", '[{"a":1},{"a":1}]'),
    ],
    "47: chunk": [
        ("hf.chunk('')", []),
        ("hf.chunk('a\\nb\\nc\\nd', {size: 2})", ["a\nb", "c\nd"]),
        ("hf.chunk('a\\nb\\nc\\n', {size: 2})", ["a\nb", "c"]),
        ("hf.chunk('a\\r\\nb\\rc\\r', {size: 1})", ["a", "b\rc\r"]),
        ("hf.chunk('a\\nb', {size: 9})", ["a\nb"]),
        ("hf.chunk('a\\nb\\nc\\nd\\ne', {size: 3, overlap: 1})", ["a\nb\nc", "c\nd\ne"]),
        ("hf.chunk('a\\nb\\nc', {size: 2, overlap: 5})", ["a\nb", "b\nc"]),
        ("hf.chunk('a\\nb', {size: 0})", []),
        ("hf.chunk('a\\nb', {size: 1, mode: 'pages'})", ["a", "b"]),
        ("hf.chunk('aäß\\u{1F600}e', {mode: 'chars', size: 2})", ["aä", "ß\U0001f600", "e"]),
        ("hf.chunk('abc', {mode: 'chars', size: 1})", ["a", "b", "c"]),
        ("hf.chunk('abcd', {mode: 'chars', size: 3, overlap: 2})", ["abc", "bcd"]),
        ("hf.chunk(Array(101).fill('x').join('\\n')).length", 3),
    ],
    "48: matchEnum": [
        ("hf.matchEnum('BLOCKED', ['APPROVED', 'BLOCKED'])", "BLOCKED"),
        ("hf.matchEnum('it is approved', ['APPROVED', 'BLOCKED'])", "APPROVED"),
        ("hf.matchEnum('not BLOCKED but APPROVED', ['APPROVED', 'BLOCKED'])", "APPROVED"),
        ("hf.matchEnum('ab', ['a', 'ab'])", "a"),
        ("hf.matchEnum('nothing of it', ['APPROVED', 'BLOCKED'])", None),
        ("hf.matchEnum('BLOKED', ['APPROVED', 'BLOCKED'])", "BLOCKED"),
        ("hf.matchEnum('After a long look, I say: **aproved**!', ['APPROVED', 'BLOCKED'])", "APPROVED"),
        ("hf.matchEnum('zzz', ['APPROVED'])", None),
        ("hf.matchEnum('aproved', ['APPROVED'], {threshold: 1})", None),
        ("[hf.matchEnum('', ['a']), hf.matchEnum('x', []), hf.matchEnum('x', [''])]", [None, None, None]),
        ("hf.matchEnum('x'.repeat(100000), ['xy'])", None),
    ],
    "49: matchBool": [
        (f"hf.matchBool('{text}')", meant)
        for text, meant in [
            ("Approved", True),
            ("rejected.", False),
            ("maybe", None),
            ("No issues found. Approved.", True),
            ("token", None),
            ("bypass", None),
            ("innovation", None),
            ("failed", None),
            ("yes,", True),
            ("yes ... no", False),
            ("", None),
        ]
    ],
    "52, 60: fingerprint": [
        ("['hello', '', 'fix the login bug'].map(hf.fingerprint)", ["0f923099", "00001505", "70af5a24"]),
        ("hf.fingerprint(' Fix  the\\tLOGIN\\n bug ') === hf.fingerprint('fix the login bug')", True),
        ("hf.fingerprint(42) === hf.fingerprint('42')", True),
        ("hf.fingerprint('a') === hf.fingerprint('b')", False),
        ("[hf.fingerprint('ä'), hf.fingerprint('\\u{1F600}')]", ["0059840c", "7ce362ec"]),
    ],
    "52: parseNumber, parseScore": [
        ("['v-3', '1,234', 'x 2.50 y', '5.', 'none', ''].map(x => hf.parseNumber(x))", [-3, 1, 2.5, 5, None, None]),
        ("[hf.parseNumber(7), hf.parseNumber(null)]", [None, None]),
        (
            "[hf.parseNumber('score: 8/10', 'score: (\\\\d+)'), hf.parseNumber('a12', /\\d+/), hf.parseNumber('a', /(b)?a/)]",
            [8, 12, None],
        ),
        ("['7.9', 'Step 1: 8', '0', '100', 'none', 6].map(x => hf.parseScore(x))", [7, 1, 1, 10, 5, 6]),
        ("hf.parseScore('none', 2)", 2),
    ],
    "54: map, filter, reduce": [
        ("await hf.map([], x => x)", []),
        ("await hf.map([3, 1], (x, i) => [x * 2, i])", [[6, 0], [2, 1]]),
        ("await hf.map([1], () => undefined)", [None]),
        ("await hf.filter([1, 2, 3, 4], (x, i) => x % 2 && i >= 0)", [1, 3]),
        ("[await hf.filter([], x => x), await hf.filter([1], x => false), await hf.filter([1], x => true)]", [[], [], [1]]),
        ("await hf.reduce([1, 2, 3], (all, x, i) => all + x * i, 10)", 18),
        ("await hf.reduce([5, 1, 2], (all, x, i) => all + '/' + x + i)", "5/11/22"),
        ("[await hf.reduce([7], () => 0), await hf.reduce([], () => 0), await hf.reduce([], () => 0, 3)]", [7, None, 3]),
    ],
    "55: vote": [
        ("hf.vote(['a', ' b', 'b '])", {"winner": "b", "count": 2, "total": 3}),
        ("hf.vote(['x'])", {"winner": "x", "count": 1, "total": 1}),
        ("hf.vote(['b', 'a', 'a', 'b']).winner", "b"),
        ("hf.vote([1, '1', 2])", {"winner": "1", "count": 2, "total": 3}),
        ("hf.vote([])", {"winner": None, "count": 0, "total": 0}),
        ("hf.vote(['__proto__', '__proto__', 'toString']).winner", "__proto__"),
    ],
    "56: jsonExtract": [
        (
            "[hf.jsonExtract(5), hf.jsonExtract(null), hf.jsonExtract(''), hf.jsonExtract('none'), hf.jsonExtract('5')]",
            [None] * 5,
        ),
        ("hf.jsonExtract(' {\"a\": 1} ')", {"a": 1}),
        ("hf.jsonExtract('Sure:\\n```json\\n{\"a\": 2}\\n```\\nDone {}')", {"a": 2}),
        ("hf.jsonExtract('```\\n[1, 2]\\n```')", [1, 2]),
        ("hf.jsonExtract('```python\\n{\"a\": 3}\\n```')", {"a": 3}),
        ('hf.jsonExtract(\'the set {x} and {"a": {"b": "}"}} after\')', {"a": {"b": "}"}}),
        ("hf.jsonExtract('{ not {\"a\": 4} json }')", {"a": 4}),
        ("hf.jsonExtract('[see] the list [1, [2]] here')", [1, [2]]),
        ("hf.jsonExtract('[1] and {\"a\": 5}')", {"a": 5}),
        ('hf.jsonExtract(\'{"a": "\\\\\\\\"} x\')', {"a": "\\"}),
    ],
    "61: tuning": [
        ("hf.tuning({a: 1, b: 'x'}, null)", {"a": 1, "b": "x"}),
        ("hf.tuning({a: 1, b: true}, {a: 2, b: false, extra: 1})", {"a": 2, "b": False}),
        ("hf.tuning({a: {b: {c: 1, d: 2}}}, {a: {b: {c: 5}}})", {"a": {"b": {"c": 5, "d": 2}}}),
        ("hf.tuning({a: [1, 2]}, {a: [3]})", {"a": [3]}),
        ("hf.tuning({a: {}, b: {}}, {a: {x: 1}})", {"a": {"x": 1}, "b": {}}),
        ("hf.tuning({a: 1, _schema: {a: 'number'}}, {_schema: 1})", {"a": 1}),
        ("hf.tuning({a: 1, b: 2}, {a: 9, me: {b: 3}}, {prefix: 'me'})", {"a": 1, "b": 3}),
        ("hf.tuning({a: 1}, {a: 9}, {prefix: 'gone'})", {"a": 9}),
        ("hf.tuning({a: {b: 1}}, {a: 5})", {"a": 5}),
        ("[hf.tuning(5, {}), hf.tuning(null), hf.tuning('x')]", [5, None, "x"]),
        ("hf.tuning({a: 1}, {a: null})", {"a": 1}),
        ("(() => { const d = {a: {b: [1]}}; hf.tuning(d).a.b.push(2); return d })()", {"a": {"b": [1]}}),
    ],
}
CASES = [
    pytest.param(source, expected, id=f"{line} {i}")
    for line, many in PLAIN.items()
    for i, (source, expected) in enumerate(many)
]

WRONG = [
    ("hf.jsonEncode(() => 1)", "hf.jsonEncode: a function has no JSON form"),
    ("hf.jsonEncode({a: Symbol()})", "hf.jsonEncode: a symbol has no JSON form"),
    ("const x = {}; x.x = x; hf.jsonEncode(x)", "hf.jsonEncode: the value contains itself"),
    ("let deep = 1; for (let i = 0; i < 1000; i++) deep = [deep]; hf.jsonEncode(deep)", "nested deeper"),
    ("hf.jsonDecode('{')", ""),
    ("hf.jsonDecode(5)", "hf.jsonDecode: the text must be a string"),
    ("hf.jsonDecode('['.repeat(1e6))", ""),
    ("hf.chunk(5)", "hf.chunk: the text must be a string"),
    ("hf.chunk('x', {size: -1})", "hf.chunk: size must be a whole number"),
    ("hf.matchEnum('x', 'y')", "hf.matchEnum: candidates must be an array"),
    ("hf.matchEnum('x', [1])", "hf.matchEnum: candidates must be strings"),
    ("hf.matchBool(1)", "hf.matchBool: the text must be a string"),
    ("await hf.map(5, x => x)", "hf.map: items must be an array"),
    ("await hf.filter([], 5)", "hf.filter: fn must be a function"),
    ("hf.vote('x')", "hf.vote: answers must be an array"),
    ("hf.progress(-1, 2)", "hf.progress: step must be a whole number"),
    ("hf.progress(1, 2.5)", "hf.progress: total must be a whole number"),
    ("hf.log(5, 'x')", "hf.log: the level must be a string"),
    ("hf.stats.record(5, 1)", "hf.stats.record: the key must be a string"),
    ("hf.stats.record('k', () => 1)", "no JSON form"),
    ("await hf.state.update('k', 5)", "hf.state.update: fn must be a function"),
]  # fmt: skip


@pytest.fixture
def sandbox(javascript):
    with javascript.create() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shared(javascript):
    with javascript.create() as sandbox:
        yield sandbox


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_what_functions_give(shared, source, expected):
    assert value(shared.evaluate(source)) == expected


@pytest.mark.parametrize(("source", "message"), WRONG)
def test_what_they_refuse(javascript, source, message):
    with javascript.create() as sandbox:
        assert message in error(sandbox.evaluate(source)).message


def test_callbacks_may_wait_and_go_one_after_the_other(sandbox):
    talk = Talk(sandbox, "await hf.map(['a', 'b'], async x => x + await llm(x))", 1, 2)
    assert (talk.prompts, talk.value) == ([["a"], ["b"]], ["a1", "b2"])
    talk = Talk(sandbox, "await hf.filter(['a', 'b'], async x => await llm(x) === 'yes')", "no", "yes")
    assert talk.value == ["b"]
    talk = Talk(sandbox, "await hf.reduce(['a', 'b'], async (all, x) => all + await llm(x), '')", 1, 2)
    assert talk.value == "12"


def test_61_a_prefix_that_is_no_object_is_warned_of(sandbox):
    talk = Talk(sandbox, "hf.tuning({a: 1}, {a: 9, me: 5}, {prefix: 'me'})")
    assert talk.value == {"a": 1}
    assert [(kind, record["level"]) for kind, record in talk.records] == [("log", "warn")]


# ---- what a script says --------------------------------------------------------------------------------------------------------


def test_records_are_events_of_the_step(sandbox):
    talk = Talk(
        sandbox,
        """hf.log('loud', 'as it is'); hf.log('info', {a: [1]}); hf.log('warn');
        hf.progress(0, 3); hf.progress(2, 3, 'nearly'); hf.stats.record('k', {a: [1, NaN], $: 'x'}); hf.stats.record('k', undefined)""",
    )
    assert talk.records == [
        ("log", {"level": "loud", "message": "as it is"}),
        ("log", {"level": "info", "message": "{ a: [ 1 ] }"}),
        ("log", {"level": "warn", "message": "undefined"}),
        ("progress", {"step": 0, "total": 3, "message": None}),
        ("progress", {"step": 2, "total": 3, "message": "nearly"}),
        ("stat", {"key": "k", "value": {"a": [1, None], "$": "x"}}),
        ("stat", {"key": "k", "value": None}),
    ]


def test_44_figures_are_those_of_one_execution(javascript, sandbox):
    source = "hf.stats.record('a', 1); hf.stats.record('a', {n: 2}); await llm('x'); [hf.stats.get('a'), hf.stats.get('b')]"
    assert Talk(sandbox, source, "y").value == [{"n": 2}, None]
    with javascript.thaw(sandbox.freeze()) as thawed:
        assert value(thawed.evaluate("hf.stats.get('a')")) is None


def test_time_is_in_seconds_and_stands_still_in_a_step(sandbox):
    assert value(sandbox.evaluate("[hf.time(), hf.time()]", now=1_234_567.0)) == [1234.567, 1234.567]
