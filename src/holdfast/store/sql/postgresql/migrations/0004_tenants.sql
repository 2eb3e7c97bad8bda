-- Tenants: every template and session belongs to one. Names of templates are unique within their tenant.

ALTER TABLE templates ADD COLUMN tenant text NOT NULL DEFAULT 'default';
ALTER TABLE templates DROP CONSTRAINT templates_name_key;
ALTER TABLE templates ADD CONSTRAINT templates_tenant_name UNIQUE (tenant, name);

ALTER TABLE sessions ADD COLUMN tenant text NOT NULL DEFAULT 'default', ADD COLUMN created_by text NOT NULL DEFAULT '';
CREATE INDEX sessions_tenant ON sessions (tenant, key);

-- The audit log: rows are inserted and, when their retention is over, deleted; never updated. Columns are what lists
-- filter by; the rest of an entry is JSON.
CREATE TABLE audit (
    key     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      bigint NOT NULL,
    tenant  text   NOT NULL,
    token   text   NOT NULL,
    action  text   NOT NULL,
    object  text   NOT NULL,
    outcome text   NOT NULL,
    data    text   NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_tenant ON audit (tenant, key);
