-- name: put_secret
INSERT INTO secrets (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING

-- name: get_secret
SELECT value FROM secrets WHERE name = %s

-- name: put_blob
INSERT INTO blobs (digest, data) VALUES (%s, %s) ON CONFLICT DO NOTHING

-- name: get_blob
SELECT data FROM blobs WHERE digest = %s

-- name: create_template
INSERT INTO templates (id, name, latest, created_at, updated_at, tenant) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
RETURNING key

-- One transaction at a time decides which baked memories are in use. It comes first in each, so that none waits for another's row.
-- Commits and heartbeats wait for the same connection. So no lock is waited for longer than this: it is tried again, and they come in
-- between. Not a lock of the table, which would have to wait for every vacuum.
-- name: lock_versions
SET LOCAL lock_timeout = '20ms';
SELECT pg_advisory_xact_lock(26726, 'versions'::regclass::oid::int)

-- Nothing is inserted if the baked memory is gone. A guest stays, once it was put.
-- name: create_version
INSERT INTO versions (template_id, number, spec, guest, baked, created_at)
SELECT new.* FROM (VALUES (%s::uuid, %s::bigint, %s::text, %s::bytea, %s::bytea, %s::bigint))
AS new (template_id, number, spec, guest, baked, created_at)
WHERE EXISTS (SELECT 1 FROM blobs WHERE digest = new.baked) OR NOT EXISTS (SELECT 1 FROM blobs WHERE digest = new.guest)
RETURNING number

-- name: advance_template
UPDATE templates SET latest = %(number)s, updated_at = %(updated_at)s
WHERE id = %(id)s AND latest = %(number)s - 1
RETURNING key

-- name: rename_template
UPDATE templates SET name = %s, updated_at = %s WHERE id = %s RETURNING key

-- name: get_template_by_id
SELECT id, name, latest, created_at, updated_at, tenant FROM templates
WHERE id = %(id)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)

-- name: get_template_by_name
SELECT id, name, latest, created_at, updated_at, tenant FROM templates
WHERE tenant = coalesce(%(tenant)s::text, 'default') AND name = %(name)s

-- name: get_version
SELECT number, spec, guest, baked, created_at FROM versions WHERE template_id = %s AND number = %s

-- name: list_templates
SELECT key, id, name, latest, created_at, updated_at, tenant FROM templates
WHERE key < %(after)s AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)
ORDER BY key DESC LIMIT %(limit)s

-- name: list_versions
SELECT number, spec, guest, baked, created_at FROM versions
WHERE template_id = %(id)s AND number < %(after)s
ORDER BY number DESC LIMIT %(limit)s

-- name: delete_template
DELETE FROM templates WHERE id = %s RETURNING key

-- name: baked_of_template
SELECT DISTINCT baked FROM versions WHERE template_id = %s

-- name: drop_versions
DELETE FROM versions AS v USING templates AS t
WHERE t.id = v.template_id
    AND v.number <= t.latest - greatest(coalesce(%(keep)s::bigint, 1), 1)
    AND (%(before)s::bigint IS NULL OR v.created_at < %(before)s::bigint)
    AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.template_id = t.id AND s.template_version = v.number)
RETURNING v.baked

-- name: drop_baked
DELETE FROM blobs WHERE digest = ANY(%s) AND NOT EXISTS (SELECT 1 FROM versions WHERE baked = digest)
