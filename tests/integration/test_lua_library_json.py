"""`alc.json_encode` and `alc.json_decode`: plain JSON, the same as Python's. Line 45 of algocline's conformance list."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.lua_runs import failure, run, value

ENCODED = {
    "{}": "{}",
    "alc.array{}": "[]",
    "alc.json_decode('[]')": "[]",
    "{alc.json_decode('{}'), alc.json_decode('[[]]')}": "[{},[[]]]",
    "{b = 1, a = 2, ['']= 3, B = 4}": '{"":3,"B":4,"a":2,"b":1}',
    "{1, 2, x = 3}": "[1,2]",
    "{[0] = 1, [5] = 2}": '{"0":1,"5":2}',
    "{[true] = 1}": '{"true":1}',
    "{[1.5] = 1}": '{"1.5":1}',
    "nil": "null",
    "alc.null": "null",
    "{alc.null, a}": "[null]",
    "0/0": "null",
    "{math.huge, -math.huge}": "[null,null]",
    "{1, 1.0, -0.0, 1e100, 0.1, 2^53, math.mininteger}": "[1,1.0,-0.0,1e+100,0.1,9007199254740992.0,-9223372036854775808]",
    "'a\"\\\\\\n\\0\\127é😀'": '"a\\"\\\\\\n\\u0000\\u007fé😀"',
    "'\\xff'": '"\\ufffd"',
    "true": "true",
    "setmetatable({1}, {__index = error, __len = error, __pairs = error, __tostring = error})": "[1]",
}


@pytest.mark.parametrize("source", ENCODED)
def test_45_encoding(lua, source):
    assert value(run(lua, f"return alc.json_encode({source})")) == ENCODED[source]


REFUSED = {
    "print": "unsupported value type (a function)",
    "{a = {coroutine.create(print)}}": "unsupported value type (a thread)",
    "{[{}] = 1}": "unsupported key type (a table)",
    "(function() local t = {} t.t = {t} return t end)()": "recursive table",
    "(function() local t = {} for i = 1, 200 do t = {t} end return t end)()": "nested too deep",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_has_no_form_is_an_error_that_can_be_caught(lua, source):
    message = failure(run(lua, f"return alc.json_encode({source})")).message
    assert message.startswith("<repl>:1: alc.json_encode: ")
    assert REFUSED[source] in message
    assert value(run(lua, f"return pcall(alc.json_encode, {source})")) is False


def test_a_table_may_be_in_it_twice(lua):
    assert value(run(lua, "local t = {1} return alc.json_encode({t, t})")) == "[[1],[1]]"
    assert value(run(lua, "local t = {} for i = 1, 199 do t = {t} end return #alc.json_encode(t)")) == 400


DECODED = {
    "null": None,
    " [1, 2.0, -3e2, true, false, null] ": [1, 2.0, -300.0, True, False, None],
    '{"a": {"b": []}, "": {}}': {"a": {"b": []}, "": {}},
    '"\\u00e9\\ud83d\\ude00\\n\\/"': "é😀\n/",
    "123456789012345678901234567890": 1.2345678901234568e29,
    "9223372036854775807": 9223372036854775807,
    "9223372036854775808": 9223372036854775808.0,
    '{"$": "undefined"}': {"$": "undefined"},
    '{"$": "bytes", "v": "AA=="}': {"$": "bytes", "v": "AA=="},
    '{"a": 1, "a": 2}': {"a": 2},
    "1e400": math.inf,
}


@pytest.mark.parametrize("text", DECODED)
def test_45_decoding(lua, text):
    with lua.create() as sandbox:
        found = value(sandbox.run_file("return alc.json_decode(__ARGS__)", "m.lua", text))
    assert found == DECODED[text]
    assert type(found) is type(DECODED[text])


def test_45_null_is_nil_at_the_top_and_alc_null_inside(lua):
    assert value(run(lua, "return alc.json_decode('null') == nil")) is True
    assert (
        value(run(lua, "return alc.json_decode('[null]')[1] == alc.null and alc.json_decode('{\"a\":null}').a == alc.null"))
        is True
    )


@pytest.mark.parametrize(
    "text",
    ["", " ", "nul", "[1,]", "{,}", '{"a" 1}', "{a: 1}", "[1] 2", '"\x01"', '"\\x"', '"\\ud8"', "01", "1.", "+1", ".5", "'a'", "[" * 201, "NaN", '"', "\xff"],
)  # fmt: skip
def test_what_is_no_json_raises_with_its_place(lua, text):
    with lua.create() as sandbox:
        error = failure(sandbox.run_file("return alc.json_decode(__ARGS__)", "m.lua", text))
    assert error.message.startswith("m.lua:1: alc.json_decode: invalid JSON at position ")
    assert error.message.endswith(f" of {len(text.encode())}")


@pytest.mark.parametrize("wrong", ["nil", "{}", "", "print"])
def test_only_texts_are_decoded(lua, wrong):
    assert "bad argument #1" in failure(run(lua, f"return alc.json_decode({wrong})")).message


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


@settings(max_examples=40)
@given(st.lists(VALUES, max_size=5))
def test_45_there_and_back_is_what_python_reads(lua, values):
    texts = [json.dumps(item, ensure_ascii=False) for item in values] + [json.dumps(item, indent=1) for item in values]
    with lua.create() as sandbox:
        source = "local all = alc.array() for i, text in ipairs(__ARGS__) do all[i] = alc.json_encode(alc.json_decode(text)) end return all"
        found = value(sandbox.run_file(source, "m.lua", texts))
    for text, item in zip(found, values * 2, strict=True):
        assert same(json.loads(text), item)


@settings(max_examples=100)
@given(st.text(alphabet='[]{}",:0123456789.eE+-truefalsn\\u ', max_size=14))
def test_what_python_takes_is_taken_and_nothing_else(lua, text):
    with lua.create() as sandbox:
        taken = value(sandbox.run_file("return (pcall(alc.json_decode, __ARGS__))", "m.lua", text))
    try:
        json.loads(text)
    except ValueError:
        assert not taken
    else:
        assert taken
