-- The tables of a store, as of the first release.
--
-- What belongs to a session carries `session`, the short key of its row, and no foreign key: every write of such rows happens in one
-- statement with the compare-and-set of the session's row, whose lock also keeps it from being deleted meanwhile.
--
-- What never changes comes first in a row: the log of changes leaves out how far a new row is like the old one.

-- Ends a statement that has found something missing, and undoes it.
CREATE FUNCTION refuse(state text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = state;
END
$$;

CREATE TABLE secrets (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE blobs (
    digest bytea PRIMARY KEY,
    data   bytea NOT NULL
);

CREATE TABLE templates (
    key        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid   NOT NULL UNIQUE,
    name       text   NOT NULL UNIQUE,
    latest     bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE TABLE versions (
    template_id uuid   NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    number      bigint NOT NULL,
    spec        text   NOT NULL,
    guest       bytea  NOT NULL,
    baked       bytea  NOT NULL,
    created_at  bigint NOT NULL,
    PRIMARY KEY (template_id, number)
);

CREATE INDEX versions_baked ON versions (baked);

-- Half of each page is left free, so that the next version of a row finds room beside it and no index has to change.
CREATE TABLE sessions (
    key              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               uuid   NOT NULL UNIQUE,
    template_id      uuid   NOT NULL REFERENCES templates (id),
    created_at       bigint NOT NULL,
    origin_session   uuid,
    origin_number    bigint,
    worktree         text,
    template_version bigint NOT NULL,
    state            text   NOT NULL,
    updated_at       bigint NOT NULL,
    name             text,
    meta             text,
    closed_at        bigint,
    version          bigint NOT NULL,
    fence            bigint NOT NULL,
    owner            uuid,
    head             bigint NOT NULL,
    steps            bigint NOT NULL,
    queries          bigint NOT NULL,
    execution_id     uuid,
    wake_at          bigint,
    seed             bigint,
    budget           text,
    llm_calls        bigint NOT NULL,
    tokens           bigint NOT NULL,
    last_error       text,
    token            bigint NOT NULL,
    begun            text
) WITH (fillfactor = 50);

CREATE INDEX sessions_template ON sessions (template_id);
CREATE INDEX sessions_name ON sessions (name) WHERE name IS NOT NULL;
CREATE INDEX sessions_origin ON sessions (origin_session) WHERE origin_session IS NOT NULL;
CREATE INDEX sessions_active ON sessions (key) WHERE state IN ('starting', 'running');
CREATE INDEX sessions_due ON sessions (wake_at, key) WHERE state = 'paused' AND wake_at IS NOT NULL;

CREATE TABLE executions (
    key        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session    bigint NOT NULL,
    id         uuid   NOT NULL UNIQUE,
    kind       text   NOT NULL,
    started_at bigint NOT NULL,
    first_step bigint NOT NULL,
    given      text   NOT NULL,
    status     text   NOT NULL,
    last_step  bigint NOT NULL,
    seq        bigint NOT NULL,
    ended_at   bigint,
    result     text,
    error      text,
    metrics    text   NOT NULL,
    budget     text
) WITH (fillfactor = 50);

CREATE INDEX executions_session ON executions (session, key);

-- A step with its events, packed, and its checkpoint: `depth` is NULL where there is none (any more). Number 0 is the beginning of a
-- fork whose origin is gone. A base is in the same session, unless `base_session` says in which other.
-- Rows stay in one piece up to a page: images are compressed already, and moving them out would cost a second insert.
CREATE TABLE steps (
    session      bigint NOT NULL,
    number       bigint NOT NULL,
    parent       bigint NOT NULL,
    execution_id uuid   NOT NULL,
    created_at   bigint NOT NULL,
    first_seq    bigint NOT NULL,
    last_seq     bigint NOT NULL,
    events       text,
    depth        bigint,
    wake_at      bigint,
    open         text,
    sealed       bytea,
    base_session uuid,
    base_number  bigint,
    xid          xid8   NOT NULL DEFAULT pg_current_xact_id(), -- of the transaction that made it
    PRIMARY KEY (session, number)
) WITH (toast_tuple_target = 8160);

-- For the feed of all steps. The steps of a group share one entry.
CREATE INDEX steps_xid ON steps (xid);

ALTER TABLE steps ALTER COLUMN sealed SET STORAGE EXTERNAL;

CREATE INDEX steps_foreign ON steps (base_session) WHERE base_session IS NOT NULL;

CREATE TABLE queries (
    session      bigint NOT NULL,
    number       bigint NOT NULL,
    execution_id uuid   NOT NULL,
    kind         text   NOT NULL,
    payload      text   NOT NULL,
    asked_at     bigint NOT NULL,
    guest_id     bigint,
    deadline     bigint,
    state        text   NOT NULL,
    started_at   bigint,
    closed_at    bigint,
    answer       text,
    PRIMARY KEY (session, number)
) WITH (toast_tuple_target = 8160);

CREATE INDEX queries_open ON queries (session, number) WHERE state = 'open';
CREATE INDEX queries_inbox ON queries (asked_at, session, number) WHERE state = 'open';

CREATE TABLE errors (
    key         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session     bigint NOT NULL,
    id          uuid   NOT NULL,
    timestamp   bigint NOT NULL,
    resolved_at bigint,
    data        text   NOT NULL
);

CREATE INDEX errors_session ON errors (session, key);

CREATE TABLE replies (
    key        text   PRIMARY KEY,
    request    text   NOT NULL,
    outcome    text   NOT NULL,
    created_at bigint NOT NULL
);

CREATE INDEX replies_created ON replies (created_at);

CREATE TABLE nodes (
    id    uuid   PRIMARY KEY,
    until bigint NOT NULL
);

CREATE TABLE documents (
    key     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      text   NOT NULL UNIQUE,
    version bigint NOT NULL,
    data    text   NOT NULL
);
