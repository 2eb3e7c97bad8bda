"""What statements for SQLite may do, and how much of it.

SQLite asks an authorizer about each action of a statement when it is prepared. What is not listed here is refused, and so are all that
reach beyond the one database: ATTACH (which `VACUUM INTO` is as well), extensions, virtual tables, temporary tables, which are files of
the host.

A statement that runs is stopped by a handler that SQLite calls between its operations. So a single operation must not take long. A few
functions of SQLite take a time that grows with the product of the lengths of their arguments; they are replaced by ones that do not.
"""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from string import hexdigits
from typing import Any, Final

from holdfast.capabilities.database.sql import LARGEST_VALUE

LARGEST_DATABASE: Final = 64 << 20
_DIGITS: Final = 20

_READS: Final = frozenset([sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE])
_WRITES: Final = frozenset(
    [
        sqlite3.SQLITE_ALTER_TABLE,
        sqlite3.SQLITE_ANALYZE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_CREATE_VIEW,
        sqlite3.SQLITE_DELETE,
        sqlite3.SQLITE_DROP_INDEX,
        sqlite3.SQLITE_DROP_TABLE,
        sqlite3.SQLITE_DROP_TRIGGER,
        sqlite3.SQLITE_DROP_VIEW,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_SAVEPOINT,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_UPDATE,
    ]
)
_LOOKS: Final = frozenset(
    [
        "foreign_key_check",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    ]
)
_SETTINGS: Final = frozenset(["application_id", "foreign_keys", "user_version"])
_NO_FUNCTIONS: Final = frozenset(
    ["edit", "fts3_tokenizer", "json_patch", "jsonb_patch", "load_extension", "readfile", "writefile"]
)
"""What reaches files, and what takes for ever and has no replacement here."""
_FORMAT: Final = re.compile(r"%([-+ #!,.*l0-9]*)")
_NO_TABLES: Final = frozenset(["dbstat", "sqlite_dbpage"])
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LARGEST_VALUE,
    sqlite3.SQLITE_LIMIT_COLUMN: 1_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 10_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 20,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class Authorizer:
    """Says what a statement may do. `refused` is whether it refused something since it was last told that one begins."""

    def __init__(self) -> None:
        self.refused = self._reads = False

    def begin(self, *, reads: bool) -> None:
        """Another statement comes. With `reads` it must change nothing."""
        self.refused, self._reads = False, reads

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
        if self._allows(action, first, second):
            return sqlite3.SQLITE_OK
        self.refused = True
        return sqlite3.SQLITE_DENY

    def _allows(self, action: int, first: str | None, second: str | None) -> bool:
        if action == sqlite3.SQLITE_FUNCTION:
            return (second or "").lower() not in _NO_FUNCTIONS
        if action == sqlite3.SQLITE_PRAGMA:
            name = (first or "").lower()
            return name in _LOOKS or (name in _SETTINGS and (second is None or not self._reads))
        if action in _READS:
            return (first or "").lower() not in _NO_TABLES
        return action in _WRITES and not self._reads and (first or "").lower() not in _NO_TABLES


def prepare(connection: sqlite3.Connection) -> None:
    """Limits, and settings that hold for a database that somebody else may have written. Before there is an authorizer."""
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    connection.text_factory = lambda data: data.decode(errors="replace")
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "schema_version"):
        connection.execute(f"PRAGMA {pragma}").close()
    (page,) = connection.execute("PRAGMA page_size").fetchone()  # as the file says, which was read for its schema_version
    connection.execute(f"PRAGMA max_page_count = {LARGEST_DATABASE // page}").close()
    for name, count, function in _FUNCTIONS:
        connection.create_function(name, count, function, deterministic=True)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _instr(text: Any, part: Any) -> int | None:
    if text is None or part is None:
        return None
    if isinstance(text, bytes) and isinstance(part, bytes):
        return text.find(part) + 1
    return _text(text).find(_text(part)) + 1


def _replace(text: Any, part: Any, by: Any) -> str | None:
    if text is None or part is None or by is None:
        return None
    whole, old, new = _text(text), _text(part), _text(by)
    if not old:
        return whole
    if len(whole) + whole.count(old) * (len(new) - len(old)) > LARGEST_VALUE:
        raise ValueError("string or blob too big")
    return whole.replace(old, new)


def _trim(*, left: bool, right: bool) -> Callable[[Any, Any], str | None]:
    def trim(text: Any, characters: Any) -> str | None:
        if text is None or characters is None:
            return None
        whole, gone = _text(text), set(_text(characters))
        first, last = 0, len(whole)
        while left and first < last and whole[first] in gone:
            first += 1
        while right and first < last and whole[last - 1] in gone:
            last -= 1
        return whole[first:last]

    return trim


def _printf(form: Any = None, *values: Any) -> str | None:
    """SQLite's own, if what it is asked for is not too long: it counts to any width, one by one."""
    if form is None:
        return None
    text = _text(form)
    fields = _FORMAT.findall(text)
    if any("*" in field for field in fields):
        raise ValueError("a width must be a number")
    if sum(int(number[:_DIGITS]) for field in fields for number in re.findall(r"[0-9]+", field)) > LARGEST_VALUE:
        raise ValueError("string or blob too big")
    with closing(sqlite3.connect(":memory:")) as plain:
        plain.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        marks = ", ".join("?" * (1 + len(values)))
        found: str | None = plain.execute(f"SELECT printf({marks})", (text, *values)).fetchone()[0]
        return found


def _unhex(text: Any, others: Any) -> bytes | None:
    """Bytes from pairs of digits; between pairs there may be other characters."""
    if text is None or others is None:
        return None
    whole, ignored = _text(text), set(_text(others)) - set(hexdigits)
    found, at = bytearray(), 0
    while at < len(whole):
        if whole[at] in ignored:
            at += 1
            continue
        pair = whole[at : at + 2]
        if len(pair) < 2 or not set(pair) <= set(hexdigits):
            return None
        found.append(int(pair, 16))
        at += 2
    return bytes(found)


_FUNCTIONS: Final[tuple[tuple[str, int, Callable[..., Any]], ...]] = (
    ("instr", 2, _instr),
    ("replace", 3, _replace),
    ("trim", 2, _trim(left=True, right=True)),
    ("ltrim", 2, _trim(left=True, right=False)),
    ("rtrim", 2, _trim(left=False, right=True)),
    ("printf", -1, _printf),
    ("format", -1, _printf),
    ("unhex", 2, _unhex),
)
