-- Tenants: every template and session belongs to one. Names of templates are unique within their tenant, so that the table is made
-- anew: SQLite cannot drop a constraint. Foreign keys are off while migrations run.

CREATE TABLE templates_new (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    latest INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    tenant TEXT NOT NULL DEFAULT 'default',
    UNIQUE (tenant, name)
);
INSERT INTO templates_new (key, id, name, latest, created_at, updated_at)
SELECT key, id, name, latest, created_at, updated_at FROM templates;
DROP TABLE templates;
ALTER TABLE templates_new RENAME TO templates;

ALTER TABLE sessions ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
ALTER TABLE sessions ADD COLUMN created_by TEXT NOT NULL DEFAULT ''; -- the id of a token
CREATE INDEX sessions_of_tenant ON sessions (tenant);

-- The audit log: rows are inserted and, when their retention is over, deleted; never updated. Columns are what lists
-- filter by; the rest of an entry is JSON.
CREATE TABLE audit (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    token TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    outcome TEXT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_tenant ON audit (tenant);
