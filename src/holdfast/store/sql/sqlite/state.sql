-- The row must have the version that is expected: 0 is that of none, and NULL says that any will do.
-- name: put_state
INSERT INTO state (namespace, key, value, version, expires_at)
SELECT :namespace, :key, :value, :version, :expires_at
WHERE :expected IS NULL OR :expected = 0 OR EXISTS (SELECT 1 FROM state WHERE namespace = :namespace AND key = :key)
ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
WHERE :expected IS NULL OR version = :expected

-- name: delete_state
DELETE FROM state WHERE namespace = :namespace AND key = :key AND version = :expected

-- name: delete_states
DELETE FROM state WHERE namespace >= :root AND namespace < :end

-- name: get_state
SELECT key, value, version, expires_at FROM state WHERE namespace = ? AND key = ?

-- name: list_state
SELECT key FROM state
WHERE namespace = :namespace AND key >= :prefix AND (:first OR key > :after) AND substr(key, 1, length(:prefix)) = :prefix
    AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key LIMIT :limit

-- name: count_state
SELECT count(*) FROM state WHERE namespace >= :root AND namespace < :end AND (expires_at IS NULL OR expires_at > :now)

-- name: drop_state
DELETE FROM state WHERE expires_at <= ?
