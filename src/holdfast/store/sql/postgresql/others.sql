-- name: milliseconds
(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: now
SELECT {milliseconds}

-- name: read_usage
SELECT member, hour, sum(cpu_us)::bigint, sum(steps)::bigint, sum(events)::bigint, sum(bytes)::bigint, sum(sessions)::bigint
FROM usage WHERE scope = %s AND hour IN (0, %s) GROUP BY member, hour

-- name: count_running
SELECT created_by, count(*) FROM sessions
WHERE state IN ('starting', 'running') AND tenant = %s AND owner IS DISTINCT FROM %s GROUP BY created_by

-- name: drop_scope
DELETE FROM usage WHERE scope = %s

-- name: drop_usage
WITH dropped AS (DELETE FROM usage WHERE hour > 0 AND hour < %s RETURNING 1)
SELECT count(*) FROM dropped

-- name: charge
INSERT INTO usage AS u (scope, member, hour, shard, cpu_us, steps, events, bytes, sessions)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (scope, hour, member, shard) DO UPDATE SET
    cpu_us = u.cpu_us + excluded.cpu_us, steps = u.steps + excluded.steps, events = u.events + excluded.events,
    bytes = u.bytes + excluded.bytes, sessions = u.sessions + excluded.sessions

-- name: get_reply
SELECT key, request, outcome, created_at FROM replies WHERE key = %s

-- name: put_reply
INSERT INTO replies (key, request, outcome, created_at) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING key

-- name: drop_replies
WITH dropped AS (DELETE FROM replies WHERE created_at < %s RETURNING key)
SELECT count(*) FROM dropped

-- name: beat
-- Who has not been heard of for a day is forgotten.
WITH gone AS (DELETE FROM nodes WHERE until < {milliseconds} - 86400000 AND id <> %(id)s)
INSERT INTO nodes (id, until) VALUES (%(id)s, {milliseconds} + %(lease)s)
ON CONFLICT (id) DO UPDATE SET until = excluded.until

-- name: retire
DELETE FROM nodes WHERE id = %s

-- name: longest_lease
-- `LONGEST_LEASE_MS`: a node whose lease ends later is damaged.
86400000

-- name: is_alive
SELECT 1 FROM nodes WHERE id = %s AND until > {milliseconds} AND until <= {milliseconds} + {longest_lease}

-- name: list_leases
SELECT id FROM nodes WHERE until > {milliseconds} AND until <= {milliseconds} + {longest_lease}

-- name: create_document
INSERT INTO documents (id, version, data) VALUES (%s, 1, %s) ON CONFLICT DO NOTHING RETURNING version

-- name: get_document
SELECT version, data FROM documents WHERE id = %s

-- name: put_document
INSERT INTO documents (id, version, data) VALUES (%(id)s, 1, %(data)s)
ON CONFLICT (id) DO UPDATE SET version = documents.version + 1, data = excluded.data
RETURNING version

-- name: update_document
UPDATE documents SET version = version + 1, data = %(data)s WHERE id = %(id)s AND version = %(expected)s
RETURNING version

-- name: delete_document
DELETE FROM documents WHERE id = %s RETURNING version

-- name: list_documents
SELECT id FROM documents ORDER BY key
