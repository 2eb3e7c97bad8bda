"""Libraries from npm, as they are published: in a template, by require, by import, and after a thaw."""

import pytest

from benchmarks.libraries import FILES, library
from holdfast.domain import Limits
from holdfast.sandbox import Finished, Host, Module, Modules, Source

LIMITS = Limits(wall_ms=20_000, cpu_ms=20_000)
NOW = 1_700_000_000_000.0

CHECKS = {
    "lodash": [
        ("_.VERSION", "4.18.1"),
        ("_.chunk([1, 2, 3, 4, 5], 2)", [[1, 2], [3, 4], [5]]),
        ("_.template('hi <%= name %>')({name: 'Ada'})", "hi Ada"),
        ("_.sortBy([{a: 2}, {a: 1}], 'a')", [{"a": 1}, {"a": 2}]),
        ("_(['b', 'a']).map(_.upperCase).sort().value()", ["A", "B"]),
        ("_.isEqual({a: [1, new Date(3), new Map([[1, 2]])]}, {a: [1, new Date(3), new Map([[1, 2]])]})", True),
        ("_.merge({a: {b: 1}}, {a: {c: 2}})", {"a": {"b": 1, "c": 2}}),
        ("_.get({a: [{b: {c: 3}}]}, 'a[0].b.c')", 3),
        ("_.cloneDeep({a: new Set([1])}).a.has(1)", True),
        ("_.camelCase('Foo Bar') + _.kebabCase('fooBar')", "fooBarfoo-bar"),
        ("_.groupBy([6.1, 4.2, 6.3], Math.floor)", {"4": [4.2], "6": [6.1, 6.3]}),
        ("_.range(1e4).filter(n => n % 2).length", 5000),
    ],
    "ramda": [
        ("R.pipe(R.filter(x => x > 1), R.sum)([1, 2, 3])", 5),
        ("R.map(R.multiply(2), [1, 2])", [2, 4]),
        ("R.path(['a', 0, 'b'], {a: [{b: 'c'}]})", "c"),
        ("R.over(R.lensProp('x'), R.inc, {x: 1})", {"x": 2}),
        ("R.curry((a, b, c) => a + b + c)(1)(2)(3)", 6),
        ("R.transduce(R.map(x => x + 1), R.flip(R.append), [], [1, 2])", [2, 3]),
        ("R.equals(new Map([[1, {a: 1}]]), new Map([[1, {a: 1}]]))", True),
        ("R.groupBy(x => x % 2 ? 'odd' : 'even', [1, 2, 3])", {"odd": [1, 3], "even": [2]}),
        ("R.toString([1, 'a', {b: null}])", '[1, "a", {"b": null}]'),
    ],
    "dayjs": [
        ("dayjs(0).toISOString()", "1970-01-01T00:00:00.000Z"),
        ("dayjs('2020-01-31').add(1, 'month').format('YYYY-MM-DD')", "2020-02-29"),
        ("dayjs('2024-03-05').diff('2024-01-01', 'day')", 64),
        ("dayjs().valueOf()", NOW),
        ("dayjs('nonsense').isValid()", False),
        ("dayjs('2024-05-06T07:08:09').format('dddd, MMMM D, YYYY h:mm A')", "Monday, May 6, 2024 7:08 AM"),
        ("dayjs('2024-05-06').startOf('month').day()", 3),
    ],
}
GLOBALS = {"lodash": "_", "ramda": "R", "dayjs": "dayjs"}
ALL = [(name, source, expected) for name, checks in CHECKS.items() for source, expected in checks]


@pytest.fixture(scope="module")
def template(engine):
    return engine.guest("javascript").template([Source(f"{name}.js", library(name)) for name in FILES])


@pytest.fixture(scope="module")
def host():
    return Host(modules=Modules({name: Module("commonjs", library(name)) for name in FILES}))


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


@pytest.mark.parametrize(("name", "source", "expected"), ALL)
def test_a_library_of_the_template_works(template, name, source, expected):
    with template.create(limits=LIMITS) as sandbox:
        assert value(sandbox.evaluate(source, now=NOW)) == expected


@pytest.mark.parametrize("name", CHECKS)
def test_a_library_works_after_a_thaw(template, name):
    with template.create(limits=LIMITS) as sandbox:
        sandbox.evaluate("await llm('pause')", now=NOW)
        image = sandbox.freeze()
    with template.thaw(image, limits=LIMITS) as thawed:
        thawed.resume({1: "on"}, now=NOW)
        for source, expected in CHECKS[name]:
            assert value(thawed.evaluate(source, now=NOW)) == expected


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("way", ["require('{}')", "(await import('{}')).default"])
def test_a_library_is_required_and_imported(javascript, host, name, way):
    with javascript.create(host=host, limits=LIMITS) as sandbox:
        sandbox.evaluate(f"var {GLOBALS[name]} = {way.format(name)}")
        for source, expected in CHECKS[name]:
            assert value(sandbox.evaluate(source, now=NOW)) == expected


def test_members_are_imported_by_name(javascript, host):
    source = "import {chunk, sum} from 'lodash'; import {pipe, map} from 'ramda'; import dayjs from 'dayjs'; export default [chunk([1, 2, 3], 2), pipe(map(x => x * 2), sum)([1, 2]), dayjs(0).year()]"
    with javascript.create(host=host, limits=LIMITS) as sandbox:
        assert value(sandbox.run_file(source, "main.js")) == [[[1, 2], [3]], 6, 1970]


def test_a_library_that_was_required_needs_no_host_after_a_thaw(javascript, host):
    with javascript.create(host=host, limits=LIMITS) as sandbox:
        sandbox.evaluate("const _ = require('lodash'); const plan = await llm('q')")
        image = sandbox.freeze()
    with javascript.thaw(image, limits=LIMITS) as thawed:
        thawed.resume({1: "b a"})
        assert value(thawed.evaluate("_.words(plan).sort()")) == ["a", "b"]


def test_timers_of_a_library_run_on_the_session_s_clock(template):
    with template.create(limits=LIMITS) as sandbox:
        outcome = sandbox.evaluate(
            "let n = 0; const f = _.debounce(() => n++, 100); f(); f(); f(); await hf.sleep(500); n", now=NOW
        )
        while not isinstance(outcome, Finished):
            outcome = sandbox.resume(now=outcome.wake_at)
        assert outcome.result.value == 1


def test_an_error_in_a_callback_names_library_and_caller(template):
    with template.create(limits=LIMITS) as sandbox:
        stack = sandbox.evaluate("_.map([1], x => {\n  throw new Error('mine')\n})", "work.js").error.stack
    assert "work.js:2:" in stack
    assert "lodash.js:" in stack
