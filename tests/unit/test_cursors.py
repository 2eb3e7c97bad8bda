"""Sealed cursors: what they look like tells nothing of what others write."""

import pytest

from holdfast.control._cursors import Cursors
from holdfast.domain import InvalidValue


def test_a_fresh_cursor_is_another_one_each_time_and_all_are_of_one_length() -> None:
    cursors = Cursors(bytes(32), "a")
    places = ["f1", "f1", "f1000000000", "t" + "9" * 60]
    assert cursors.seal("f1") == cursors.seal("f1") != cursors.seal("f2")
    sealed = [cursors.seal(place, fresh=True) for place in places]
    assert len(set(sealed)) == len(sealed)
    assert len(sealed[0]) == len(cursors.seal("f1"))
    assert len({len(one) for one in sealed}) == 1
    assert [cursors.open(one) for one in sealed] == places
    long = "x" * 500
    assert cursors.open(cursors.seal(long)) == long


def test_a_cursor_of_somebody_else_or_made_up_is_none() -> None:
    cursors = Cursors(bytes(32), "a")
    good = cursors.seal("f7")
    changed = good[:30] + ("A" if good[30] != "A" else "B") + good[31:]
    for bad in ("", "dDE", "\u00e4", good + "=", good[:-1], changed, Cursors(bytes(32), "b").seal("f7")):
        with pytest.raises(InvalidValue, match="not one of this list"):
            cursors.open(bad)
