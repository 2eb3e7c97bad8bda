-- State: values by namespace and key, which change with the steps of sessions.

CREATE TABLE state (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    version INTEGER NOT NULL, -- the token of the commit that wrote the row last
    expires_at INTEGER,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX state_expiring ON state (expires_at) WHERE expires_at IS NOT NULL;

-- The step that is under way in a session, and its effects. Each is written once, or twice if its reply came later than the intent.
CREATE TABLE journal (
    place INTEGER PRIMARY KEY, -- the session's key << 28 | number: 0 is the step, 1 its first effect
    data TEXT NOT NULL
);
INSERT INTO journal (place, data) SELECT session << 28, json_remove(data, '$[3]') FROM begun;
INSERT INTO journal (place, data) SELECT (b.session << 28) + e.key + 1, e.value FROM begun b, json_each(b.data, '$[3]') e;
DROP TABLE begun;
