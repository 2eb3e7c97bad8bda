-- ---- commits: the hot path

-- name: update_session
UPDATE sessions SET
    template_version = ?, state = ?, updated_at = ?, name = ?, meta = ?, closed_at = ?, version = ?, fence = ?, owner = ?, head = ?,
    steps = ?, queries = ?, execution_id = ?, wake_at = ?, seed = ?, budget = ?, llm_calls = ?, tokens = ?, last_error = ?, usage = ?,
    token = ?
WHERE key = ? AND id = ? AND version = ? AND fence = ?

-- name: update_execution
UPDATE executions SET status = ?, last_step = ?, seq = ?, ended_at = ?, result = ?, error = ?, metrics = ?, budget = ?, custom = ?
WHERE id = ? AND session = ?

-- name: insert_step
INSERT INTO steps (
    number, parent, execution_id, created_at, first_seq, last_seq, events, depth, wake_at, open, sealed, session, base_session, base_number
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_query
INSERT INTO queries (
    place, execution_id, kind, payload, asked_at, guest_id, deadline, state, started_at, closed_at, answer
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_query
UPDATE queries SET state = ?, started_at = ?, closed_at = ?, answer = ? WHERE place = ?


-- ---- commits: the rest

-- name: insert_session
INSERT INTO sessions (
    id, template_id, created_at, origin_session, origin_number, worktree, branch_of, branch_query, branch, tenant, created_by,
    template_version, state, updated_at, name, meta, closed_at, version, fence, owner, head,
    steps, queries, execution_id, wake_at, seed, budget, llm_calls, tokens, last_error, usage, token
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: session_marks
SELECT key, version, fence, token FROM sessions WHERE id = ?

-- name: insert_execution
INSERT INTO executions (
    session, id, kind, started_at, first_step, strategy, status, last_step, seq, ended_at, result, error, metrics, budget, custom
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_input
INSERT INTO inputs (execution, data) VALUES (?, ?)

-- name: put_journal
INSERT INTO journal (place, data) VALUES (?, ?) ON CONFLICT (place) DO UPDATE SET data = excluded.data WHERE data <> excluded.data

-- name: cut_journal
DELETE FROM journal WHERE place >= ? AND place < ?

-- name: insert_error
INSERT INTO errors (session, id, timestamp, resolved_at, data) VALUES (?, ?, ?, ?, ?)

-- name: insert_reply
INSERT INTO replies (name, request, outcome, created_at) VALUES (?, ?, ?, ?)

-- name: prune
UPDATE steps SET depth = NULL, base_session = NULL, base_number = NULL, wake_at = NULL, open = NULL, sealed = NULL
WHERE session = ? AND number = ?

-- Whether a checkpoint is what one of another session, or the beginning of a fork, is made from. Those of its own session are known to
-- whoever prunes it, and it has not changed since.
-- name: is_needed
SELECT EXISTS (SELECT 1 FROM steps INDEXED BY steps_on_others WHERE base_session = :session AND base_number = :number)
    OR EXISTS (
        SELECT 1 FROM sessions f INDEXED BY sessions_forked
        WHERE f.origin_session = :session_id AND f.origin_number = :number
        AND NOT EXISTS (SELECT 1 FROM steps t WHERE t.session = f.key AND t.number = 0)
    )

-- name: checkpoint_place
SELECT s.key, t.depth, s.origin_session, s.origin_number
FROM sessions s LEFT JOIN steps t ON t.session = s.key AND t.number = ? WHERE s.id = ?

-- name: rebase
UPDATE steps SET base_session = ?, base_number = ?, sealed = ? WHERE session = ? AND number = ? AND depth IS NOT NULL

-- A fork's beginning becomes its own: all but base and image is that of the checkpoint which it was forked from.
-- name: insert_beginning
INSERT INTO steps (
    session, number, parent, execution_id, created_at, first_seq, last_seq, base_session, base_number, depth, wake_at, open, sealed
)
SELECT :fork, 0, 0, execution_id, created_at, 1, 0, :base_session, :base_number, depth, wake_at, open, :sealed
FROM steps WHERE session = :session AND number = :number AND depth IS NOT NULL


-- ---- closing a session that cannot be read

-- name: close_damaged
UPDATE sessions SET
    state = :state, closed_at = iif(:state = 'closed', :at, NULL), updated_at = :at, wake_at = NULL, owner = NULL, token = 0,
    execution_id = NULL,
    version = CASE WHEN typeof(version) = 'integer' AND version BETWEEN 0 AND 1 << 61 THEN version + 1 ELSE 1 END,
    fence = CASE WHEN typeof(fence) = 'integer' AND fence BETWEEN 0 AND 1 << 61 THEN fence + 1 ELSE 1 END
WHERE key = :key

-- name: end_damaged
UPDATE executions SET status = 'error', ended_at = :at, result = NULL, error = :error
WHERE session = :session AND status NOT IN ('ok', 'error', 'timeout', 'cancelled')

-- name: cancel_damaged
UPDATE queries SET state = 'cancelled', closed_at = ? WHERE place >= ? AND place < ? AND state = 'open'


-- ---- deleting a session

-- name: has_dependents
SELECT EXISTS (SELECT 1 FROM steps INDEXED BY steps_on_others WHERE base_session = :session)
    OR EXISTS (
        SELECT 1 FROM sessions f INDEXED BY sessions_forked
        WHERE f.origin_session = :session_id AND (f.origin_number > 0 OR :has_beginning)
        AND NOT EXISTS (SELECT 1 FROM steps t WHERE t.session = f.key AND t.number = 0)
    )

-- name: delete_queries
DELETE FROM queries WHERE place > ? AND place < ?

-- The greatest key of a step is never used again, since whoever follows the feed goes on after it: its row stays, with nothing in it,
-- until there is a greater one.
-- name: keep_last_key
UPDATE steps SET
    session = NULL, number = 0, parent = 0, execution_id = x'', created_at = 0, first_seq = 1, last_seq = 0, base_session = NULL,
    base_number = NULL, depth = NULL, wake_at = NULL, open = NULL, events = NULL, sealed = NULL
WHERE key = (SELECT max(key) FROM steps) AND session = ?

-- name: drop_old_keys
DELETE FROM steps WHERE session IS NULL AND key < (SELECT max(key) FROM steps)

-- name: delete_session
DELETE FROM sessions WHERE key = ?

-- name: resolve_error
UPDATE errors SET resolved_at = ? WHERE session = (SELECT key FROM sessions WHERE id = ?) AND id = ?


-- ---- templates

-- name: insert_template
INSERT INTO templates (id, name, latest, created_at, updated_at, tenant) VALUES (?, ?, ?, ?, ?, ?)

-- Nothing is inserted if the baked memory is gone. A guest stays, once it was put.
-- name: insert_version
INSERT INTO template_versions (template, number, spec, guest, baked, created_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6
WHERE EXISTS (SELECT 1 FROM blobs WHERE digest = ?5) OR NOT EXISTS (SELECT 1 FROM blobs WHERE digest = ?4)

-- name: update_template
UPDATE templates SET latest = ?, updated_at = ? WHERE id = ? AND latest = ?

-- name: rename_template
UPDATE templates SET name = ?, updated_at = ? WHERE id = ?

-- name: delete_template
DELETE FROM templates WHERE id = ?

-- name: baked_of_template
SELECT DISTINCT v.baked FROM templates t JOIN template_versions v ON v.template = t.key WHERE t.id = ?

-- name: drop_baked
DELETE FROM blobs WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM template_versions WHERE baked = ?1)

-- name: drop_versions
DELETE FROM template_versions WHERE key IN (
    SELECT v.key FROM template_versions v JOIN templates t ON t.key = v.template
    WHERE v.number <= t.latest - max(coalesce(:keep, 1), 1) AND (:before IS NULL OR v.created_at < :before)
    AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.template_id = t.id AND s.template_version = v.number)
)
RETURNING baked

-- name: put_blob
INSERT OR IGNORE INTO blobs (digest, data) VALUES (?, ?)


-- ---- the rest

-- name: put_secret
INSERT OR IGNORE INTO secrets (name, value) VALUES (?, ?)

-- name: get_secret
SELECT value FROM secrets WHERE name = ?

-- name: charge
INSERT INTO usage (scope, member, hour, cpu_us, steps, events, bytes, sessions) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, member, hour) DO UPDATE SET
    cpu_us = cpu_us + excluded.cpu_us, steps = steps + excluded.steps, events = events + excluded.events,
    bytes = bytes + excluded.bytes, sessions = sessions + excluded.sessions

-- name: drop_scope
DELETE FROM usage WHERE scope = ?

-- name: drop_usage
DELETE FROM usage WHERE hour > 0 AND hour < ?

-- name: put_reply
INSERT OR IGNORE INTO replies (name, request, outcome, created_at) VALUES (?, ?, ?, ?)

-- name: drop_replies
DELETE FROM replies WHERE created_at < ?

-- name: beat
INSERT INTO nodes (node, expires_at) VALUES (?, ?) ON CONFLICT (node) DO UPDATE SET expires_at = excluded.expires_at

-- name: forget_nodes
DELETE FROM nodes WHERE expires_at < ?

-- name: retire
DELETE FROM nodes WHERE node = ?

-- name: create_document
INSERT OR IGNORE INTO documents (id, version, data) VALUES (?, 1, ?)

-- name: update_document
UPDATE documents SET version = version + 1, data = ? WHERE id = ? AND (version = ? OR ? IS NULL)

-- name: document_version
SELECT version FROM documents WHERE id = ?

-- name: delete_document
DELETE FROM documents WHERE id = ?
