-- name: append_audit
INSERT INTO audit (at, tenant, token, action, object, outcome, data) VALUES (%s, %s, %s, %s, %s, %s, %s)

-- name: list_audit
SELECT key, at, tenant, token, action, object, outcome, data FROM audit
WHERE key < %(after)s
    AND (%(tenant)s::text IS NULL OR tenant = %(tenant)s::text)
    AND (%(token)s::text IS NULL OR token = %(token)s::text)
    AND (%(action)s::text IS NULL OR action = %(action)s::text)
    AND (%(object)s::text IS NULL OR object = %(object)s::text)
    AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s::text)
    AND (%(since)s::bigint IS NULL OR at >= %(since)s::bigint)
    AND (%(until)s::bigint IS NULL OR at < %(until)s::bigint)
ORDER BY key DESC LIMIT %(limit)s

-- name: drop_audit
WITH dropped AS (
    DELETE FROM audit WHERE key IN (SELECT key FROM audit WHERE at < %s ORDER BY at LIMIT %s) RETURNING key
)
SELECT count(*) FROM dropped
