"""Ids. vm-system 1.2; lines 14 and 22 of algocline section 6."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import (
    InvalidId,
    branch_query_id,
    new_id,
    parse_any_query_id,
    parse_id,
    parse_query_id,
    query_id,
)

PLAIN = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.upper(),
        f"  {PLAIN}\n",
        f"urn:uuid:{PLAIN}",
        f"URN:UUID:{PLAIN.upper()}",
        f"{{{PLAIN}}}",
        PLAIN.replace("-", ""),
        PLAIN.replace("-", "").upper(),
        f"\t{{{PLAIN}}} ",
        UUID(PLAIN),
    ],
)
def test_every_way_to_write_an_id_gives_the_canonical_one(text):
    assert str(parse_id(text)) == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "s-18f-0011223344556677",
        PLAIN[:-1],
        PLAIN + "0",
        f"{{{PLAIN}",
        f"{PLAIN}}}",
        f"urn:uuid:{{{PLAIN}}}",
        f"urn:{PLAIN}",
        f"urn:uuid:{PLAIN.replace('-', '')}",
        f"{{{PLAIN.replace('-', '')}}}",
        PLAIN.replace("-", "_"),
        "3f2504e04f89-41d3-9a0c-0305e82c3301",
        PLAIN.replace("3", "g"),
        PLAIN.replace("3", "\uff13"),  # a digit, but not an ASCII one
        f"{PLAIN}\n{PLAIN}",
        None,
        7,
        b"3f2504e0",
        "../../etc/passwd",
    ],
)
def test_all_else_is_refused_and_shown_shortened(text):
    with pytest.raises(InvalidId, match="this is not the id of a template: ") as refusal:
        parse_id(text, "template")
    assert len(str(refusal.value)) < 130


@given(st.uuids())
def test_a_written_id_reads_back(identity):
    assert parse_id(str(identity)) == parse_id(identity.hex) == parse_id(identity.urn) == identity


def test_line_22_restated_session_ids_are_distinct_random_uuids():
    """Theirs were a clock and a weak hash behind `s-`."""
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {identity.version for identity in ids} == {4}


@given(st.integers(1, 10**18 - 1))
def test_line_14_restated_a_query_id_is_its_number_in_the_session(number):
    """Theirs restarted at q-0 in each round; ours start at q-1 and are never used again."""
    assert query_id(number) == f"q-{number}"
    assert parse_query_id(query_id(number)) == parse_query_id(number) == parse_query_id(f" q-{number} ") == number


@pytest.mark.parametrize(
    "text", ["", "q-", "q-0", "q-01", "q--1", "Q-1", "1", "f-2-3", "q-1x", f"q-{10**18}", "q-\u0661", 0, -1, True, 1.0, None]
)
def test_line_14_restated_what_is_not_a_query_id_is_refused(text):
    """Theirs took any text."""
    with pytest.raises(InvalidId, match=r"this is not the id of a query: .*; they look like q-1"):
        parse_query_id(text)


_NUMBERS = st.integers(1, 10**18 - 1)


@given(st.lists(st.tuples(_NUMBERS, st.integers(0, 255)), max_size=8), _NUMBERS)
def test_line_14_restated_a_query_of_a_branch_has_the_way_to_it_in_its_id(path, number):
    """Theirs named the place of a virtual machine, and began again in each round."""
    text = branch_query_id(path, number)
    assert text.startswith("f-" if path else "q-")
    assert parse_any_query_id(f" {text} ") == (tuple(path), number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f-",
        "f-1",
        "f-1-0",
        "f-0-0-1",
        "f-1-00-1",
        "f-1-0-0",
        "f-1-0-1-",
        "F-1-0-1",
        "f-1-0-2-3",
        "f--1-0-1",
        "q-0",
        None,
        1.5,
    ],
)
def test_what_is_no_id_of_any_query_is_refused(text):
    with pytest.raises(InvalidId, match="this is not the id of a query"):
        parse_any_query_id(text)
