"""Workflows in every kind of store: S1-S16 of VibeForge, and what it could not do: lasting, and refusing stale copies."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.domain import SessionPhase, VersionConflict, WorkflowSession
from holdfast.store import open_store
from holdfast.store.workflows import SessionStore, SessionStoreInterface, session_store


@pytest.fixture(params=["memory", "sqlite"])
def address(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'workflows.db'}"


@pytest.fixture
def store(address):
    """What keeps the documents."""
    opened = open_store(address)
    yield opened
    opened.close()


@pytest.fixture
def sessions(store):
    return SessionStore(store)


def test_s1_the_interface_is_five_verbs_and_cannot_be_made():
    with pytest.raises(TypeError):
        SessionStoreInterface()
    assert SessionStoreInterface.__abstractmethods__ == {
        "create_session",
        "get_session",
        "update_session",
        "delete_session",
        "list_sessions",
    }
    assert not any(
        inspect.iscoroutinefunction(getattr(SessionStore, name)) for name in SessionStoreInterface.__abstractmethods__
    )


def test_s2_the_store_is_one(sessions):
    assert isinstance(sessions, SessionStoreInterface)


def test_s3_a_fresh_store_is_empty(sessions):
    assert sessions.list_sessions() == []


def test_s4_a_created_session_is_listed(sessions):
    session = sessions.create_session()
    assert session.phase is SessionPhase.QUESTIONNAIRE
    assert sessions.list_sessions() == [session.session_id]


def test_s5_ids_are_distinct(sessions):
    assert len({sessions.create_session().session_id for _ in range(3)}) == 3


def test_s6_restated_a_session_read_has_equal_state(sessions):
    """Theirs gave the same instance, which no store that lasts can do."""
    session = sessions.create_session()
    session.concept = {"features": ["ä", 1, 2.5, None, True]}
    sessions.update_session(session)
    read = sessions.get_session(session.session_id)
    assert read == session
    assert read is not session
    assert (read.version, read.to_dict()) == (2, session.to_dict())


def test_s6_restated_a_change_that_is_not_passed_to_update_is_not_seen(sessions):
    session = sessions.create_session()
    session.add_log("on the caller's copy")
    sessions.get_session(session.session_id).answers["q"] = "on another"
    assert sessions.get_session(session.session_id).to_dict() == sessions.get_session(session.session_id).to_dict()
    assert (sessions.get_session(session.session_id).logs, sessions.get_session(session.session_id).answers) == ([], {})


def test_s6_restated_a_change_after_update_is_not_seen_either(sessions):
    session = sessions.create_session()
    session.answers["q"] = [1]
    sessions.update_session(session)
    session.answers["q"].append(2)
    assert sessions.get_session(session.session_id).answers == {"q": [1]}


def test_s7_there_is_none_where_none_was_made(sessions):
    assert sessions.get_session("nobody") is None


def test_s8_an_update_is_seen(sessions):
    session = sessions.create_session()
    session.update_phase(SessionPhase.BUILD_SPEC)
    session.add_log("a line")
    sessions.update_session(session)
    read = sessions.get_session(session.session_id)
    assert read.phase is SessionPhase.BUILD_SPEC
    assert "a line" in read.logs[0]
    assert read.updated_at == session.updated_at


def test_s9_what_is_deleted_is_gone(sessions):
    session = sessions.create_session()
    sessions.delete_session(session.session_id)
    assert sessions.get_session(session.session_id) is None
    assert sessions.list_sessions() == []


def test_s10_deleting_what_is_not_there_is_fine(sessions):
    assert sessions.delete_session("nobody") is None


def test_s11_the_list_is_in_the_order_of_creation(sessions):
    ids = [sessions.create_session().session_id for _ in range(5)]
    changed = sessions.get_session(ids[0])
    changed.add_log("changed later than the others were made")
    sessions.update_session(changed)
    assert sessions.list_sessions() == ids
    sessions.delete_session(ids[2])
    assert sessions.list_sessions() == ids[:2] + ids[3:]


def test_s12_logs_do_not_mix(sessions):
    pair = [sessions.create_session() for _ in range(2)]
    for name, session in zip("ab", pair, strict=True):
        session.add_log(f"of {name}")
        sessions.update_session(session)
    logs = [sessions.get_session(session.session_id).logs for session in pair]
    assert [len(lines) for lines in logs] == [1, 1]
    assert [lines[0][-4:] for lines in logs] == ["of a", "of b"]


def test_s13_answers_logs_and_errors_survive(sessions):
    session = sessions.create_session()
    session.add_answer("q1", {"deep": [1, None]})
    session.add_log("line")
    error = session.add_error("t1", "it broke", kind="verification")
    session.resolve_error(error)
    sessions.update_session(session)
    read = sessions.get_session(session.session_id)
    assert (read.answers, read.logs, read.error_history) == (session.answers, session.logs, session.error_history)


@pytest.mark.parametrize("identity", ["mine", "with / and ' and ü", "x" * 500])
def test_s14_updating_one_that_was_never_created_adds_it(sessions, identity):
    session = WorkflowSession(identity)
    session.main_task = "do it"
    sessions.update_session(session)
    assert sessions.list_sessions() == [identity]
    assert (sessions.get_session(identity), session.version) == (session, 1)


def test_s14_but_not_over_one_that_is_there(sessions):
    """Theirs overwrote it."""
    sessions.update_session(WorkflowSession("mine"))
    with pytest.raises(VersionConflict):
        sessions.update_session(WorkflowSession("mine"))


def test_s15_the_global_store_is_there():
    assert isinstance(session_store, SessionStoreInterface)
    session = session_store.create_session()
    assert session_store.get_session(session.session_id) == session
    session_store.delete_session(session.session_id)


def test_s16_two_stores_do_not_see_each_other(sessions, tmp_path):
    session = sessions.create_session()
    other = open_store(f"sqlite:///{tmp_path / 'other.db'}")
    for stranger in (SessionStore(), SessionStore(other)):
        assert stranger.get_session(session.session_id) is None
        assert stranger.list_sessions() == []
    other.close()


# ---- beyond theirs


def test_a_stale_copy_is_refused_and_changes_nothing(sessions):
    """Theirs let the last writer win."""
    identity = sessions.create_session().session_id
    mine, yours = sessions.get_session(identity), sessions.get_session(identity)
    mine.add_answer("q", "mine")
    sessions.update_session(mine)
    yours.add_answer("q", "yours")
    with pytest.raises(VersionConflict):
        sessions.update_session(yours)
    assert sessions.get_session(identity).answers == {"q": "mine"}
    assert (mine.version, yours.version) == (2, 1)
    mine.add_log("one copy may be updated again and again")
    sessions.update_session(mine)
    assert sessions.get_session(identity).version == 3


def test_what_was_deleted_in_between_does_not_come_back(sessions):
    session = sessions.create_session()
    sessions.delete_session(session.session_id)
    session.add_log("too late")
    with pytest.raises(VersionConflict):
        sessions.update_session(session)
    assert sessions.list_sessions() == []


def test_of_many_threads_nobodys_change_is_lost(sessions):
    identity = sessions.create_session().session_id

    def add(name):
        while True:
            session = sessions.get_session(identity)
            session.add_answer(name, 1)
            try:
                return sessions.update_session(session)
            except VersionConflict:
                continue

    names = [f"q{number}" for number in range(24)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, names))
    read = sessions.get_session(identity)
    assert (sorted(read.answers), read.version) == (sorted(names), 25)


def test_in_a_file_sessions_outlive_the_process(tmp_path):
    address = f"sqlite:///{tmp_path / 'workflows.db'}"
    first = open_store(address)
    sessions = SessionStore(first)
    kept = [sessions.create_session() for _ in range(3)]
    for phase in ("BUILD_SPEC", "IDEA", "PLAN_REVIEW", "EXECUTION"):
        kept[1].update_phase(phase)
    kept[1].add_error("t1", "it broke")
    sessions.update_session(kept[1])
    first.close()

    second = open_store(address)
    sessions = SessionStore(second)
    assert sessions.list_sessions() == [session.session_id for session in kept]
    assert [sessions.get_session(session.session_id) for session in kept] == kept
    again = sessions.get_session(kept[1].session_id)
    again.update_phase("COMPLETE")
    sessions.update_session(again)
    second.close()

    third = open_store(address)
    assert SessionStore(third).get_session(again.session_id).phase is SessionPhase.COMPLETE
    third.close()
