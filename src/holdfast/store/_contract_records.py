"""The contract, last part: templates, errors, replies, leases, documents, and what is small."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID, uuid4

from holdfast.domain import SessionState, Template, TemplateVersion, VersionConflict
from holdfast.store._contract_base import NASTY, T0, Samples, codes, full_session, full_spec, pages, refused
from holdfast.store.protocol import Begun, Reply

HOURS = 3_600_000


class RecordContract(Samples):
    """All that is not a session's state."""

    # ---- templates

    def test_a_template_comes_back_by_id_and_by_name(self) -> None:
        template = Template(uuid4(), NASTY, 1, T0 + 1, T0 + 2)
        self.store.create_template(template, self.version_of(template, 1, **full_spec()))
        assert self.store.get_template(template.id) == template == self.store.get_template(NASTY)

    def test_a_version_comes_back_with_every_field(self) -> None:
        version = replace(self.version_of(self.template, 2, **full_spec()), guest=b"\0\xff", baked=b"", created_at=T0 + 7)
        self.store.add_version(version, T0 + 8)
        assert self.store.get_version(self.template.id, 2) == version
        found = self.store.get_template(self.template.id)
        assert (found.latest, found.updated_at, found.created_at) == (2, T0 + 8, T0)

    def test_a_name_is_given_once(self) -> None:
        taken = Template(uuid4(), "first", 1, T0, T0)
        with refused("NAME_TAKEN"):
            self.store.create_template(taken, self.version_of(taken, 1))
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_version(taken.id, 1)

    def test_versions_follow_one_another(self) -> None:
        for number in (1, 3, 0):
            with refused("VERSION_CONFLICT"):
                self.store.add_version(self.version_of(self.template, number), T0)
        self.store.add_version(self.version_of(self.template, 2), T0)
        with refused("VERSION_CONFLICT"):
            self.store.add_version(self.version_of(self.template, 2), T0)

    def test_of_many_that_add_the_same_version_one_wins(self) -> None:
        together = threading.Barrier(8)

        def add(number: int) -> str | None:
            together.wait()
            try:
                self.store.add_version(self.version_of(self.template, 2), T0 + number)
            except Exception as error:  # noqa: BLE001
                return getattr(error, "code", str(error))
            return None

        with ThreadPoolExecutor(8) as pool:
            assert sorted(map(str, pool.map(add, range(8)))) == ["None"] + ["VERSION_CONFLICT"] * 7

    def test_a_template_gets_another_name(self) -> None:
        other = self.new_template("other")
        self.store.rename_template(self.template.id, NASTY, T0 + 5)
        assert self.store.get_template(NASTY) == replace(self.template, name=NASTY, updated_at=T0 + 5)
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_template("first")
        with refused("NAME_TAKEN"):
            self.store.rename_template(other.id, NASTY, T0 + 6)
        assert self.store.get_template("other") == other
        self.store.rename_template(other.id, "other", T0 + 7)
        self.store.rename_template(other.id, "first", T0 + 8)  # which is free again
        assert self.store.get_template("first").id == other.id
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.rename_template(uuid4(), "nobody", T0)

    def test_an_unknown_template_is_not_found(self) -> None:
        for which in (uuid4(), "nobody"):
            with refused("TEMPLATE_NOT_FOUND"):
                self.store.get_template(which)
        for template_id, number in ((uuid4(), 1), (self.template.id, 2)):
            with refused("TEMPLATE_NOT_FOUND"):
                self.store.get_version(template_id, number)
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.add_version(self.version_of(Template(uuid4(), "x", 1, T0, T0), 2), T0)
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.delete_template(uuid4())

    def test_templates_and_versions_are_listed_newest_first(self) -> None:
        more = [self.new_template(f"template {number}") for number in range(4)]
        newest = [*more[::-1], self.template]
        assert pages(self.store.list_templates, 2) == [newest[:2], newest[2:4], newest[4:]]
        for number in (2, 3, 4):
            self.store.add_version(self.version_of(self.template, number), T0)
        found = pages(lambda **page: self.store.list_versions(self.template.id, **page), 3)
        assert [[version.number for version in page] for page in found] == [[4, 3, 2], [1]]
        assert self.store.list_versions(uuid4()).items == []

    def test_a_template_is_deleted_once_no_session_uses_it(self) -> None:
        session = self.new_session()
        with refused("TEMPLATE_IN_USE"):
            self.store.delete_template(self.template.id)
        self.store.delete_session(session.id)
        self.store.delete_template(self.template.id)
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_version(self.template.id, 1)
        assert self.store.list_templates().items == []
        self.new_template("first")  # its name is free again

    def test_a_template_that_was_given_may_be_changed_afterwards(self) -> None:
        template = Template(uuid4(), "mine", 1, T0, T0)
        self.store.create_template(template, self.version_of(template, 1))
        template.name = "changed"
        self.store.get_template("mine").name = "changed"
        assert self.store.get_template(template.id).name == "mine"

    # ---- blobs and secrets

    def test_what_was_baked_goes_with_the_last_version_that_names_it(self) -> None:
        templates = [Template(uuid4(), name, 1, T0, T0) for name in ("one", "two")]
        for digest in (b"guest", b"shared", b"alone"):
            self.store.put_blob(digest, b"data")

        def version(template: Template, number: int, baked: bytes) -> TemplateVersion:
            return replace(self.version_of(template, number), guest=b"guest", baked=baked)

        for template in templates:
            self.store.create_template(template, version(template, 1, b"shared"))
        for number in (2, 3):
            self.store.add_version(version(templates[0], number, b"alone"), T0)
        self.store.delete_template(templates[0].id)
        assert [self.store.get_blob(digest) for digest in (b"guest", b"shared", b"alone")] == [b"data", b"data", None]
        self.store.delete_template(templates[1].id)
        assert [self.store.get_blob(digest) for digest in (b"guest", b"shared")] == [b"data", None]
        self.store.put_blob(b"shared", b"again")
        assert self.store.get_blob(b"shared") == b"again"

    def test_old_versions_go_that_no_session_is_made_of(self) -> None:
        template = self.new_template("old")
        self.store.put_blob(b"guest", b"x")
        for number in range(2, 8):
            self.store.put_blob(bytes([number]), b"memory")
            version = replace(self.version_of(template, number), guest=b"guest", baked=bytes([number]))
            self.store.add_version(version, T0 + number)
        self.new_session(template_id=template.id, template_version=3)
        assert self.store.drop_versions(5, T0 + 2) == 1
        assert self.store.drop_versions(3, None) == 2
        assert [version.number for version in self.store.list_versions(template.id).items] == [7, 6, 5, 3]
        found = [self.store.get_blob(bytes([number])) for number in range(2, 8)]
        assert found == [None, b"memory", None, b"memory", b"memory", b"memory"]
        assert self.store.drop_versions(0, None) == 2
        assert [version.number for version in self.store.list_versions(template.id).items] == [7, 3]
        assert self.store.get_template(template.id).latest == 7

    def test_what_was_baked_stays_while_its_template_is_in_use(self) -> None:
        self.store.put_blob(b"b" * 32, b"data")
        self.new_session()
        with refused("TEMPLATE_IN_USE"):
            self.store.delete_template(self.template.id)
        assert self.store.get_blob(b"b" * 32) == b"data"

    def test_a_version_whose_baked_memory_has_gone_is_refused(self) -> None:
        self.store.put_blob(b"g" * 32, b"guest")
        late = Template(uuid4(), "late", 1, T0, T0)
        with refused("VERSION_CONFLICT"):
            self.store.create_template(late, self.version_of(late, 1))
        with refused("TEMPLATE_NOT_FOUND"):
            self.store.get_template("late")
        with refused("VERSION_CONFLICT"):
            self.store.add_version(self.version_of(self.template, 2), T0)
        assert self.store.get_template(self.template.id).latest == 1
        self.store.put_blob(b"b" * 32, b"baked")
        self.store.create_template(late, self.version_of(late, 1))

    def test_no_version_is_ever_without_what_was_baked_for_it(self) -> None:
        self.store.put_blob(b"g" * 32, b"guest")
        together = threading.Barrier(4)

        def make_and_delete(name: int) -> list[bytes | None]:
            found: list[bytes | None] = []
            together.wait()
            while len(found) < 10:
                self.store.put_blob(b"b" * 32, b"baked")
                template = Template(uuid4(), f"race {name}", 1, T0, T0)
                try:
                    self.store.create_template(template, self.version_of(template, 1))
                except VersionConflict:  # another one has deleted it in between
                    continue
                found.append(self.store.get_blob(b"b" * 32))
                self.store.delete_template(template.id)
            return found

        self.store.delete_template(self.template.id)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(make_and_delete, range(4))) == [[b"baked"] * 10] * 4

    def test_a_blob_of_20_megabytes_comes_back(self) -> None:
        digest, data = bytes(range(32)), bytes(range(256)) * 80_000
        assert self.store.get_blob(digest) is None
        self.store.put_blob(digest, data)
        self.store.put_blob(digest, data)
        assert self.store.get_blob(digest) == data

    def test_a_secret_is_drawn_once(self) -> None:
        assert self.store.find_secret("seal") is None
        assert self.store.secret("seal", b"one\0") == b"one\0"
        assert self.store.find_secret("seal") == b"one\0"
        assert self.store.secret("seal", b"two") == b"one\0"
        assert self.store.secret(NASTY, b"three") == b"three"

    # ---- errors

    def test_errors_are_listed_oldest_first_and_resolved(self) -> None:
        session, other = self.new_session(), self.new_session()
        full = self.error(
            task_id=NASTY, execution_id=uuid4(), message=NASTY, phase=NASTY, kind=NASTY, attempt=4, resolved_at=T0 + 3
        )
        entries = [full, *[self.error(timestamp=T0 + number) for number in range(4)]]
        self.change(session, errors=entries)
        self.change(other, errors=[self.error()])
        assert pages(lambda **page: self.store.list_errors(session.id, **page), 2) == [entries[:2], entries[2:4], entries[4:]]
        self.store.resolve_error(session.id, entries[1].id, T0 + 9)
        assert self.store.list_errors(session.id).items[1] == replace(entries[1], resolved_at=T0 + 9)
        assert self.store.list_errors(session.id).items[2] == entries[2]
        assert self.store.list_errors(uuid4()).items == []

    def test_an_error_of_another_session_cannot_be_resolved(self) -> None:
        session, other = self.new_session(), self.new_session()
        entry = self.error()
        self.change(session, errors=[entry])
        for session_id, error_id in ((other.id, entry.id), (session.id, uuid4()), (uuid4(), entry.id)):
            with refused("ERROR_ENTRY_NOT_FOUND"):
                self.store.resolve_error(session_id, error_id, T0)

    # ---- replies

    def test_the_first_reply_to_a_request_stays(self) -> None:
        assert self.store.get_reply("key") is None
        reply = Reply(NASTY, "hash", {"session": NASTY, "n": [1, None]}, T0)
        self.store.put_reply(reply)
        self.store.put_reply(reply._replace(request="other", outcome={}))
        assert self.store.get_reply(NASTY) == reply

    def test_a_reply_is_written_with_its_commit_or_not_at_all(self) -> None:
        session = self.new_session()
        reply = Reply("key", "hash", {"a": 1}, T0)
        late = self.commit(replace(session, version=9), reply=reply)
        assert codes(self.store.commit([late])) == ["VERSION_CONFLICT"]
        assert self.store.get_reply("key") is None
        self.change(session, reply=reply)
        assert self.store.get_reply("key") == reply

    def test_a_request_that_was_done_is_not_done_again(self) -> None:
        session, other = self.new_session(), self.new_session()
        reply = Reply("key", "hash", {"a": 1}, T0)
        self.change(session, reply=reply)
        for again, code in ((reply, "VERSION_CONFLICT"), (reply._replace(request="other"), "IDEMPOTENCY_CONFLICT")):
            commit = self.commit(replace(other, version=2), reply=again, asked=[self.query(other, 1)])
            assert codes(self.store.commit([commit])) == [code]
        assert self.store.get_session(other.id) == other
        assert self.store.list_queries(other.id).items == []
        assert self.store.get_reply("key") == reply

    def test_old_replies_are_dropped(self) -> None:
        for number in range(5):
            self.store.put_reply(Reply(f"key {number}", "hash", {}, T0 + number))
        assert self.store.drop_replies(T0 + 3) == 3
        assert self.store.drop_replies(T0 + 3) == 0
        assert [self.store.get_reply(f"key {number}") is None for number in range(5)] == [True] * 3 + [False] * 2

    # ---- leases

    def test_a_process_lives_as_long_as_it_says(self) -> None:
        node, other = uuid4(), uuid4()
        assert not self.store.is_alive(node)
        self.store.beat(node, 60_000)
        assert self.store.is_alive(node)
        assert not self.store.is_alive(other)
        self.store.beat(node, -1)
        assert not self.store.is_alive(node)
        assert self.store.list_leases() == []
        self.store.beat(node, 60_000)
        self.store.beat(other, 60_000)
        assert set(self.store.list_leases()) == {node, other}
        self.store.retire(node)
        assert self.store.list_leases() == [other]
        self.store.retire(other)
        assert not self.store.is_alive(node)

    def test_clocks_of_others_do_not_matter(self) -> None:
        """Times in records may come from a clock that is hours wrong; leases go by the store's own."""
        node, now = uuid4(), self.store.now()
        self.store.beat(node, 60_000)
        for skew in (-5 * HOURS, 5 * HOURS):
            self.new_session(state=SessionState.RUNNING, owner=node, created_at=now + skew, updated_at=now + skew)
        assert self.store.list_interrupted() == []
        self.store.retire(node)
        assert len(self.store.list_interrupted()) == 2

    def test_the_stores_time_goes_on(self) -> None:
        first = self.store.now()
        assert 1_600_000_000_000 < first <= self.store.now()

    def test_sessions_whose_process_died_are_found(self) -> None:
        alive, dead, gone = uuid4(), uuid4(), uuid4()
        self.store.beat(alive, 60_000)
        self.store.beat(dead, -1)
        owners: list[UUID | None] = [alive, dead, gone, None]
        busy = [
            self.new_session(state=state, owner=o).id for state in (SessionState.STARTING, SessionState.RUNNING) for o in owners
        ]
        for state in (SessionState.READY, SessionState.PAUSED, SessionState.CRASHED, SessionState.CLOSED):
            self.new_session(state=state, owner=dead)
        assert set(self.store.list_interrupted()) == set(busy[1:4] + busy[5:])
        assert len(self.store.list_interrupted(limit=2)) == 2
        session = self.store.get_session(busy[1])
        self.write(self.commit(replace(session, version=2, fence=1, owner=alive), fence=0))
        assert busy[1] not in self.store.list_interrupted()

    def test_sessions_that_are_due_are_found_soonest_first(self) -> None:
        times = [T0 + 30, T0 + 10, T0 + 20, T0 + 99, None]
        waiting = [self.new_session(state=SessionState.PAUSED, wake_at=time) for time in times]
        self.new_session(state=SessionState.CLOSED, wake_at=T0)
        expected = [(T0 + 10, waiting[1].id), (T0 + 20, waiting[2].id), (T0 + 30, waiting[0].id)]
        assert self.store.list_due(T0 + 30) == expected
        assert self.store.list_due(T0 + 30, limit=2) == expected[:2]
        self.change(waiting[1], {"wake_at": None})
        self.change(waiting[2], {"state": SessionState.RUNNING})
        assert self.store.list_due(T0 + 30) == expected[2:]

    # ---- documents

    def test_a_document_is_created_once_and_comes_back(self) -> None:
        data = {"a": [1, 2.5, None, {"b": NASTY}], NASTY: {}}
        assert self.store.get_document(NASTY) is None
        assert self.store.create_document(NASTY, data) == 1
        assert self.store.get_document(NASTY) == (1, data)
        with refused("VERSION_CONFLICT"):
            self.store.create_document(NASTY, {})
        assert self.store.get_document(NASTY) == (1, data)

    def test_a_document_changes_by_version(self) -> None:
        self.store.create_document("a", {"n": 1})
        assert self.store.update_document("a", {"n": 2}, 1) == 2
        for expected in (1, 3, 0):
            with refused("VERSION_CONFLICT"):
                self.store.update_document("a", {"n": 3}, expected)
        assert self.store.update_document("a", {"n": 4}, None) == 3
        assert self.store.get_document("a") == (3, {"n": 4})
        assert self.store.update_document("b", {"n": 5}, None) == 1
        with refused("VERSION_CONFLICT"):
            self.store.update_document("c", {}, 1)
        assert self.store.get_document("c") is None

    def test_documents_are_listed_in_the_order_of_creation(self) -> None:
        for name in ("c", "a", "b"):
            self.store.create_document(name, {})
        self.store.update_document("c", {"changed": True}, None)
        assert self.store.list_documents() == ["c", "a", "b"]
        assert self.store.delete_document("c")
        assert not self.store.delete_document("c")
        self.store.create_document("c", {})
        assert self.store.list_documents() == ["a", "b", "c"]

    def test_a_document_that_was_got_may_be_changed_afterwards(self) -> None:
        data: dict[str, list[int]] = {"a": [1]}
        self.store.create_document("a", data)
        data["a"].append(2)
        found = self.store.get_document("a")
        assert found == (1, {"a": [1]})
        found[1]["a"].append(3)
        assert self.store.get_document("a") == (1, {"a": [1]})

    def test_of_64_that_change_a_document_at_once_each_version_is_written_once(self) -> None:
        self.store.create_document("a", {"n": 0})

        def add(_: int) -> None:
            while True:
                found = self.store.get_document("a")
                assert found is not None
                try:
                    self.store.update_document("a", {"n": found[1]["n"] + 1}, found[0])
                except Exception as error:
                    if getattr(error, "code", None) != "VERSION_CONFLICT":
                        raise
                else:
                    return

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(add, range(64)))
        assert self.store.get_document("a") == (65, {"n": 64})

    # ---- closing and opening

    def test_a_closed_store_says_so(self) -> None:
        session = self.new_session()
        self.store.close()
        self.store.close()
        with refused("STORE_UNAVAILABLE"):
            self.store.get_session(session.id)
        with refused("STORE_UNAVAILABLE"):
            self.store.commit([self.commit(replace(session, version=2))])

    def test_what_was_acknowledged_is_there_when_the_store_is_opened_again(self) -> None:
        session, execution = self.history(
            2, **{key: value for key, value in full_session(self.template).items() if key == "meta"}
        )
        begun, entry, query = Begun(execution.id, {"a": 1}, 1.5), self.error(), self.query(session, 1, execution)
        session = self.change(session, begun=begun, errors=[entry], asked=[query], reply=Reply("key", "hash", {}, T0))
        self.store.create_document("a", {"b": 1})
        self.store.put_blob(b"digest", b"data")
        self.store.secret("seal", b"one")
        before, events = self.store.load(session.id), self.store.list_events(execution.id)
        node = uuid4()
        self.store.beat(node, 60_000)
        self.store = self.reopen(self.store)
        assert self.store.load(session.id) == before
        assert self.store.list_events(execution.id) == events
        assert self.store.list_errors(session.id).items == [entry]
        assert self.store.list_queries().items == [query]
        assert self.store.get_document("a") == (1, {"b": 1})
        assert self.store.get_blob(b"digest") == b"data"
        assert self.store.secret("seal", b"two") == b"one"
        assert self.store.get_template("first") == self.template
        assert self.store.is_alive(node)
        self.change(session, {"name": "goes on"})
