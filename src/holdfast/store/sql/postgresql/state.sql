-- name: put_state
-- The row must have the version that is expected: 0 is that of none, and NULL says that any will do.
INSERT INTO state AS s (namespace, key, value, version, expires_at)
SELECT %(namespace)s, %(key)s, %(value)s, %(version)s, %(expires_at)s::bigint
WHERE coalesce(%(expected)s::bigint, 0) = 0
    OR EXISTS (SELECT 1 FROM state WHERE namespace = %(namespace)s AND key = %(key)s)
ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
WHERE %(expected)s::bigint IS NULL OR s.version = %(expected)s::bigint

-- name: delete_state
DELETE FROM state WHERE namespace = %(namespace)s AND key = %(key)s AND version = %(expected)s::bigint

-- name: delete_states
DELETE FROM state WHERE namespace >= %(root)s AND namespace < %(end)s

-- name: get_state
SELECT key, value, version, expires_at FROM state WHERE namespace = %(namespace)s AND key = %(key)s

-- name: list_state
SELECT key FROM state
WHERE namespace = %(namespace)s AND key >= %(prefix)s AND (%(first)s OR key > %(after)s) AND starts_with(key, %(prefix)s)
    AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY key LIMIT %(limit)s

-- name: count_state
SELECT count(*) FROM state
WHERE namespace >= %(root)s AND namespace < %(end)s AND (expires_at IS NULL OR expires_at > %(now)s)

-- name: drop_state
WITH dropped AS (DELETE FROM state WHERE expires_at <= %s RETURNING key)
SELECT count(*) FROM dropped
