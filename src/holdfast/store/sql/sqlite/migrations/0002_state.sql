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
