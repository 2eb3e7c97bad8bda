"""What statements may do, and how much of it.

SQLite asks an authorizer about each action of a statement when it is prepared. What is not listed here is refused, and so are all that
reach beyond the one database: ATTACH (which `VACUUM INTO` is as well), extensions, virtual tables, temporary tables.

A statement that runs is stopped by a handler that SQLite calls between its operations. A single operation that takes long is ended with
the whole process. A few functions of SQLite take a time that grows with the product of the lengths of their arguments; they are replaced by
ones that do not, so that a script need not lose its connection by them.
"""

import re
from collections.abc import Callable
from functools import cache
from string import hexdigits
from typing import Any, Final

import apsw

from .wire import LARGEST_VALUE, LONGEST_SQL

LARGEST_DATABASE: Final = 64 << 20
_DIGITS: Final = 20

_READS: Final = frozenset([apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE])
_WRITES: Final = frozenset(
    [
        apsw.SQLITE_ALTER_TABLE,
        apsw.SQLITE_ANALYZE,
        apsw.SQLITE_CREATE_INDEX,
        apsw.SQLITE_CREATE_TABLE,
        apsw.SQLITE_CREATE_TRIGGER,
        apsw.SQLITE_CREATE_VIEW,
        apsw.SQLITE_DELETE,
        apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_DROP_TRIGGER,
        apsw.SQLITE_DROP_VIEW,
        apsw.SQLITE_INSERT,
        apsw.SQLITE_REINDEX,
        apsw.SQLITE_SAVEPOINT,
        apsw.SQLITE_TRANSACTION,
        apsw.SQLITE_UPDATE,
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
# fmt: off
_FUNCTIONS_ALLOWED: Final = frozenset([
    "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "ceil", "ceiling", "changes",
    "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count", "cume_dist", "current_date", "current_time",
    "current_timestamp", "date", "datetime", "degrees", "dense_rank", "exp", "first_value", "floor", "format", "glob",
    "group_concat", "hex", "if", "ifnull", "iif", "instr", "json", "json_array", "json_array_insert", "json_array_length",
    "json_each", "json_error_position", "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
    "json_pretty", "json_quote", "json_remove", "json_replace", "json_set", "json_tree", "json_type", "json_valid", "jsonb",
    "jsonb_array", "jsonb_array_insert", "jsonb_extract", "jsonb_group_array", "jsonb_group_object", "jsonb_insert",
    "jsonb_object", "jsonb_remove", "jsonb_replace", "jsonb_set", "julianday", "lag", "last_insert_rowid", "last_value",
    "lead", "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2", "lower", "ltrim", "max", "median", "min",
    "mod", "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "percentile", "percentile_cont", "percentile_disc",
    "pi", "pow", "power", "printf", "quote", "radians", "random", "randomblob", "rank", "replace", "round", "row_number",
    "rtrim", "sign", "sin", "sinh", "soundex", "sqlite_compileoption_get", "sqlite_compileoption_used", "sqlite_source_id",
    "sqlite_version", "sqrt", "strftime", "string_agg", "substr", "substring", "subtype", "sum", "tan", "tanh", "time",
    "timediff", "total", "total_changes", "trim", "trunc", "typeof", "unhex", "unicode", "unistr", "unistr_quote",
    "unixepoch", "unlikely", "upper", "zeroblob",
])
# fmt: on
"""Not among them: what reaches files or extensions, and `json_patch`, which takes for ever and has no replacement here."""
_FORMAT: Final = re.compile(r"%([-+ #!,.*l0-9]*)")
_NO_TABLES: Final = frozenset(["carray", "dbstat", "sqlite_dbpage"])
_LIMITS: Final = {
    apsw.SQLITE_LIMIT_LENGTH: LARGEST_VALUE,
    apsw.SQLITE_LIMIT_SQL_LENGTH: LONGEST_SQL,
    apsw.SQLITE_LIMIT_COLUMN: 1_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_VDBE_OP: 100_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 10_000,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 20,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
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
            return apsw.SQLITE_OK
        self.refused = True
        return apsw.SQLITE_DENY

    def _allows(self, action: int, first: str | None, second: str | None) -> bool:
        if action == apsw.SQLITE_FUNCTION:
            return (second or "").lower() in _FUNCTIONS_ALLOWED
        if action == apsw.SQLITE_PRAGMA:
            name = (first or "").lower()
            return name in _LOOKS or (name in _SETTINGS and (second is None or not self._reads))
        if action in _READS:
            return (first or "").lower() not in _NO_TABLES
        return action in _WRITES and not self._reads and (first or "").lower() not in _NO_TABLES


def prepare(connection: apsw.Connection, largest: int) -> None:
    """Limits, and settings that hold for a database that somebody else may have written. Before there is an authorizer."""
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    settings = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY", "schema_version")
    for pragma in settings:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    page = connection.execute("PRAGMA page_size").get  # as the file says, which was read for its schema_version
    connection.execute(f"PRAGMA max_page_count = {largest // page}").fetchall()
    for name, count, function in _FUNCTIONS:
        connection.create_scalar_function(name, function, count, deterministic=True)


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


@cache
def _plain() -> apsw.Connection:
    """A connection whose functions are SQLite's own."""
    plain = apsw.Connection(":memory:")
    plain.limit(apsw.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
    return plain


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
    marks = ", ".join("?" * (1 + len(values)))
    found: str | None = _plain().execute(f"SELECT printf({marks})", (text, *values)).get
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
