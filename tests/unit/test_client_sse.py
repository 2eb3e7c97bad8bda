"""The parser of event streams: what the HTML standard says of them, wherever the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.client._sse import Message, Parser, TooLarge


def parsed(*chunks: bytes) -> list[Message]:
    parser = Parser()
    return [message for chunk in chunks for message in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: one\n\n", [("message", "one", "")]),
        (b"data:one\n\n", [("message", "one", "")]),
        (b"data:  two spaces\n\n", [("message", " two spaces", "")]),
        (b"event: console\ndata: a\ndata: b\n\n", [("console", "a\nb", "")]),
        (b": hb\n\n: hb\n\n", []),
        (b"event: nothing\n\ndata: x\n\n", [("message", "x", "")]),
        (b"data\n\n", [("message", "", "")]),
        (b"data: a:b: c\n\n", [("message", "a:b: c", "")]),
        (b"unknown: x\ndata: y\n\n", [("message", "y", "")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "1")]),
        (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "")]),
        (b"id: 1\x002\ndata: a\n\n", [("message", "a", "")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("message", "a", "")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("message", "b", "")]),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\n", [("message", x, "") for x in "abc"]),
        (b"data: \xff\n\n", [("message", "\ufffd", "")]),
        ("data: \u2028\u0085 \U0001f600\n\n".encode(), [("message", "\u2028\u0085 \U0001f600", "")]),
        (b"data: never ends\n", []),
    ],
)
def test_streams(stream: bytes, expected: list[tuple[str, str, str]]) -> None:
    messages = [Message(*parts) for parts in expected]
    assert parsed(stream) == messages
    assert parsed(*(bytes([byte]) for byte in stream)) == messages


fields = st.sampled_from([b"data", b"event", b"id", b"retry", b"", b"other"])
values = st.sampled_from([b"", b" ", b"x", b" 12", "ü€😀".encode(), b"a:b", b"\xff", b"\x00", b"\xef\xbb\xbf"])
lines = st.one_of(st.just(b""), st.just(b""), st.builds(lambda name, value: name + b":" + value, fields, values))
ends = st.sampled_from([b"\n", b"\r", b"\r\n"])
streams = st.builds(
    lambda bom, parts: bom + b"".join(line + end for line, end in parts),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(lines, ends), max_size=30),
)


@example(stream=b"data: a\r\n\r\ndata: b\r\n\r\n", cuts=[8, 9, 10])
@given(stream=streams, cuts=st.lists(st.integers(0, 300), max_size=12))
def test_it_does_not_matter_where_the_bytes_are_cut(stream: bytes, cuts: list[int]) -> None:
    whole, cut = Parser(), Parser()
    expected = whole.feed(stream)
    places = [0, *sorted(min(place, len(stream)) for place in cuts), len(stream)]
    found = [message for left, right in pairwise(places) for message in cut.feed(stream[left:right])]
    assert found == expected
    assert (cut.last_id, cut.retry_s) == (whole.last_id, whole.retry_s)


def test_a_message_is_told_as_soon_as_it_is_complete() -> None:
    parser = Parser()
    assert parser.feed(b"data: a\r\n\r") == [Message("message", "a", "")]
    assert parser.feed(b"\ndata: b\n") == []
    assert parser.feed(b"\n") == [Message("message", "b", "")]


def test_what_is_incomplete_was_never_said() -> None:
    parser = Parser()
    parser.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert parser.last_id == "1"
    parser.restart()
    assert parser.feed(b"data: c\n\n") == [Message("message", "c", "1")]


def test_an_id_without_data_moves_the_place_to_come_back_to() -> None:
    parser = Parser()
    assert parser.feed(b"id: 9\n\n") == []
    assert parser.last_id == "9"


@pytest.mark.parametrize(("value", "seconds"), [(b"250", 0.25), (b"-1", None), (b"2s", None), ("٣".encode(), None)])
def test_how_long_to_wait_is_a_number(value: bytes, seconds: float | None) -> None:
    parser = Parser()
    parser.feed(b"retry: " + value + b"\n\n")
    assert parser.retry_s == seconds


@pytest.mark.parametrize("chunk", [b"x" * 10, b"data: xxxx\n"])
def test_a_message_without_end_is_refused(chunk: bytes) -> None:
    parser = Parser(largest=100)
    for _ in range(9):
        parser.feed(chunk)
    with pytest.raises(TooLarge):
        parser.feed(chunk * 20)
