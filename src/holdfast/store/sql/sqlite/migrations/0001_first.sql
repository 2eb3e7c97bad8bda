-- The first schema.
--
-- A commit should dirty few pages, since each goes to the disk before anybody hears of it. So sessions have an integer key that their
-- rows carry instead of the 16 bytes of an id, steps are appended with one index, a query lies beside the one that its session asked
-- before, and what an UPDATE sets is in no index but partial ones that a usual row is not in.
--
-- Ids are 16 bytes. Times are milliseconds since 1970. `data` and whatever else nobody searches is JSON.

CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE nodes (
    node BLOB PRIMARY KEY,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE blobs (
    key INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL
);

CREATE TABLE templates (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    latest INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

CREATE TABLE template_versions (
    key INTEGER PRIMARY KEY,
    template INTEGER NOT NULL REFERENCES templates ON DELETE CASCADE,
    number INTEGER NOT NULL,
    spec TEXT NOT NULL,
    guest BLOB NOT NULL,
    baked BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (template, number)
);

CREATE INDEX template_versions_baked ON template_versions (baked);

CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    template_id BLOB NOT NULL REFERENCES templates (id),
    created_at INTEGER NOT NULL,
    origin_session BLOB, -- an id, since a fork may outlive what it was forked from
    origin_number INTEGER,
    worktree TEXT,
    -- From here on an update writes all of it.
    template_version INTEGER NOT NULL,
    state TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    name TEXT,
    meta TEXT,
    closed_at INTEGER,
    version INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    owner BLOB,
    head INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    queries INTEGER NOT NULL,
    execution_id BLOB,
    wake_at INTEGER,
    seed INTEGER,
    budget TEXT,
    llm_calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    last_error TEXT,
    token INTEGER NOT NULL -- that of the commit which wrote the row last
);
CREATE INDEX sessions_of_template ON sessions (template_id);
CREATE INDEX sessions_forked ON sessions (origin_session) WHERE origin_session IS NOT NULL;
CREATE INDEX sessions_busy ON sessions (owner) WHERE state IN ('starting', 'running');
CREATE INDEX sessions_waking ON sessions (wake_at) WHERE state = 'paused' AND wake_at IS NOT NULL;

CREATE TABLE executions (
    key INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    id BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    first_step INTEGER NOT NULL,
    status TEXT NOT NULL,
    last_step INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    ended_at INTEGER,
    result TEXT,
    error TEXT,
    metrics TEXT NOT NULL,
    budget TEXT
);
CREATE INDEX executions_of_session ON executions (session);

-- What an execution was asked to do: code or arguments, perhaps long. Apart, so that each step does not write it again.
CREATE TABLE inputs (
    execution INTEGER PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    data TEXT NOT NULL
);

-- Number 0 is the beginning of a fork whose origin is gone. `depth` is NULL where there is no checkpoint (any more). A base is in the
-- same session, unless `base_session` says in which other. Keys go up in the order of commits, and the greatest is not used twice: where
-- it belonged to a session that is gone, its row stays with no session. (AUTOINCREMENT would dirty another page in each commit.)
CREATE TABLE steps (
    key INTEGER PRIMARY KEY,
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    number INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    execution_id BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    base_session INTEGER,
    base_number INTEGER,
    depth INTEGER,
    wake_at INTEGER,
    open TEXT,
    events TEXT,
    sealed BLOB
);
CREATE UNIQUE INDEX steps_of_session ON steps (session, number);
CREATE INDEX steps_on_others ON steps (base_session) WHERE base_session IS NOT NULL;

CREATE TABLE begun (
    session INTEGER PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    data TEXT NOT NULL
);

CREATE TABLE queries (
    place INTEGER PRIMARY KEY, -- the session's key << 28 | number: the queries of a session lie together, and need no index
    execution_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    guest_id INTEGER,
    deadline INTEGER,
    state TEXT NOT NULL,
    started_at INTEGER,
    closed_at INTEGER,
    answer TEXT
);
CREATE INDEX queries_open ON queries (place, asked_at, kind) WHERE state = 'open';

CREATE TABLE errors (
    key INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    id BLOB NOT NULL,
    timestamp INTEGER NOT NULL,
    resolved_at INTEGER,
    data TEXT NOT NULL
);
CREATE INDEX errors_of_session ON errors (session);

CREATE TABLE replies (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    outcome TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE TABLE documents (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    data TEXT NOT NULL
);
