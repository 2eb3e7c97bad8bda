"""The daemon's garbage collector: cycles go away, and not while there are very many new objects."""

import gc
import weakref

import pytest

from holdfast.daemon import _collecting


class Node:
    """A part of a cycle."""

    other: "Node"


def cycle() -> "weakref.ref[Node]":
    node = Node()
    node.other = node
    return weakref.ref(node)


def test_cycles_go_when_the_moment_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = _collecting.Collector()
    monkeypatch.setattr(_collecting, "_WORTH", 0)
    gc.collect()
    gone = cycle()
    monkeypatch.setattr(_collecting, "_FEW", -1)
    assert not collector.look()
    assert gone() is not None
    monkeypatch.setattr(_collecting, "_FEW", 1 << 30)
    assert collector.look()
    assert gone() is None
