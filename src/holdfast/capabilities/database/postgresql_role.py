"""What the server is asked about a connection's role, and what is pinned for as long as the connection lives.

Three questions, all answered by the server itself. Whether the role is more than an ordinary one (`ROLE`): then it is refused. Whether it
is locked (`REACHABLE`): whether everything that reaches beyond its own tables was revoked by whoever owns the server, with the script that
`lockdown` prints. And after each statement, in the same transaction: whether a setting that matters has changed (`check_of`).
"""

from collections.abc import Sequence
from typing import Final

HARMLESS: Final = (
    "array_sample", "array_shuffle", "clock_timestamp", "current_query", "currval", "gen_random_uuid", "lastval", "nextval",
    "pg_collation_actual_version", "pg_database_collation_actual_version", "pg_indexes_size", "pg_is_in_recovery", "pg_jit_available",
    "pg_partition_ancestors", "pg_partition_tree", "pg_relation_size", "pg_sequence_last_value", "pg_table_size", "pg_total_relation_size",
    "random", "random_normal", "setseed", "setval", "timeofday", "uuidv4", "uuidv7",
)  # fmt: skip
"""Volatile functions of PostgreSQL that change nothing beyond the session's own sequences, and tell nothing of others."""

_TEXT_AS_SQL: Final = (
    "^(query|cursor|table|schema|database)_to_xml|^ts_(stat|rewrite)$|^pg_(stat_get_(backend|activity|wal_)|show_all_)"
)
"""Functions that are not volatile by their own account, and run text as SQL, or tell of other sessions and of settings."""

_FUNCTIONS: Final = f"""
    p.pronamespace = 'pg_catalog'::regnamespace
    AND (p.provolatile = 'v' OR p.proname ~ '{_TEXT_AS_SQL}')
    AND p.proname <> ALL (ARRAY[{", ".join(f"'{name}'" for name in HARMLESS)}]::name[])
    AND p.prokind = 'f'
    AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
    AND 'internal'::regtype <> ALL (p.proargtypes::oid[])
    AND p.prorettype::regtype::text NOT LIKE '%\\_handler'
"""
"""Which functions of PostgreSQL a locked role cannot call: all that may change something, of this version and of later ones."""

_VIEWS: Final = (
    "pg_settings", "pg_file_settings", "pg_stat_activity", "pg_stat_replication", "pg_stat_ssl", "pg_stat_gssapi", "pg_locks",
    "pg_prepared_xacts", "pg_user_mappings", "pg_stat_wal_receiver", "pg_stat_progress_basebackup", "pg_shmem_allocations",
    "pg_backend_memory_contexts", "pg_hba_file_rules", "pg_ident_file_mappings",
)  # fmt: skip
_VIEW_NAMES: Final = ", ".join(f"'{name}'" for name in _VIEWS)

ROLE: Final = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_roles
        WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
        AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
             OR (rolname LIKE 'pg\\_%' AND rolname NOT IN ('pg_database_owner', 'pg_use_reserved_connections')))
    ) AS too_much
"""

REACHABLE: Final = f"""
    SELECT what FROM (
        SELECT 'ownership of the database' AS what
        WHERE EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = current_database() AND pg_has_role(session_user, datdba, 'MEMBER'))
        UNION ALL
        SELECT DISTINCT p.proname::text FROM pg_catalog.pg_proc p
        WHERE {_FUNCTIONS} AND has_function_privilege(session_user, p.oid, 'EXECUTE')
        UNION ALL
        SELECT DISTINCT p.proname::text FROM pg_catalog.pg_proc p
        WHERE p.prosecdef AND has_function_privilege('public', p.oid, 'EXECUTE')
        UNION ALL
        SELECT c.relname::text FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relname IN ({_VIEW_NAMES})
        AND (has_table_privilege(session_user, c.oid, 'SELECT') OR has_table_privilege(session_user, c.oid, 'UPDATE'))
        UNION ALL
        SELECT 'temporary tables' WHERE has_database_privilege(session_user, current_database(), 'TEMPORARY')
    ) AS found ORDER BY what LIMIT 200
"""  # noqa: S608 - constants of this file

# ---- settings ----------------------------------------------------------------------------------------------------------------------

# Statements end by our own clock. The timeouts are for a server that does not hear of us any more.
SETTINGS: Final = (
    "SET statement_timeout = '90s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    "SET standard_conforming_strings = on",
    "SET backslash_quote = safe_encoding",
    "SET bytea_output = hex",
    "SET datestyle = 'ISO, YMD'",
    "SET intervalstyle = 'iso_8601'",
)
IDLE: Final = "SET idle_session_timeout = '60s'"  # one that is closed meanwhile is opened again
IDLE_VERSION: Final = 140_000

_PINNED: Final = (
    "standard_conforming_strings", "backslash_quote", "client_encoding", "search_path", "role", "session_authorization", "row_security",
    "statement_timeout", "lock_timeout", "transaction_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
    "default_transaction_read_only", "default_transaction_isolation", "session_replication_role", "bytea_output", "datestyle",
    "intervalstyle", "work_mem", "temp_buffers",
)  # fmt: skip
_VALUES: Final = ", ".join(f"current_setting('{name}', true)" for name in _PINNED)
PINNED: Final = f"SELECT to_json(ARRAY[{_VALUES}]::text[]) AS values"
REPORTED: Final = (
    b"standard_conforming_strings", b"client_encoding", b"session_authorization", b"is_superuser", b"DateStyle", b"IntervalStyle",
    b"default_transaction_read_only", b"search_path",
)  # fmt: skip
"""Settings of which the server itself tells when they change, if its version does."""


def check_of(values: Sequence[str | None]) -> str:
    """Return the statement that fails if a pinned setting is another one than these.

    It is sent with each statement, in the same transaction, which fails with it. The server prepares it once, while settings are as they
    were set: no later one changes how its text is read.
    """
    pinned = zip(_PINNED, values, strict=True)
    same = " AND ".join(
        f"current_setting('{name}', true) IS NOT DISTINCT FROM {_literal(value)}" for name, value in pinned if value is not None
    )
    return f"SELECT 1 / (CASE WHEN {same} THEN 1 ELSE 0 END)"


def lockdown(role: str, schema: str) -> str:
    """Return the SQL script that makes a locked role: one that reaches its own schema, and nothing else that is not granted to it.

    >>> lockdown("scripts", "work").splitlines()[-1]
    'COMMIT;'
    """
    owner, place = _identifier(role), _identifier(schema)
    return f"""-- Run once, as a superuser, in the database that scripts shall use (psql -v ON_ERROR_STOP=1 -f lockdown.sql).
-- The database should hold nothing else: what is revoked from PUBLIC is revoked from all ordinary roles of this database.
-- Functions of later versions and extensions: run it again after an upgrade, and after CREATE EXTENSION.
BEGIN;
DO $lockdown$
DECLARE
    found record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {_literal(role)}) THEN
        CREATE ROLE {owner} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS NOINHERIT;
    END IF;
    FOR found IN SELECT p.oid::regprocedure AS name FROM pg_catalog.pg_proc p WHERE {_FUNCTIONS} LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC, {_doubled(owner)}', found.name);
    END LOOP;
    FOR found IN SELECT p.oid::regprocedure AS name FROM pg_catalog.pg_proc p
                 WHERE p.prosecdef AND has_function_privilege('public', p.oid, 'EXECUTE') LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', found.name);
    END LOOP;
    FOR found IN SELECT c.oid::regclass AS name FROM pg_catalog.pg_class c
                 WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relname IN ({_VIEW_NAMES}) LOOP
        EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, {_doubled(owner)}', found.name);
    END LOOP;
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO {_doubled(owner)}', current_database());
END
$lockdown$;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA IF NOT EXISTS {place};
GRANT USAGE, CREATE ON SCHEMA {place} TO {owner};
ALTER ROLE {owner} SET search_path = {place};
ALTER ROLE {owner} CONNECTION LIMIT 64;
-- Then give it a password: \\password {owner}
COMMIT;"""  # noqa: S608 - names, quoted


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _doubled(identifier: str) -> str:
    """Return an identifier as it stands in a format string of PostgreSQL, within quotes."""
    return identifier.replace("'", "''").replace("%", "%%")
