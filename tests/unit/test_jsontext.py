"""JSON in pieces: what comes out is what the standard library says, however the text is cut."""

import json
import random
import string
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain import RepeatedKey, read_json
from holdfast.sandbox import jsontext
from holdfast.sandbox.jsontext import Bounds, TooLarge, dumps, loads

_encode = json.JSONEncoder(separators=(",", ":")).encode


_NAMES = ("numbers", "rows", "points", "one object", "nested", "long text", "escapes", "pairs", "halves", "brackets in text")


@cache
def _shapes() -> dict[str, Any]:
    draw = random.Random(7)
    return {
        "numbers": [draw.random() for _ in range(100_000)],
        "rows": [{f"column{n}": draw.choice([n, "text", None, 1.5, True]) for n in range(10)} for _ in range(10_000)],
        "points": [[n, -n] for n in range(50_000)],
        "one object": {str(n): n for n in range(40_000)},
        "nested": [[[{"a": [list(range(50))] * 20} for _ in range(10)] for _ in range(5)] for _ in range(3)],
        "long text": ["x" * 5_000_000, {"k": "y" * 3_000_000, "after": [1, 2]}],
        "escapes": ['\x01"\\' * 400_000],
        "pairs": ["😀" * 300_000, "é" * 900_000, "漢" * 700_000],
        "halves": ["\ud83d" * 300_000, "\ud83dx\ude00" * 200_000],
        "brackets in text": ['[{",:' * 400_000],
    }


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_long_texts_are_read_as_the_standard_library_reads_them(name: str, ascii_only: bool) -> None:
    value = _shapes()[name]
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert loads(text) == json.loads(text)


@pytest.mark.parametrize("name", _NAMES)
def test_long_values_are_written_as_the_standard_library_writes_them(name: str) -> None:
    value = _shapes()[name]
    assert dumps(value, _encode) == _encode(value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=6),
    max_leaves=60,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_json, min_size=1), st.integers(1, 9), st.integers(1, 40))
def test_every_cut_is_mended(value: list[Any], values: int, size: int) -> None:
    """Cuts at every place that the scan may choose, worked out here without it."""
    text = json.dumps(value, ensure_ascii=False)
    cuts = list(_cuts(text, values, size))
    pieces = jsontext._pieces(text.encode("utf-8", "surrogatepass"), cuts, json.loads, "surrogatepass")
    assert jsontext._joined(pieces) == value


def _cuts(text: str, values: int, size: int) -> Any:
    stack: list[str] = []
    in_string = is_key = expects_key = False
    escaped = 0
    seen, last = 0, 0
    data = text.encode("utf-8", "surrogatepass")
    place = 0
    for letter in text:
        at, place = place, place + len(letter.encode("utf-8", "surrogatepass"))
        if in_string:
            if escaped:
                escaped = 0
            elif letter == '"':
                in_string = False
            else:
                if at - last >= size and not is_key and b"\\u" not in data[max(0, at - 6) : at + 1] and letter != "\\":
                    yield jsontext.Cut(at, True, "".join(stack).encode())
                    last, seen = at, 0
                escaped = letter == "\\"
        elif letter == '"':
            in_string, is_key = True, expects_key
        elif letter in "[{":
            stack.append(letter)
            expects_key = letter == "{"
        elif letter in "]}":
            stack.pop()
            expects_key = False
        elif letter == ":":
            expects_key = False
        elif letter == ",":
            seen += 1
            expects_key = stack[-1] == "{"
            if seen >= values or at - last >= size:
                yield jsontext.Cut(at, False, "".join(stack).encode())
                last, seen = at, 0


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        (b"[" + b"1," * 50_000 + b"1]", Bounds(values=1_000)),
        (b"[" + b"[]," * 50_000 + b"[]]", Bounds(containers=1_000)),
        (b"[" * 100_000 + b"]" * 100_000, Bounds()),
        (b"[" * 100 + b" " * 100_000 + b"]" * 100, Bounds(depth=99)),
        (b'"' + b"a" * 200_000 + b'"', Bounds(size=100_000)),
        (b'{"' + b"k" * 6_000_000 + b'":1}', Bounds()),
    ],
)
def test_more_than_is_allowed_is_refused(text: bytes, bounds: Bounds) -> None:
    with pytest.raises(TooLarge):
        loads(text, bounds)


@pytest.mark.parametrize("broken", ["[{}],[", "[{},]", "[{}}", "]{}[", "[{}", "{}]", "[{},,1]", '[{}"]', "[{}]x"])
def test_what_is_no_json_is_refused_whole_or_cut(broken: str) -> None:
    filler = ",".join(["1"] * 50_000)
    for text in (broken.replace("{}", "2"), broken.replace("{}", filler)):
        with pytest.raises(ValueError, match=r"."):
            loads(text.encode())


@pytest.mark.parametrize("seed", range(12))
def test_mutated_texts_never_end_in_another_error(seed: int) -> None:
    draw = random.Random(seed)
    text = bytearray(json.dumps(_shapes()["rows"][:3_000]).encode())
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(text))
        text[at : at + draw.randint(0, 3)] = "".join(
            draw.choices(string.printable + '[]{},:"\\', k=draw.randint(0, 3))
        ).encode()
    try:
        found = loads(bytes(text))
    except ValueError:
        return
    assert found == json.loads(bytes(text))


def test_repeated_keys_are_found_in_one_piece_and_across_pieces() -> None:
    assert loads(b'{"a":1,"b":{"a":2}}', decode=read_json) == {"a": 1, "b": {"a": 2}}
    with pytest.raises(RepeatedKey):
        loads(b'{"a":1,"a":2}', decode=read_json)
    many = ",".join(f'"{n}":[1,2]' for n in range(20_000))
    with pytest.raises(RepeatedKey):
        loads(f'{{"x":{{{many},"3":1}}}}'.encode(), decode=read_json)
