"""Small parts of the runtime, by themselves: values, requests, what may be pruned, workers, the bell, group commits, the journal."""

import asyncio
import os
import threading
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.domain import Answer, InvalidValue, Limits, Node, Origin, Principal, Session, SessionState, VersionConflict
from holdfast.runtime import EffectKind, Function, ReplayDiverged
from holdfast.runtime._plain import checked, plain
from holdfast.runtime.bell import Bell
from holdfast.runtime.committer import Committer
from holdfast.runtime.diff import difference
from holdfast.runtime.fair import Owner
from holdfast.runtime.journal import Journal
from holdfast.runtime.pruning import doomed
from holdfast.runtime.requests import given, request_as_dict, request_from_dict
from holdfast.runtime.resident import base_depth
from holdfast.runtime.workers import Workers
from holdfast.sandbox import BigInt, Call, Evaluate, Failure, Map, Modules, Resume, RunFile, Set, Undefined
from holdfast.store import Commit, Effect, StoreUnavailable

HERE, THERE = UUID(int=1), UUID(int=2)


# ---- values ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": Undefined, "b": [Undefined, 1]}, {"b": [None, 1]}),
        (float("nan"), None),
        (float("inf"), None),
        (BigInt(2**70), str(2**70)),
        (b"\x01\x02", "AQI="),
        (Map(((1, "a"),)), [[1, "a"]]),
        (Set((1, 2)), [1, 2]),
        ([1, 1.5, True, None, "x"], [1, 1.5, True, None, "x"]),
    ],
)
def test_script_values_become_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_a_callers_value_is_as_a_store_gives_it_back() -> None:
    assert checked({"a": (1, 2), 3: None}, "it") == {"a": [1, 2], "3": None}
    given_list = [1]
    kept = checked(given_list, "it")
    given_list.append(2)
    assert kept == [1]
    for bad in (float("nan"), {1, 2}, b"x", object(), "x" * (17 << 20)):
        with pytest.raises(InvalidValue, match="it"):
            checked(bad, "it")


@pytest.mark.parametrize(
    "request_",
    [
        Evaluate("1 + 1", "<x>"),
        RunFile("return 1", "main.lua", {"a": [1]}),
        Call("f", [1, "x"]),
        Resume({}),
        Resume({1: "x", 2: None, 3: Failure("no", "CODE", "TypeError"), 4: {"error": "a value of this shape"}}),
    ],
)
def test_a_request_is_the_same_after_a_crash(request_: Any) -> None:
    again = request_from_dict(request_as_dict(request_))
    assert type(again) is type(request_)
    assert again == request_


def test_an_answer_that_raises() -> None:
    assert given(Answer({"x": 1})) == {"x": 1}
    assert given(Answer(error={"message": "no"})) == Failure("no", None, "Error")


# ---- pruning -----------------------------------------------------------------------------------------------------------------------


def _node(number: int, base: int | None, session: UUID = HERE) -> Node:
    return Node(number, number - 1, uuid4(), number * 10, number, None if base is None else Origin(session, base), 1, ())


NODES = [_node(1, None), _node(2, None), _node(3, 2), _node(4, None), _node(5, 4), _node(6, 4), _node(7, 6)]


@pytest.mark.parametrize(
    ("head", "forks", "keep", "before", "gone"),
    [
        (7, set(), 0, None, {1, 2, 3, 4, 5, 6}),
        (7, set(), 3, None, {1, 2, 3, 4}),
        (7, {3}, 0, None, {1, 4, 5, 6}),  # a fork at 3 builds on 2
        (7, {5}, 1, None, {1, 2, 3, 6}),
        (2, set(), 2, None, {1, 3, 4, 5}),  # rewound: the present is an old one
        (7, set(), None, 35, {1, 2, 3}),
        (7, set(), 6, 1000, {1}),
        (7, {0}, 7, None, set()),
    ],
)
def test_what_may_be_pruned(head: int, forks: set[int], keep: int | None, before: int | None, gone: set[int]) -> None:
    assert doomed(HERE, NODES, head, forks, keep, before) == gone


def test_the_difference_of_globals() -> None:
    def var(preview: str, digest: str) -> dict[str, str]:
        return {"type": "t", "preview": preview, "digest": digest}

    found = difference(
        {"a": var("1", "x"), "b": var("…", "x"), "c": var("1", "x")},
        {"b": var("…", "y"), "c": var("1", "x"), "d": var("2", "z")},
    )
    assert list(found["added"]) == ["d"]
    assert list(found["removed"]) == ["a"]
    assert list(found["changed"]) == ["b"]  # deep inside, where the preview does not show it


# ---- workers -----------------------------------------------------------------------------------------------------------------------


def _owner(job: Any) -> Owner:
    return Owner(Principal(), HERE)


def test_workers_can_be_closed_at_any_moment() -> None:
    for n in range(30):
        workers: Workers[int] = Workers(lambda job: time.sleep(0.001) or 0.0, lambda: None, 50, _owner)
        for job in range(n):
            workers.put(job)
        closing = threading.Thread(target=workers.close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()


def test_slow_jobs_do_not_keep_others_waiting() -> None:
    gate, done = threading.Event(), threading.Event()

    def run(job: str) -> float:
        if job == "slow":
            gate.wait(10)
        else:
            done.set()
        return 0.0

    workers: Workers[str] = Workers(run, lambda: None, 50, _owner)
    for _ in range(10):
        workers.put("slow")
    workers.put("quick")
    assert done.wait(5)
    gate.set()
    workers.close()


# ---- the bell ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counted", [True, False])
def test_whatever_was_done_before_a_ring_is_heard(counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not counted:
        monkeypatch.delattr(os, "eventfd", raising=False)

    async def listen() -> int:
        done: list[int] = []
        heard: list[int] = []
        enough = asyncio.Event()

        def hear() -> None:
            heard.append(len(done))
            if len(done) == 4 * 500:
                enough.set()

        bell = Bell(asyncio.get_running_loop(), hear)

        def work() -> None:
            for n in range(500):
                done.append(n)
                bell.ring()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(enough.wait(), 10)
        for thread in threads:
            thread.join()
        await asyncio.sleep(0.01)
        bell.close()
        before = len(heard)
        bell.ring()
        await asyncio.sleep(0.01)
        assert len(heard) == before
        return len(heard)

    assert 0 < asyncio.run(listen()) <= 4 * 500


def test_a_ring_after_the_loop_is_gone_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> Bell:
        return Bell(asyncio.get_running_loop(), lambda: None)

    monkeypatch.delattr(os, "eventfd", raising=False)
    asyncio.run(make()).ring()


# ---- the ladder --------------------------------------------------------------------------------------------------------------------


def test_chains_are_short_and_each_base_is_at_hand() -> None:
    ladder: list[int] = []
    for depth in range(1, 5000):
        ladder = [rung for rung in ladder if rung <= base_depth(depth)]
        assert (ladder[-1] if ladder else 0) == base_depth(depth)
        ladder.append(depth)
        assert len(ladder) <= depth.bit_length() + 1
    assert [depth for depth in range(1, 5000) if base_depth(depth) == 0] == [1]


# ---- commits -----------------------------------------------------------------------------------------------------------------------


class _Store:
    """Only what a committer needs: writes are slow, and some are refused."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.fails = False

    def commit(self, commits: list[Commit]) -> list[Any]:
        time.sleep(0.005)
        if self.fails:
            raise StoreUnavailable
        self.groups.append(len(commits))
        return [VersionConflict() if commit.token < 0 else None for commit in commits]


def _commit(token: int) -> Commit:
    return Commit(Session(uuid4(), uuid4(), 1, SessionState.READY, 0, 0), None, 0, token)


def test_commits_at_once_share_a_group() -> None:
    store = _Store()
    committer = Committer(store, lambda: None)  # type: ignore[arg-type]
    threads = [threading.Thread(target=committer.commit, args=(_commit(n),)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sum(store.groups) == 32
    assert len(store.groups) < 32


def test_one_that_is_refused_does_not_spoil_the_others() -> None:
    store = _Store()
    committer = Committer(store, lambda: None)  # type: ignore[arg-type]
    told: list[Any] = []
    for token in (1, -1, 2):
        committer.submit(_commit(token), told.append, linger=True)
    assert told == []  # they wait for company
    committer.flush()
    assert [type(error) for error in told] == [type(None), VersionConflict, type(None)]
    with pytest.raises(VersionConflict):
        committer.commit_all([_commit(3), _commit(-1)])
    store.fails = True
    with pytest.raises(StoreUnavailable):
        committer.commit(_commit(4))
    store.fails = False
    committer.commit(_commit(5))


# ---- the journal -------------------------------------------------------------------------------------------------------------------


class _Sandbox:
    limits = Limits()

    def __init__(self) -> None:
        self.timing: list[str] = []

    def untimed(self) -> None:
        self.timing.append("untimed")

    def timed(self) -> None:
        self.timing.append("timed")


def _call(journal: Journal, name: str, *args: int) -> bytes:
    request = ("[" + f'"{name}",[' + ",".join(map(str, args)) + "]]").encode()
    return journal.answer(ord("c"), request, 5.0)[0]


def test_a_journal_is_followed_and_then_left() -> None:
    begun: list[Any] = []
    called: list[str] = []
    functions = {
        kind.value: Function(kind.value, lambda *args, name=kind.value: called.append(name) or len(called), kind)
        for kind in EffectKind
    }
    journal = Journal(functions, Modules({}), lambda: begun.append(list(journal.effects)))
    sandbox: Any = _Sandbox()
    journal.start(sandbox, [])
    assert [_call(journal, "read", 1), _call(journal, "once", 2), _call(journal, "idempotent", 3)] == [b"v1", b"v2", b"v3"]
    # Durable before it ran, with what was before; and so is one that may run again, with what it may depend on.
    assert [[effect.reply for effect in effects] for effects in begun] == [["v1", None], ["v1", "v2", None]]
    assert sandbox.timing == []

    known = [*journal.effects[:2], Effect("idempotent", journal.effects[2].arguments, None, 5.0)]
    again = Journal(functions, Modules({}), lambda: begun.append(None))
    again.start(sandbox, list(known))
    assert sandbox.timing == ["untimed"]
    assert again.is_behind
    assert [_call(again, "read", 1), _call(again, "once", 2)] == [b"v1", b"v2"]
    assert called == ["read", "once", "idempotent"]
    assert _call(again, "idempotent", 3) == b"v4"  # it may happen twice
    assert sandbox.timing == ["untimed", "timed"]
    assert not again.is_behind
    assert len(begun) == 2

    for wrong in (("once", 1), ("read", 9)):
        other = Journal(functions, Modules({}), lambda: None)
        other.start(sandbox, list(known))
        with pytest.raises(ReplayDiverged):
            _call(other, *wrong)

    lost = Journal(functions, Modules({}), lambda: None)
    lost.start(sandbox, [known[0], known[1]._replace(reply=None)])
    _call(lost, "read", 1)
    assert b"EFFECT_UNCERTAIN" in _call(lost, "once", 2)
    assert called[-1] == "idempotent"


def test_a_read_that_finds_nothing_is_remembered_as_well() -> None:
    begun: list[Any] = []
    functions = {kind.value: Function(kind.value, lambda: None, kind) for kind in (EffectKind.READ, EffectKind.IDEMPOTENT)}
    journal = Journal(functions, Modules({}), lambda: begun.append([effect.name for effect in journal.effects]))
    sandbox: Any = _Sandbox()
    journal.start(sandbox, [])
    for name in ("idempotent", "read", "idempotent", "idempotent"):
        assert _call(journal, name) == b"vnull"
    assert begun == [["idempotent", "read", "idempotent"]], "what it is done with follows from there being nothing"
