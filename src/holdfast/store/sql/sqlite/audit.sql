-- name: append_audit
INSERT INTO audit (at, tenant, token, action, object, outcome, data) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: list_audit
SELECT key, at, tenant, token, action, object, outcome, data FROM audit
WHERE key < :after
AND (:tenant IS NULL OR tenant = :tenant)
AND (:token IS NULL OR token = :token)
AND (:action IS NULL OR action = :action)
AND (:object IS NULL OR object = :object)
AND (:outcome IS NULL OR outcome = :outcome)
AND (:since IS NULL OR at >= :since)
AND (:until IS NULL OR at < :until)
ORDER BY key DESC LIMIT :limit

-- name: drop_audit
DELETE FROM audit WHERE key IN (SELECT key FROM audit INDEXED BY audit_at WHERE at < ? ORDER BY at LIMIT ?)
