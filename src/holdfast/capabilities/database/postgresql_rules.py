"""What statements for PostgreSQL may do.

The server is what keeps a script from what its role may not do, and a role that may do more than an ordinary one is not taken at all (see
`postgresql_role`). This is the fence before it. A statement is taken only if it is of a kind that is listed here, and names none of the
functions and views that reach beyond the database, change the connection, watch other sessions, or run text as SQL. Of PostgreSQL's own
functions only listed ones are called, and none of its tables and views is changed. Statements that hold others in text, such as DO and
CREATE FUNCTION, are not listed; so every name that a statement uses is in plain sight.

To see them, text is split as PostgreSQL does it. Where two readings could differ, the statement is refused.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.capabilities._kinds import is_whole
from holdfast.sandbox import HostError

_LONGEST: Final = 1 << 17
_READS: Final = frozenset(["select", "with", "values", "table", "show", "explain"])
_WRITES: Final = frozenset(["insert", "update", "delete", "merge", "truncate", "comment", "analyze", "refresh", "lock"])
_GIVES_ROWS: Final = frozenset(["select", "with", "values", "table"])
_TRANSACTIONS: Final = frozenset(["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release"])
_DEFINES: Final = frozenset(["create", "alter", "drop"])
_OBJECTS: Final = frozenset(["table", "index", "view", "sequence", "type", "domain", "schema"])
_MODIFIERS: Final = frozenset(["or", "replace", "unique", "unlogged", "materialized", "recursive"])
_NO_TRANSACTIONS: Final = frozenset(["prepared", "chain"])
_NO_NAMES: Final = re.compile(
    r"""
      pg_(?:read|ls|file|stat_file|logfile|current_logfile|create|drop|copy|logical|replication|backup|wal|start|stop|switch)(?:_.*)?
    | pg_(?:stat_reset|stat_statements|terminate|cancel|reload|rotate|promote|log|import|sync|hba|ident|config|show)(?:_.*)?
    | pg_(?:settings|notify|notification|listening|export|lock|locks|control|get_wal|get_shmem|get_backend|get_aios|get_loaded)(?:_.*)?
    | pg_(?:prepared|cursors?|shmem|backend_memory|shadow|authid|auth_members|user_mapping.*|largeobject|subscription)(?:_.*)?
    | pg_(?:db_role_setting|parameter_acl|blocking_pids|safe_snapshot|restore|clear|nextoid|aios)(?:_.*)?
    | pg_stat_(?:activity|get_.*|replication.*|wal.*|ssl|gssapi|progress.*|subscription.*|io|slru|force.*|clear.*|have.*|recovery.*)
    | pg_(?:try_)?advisory.*
    | lo_(?:import|export|creat|create|open|close|put|get|unlink|from_bytea|truncate.*|lseek.*|tell.*) | loread | lowrite
    | dblink.* | postgres_fdw.* | set_config | (?:query|cursor|table|schema|database)_to_xml.* | ts_stat | ts_rewrite
    | crosstab.* | connectby | xpath_table | binary_upgrade.* | brin_.* | gin_clean.* | currtid.* | plpgsql_.*
    | inet_(?:server|client)_.* | amvalidate
    | (?:fs_|adminpack|xml2_|lo_manage).*
    """,
    re.VERBOSE,
)
_CALLABLE: Final = re.compile(
    r"""
      pg_(?:typeof|basetype|sleep(?:_for|_until)?|collation_for|client_encoding|encoding_.*|char_to_encoding|lsn|my_temp_schema|backend_pid)
    | pg_get_(?:.*def|expr|serial_sequence|userbyid|keywords|function_.*|viewdef|constraintdef|.*_columns|.*_expressions|object_address)
    | pg_(?:size_.*|column_.*|relation_size|total_relation_size|table_size|indexes_size|database_size|partition_.*|.*_is_visible|has_role)
    | pg_(?:input_.*|timezone_.*|current_.*xact.*|current_snapshot|snapshot_.*|visible_in_snapshot|xact_.*|is_in_recovery|jit_available)
    | pg_(?:describe_object|identify_object.*|index.*_property|options_to_table|sequence_.*|relation_is_.*)
    """,
    re.VERBOSE,
)
"""Functions of PostgreSQL's own that may be called. All others whose names begin with `pg_` may not, whatever later versions have."""
_CATALOGS: Final = re.compile(r"pg_.*|information_schema")
_TARGETS: Final = frozenset(["update", "into", "truncate", "lock"])
_BEFORE_TABLE: Final = frozenset(["only", "table"])
_ELSEWHERE, _EXPECTS_TABLE, _NAMES_TABLE = range(3)
_AFTER: Final = {
    (_NAMES_TABLE, "."): _EXPECTS_TABLE,
    (_NAMES_TABLE, ","): _EXPECTS_TABLE,
    (_NAMES_TABLE, "*"): _NAMES_TABLE,
    (_NAMES_TABLE, "*,"): _EXPECTS_TABLE,
    (_EXPECTS_TABLE, "("): _EXPECTS_TABLE,
}
"""What comes after punctuation that stands between the parts of a table's name, and between tables."""
_SPACE: Final = r"[ \t\n\r\f\v]"
_FIRST: Final = r"A-Za-z_\x80-\U0010ffff"
_TOKEN: Final = re.compile(
    rf"""
      (?P<space>{_SPACE}+ | --[^\n\r]*)
    | (?P<comment>/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*+' | (?:[bBxXnN]|[uU]&)?'(?:[^']|'')*+')
    | (?P<escaped>[uU]&")
    | (?P<quoted>"(?:[^"]|"")*+")
    | (?P<dollar>\$(?:[{_FIRST}][{_FIRST}0-9]*)?\$)
    | (?P<word>[{_FIRST}][{_FIRST}0-9$]*)
    | (?P<open>['"])
    | (?P<other>[^{_FIRST}'"$/\- \t\n\r\f\v]+ | .)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")


class Statement(NamedTuple):
    """What is known of a statement. `gives_rows` is whether it may give some after it has changed something."""

    word: str
    gives_rows: bool


class _Token(NamedTuple):
    kind: str
    text: str


def check(sql: str, *, reads: bool) -> Statement:
    """Raises `HostError` for a statement that may not be done. With `reads` it must be of a kind that can do without changes.

    >>> check("/* as /* comments */ nest */ insert into t values (1) returning a", reads=False)
    Statement(word='insert', gives_rows=True)
    """
    if len(sql) > _LONGEST or "\0" in sql or not is_whole(sql):
        raise HostError(f"a statement has at most {_LONGEST} characters, without NUL", code="INVALID_ARGUMENT")
    words: list[str] = []
    harmless: set[str] = set()
    before, name, state = "", "", _ELSEWHERE
    for kind, text in _tokens(sql):
        if kind == before == "string":  # the second is read in the way of the first, if a line ends between them
            raise _refused("strings side by side")
        if kind == "escaped":
            raise _refused("names that are written with escapes")
        if kind in ("word", "quoted"):
            name = (text[1:-1].replace('""', '"') if kind == "quoted" else text).lower()
            if name not in harmless and _NO_NAMES.fullmatch(name):
                raise _refused(name[:40])
            harmless.add(name)
            if state == _EXPECTS_TABLE and _CATALOGS.fullmatch(name):
                raise _refused("changes of PostgreSQL's own tables and views")
            words.append(name if kind == "word" else "")
            state = _expects(words, kind, state)
        else:
            if (
                text.startswith("(")
                and before in ("word", "quoted")
                and name.startswith("pg_")
                and not _CALLABLE.fullmatch(name)
            ):
                raise _refused(name[:40])
            state = _AFTER.get((state, text), _ELSEWHERE)
            if not words and text.strip("("):
                raise _refused("this kind of statement")
        before = kind
    word = words[0] if words else ""
    if not _is_known(words, reads=reads):
        raise _refused(word[:40].upper() if word.isascii() and word else "this kind of statement")
    return Statement(word, word in _GIVES_ROWS or "returning" in words)


def _expects(words: list[str], kind: str, state: int) -> int:
    """Where a statement is after a word: whether it names next a table that it changes."""
    word = words[-1]
    if kind == "word" and (word in _TARGETS or (word == "from" and words[-2:-1] == ["delete"])):
        return _EXPECTS_TABLE
    if state == _EXPECTS_TABLE:
        return _EXPECTS_TABLE if kind == "word" and word in _BEFORE_TABLE else _NAMES_TABLE
    return _ELSEWHERE


def _is_known(words: list[str], *, reads: bool) -> bool:
    word = words[0] if words else ""
    if word in _READS:
        return True
    if reads:
        return False
    if word in _DEFINES:
        return next((other for other in words[1:] if other not in _MODIFIERS), "") in _OBJECTS
    if word in _TRANSACTIONS:
        return _NO_TRANSACTIONS.isdisjoint(words)
    return word in _WRITES


def _refused(what: str) -> HostError:
    return HostError(f"this is not allowed in a statement here: {what}", code="SQL_NOT_ALLOWED")


def _tokens(sql: str) -> Iterator[_Token]:
    """The parts of a statement, without spaces and comments."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None
        kind, at = found.lastgroup or "", found.end()
        if kind == "open":
            raise HostError("a quote has no end", code="SQL_ERROR")
        if kind == "comment":
            at = _after_comment(sql, at)
        elif kind == "dollar":
            end = sql.find(found[0], at)
            if end < 0:
                raise HostError("a quote has no end", code="SQL_ERROR")
            at = end + len(found[0])
            yield _Token("string", "")
        elif kind != "space":
            yield _Token(kind, found[0] if kind != "string" else "")


def _after_comment(sql: str, at: int) -> int:
    """Comments may be nested."""
    depth = 1
    while depth:
        found = _COMMENT.search(sql, at)
        if found is None:
            raise HostError("a comment has no end", code="SQL_ERROR")
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at
