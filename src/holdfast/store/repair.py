"""Find rows that cannot be read, and mend them: what `holdfast store check` does in the tables.

Every row is read by the function that reads it in use. A row that cannot be read is mended by resetting as few of its columns as make it
readable, or dropped where nothing is left of it. Whether images can be thawed, and where a session goes on after that, is not known here.

Nobody else may use the store meanwhile.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from holdfast.domain import Metrics
from holdfast.store import _rows
from holdfast.store._damage import DAMAGED_ERROR
from holdfast.store._errors import StoreDamaged
from holdfast.store._rows import Row

_EVENT: Final = [
    [0, "system", {"level": "error", "code": StoreDamaged.code, "message": "the events of this step were damaged"}]
]
_DROP_STATE: Final = "DELETE FROM state WHERE namespace = %s AND key = %s"
_GIVEN: Final = "[null,null,null,null,null]"


class Tables(Protocol):
    """A store whose tables can be mended."""

    dialect: Literal["sqlite", "postgresql"]

    def maintain(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement of maintenance, which marks its values as `%s`, in a transaction of its own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is damaged. `session_id` says in which session, if it is in one; `repair` what is done about it."""

    kind: str
    id: str
    session_id: UUID | None = None
    problem: str = "cannot be read"
    repair: str = ""
    mend: Callable[[], object] | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        session = None if self.session_id is None else str(self.session_id)
        return {"kind": self.kind, "id": self.id, "session_id": session, "problem": self.problem, "repair": self.repair}


class Rows:
    """All rows of a store, read one by one."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._sqlite = tables.dialect == "sqlite"
        self._ref = "rowid" if self._sqlite else "ctid::text"
        self._is = "rowid = %s" if self._sqlite else "ctid = %s::text::tid"

    def damages(self) -> list[Finding]:
        """Return what is damaged, with the function that mends it."""
        return [
            *self._integrity(),
            *self._templates(),
            *self._sessions(),
            *self._executions(),
            *self._moved_executions(),
            *self._low_counters(),
            *self._queries(),
            *self._steps(),
            *self._journal(),
            *self._rest(),
        ]

    def _integrity(self) -> list[Finding]:
        if not self._sqlite:
            return []
        found = self._tables.maintain("PRAGMA integrity_check(20)")
        advice = "none: restore a backup, or try the program `sqlite3` with `.recover`"
        return [Finding("file", "", None, str(row[0])[:200], advice) for row in found if row[0] != "ok"]

    # ---- tables ----------------------------------------------------------------------------------------------------------------------

    def _templates(self) -> list[Finding]:
        found, replaced = self._lost_templates()
        for ref, *row in self._all("templates", "id, name, latest, created_at, updated_at, tenant"):
            if ref in replaced:
                continue
            safe = {"latest": 1, "created_at": 0, "updated_at": 0, "tenant": "default", "name": f"damaged {ref}"}
            names = ["id", "name", "latest", "created_at", "updated_at", "tenant"]
            found += self._mended("template", "templates", ref, names, tuple(row), safe, _rows.template_of, None)
        versions = (
            "SELECT t.id, v.number, v.spec, v.guest, v.baked, v.created_at FROM template_versions v JOIN templates t ON t.key = v.template"
            if self._sqlite
            else "SELECT template_id, number, spec, guest, baked, created_at FROM versions"
        )
        for template, *row in self._tables.maintain(versions):
            name = f"{_shown(template)}/{row[0]}"
            if not _reads(lambda row=row: _rows.version_of(UUID(int=0), tuple(row))):  # type: ignore[misc]
                found.append(
                    Finding("template version", name, None, repair="none: make the template anew, or restore a backup")
                )
        return found

    def _lost_templates(self) -> tuple[list[Finding], set[Any]]:
        """Templates that sessions name and that are not there, and the rows which get their id back: no other has nearly this id."""
        lost = [
            row[0]
            for row in self._tables.maintain(
                "SELECT DISTINCT s.template_id FROM sessions s LEFT JOIN templates t ON t.id = s.template_id WHERE t.id IS NULL"
            )
        ]
        unused = self._all("templates t WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.template_id = t.id)", "t.id", "t.")
        found: list[Finding] = []
        replaced: set[Any] = set()
        for template in lost:
            near = [ref for ref, other in unused if self._sqlite and _nearly(template, other)]
            mend, repair = None, "none: restore it from a backup, or delete its sessions"
            if len(near) == 1 and not replaced & set(near):
                mend, repair = self._set("templates", near[0], id=template), "the damaged byte of its id was found"
                replaced.add(near[0])
            found.append(Finding("template", _shown(template), None, "missing, but has sessions", repair, mend))
        return found, replaced

    def _sessions(self) -> list[Finding]:
        columns = _columns(self._queries_of("session_columns"))
        found = []
        for ref, key, *row in self._all("sessions s", f"s.key, {', '.join('s.' + c for c in columns)}", alias="s."):
            safe: dict[str, Any] = dict.fromkeys(
                ("origin_session", "origin_number", "worktree", "branch_of", "branch_query", "branch", "name", "meta", "closed_at",
                 "owner", "execution_id", "wake_at", "seed", "budget", "last_error", "usage")
            )  # fmt: skip
            safe |= dict.fromkeys(("created_at", "updated_at", "head", "llm_calls", "tokens"), 0)
            safe |= {"state": "crashed", "tenant": "default", "created_by": "", "template_version": 1, "version": 1, "fence": 1}
            safe |= {"steps": self._last("steps", key), "queries": self._last("queries", key)}
            session = _uuid(row[0])
            found += self._mended("session", "sessions", ref, columns, tuple(row), safe, _rows.session_of, session)
        return found + self._foreign_versions()

    def _foreign_versions(self) -> list[Finding]:
        """Sessions of a version that their template does not have: they are of the latest then, which is what most of them are of."""
        there = (
            "SELECT 1 FROM template_versions v WHERE v.template = t.key AND v.number = s.template_version"
            if self._sqlite
            else "SELECT 1 FROM versions v WHERE v.template_id = t.id AND v.number = s.template_version"
        )
        return [
            Finding(
                "session",
                _shown(session),
                _uuid(session),
                "its template has no such version",
                f"template_version set to {latest}",
                self._set("sessions", ref, template_version=latest),
            )
            for ref, session, latest in self._all(
                f"sessions s JOIN templates t ON t.id = s.template_id WHERE NOT EXISTS ({there})", "s.id, t.latest", alias="s."
            )
        ]

    def _executions(self) -> list[Finding]:
        columns = _columns(self._queries_of("execution_columns"))
        given = "i.data" if self._sqlite else "e.given"
        names = ["given" if column == "data" else column for column in columns]
        join = "LEFT JOIN inputs i ON i.execution = e.key" if self._sqlite else ""
        shown = ", ".join(given if name == "given" else f"e.{name}" for name in names)
        found = []
        spans = self._spans()
        for ref, session, *row in self._all(
            f"executions e LEFT JOIN sessions s ON s.key = e.session {join}", f"s.id, {shown}", alias="e."
        ):
            safe: dict[str, Any] = {
                "kind": "repl",
                "status": "error",
                "given": _GIVEN,
                "result": None,
                "error": DAMAGED_ERROR,
                "budget": None,
            }
            safe |= {"custom": None, "ended_at": None, "strategy": None, "metrics": json.dumps(Metrics().as_row())}
            first, last, seq = spans.get(_shown(row[0]), (0, 0, 0))
            safe |= {"started_at": 0, "first_step": first, "last_step": last, "seq": seq}
            owner = _uuid(session)
            found += self._mended(
                "execution", "executions", ref, names, tuple(row), safe, lambda row: _rows.execution_of(UUID(int=0), row), owner
            )
        return found

    def _spans(self) -> dict[str, tuple[int, int, int]]:
        """The first and the last step of each execution, and its last event, as its steps tell them."""
        grouped = (
            "SELECT execution_id, min(number), max(number), max(last_seq) FROM steps WHERE number > 0 GROUP BY execution_id"
        )
        return {
            _shown(execution): (_count(first), _count(last), _count(seq))
            for execution, first, last, seq in self._tables.maintain(grouped)
        }

    def _moved_executions(self) -> list[Finding]:
        """Executions whose steps are all in another session than they are."""
        places: dict[tuple[Any, ...], dict[Any, Any]] = {}
        for ref, execution, own, key, session in self._tables.maintain(
            f"SELECT DISTINCT e.{self._ref}, e.id, e.session, s.key, s.id FROM executions e "  # noqa: S608
            "JOIN steps t ON t.execution_id = e.id AND t.number > 0 JOIN sessions s ON s.key = t.session"
        ):
            places.setdefault((ref, execution, own), {})[key] = session
        return [
            Finding(
                "execution",
                _shown(execution),
                _uuid(session),
                "is not in the session that its steps are in",
                "put back into its session",
                self._set("executions", ref, session=key),
            )
            for (ref, execution, own), sessions in places.items()
            if own not in sessions and len(sessions) == 1
            for key, session in sessions.items()
        ]

    def _low_counters(self) -> list[Finding]:
        """Sessions that have more steps or queries than they have counted: the next would have the number of one that is there."""
        found = []
        for ref, session, key, *counted in self._all("sessions", "id, key, steps, queries"):
            for column, count in zip(("steps", "queries"), counted, strict=True):
                last = self._last(column, key)
                if type(count) is int and 0 <= count < last:
                    problem, repair = f"has counted fewer {column} than it has", f"counter raised to {last}"
                    mend = self._set("sessions", ref, **{column: last})
                    found.append(Finding("session", _shown(session), _uuid(session), problem, repair, mend))
        return found

    def _queries(self) -> list[Finding]:
        names = ["number", "execution_id", "kind", "payload", "asked_at", "guest_id", "deadline", "state", "started_at"]
        names += ["closed_at", "answer"]
        shown = ", ".join("q." + name for name in names[1:])
        if self._sqlite:
            tables, number = "queries q LEFT JOIN sessions s ON s.key = q.place >> 28", "q.place & 0xfffffff"
        else:
            tables, number = "queries q LEFT JOIN sessions s ON s.key = q.session", "q.number"
        found = []
        for ref, session, *row in self._all(tables, f"s.id, {number}, {shown}", alias="q."):
            safe: dict[str, Any] = dict.fromkeys(("guest_id", "deadline", "started_at", "closed_at", "answer"))
            safe |= {"kind": "ask", "payload": "{}", "state": "cancelled", "asked_at": 0}
            owner = _uuid(session)
            name = f"{owner}/q-{row[0]}"
            found += self._mended(
                "query", "queries", ref, names, tuple(row), safe, lambda row: _rows.query_of(UUID(int=0), row), owner, name
            )
        return found

    def _steps(self) -> list[Finding]:
        found = []
        shown = "s.id, t.number, t.first_seq, t.events, t.depth, t.open, t.wake_at, t.execution_id, t.created_at, t.parent"
        for ref, session, number, first_seq, events, depth, opened, wake_at, execution, created_at, parent in self._all(
            "steps t JOIN sessions s ON s.key = t.session", shown, alias="t."
        ):
            owner = _uuid(session)
            name = f"{owner}/{number}"
            if not _reads(lambda: _rows.events_of(first_seq, events)):  # noqa: B023
                note = json.dumps(_EVENT)
                found.append(
                    Finding("events", name, owner, repair="replaced by one event", mend=self._set("steps", ref, events=note))
                )
            node = number, parent, execution, created_at, depth, None, None, 0, opened, wake_at
            if depth is not None and not _reads(lambda: _rows.node_of(node)):  # noqa: B023
                gone = self._set(
                    "steps", ref, depth=None, base_session=None, base_number=None, wake_at=None, open=None, sealed=None
                )
                found.append(Finding("checkpoint", name, owner, repair="dropped", mend=gone))
            if not _reads(lambda: UUID(bytes=execution)):  # noqa: B023
                found.append(
                    Finding(
                        "step", name, owner, repair="execution cleared", mend=self._set("steps", ref, execution_id=self._id(0))
                    )
                )
            for column, value in {"created_at": created_at, "parent": parent, "first_seq": first_seq}.items():
                if type(value) is not int:
                    found.append(
                        Finding("step", name, owner, repair=f"{column} reset", mend=self._set("steps", ref, **{column: 1}))
                    )
        return found

    def _journal(self) -> list[Finding]:
        """Steps under way. Where one of their parts cannot be read, the step is given up."""
        if self._sqlite:
            parts = self._tables.maintain(
                "SELECT s.id, j.place >> 28, j.place & 0xfffffff, j.data FROM journal j LEFT JOIN sessions s ON s.key = j.place >> 28"
            )
            drop = "DELETE FROM journal WHERE place >= %s << 28 AND place < (%s + 1) << 28"
        else:
            parts = self._tables.maintain(
                "SELECT id, key, 0, begun FROM sessions WHERE begun IS NOT NULL UNION ALL "
                "SELECT s.id, e.session, e.position + 1, e.data FROM effects e LEFT JOIN sessions s ON s.key = e.session"
            )
            drop = "WITH s AS (UPDATE sessions SET begun = NULL WHERE key = %s) DELETE FROM effects WHERE session = %s"
        broken: dict[Any, tuple[UUID | None, Any]] = {}
        for session, key, position, data in parts:
            whole = _reads(lambda: _rows.begun_of(data) if position == 0 else _rows.unpack(data)[3])  # noqa: B023
            if not whole or session is None:
                broken[key] = _uuid(session), key
        return [
            Finding(
                "step under way",
                f"of no session, key {key}" if owner is None else str(owner),
                owner,
                repair="given up",
                mend=lambda key=key: self._tables.maintain(drop, (key, key)),  # type: ignore[misc]
            )
            for owner, key in broken.values()
        ]

    def _rest(self) -> list[Finding]:
        found = []
        for ref, session, *row in self._all(
            "errors e LEFT JOIN sessions s ON s.key = e.session", "s.id, e.id, e.timestamp, e.resolved_at, e.data", alias="e."
        ):
            if not _reads(lambda: _rows.error_of(tuple(row))):  # noqa: B023
                found.append(Finding("error entry", str(ref), _uuid(session), repair="dropped", mend=self._drop("errors", ref)))
        name = "name" if self._sqlite else "key"
        for ref, *row in self._all("replies", f"{name}, request, outcome, created_at"):
            if not _reads(lambda: _rows.reply_of(tuple(row))):  # noqa: B023
                found.append(Finding("reply", str(row[0])[:80], repair="dropped", mend=self._drop("replies", ref)))
        for ref, document, *row in self._all("documents", "id, version, data"):
            if not _reads(lambda: _rows.document_of(str(document), tuple(row))):  # noqa: B023
                found.append(Finding("document", str(document)[:80], repair="dropped", mend=self._drop("documents", ref)))
        for namespace, key, value, version, expires_at in self._tables.maintain(
            "SELECT namespace, key, value, version, expires_at FROM state"
        ):
            if not _reads(lambda: _rows.state_of((key, value, version, expires_at))):  # noqa: B023
                found.append(
                    Finding(
                        "state key",
                        f"{namespace} {key}"[:120],
                        repair="dropped",
                        mend=lambda place=(namespace, key): self._tables.maintain(_DROP_STATE, place),  # type: ignore[misc]
                    )
                )
        return found

    def go_back(self, session_id: UUID) -> None:
        """Make its beginning the present of a session."""
        self._tables.maintain("UPDATE sessions SET head = 0 WHERE id = %s", (self._id(session_id.int),))

    # ---- mending ---------------------------------------------------------------------------------------------------------------------

    def _mended(
        self,
        kind: str,
        table: str,
        ref: Any,
        names: list[str],
        row: Row,
        safe: dict[str, Any],
        read: Callable[[Row], object],
        owner: UUID | None,
        name: str | None = None,
    ) -> list[Finding]:
        """A finding if a row cannot be read: with as few columns reset as make it readable, or dropped."""
        if _reads(lambda: read(row)):
            return []
        shown = name or _shown(row[0])
        reset = dict(safe)
        if not _reads(lambda: read(_with(row, names, reset))):
            return [Finding(kind, shown, owner, repair="dropped", mend=self._drop(table, ref))]
        for column in safe:  # give back what can stay as it is
            fewer = {other: value for other, value in reset.items() if other != column}
            if _reads(lambda: read(_with(row, names, fewer))):  # noqa: B023
                reset = fewer
        return [Finding(kind, shown, owner, repair=f"reset {', '.join(reset)}", mend=self._set(table, ref, **reset))]

    def _set(self, table: str, ref: Any, **columns: Any) -> Callable[[], object]:
        def mend() -> None:
            own = dict(columns)
            if self._sqlite and table == "executions" and "given" in own:  # which lies in a table of its own there
                statement = "INSERT OR REPLACE INTO inputs (execution, data) VALUES (%s, %s)"
                self._tables.maintain(statement, (ref, own.pop("given")))
            if own:
                sets = ", ".join(f"{column} = %s" for column in own)
                self._tables.maintain(f"UPDATE {table} SET {sets} WHERE {self._is}", (*own.values(), ref))  # noqa: S608

        return mend

    def _drop(self, table: str, ref: Any) -> Callable[[], object]:
        return lambda: self._tables.maintain(f"DELETE FROM {table} WHERE {self._is}", (ref,))  # noqa: S608

    def _all(self, tables: str, columns: str, alias: str = "") -> list[Row]:
        return self._tables.maintain(f"SELECT {alias}{self._ref}, {columns} FROM {tables}")  # noqa: S608

    def _last(self, table: str, key: Any) -> int:
        if self._sqlite and table == "queries":
            rows = self._tables.maintain("SELECT max(place & 0xfffffff) FROM queries WHERE place >> 28 = %s", (key,))
        else:
            rows = self._tables.maintain(f"SELECT max(number) FROM {table} WHERE session = %s", (key,))  # noqa: S608
        return _count(rows[0][0])

    def _id(self, number: int) -> Any:
        return UUID(int=number).bytes if self._sqlite else UUID(int=number)

    def _queries_of(self, name: str) -> str:
        from holdfast.store._sql import load_queries

        return load_queries(self._tables.dialect)[name]


def _columns(listed: str) -> list[str]:
    """The names of columns in a list of them, without their tables."""
    return [column.strip().rpartition(".")[2] for column in listed.split(",")]


def _with(row: Row, names: list[str], values: dict[str, Any]) -> Row:
    return tuple(values.get(name, value) for name, value in zip(names, row, strict=True))


def _reads(read: Callable[[], object]) -> bool:
    try:
        read()
    except Exception:  # noqa: BLE001 - whatever a damaged row makes a parser raise
        return False
    return True


def _count(value: Any) -> int:
    """A number that other rows tell, or 0 if it is damaged."""
    return value if type(value) is int and 0 <= value < 1 << 62 else 0


def _nearly(one: Any, other: Any) -> bool:
    """Whether two ids differ in one byte."""
    if not (isinstance(one, bytes) and isinstance(other, bytes) and len(one) == len(other)):
        return False
    return sum(a != b for a, b in zip(one, other, strict=True)) == 1


def _uuid(value: Any) -> UUID | None:
    if isinstance(value, UUID):
        return value
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else None


def _shown(value: Any) -> str:
    found = _uuid(value)
    return repr(value)[:60] if found is None else str(found)
