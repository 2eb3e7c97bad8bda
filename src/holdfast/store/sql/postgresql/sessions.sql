-- ---- columns, in the order of holdfast.store._rows

-- name: session_columns
s.id, s.template_id, s.created_at, s.origin_session, s.origin_number, s.worktree, s.branch_of, s.branch_query, s.branch,
s.tenant, s.created_by,
s.template_version, s.state, s.updated_at, s.name, s.meta, s.closed_at, s.version, s.fence, s.owner, s.head, s.steps, s.queries, s.execution_id, s.wake_at, s.seed, s.budget,
s.llm_calls, s.tokens, s.last_error, s.usage

-- name: execution_columns
e.id, e.kind, e.started_at, e.first_step, e.strategy, e.given, e.status, e.last_step, e.seq, e.ended_at, e.result, e.error,
e.metrics, e.budget, e.custom

-- name: query_columns
q.number, q.execution_id, q.kind, q.payload, q.asked_at, q.guest_id, q.deadline, q.state, q.started_at, q.closed_at, q.answer

-- name: owner_of_session
SELECT tenant FROM sessions WHERE id = %s

-- name: owner_of_execution
SELECT s.tenant FROM executions AS e JOIN sessions AS s ON s.key = e.session WHERE e.id = %s

-- name: get_session
SELECT {session_columns} FROM sessions AS s WHERE s.id = %s

-- name: load_session
-- With its present execution, and the step under way.
SELECT s.key, s.begun, {session_columns}, {execution_columns}
FROM sessions AS s
LEFT JOIN executions AS e ON e.id = s.execution_id AND e.session = s.key
WHERE s.id = %s

-- name: load_open
SELECT {query_columns} FROM queries AS q WHERE q.session = %s AND q.state = 'open' ORDER BY q.number

-- name: load_effects
SELECT position, data FROM effects WHERE session = %s ORDER BY position

-- name: walk
-- One step of a walk from a checkpoint to its base. Number 0 of a fork is, unless it has a row of its own, where it was forked.
-- OFFSET 0, here and elsewhere: a plan from a time when tables were small must look up steps by session and number.
SELECT p.hop + 1, p.id, p.next_number, t.depth, t.base_session, t.base_number, t.sealed,
    CASE WHEN t.depth IS NULL AND p.next_number = 0 THEN p.origin_session
        WHEN t.base_number IS NOT NULL THEN coalesce(t.base_session, p.id) END,
    CASE WHEN t.depth IS NULL AND p.next_number = 0 THEN p.origin_number ELSE t.base_number END
FROM (
    SELECT w.hop, s.id, s.key, w.next_number, s.origin_session, s.origin_number
    FROM walk AS w JOIN sessions AS s ON s.id = w.next_session
    WHERE w.hop < 1000 -- a damaged base may lead in a circle
    OFFSET 0
) AS p
LEFT JOIN steps AS t ON t.session = p.key AND t.number = p.next_number

-- name: load_chain
-- The version comes along, to be compared with that of the session that was read before.
WITH RECURSIVE walk (hop, id, number, depth, base_session, base_number, sealed, next_session, next_number) AS (
    SELECT 0, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bytea, s.id, s.head FROM sessions AS s WHERE s.id = %(id)s
    UNION ALL
    {walk}
)
SELECT s.version, w.id, w.number, w.depth, w.base_session, w.base_number, w.sealed, w.next_session, w.next_number
FROM sessions AS s
CROSS JOIN walk AS w
WHERE s.id = %(id)s AND w.hop > 0
ORDER BY w.hop

-- name: chain
WITH RECURSIVE walk (hop, id, number, depth, base_session, base_number, sealed, next_session, next_number) AS (
    SELECT 0, NULL::uuid, NULL::bigint, NULL::bigint, NULL::uuid, NULL::bigint, NULL::bytea, %(id)s::uuid, %(number)s::bigint
    UNION ALL
    {walk}
)
SELECT w.id, w.number, w.depth, w.base_session, w.base_number, w.sealed, w.next_session, w.next_number
FROM walk AS w
WHERE w.hop > 0
ORDER BY w.hop

-- name: close_damaged
WITH gone AS (
    UPDATE sessions SET
        state = %(state)s::text, closed_at = CASE WHEN %(state)s::text = 'closed' THEN %(at)s::bigint END, updated_at = %(at)s, wake_at = NULL, owner = NULL, token = 0, begun = NULL,
        execution_id = NULL, version = CASE WHEN version BETWEEN 0 AND 1::bigint << 61 THEN version + 1 ELSE 1 END,
        fence = CASE WHEN fence BETWEEN 0 AND 1::bigint << 61 THEN fence + 1 ELSE 1 END
    WHERE id = %(id)s RETURNING key
), ended AS (
    UPDATE executions SET status = 'error', ended_at = %(at)s, result = NULL, error = %(error)s
    WHERE session IN (SELECT key FROM gone) AND status NOT IN ('ok', 'error', 'timeout', 'cancelled')
), cancelled AS (
    UPDATE queries SET state = 'cancelled', closed_at = %(at)s WHERE session IN (SELECT key FROM gone) AND state = 'open'
), cut AS (
    DELETE FROM effects WHERE session IN (SELECT key FROM gone)
)
SELECT key FROM gone

-- ---- many

-- name: list_sessions
SELECT s.key, {session_columns}
FROM sessions AS s
WHERE s.key < %(after)s
    AND (%(states)s::text[] IS NULL OR s.state = ANY(%(states)s::text[]))
    AND (%(template_id)s::uuid IS NULL OR s.template_id = %(template_id)s::uuid)
    AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
    AND (%(idle_before)s::bigint IS NULL OR s.updated_at < %(idle_before)s::bigint)
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
ORDER BY s.key DESC LIMIT %(limit)s

-- name: list_forks
SELECT {session_columns} FROM sessions AS s WHERE s.origin_session = %s ORDER BY s.key

-- name: count_sessions
SELECT s.state, count(*) FROM sessions AS s WHERE (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text) GROUP BY s.state

-- name: list_interrupted
SELECT s.id FROM sessions AS s
WHERE s.state IN ('starting', 'running') AND NOT EXISTS (
    SELECT FROM nodes AS n WHERE n.id = s.owner AND n.until > {milliseconds} AND n.until <= {milliseconds} + {longest_lease}
)
ORDER BY s.key LIMIT %s

-- name: list_orphans
SELECT {session_columns} FROM sessions AS s
WHERE s.branch_of IS NOT NULL AND s.state IN ('running', 'paused') AND NOT EXISTS (
    SELECT FROM sessions AS p JOIN queries AS q ON q.session = p.key
    WHERE p.id = s.branch_of AND q.number = s.branch_query AND q.state = 'open'
)
ORDER BY s.key LIMIT %s

-- name: list_due
SELECT wake_at, id FROM sessions
WHERE state = 'paused' AND wake_at IS NOT NULL AND wake_at <= %s
ORDER BY wake_at, key LIMIT %s

-- ---- what is rare in a commit

-- name: new_session
-- Only what never changes is real: the commit that follows in the same transaction writes the rest.
INSERT INTO sessions (
    id, template_id, created_at, origin_session, origin_number, worktree, branch_of, branch_query, branch, tenant, created_by,
    template_version, state, updated_at, version, fence, head, steps, queries, llm_calls, tokens, token
)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 0, 'starting', 0, -1, %s, 0, 0, 0, 0, 0, 0)
ON CONFLICT (id) DO NOTHING

-- name: standing
-- What those sessions bear now whose commits did not apply.
SELECT id, fence, token FROM sessions WHERE id = ANY(%s)

-- name: hold_session
-- Whoever changes it, or prunes what it has, waits until this transaction is over.
SELECT key, origin_session, origin_number FROM sessions WHERE id = %s FOR SHARE

-- name: has_checkpoint
SELECT 1 FROM steps WHERE session = %s AND number = %s AND depth IS NOT NULL

-- name: prune
UPDATE steps SET depth = NULL, wake_at = NULL, open = NULL, sealed = NULL, base_session = NULL, base_number = NULL
WHERE session = %s AND number = ANY(%s)

-- name: is_needed
-- Whether one of these checkpoints is what one of another session, or the beginning of a fork, is made from.
SELECT EXISTS (SELECT FROM steps WHERE base_session = %(id)s AND base_number = ANY(%(numbers)s))
    OR EXISTS (
        SELECT FROM sessions AS f
        WHERE f.origin_session = %(id)s AND f.origin_number = ANY(%(numbers)s)
            AND NOT EXISTS (SELECT FROM steps AS t WHERE t.session = f.key AND t.number = 0)
    )

-- name: rebase
UPDATE steps SET base_session = %(base_session)s, base_number = %(base_number)s, sealed = %(sealed)s
WHERE session = %(session)s AND number = %(number)s

-- name: create_beginning
-- A fork's beginning becomes its own: all but base and image is that of the checkpoint which it was forked from.
INSERT INTO steps (
    session, number, parent, execution_id, created_at, first_seq, last_seq, depth, wake_at, open, sealed, base_session, base_number
)
SELECT %(session)s, 0, 0, execution_id, created_at, 1, 0, depth, wake_at, open, %(sealed)s, %(base_session)s::uuid,
    %(base_number)s::bigint
FROM steps WHERE session = %(origin)s AND number = %(origin_number)s

-- ---- deleting a session

-- name: lock_session
SELECT key FROM sessions WHERE id = %s FOR UPDATE

-- name: has_dependents
SELECT EXISTS (SELECT FROM steps WHERE base_session = %(id)s)
    OR EXISTS (
        SELECT FROM sessions AS f
        WHERE f.origin_session = %(id)s AND (f.origin_number > 0 OR %(has_beginning)s)
            AND NOT EXISTS (SELECT FROM steps AS t WHERE t.session = f.key AND t.number = 0)
    )

-- name: delete_session
WITH s AS (DELETE FROM sessions WHERE key = %(key)s),
    t AS (DELETE FROM steps WHERE session = %(key)s),
    e AS (DELETE FROM executions WHERE session = %(key)s),
    q AS (DELETE FROM queries WHERE session = %(key)s),
    f AS (DELETE FROM effects WHERE session = %(key)s)
DELETE FROM errors WHERE session = %(key)s
