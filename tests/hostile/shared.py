"""Attempts that are the same in both languages: a text that should lead out, and how it must be refused."""

INVALID = "INVALID_PATH"

EVERY_VERB: list[str] = [
    "../secret.txt", "lib/../../secret.txt", "./././../secret.txt", "lib/../lib/../../secret.txt", "..", "../", "../tree-evil/secret.txt",
    "<out>/secret.txt", "<out>", "<tree>/../secret.txt", "<tree>-evil/secret.txt", "/etc/passwd", "//etc/passwd", "/proc/self/environ",
    "/proc/self/fd/0", "/proc/1/root/etc/passwd", "/dev/zero", "/", "way/secret.txt", "lib/up/secret.txt",
    "lib/up/tree/../secret.txt", "root/etc/passwd", "self/secret.txt", "pipe", "socket", "kept.db-wal", "kept.db-journal", "KEPT.DB-SHM",
    "secret.txt\0.txt", "\0", "..\\secret.txt", "lib\\..\\..\\secret.txt", "@data/../secret.txt",
    "@data/way/secret.txt", "./@data/../../secret.txt", "@data/<out>/secret.txt/../../../../../../../../../../etc/passwd",
    "x" * 5000,
]  # fmt: skip
"""Paths that no function of `fs` takes, whatever it is to do there: `INVALID_PATH`."""

READ_ONLY: list[tuple[str, str]] = [
    ("link", INVALID), ("chain", INVALID), ("lib/deep", INVALID), ("hard", INVALID), ("way", INVALID), ("loop", INVALID),
    ("%2e%2e/secret.txt", "FILE_NOT_FOUND"), ("..%2fsecret.txt", "FILE_NOT_FOUND"), ("file:///etc/passwd", "FILE_NOT_FOUND"),
    ("~/secret.txt", "FILE_NOT_FOUND"), ("$HOME/secret.txt", "FILE_NOT_FOUND"), (".../secret.txt", "FILE_NOT_FOUND"),
    ("note.txt/../../secret.txt", INVALID), ("@none/../../secret.txt", INVALID), ("@/secret.txt", "FILE_NOT_FOUND"),
    ("\u2025/secret.txt", "FILE_NOT_FOUND"), ("\uff0e\uff0e/secret.txt", "FILE_NOT_FOUND"), ("", "FILE_NOT_FOUND"), ("way/../secret.txt", "FILE_NOT_FOUND"), ("secret.txt", "FILE_NOT_FOUND"),
]  # fmt: skip
"""Paths that are read, and what comes of it."""

SPECIFIERS: list[tuple[str, str]] = [
    ("../secret", INVALID), ("../secret.json", INVALID), ("./../secret", INVALID), ("./lib/../../secret", INVALID), ("/etc/passwd", INVALID),
    ("<out>/secret", INVALID), ("<out>/secret.json", INVALID), ("<tree>/../secret", INVALID), ("<tree>-evil/secret", INVALID),
    ("file:///etc/passwd", INVALID), ("file:<out>/secret.json", INVALID), ("http://here.test:<port>/open/x.js", INVALID),
    ("data:text/javascript,1", INVALID), ("./..%2fsecret", INVALID), ("./%2e%2e/secret", INVALID), ("./%252e%252e/secret", INVALID),
    ("./..\\secret", INVALID), ("..\\secret", INVALID), ("./way/secret", INVALID), ("./link.json", INVALID),
    ("./hard.json", INVALID), ("./pipe.json", INVALID), ("holdfast:../secret", INVALID), ("holdfast:/etc/passwd", INVALID),
    ("holdfast:<out>/secret.json", INVALID), ("holdfast:fs/../../secret", INVALID), ("holdfast:holdfast:fs", "MODULE_NOT_FOUND"),
    ("holdfast:", "MODULE_NOT_FOUND"), ("holdfast:subprocess", "MODULE_NOT_FOUND"), ("node:child_process", "MODULE_NOT_FOUND"),
    ("./" + "../" * 40 + "etc/passwd", INVALID), ("./" + "x" * 5000, INVALID), ("", "MODULE_NOT_FOUND"), (" ", "MODULE_NOT_FOUND"),
]  # fmt: skip
"""Names of modules."""

URLS: list[tuple[str, str]] = [
    ("http://127.0.0.1:<canary>/", "URL_NOT_ALLOWED"), ("http://localhost:<canary>/", "URL_NOT_ALLOWED"),
    ("http://here.test:<canary>/open", "URL_NOT_ALLOWED"), ("http://127.0.0.1:<port>/open", "URL_NOT_ALLOWED"),
    ("https://here.test:<port>/open", "URL_NOT_ALLOWED"), ("http://here.test./closed", "URL_NOT_ALLOWED"),
    ("http://inside.test:<port>/", "URL_NOT_ALLOWED"), ("http://evilinside.test:<port>/", "URL_NOT_ALLOWED"),
    ("http://two.inside.test.evil.test:<port>/", "URL_NOT_ALLOWED"), ("http://[::1]:<canary>/", "URL_NOT_ALLOWED"),
    ("http://[::ffff:127.0.0.1]:<canary>/", "URL_NOT_ALLOWED"), ("http://[0:0:0:0:0:ffff:7f00:1]:<canary>/", "URL_NOT_ALLOWED"),
    ("http://[::ffff:7f00:1%25lo]:<canary>/", "INVALID_URL"), ("http://[::]:<canary>/", "URL_NOT_ALLOWED"),
    ("http://2130706433:<canary>/", "INVALID_URL"), ("http://0x7f000001:<canary>/", "INVALID_URL"), ("http://0177.0.0.1:<canary>/", "INVALID_URL"),
    ("http://127.1:<canary>/", "INVALID_URL"), ("http://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460:<canary>/", "INVALID_URL|URL_NOT_ALLOWED"),
    ("http://here.test@127.0.0.1:<canary>/", "INVALID_URL"), ("http://here.test:<port>@127.0.0.1:<canary>/", "INVALID_URL"),
    ("http://127.0.0.1:<canary>#@here.test:<port>/open", "URL_NOT_ALLOWED"), ("http://127.0.0.1:<canary>?@here.test:<port>/open", "URL_NOT_ALLOWED"),
    ("http://here.test\\@127.0.0.1:<canary>/", "INVALID_URL"), ("http:\\\\127.0.0.1:<canary>\\", "INVALID_URL"),
    ("http://here.test:<port>\t@127.0.0.1:<canary>/", "INVALID_URL"), ("http://here.test\0.evil.test:<canary>/", "INVALID_URL"),
    ("http://here.test%00.evil.test:<canary>/", "INVALID_URL"), ("http://here.test:<port>:<canary>/open", "INVALID_URL"),
    ("file:///etc/passwd", "INVALID_URL"), ("gopher://127.0.0.1:<canary>/x", "INVALID_URL"), ("//127.0.0.1:<canary>/", "INVALID_URL"),
    ("unix:///var/run/docker.sock", "INVALID_URL"), ("http://", "INVALID_URL"),
    ("http://two.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"), ("http://six.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://ten.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"), ("http://cloud.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://mapped.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"), ("http://mixed.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://nat.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"), ("http://tunnel.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://none.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"), ("http://card.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://unique.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"), ("http://name.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://here.test:<port>/closed", "URL_NOT_ALLOWED"), ("http://here.test:<port>/opened", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/open/../closed", "URL_NOT_ALLOWED"), ("http://here.test:<port>/open/%2e%2e/closed", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/open/..%2fclosed", "URL_NOT_ALLOWED"), ("http://here.test:<port>/open/%252e%252e/closed", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/open/..%5cclosed", "URL_NOT_ALLOWED"), ("http://here.test:<port>/open/..;/closed", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/open\r\nGET /closed HTTP/1.1", "INVALID_URL"), ("http://here.test:<port>/redirect/302?http://127.0.0.1:<canary>/", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/redirect/307?//127.0.0.1:<canary>/", "URL_NOT_ALLOWED"), ("http://here.test:<port>/redirect/303?/closed", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/redirect/302?../../closed", "URL_NOT_ALLOWED"), ("http://here.test:<port>/redirect/301?file:///etc/passwd", "INVALID_URL"),
    ("http://here.test:<port>/redirect/302?http://two.inside.test:<port>/", "ADDRESS_NOT_ALLOWED"),
    ("http://here.test:<port>/redirect/302?http://here.test@127.0.0.1:<canary>/", "INVALID_URL"),
    ("http://here.test:<port>/redirect/308?http://[::1]:<canary>/", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/redirect/302?/redirect/302%3Fhttp://127.0.0.1:<canary>/", "URL_NOT_ALLOWED"),
    ("http://here.test:<port>/bomb", "RESPONSE_TOO_LARGE"), ("http://here.test:<port>/twice", "RESPONSE_TOO_LARGE|RESPONSE_INVALID"),
]  # fmt: skip
"""Requests that must not be made, or not be followed. Names are those of the runner's table."""

SQLITE: list[tuple[str, str]] = [
    ("ATTACH '<out>/secret.db' AS other", "SQL_NOT_ALLOWED"), ("ATTACH ':memory:' AS other", "SQL_NOT_ALLOWED"),
    ("ATTACH 'file:<out>/secret.db?mode=ro' AS other", "SQL_NOT_ALLOWED"), ("ATTACH DATABASE ('<out>' || '/secret.db') AS o", "SQL_NOT_ALLOWED"),
    ("VACUUM INTO '<out>/copy.db'", "SQL_NOT_ALLOWED"), ("VACUUM", "SQL_NOT_ALLOWED"), ("DETACH main", "SQL_NOT_ALLOWED"),
    ("SELECT load_extension('<out>/secret.so')", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT readfile('<out>/secret.txt')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("SELECT writefile('<out>/new.txt', 'x')", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT edit('x', 'sh')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("SELECT fts3_tokenizer('simple', x'4141414141414141')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("CREATE VIRTUAL TABLE v USING csv(filename='<out>/secret.txt')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("CREATE VIRTUAL TABLE v USING fts5(x)", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT * FROM sqlite_dbpage", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("CREATE TEMP TABLE t(x)", "SQL_NOT_ALLOWED"), ("PRAGMA temp_store_directory = '<out>'", "SQL_NOT_ALLOWED"),
    ("PRAGMA data_store_directory = '<out>'", "SQL_NOT_ALLOWED|SQL_ERROR"), ("PRAGMA journal_mode = OFF", "SQL_NOT_ALLOWED"),
    ("PRAGMA writable_schema = ON", "SQL_NOT_ALLOWED"), ("PRAGMA trusted_schema = ON", "SQL_NOT_ALLOWED"), ("PRAGMA mmap_size = 268435456", "SQL_NOT_ALLOWED"),
    ("PRAGMA database_list", "SQL_NOT_ALLOWED"), ("PRAGMA max_page_count = 1000000", "SQL_NOT_ALLOWED"),
    ("SELECT * FROM pragma_database_list", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT 1; ATTACH '<out>/secret.db' AS o", "SQL_ERROR"),
    ("/* SELECT 1 */ ATTACH '<out>/secret.db' AS o", "SQL_NOT_ALLOWED"), ("EXPLAIN ATTACH '<out>/secret.db' AS o", "SQL_NOT_ALLOWED"),
    (".open <out>/secret.db", "SQL_ERROR"), ("SELECT zeroblob(1000000000)", "SQL_ERROR"), ("SELECT printf('%.*c', 1000000000, 'x')", "SQL_ERROR"),
    ("SELECT format('%.1000000000c', 'x')", "SQL_ERROR"), ("SELECT json_patch('{}', '{}')", "SQL_NOT_ALLOWED"),
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", "RESULT_TOO_LARGE|SQL_TIMEOUT"),
    ("SELECT fts5(1)", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT geopoly_debug(1)", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT rtreenode(2, x'00')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("SELECT sqlite_log(1, 'x')", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SELECT * FROM carray(4096, 10, 'int32')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("SELECT * FROM dbstat", "SQL_NOT_ALLOWED|SQL_ERROR"), ("CREATE VIRTUAL TABLE v USING rtree(a, b, c)", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("PRAGMA hard_heap_limit = 1", "SQL_NOT_ALLOWED"), ("PRAGMA soft_heap_limit = 0", "SQL_NOT_ALLOWED"), ("PRAGMA temp_store = FILE", "SQL_NOT_ALLOWED"),
    ("PRAGMA locking_mode = EXCLUSIVE", "SQL_NOT_ALLOWED"), ("PRAGMA busy_timeout = 100000", "SQL_NOT_ALLOWED"), ("PRAGMA threads = 8", "SQL_NOT_ALLOWED"),
    ("SELECT " + ", ".join(["zeroblob(1000000)"] * 1_000), "RESULT_TOO_LARGE|SQL_ERROR|SQL_TIMEOUT|DATABASE_FAILED"),
    ("SELECT " + ", ".join(["hex(randomblob(500000))"] * 900), "RESULT_TOO_LARGE|SQL_ERROR|SQL_TIMEOUT|DATABASE_FAILED"),
    ("SELECT " + ", ".join(["1"] * 5_000), "SQL_ERROR"), ("SELECT " + "(SELECT " * 400 + "1" + ")" * 400, "SQL_ERROR"),
    ("SELECT '" + "x" * 300_000 + "'", "SQL_ERROR"), ("SELECT ?32767", "SQL_ERROR"),
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 99999) SELECT randomblob(9999) AS r FROM n ORDER BY r", "SQL_ERROR|RESULT_TOO_LARGE|SQL_TIMEOUT|DATABASE_FAILED"),
]  # fmt: skip
"""Statements for SQLite, in memory."""

POSTGRESQL: list[tuple[str, str]] = [
    ("COPY (SELECT 1) TO PROGRAM 'touch <out>/new'", "SQL_NOT_ALLOWED"), ("COPY t FROM '<out>/secret.txt'", "SQL_NOT_ALLOWED"),
    ("SELECT pg_read_file('<out>/secret.txt')", "SQL_NOT_ALLOWED"), ("SELECT pg_ls_dir('/')", "SQL_NOT_ALLOWED"),
    ("SELECT lo_import('<out>/secret.txt')", "SQL_NOT_ALLOWED"), ("DO $$ BEGIN PERFORM pg_read_file('/etc/passwd'); END $$", "SQL_NOT_ALLOWED"),
    ("CREATE FUNCTION f() RETURNS int LANGUAGE c AS '<out>/secret.so'", "SQL_NOT_ALLOWED|SQL_ERROR"), ("SET ROLE postgres", "SQL_NOT_ALLOWED"),
    ("SET statement_timeout = 0", "SQL_NOT_ALLOWED"), ("SELECT set_config('statement_timeout', '0', false)", "SQL_NOT_ALLOWED"),
    ("LOAD '<out>/secret.so'", "SQL_NOT_ALLOWED"), ("SELECT dblink_connect('host=127.0.0.1 port=<canary>')", "SQL_NOT_ALLOWED|SQL_ERROR"),
    ("SELECT 1; COPY (SELECT 1) TO PROGRAM 'id'", "SQL_NOT_ALLOWED|SQL_ERROR"),
]  # fmt: skip
"""Statements for a real PostgreSQL server."""

DATABASES: list[tuple[str, str, str]] = [
    ("sqlite3", "../secret.db", INVALID), ("sqlite3", "<out>/secret.db", INVALID), ("sqlite3", "file:<out>/secret.db", INVALID),
    ("sqlite3", "file::memory:?cache=shared", INVALID), ("sqlite3", "way/secret.db", INVALID), ("sqlite3", "link.db", INVALID),
    ("sqlite3", "hard.db", INVALID), ("sqlite3", "pipe", INVALID), ("sqlite3", "kept.db-wal", INVALID), ("sqlite3", "shop.db\0", INVALID),
    ("sqlite3", "", INVALID), ("sqlite3", " ", "FILE_NOT_FOUND"), ("sqlite3", "lib", INVALID), ("sqlite3", "..\\secret.db", INVALID),
    ("sqlite3", "FILE:/etc/passwd", "INVALID_PATH|FILE_NOT_FOUND"), ("SQLITE3", ":memory:", "DRIVER_UNKNOWN"), ("mysql", "x", "DRIVER_UNKNOWN"),
    ("postgresql", "postgresql://postgres@127.0.0.1:<canary>/x", "CONNECTION_NOT_GRANTED"), ("postgresql", "", "CONNECTION_NOT_GRANTED"),
    ("postgresql", "host=127.0.0.1 port=<canary>", "CONNECTION_NOT_GRANTED"), ("postgresql", "vault", "DATABASE_UNAVAILABLE"),
    ("postgresql", "__class__", "CONNECTION_NOT_GRANTED"), ("postgresql", ":memory:", "CONNECTION_NOT_GRANTED"),
]  # fmt: skip
"""Drivers and addresses that `configure` does not take."""

PROGRAMS: list[str] = [
    "/bin/sh", "sh", "echo", "/bin/echo ", "/bin//echo", "/bin/../bin/echo", "//bin/echo", "/bin/./echo", "/proc/self/exe", "<tree>/evil.sh",
    "./evil.sh", "evil.sh", "<out>/secret.sh", "/bin/echo\0/bin/sh", "/bin/echo;sh", "$(sh)", "", "/BIN/ECHO", "file:///bin/echo",
]  # fmt: skip
"""Programs: `PROGRAM_NOT_ALLOWED`."""

ARGUMENTS: list[list[str]] = [
    ["-n"], ["--version"], ["a;id"], ["$(id)"], ["`id`"], ["a b"], ["a\nb"], ["A"], [""], ["a", "-e"], ["../secret"], ["\u0430"], ["a" * 9000], [],
]  # fmt: skip
"""Arguments of a program that takes words of small letters: `ARGUMENTS_NOT_ALLOWED`."""

VARIABLES: list[str] = ["LD_PRELOAD", "PATH", "HOLDFAST_TOKEN", "TZ=x", "tz", "", "BASH_ENV", "HOSTILE_CANARY"]
"""Variables that a script may not set for a program that takes `TZ`: `VARIABLE_NOT_ALLOWED`."""

FOLDERS: list[str] = ["..", "/", "/etc", "<out>", "way", "lib/up", "lib/../..", "..\\", "a\0", "<tree>-evil"]
"""Folders in which no program runs: `INVALID_PATH`."""
