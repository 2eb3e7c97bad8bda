"""Parts of forks that need no store: ids, who gets how much of a budget, how an execution is left, what scripts say."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import Budget, Family, InvalidValue, Query, QueryKind, Session, SessionState, Spent
from holdfast.runtime import ForkLimit, branches, saying
from holdfast.runtime.leaving import left
from holdfast.sandbox import Failed, Finished
from holdfast.sandbox import Query as ScriptQuery

HERE = UUID(int=7)


def fork(number: int, count: int, asked_at: int = 0) -> Query:
    payload = {"name": branches.FORK, "args": {"strategies": ["s"] * count}}
    return Query(HERE, number, UUID(int=8), QueryKind.TOOL, payload, asked_at)


def session(family: Family | None = None) -> Session:
    return Session(HERE, UUID(int=9), 1, SessionState.PAUSED, 0, 0, family=family)


def test_branches_have_ids_of_their_own_which_follow_from_the_fork() -> None:
    ids = {child for number in (1, 2) for child in branches.children(fork(number, 20))}
    assert len(ids) == 40
    assert branches.children(fork(2, 3)) == [branches.child_id(HERE, 2, index) for index in range(3)]
    assert not branches.is_fork(Query(HERE, 1, UUID(int=8), QueryKind.TOOL, {"name": "other"}, 0))
    assert branches.is_birth(session(Family(HERE, HERE, 3, 0, 1)), fork(3, 1))
    assert not branches.is_birth(session(), fork(3, 1))


@given(
    limits=st.tuples(*[st.none() | st.integers(0, 1000)] * 3),
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    spent=st.tuples(*[st.integers(0, 300)] * 3),
)
def test_all_that_is_left_is_given_to_branches_and_no_more(limits: Any, counts: list[int], spent: Any) -> None:
    budget, used = Budget(*limits), Spent(*spent)
    forks = [fork(number, count) for number, count in enumerate(counts, 1)]
    shares = [
        branches.share(budget, used, query, index, forks) for query in forks for index in range(len(branches.names(query)))
    ]
    for limit, name, was in ((limits[0], "max_llm_calls", spent[0]), (limits[2], "max_tokens", spent[2])):
        parts = [getattr(share, name) for share in shares]
        if limit is None:
            assert set(parts) == {None}
        else:
            assert sum(parts) == max(0, limit - was)
            assert max(parts) - min(parts) <= 1
    left_ms = None if limits[1] is None else max(0, limits[1] - spent[1])
    assert {share.max_elapsed_ms for share in shares if share is not None} == {left_ms}
    later = branches.share(budget, used, fork(9, 2, asked_at=1), 0, [*forks, fork(9, 2, asked_at=1)])
    assert later is not None
    assert {later.max_llm_calls, later.max_tokens} <= {None, 0}
    assert branches.share(None, used, forks[0], 0, forks) is None


@pytest.mark.parametrize(
    "args",
    [
        *(None, [], {}, {"strategies": []}, {"strategies": "a"}, {"strategies": {"a": 1}}, {"strategies": [""]}),
        *({"strategies": ["a" * 201]}, {"strategies": [None]}, {"strategies": ["a"], "on_error": 1}),
    ],
)
def test_a_fork_that_makes_no_sense_is_refused(args: Any) -> None:
    with pytest.raises(InvalidValue, match=r"alc\.fork: "):
        branches.check_fork(session(), {"name": branches.FORK, "args": args})


def test_forks_are_neither_wide_nor_deep_without_end() -> None:
    most = {"args": {"strategies": ["s"] * branches.MOST_BRANCHES, "on_error": "fail"}}
    deep = Family(HERE, HERE, 1, 0, branches.DEEPEST)
    branches.check_fork(session(Family(HERE, HERE, 1, 0, branches.DEEPEST - 1)), most)
    with pytest.raises(ForkLimit, match="8 deep"):
        branches.check_fork(session(deep), most)
    with pytest.raises(ForkLimit, match="256 branches, not 257"):
        branches.check_fork(session(), {"args": {"strategies": ["s"] * 257}})


# ---- leaving -----------------------------------------------------------------------------------------------------------------------


def leaving(args: Any, name: str = branches.EXIT, kind: str = "tool") -> Any:
    return left([ScriptQuery(1, "llm", {"prompt": "?"}), ScriptQuery(2, kind, {"name": name, "args": args})], "lua")


@pytest.mark.parametrize(
    ("args", "kind", "preview"),
    [
        (None, "nil", "nil"),
        ({}, "nil", "nil"),
        ([], "nil", "nil"),
        ({"value": 1.5}, "number", "1.5"),
        ({"ok": True, "value": "ü" * 300}, "string", "ü" * 199 + "…"),
        ({"value": [1, {"a": None}]}, "table", '[1, {"a": null}]'),
    ],
)
def test_a_script_leaves_with_a_value(args: Any, kind: str, preview: str) -> None:
    found = leaving(args)
    assert isinstance(found, Finished)
    assert (found.result.type, found.result.preview) == (kind, preview)
    assert found.result.json == (args.get("value") if isinstance(args, dict) else None)


def test_a_script_leaves_with_an_error() -> None:
    found = leaving({"ok": False, "error": "no"})
    assert isinstance(found, Failed)
    assert (found.error.message, found.error.code) == ("no", "BRANCH_FAILED")


@pytest.mark.parametrize("args", ["x", [1], {"ok": 1}, {"ok": None}, {"ok": False}, {"ok": False, "error": 7}])
def test_nobody_leaves_in_a_way_that_makes_no_sense(args: Any) -> None:
    assert leaving(args) is None
    assert leaving(None, "other") is None
    assert leaving(None, kind="ask") is None
    assert left([ScriptQuery(1, "tool", "holdfast.exit")], "lua") is None


# ---- what scripts say --------------------------------------------------------------------------------------------------------------


def test_logs_and_progress_are_events() -> None:
    assert saying.log({"level": "odd", "message": "a"}) == ("log", {"level": "odd", "message": "a"})
    assert saying.progress({"step": 1.0, "total": 3}) == ("progress", {"step": 1, "total": 3, "message": None})
    for wrong in (None, [], {}, {"level": 1, "message": "a"}, {"level": "x" * 41, "message": "a"}, {"level": "info"}):
        assert saying.log(wrong) is None
    for wrong in (None, {"step": 1}, {"step": -1, "total": 2}, {"step": 0.5, "total": 1}, {"step": True, "total": 1}):
        assert saying.progress(wrong) is None
    assert saying.progress({"step": 1, "total": 2, "message": 3}) is None
    assert saying.progress({"step": 1e300, "total": 2}) is None


def test_statistics_are_kept_as_far_as_there_is_room() -> None:
    before = {"a": 1}
    stats = saying.Stats(before)
    assert stats.kept() is before
    assert stats.put({"key": "b", "value": [1, None]}) is None
    assert stats.put({"key": "b", "value": float("nan")}) is None
    assert stats.kept() == {"a": 1, "b": None}
    assert before == {"a": 1}
    room = saying.MOST_STATS - 100
    assert stats.put({"key": "c", "value": "x" * room}) is None
    assert "'d' is not kept" in (stats.put({"key": "d", "value": "x" * 100}) or "")
    assert stats.put({"key": "c", "value": "x"}) is None
    assert stats.put({"key": "d", "value": "x" * 100}) is None
    assert stats.kept().keys() == {"a", "b", "c", "d"}
    for wrong in (None, {}, {"key": 1}, {"key": ""}, {"key": "x" * 201}):
        assert stats.put(wrong) is not None
