-- ---- columns, in the order of holdfast.store._rows

-- name: session_columns
s.id, s.template_id, s.created_at, s.origin_session, s.origin_number, s.worktree, s.branch_of, s.branch_query, s.branch,
s.tenant, s.created_by,
s.template_version, s.state, s.updated_at, s.name, s.meta, s.closed_at, s.version, s.fence, s.owner, s.head, s.steps, s.queries,
s.execution_id, s.wake_at, s.seed, s.budget, s.llm_calls, s.tokens, s.last_error, s.usage

-- name: execution_columns
e.id, e.kind, e.started_at, e.first_step, e.strategy, i.data, e.status, e.last_step, e.seq, e.ended_at, e.result, e.error, e.metrics,
e.budget, e.custom

-- name: query_columns
q.place & 0xfffffff, q.execution_id, q.kind, q.payload, q.asked_at, q.guest_id, q.deadline, q.state, q.started_at, q.closed_at, q.answer

-- name: node_columns
t.number, t.parent, t.execution_id, t.created_at, t.depth,
iif(t.base_number IS NULL, NULL, coalesce(b.id, s.id)), t.base_number, length(t.sealed), t.open, t.wake_at

-- name: link_columns
s.id, t.number, t.depth, iif(t.base_number IS NULL, NULL, coalesce(b.id, s.id)), t.base_number, t.sealed

-- name: template_columns
t.id, t.name, t.latest, t.created_at, t.updated_at, t.tenant

-- name: version_columns
v.number, v.spec, v.guest, v.baked, v.created_at


-- ---- templates

-- name: template_by_id
SELECT t.key, {template_columns} FROM templates t WHERE t.id = :id AND (:tenant IS NULL OR t.tenant = :tenant)

-- name: template_by_name
SELECT t.key, {template_columns} FROM templates t WHERE t.tenant = coalesce(:tenant, 'default') AND t.name = :name

-- name: list_templates
SELECT t.key, {template_columns} FROM templates t
WHERE t.key < :after AND (:tenant IS NULL OR t.tenant = :tenant) ORDER BY t.key DESC LIMIT :limit

-- name: get_version
SELECT {version_columns} FROM templates t JOIN template_versions v ON v.template = t.key WHERE t.id = ? AND v.number = ?

-- name: list_versions
SELECT {version_columns} FROM templates t JOIN template_versions v ON v.template = t.key
WHERE t.id = ? AND v.number < ? ORDER BY v.number DESC LIMIT ?

-- name: get_blob
SELECT data FROM blobs WHERE digest = ?


-- ---- sessions

-- name: owner_of_session
SELECT tenant FROM sessions WHERE id = ?

-- name: owner_of_execution
SELECT s.tenant FROM executions e JOIN sessions s ON s.key = e.session WHERE e.id = ?

-- name: get_session
SELECT {session_columns} FROM sessions s WHERE s.id = ?

-- name: load_session
SELECT s.key, b.data, {session_columns}, {execution_columns}
FROM sessions s
LEFT JOIN journal b ON b.place = s.key << 28
LEFT JOIN executions e ON e.id = s.execution_id AND e.session = s.key
LEFT JOIN inputs i ON i.execution = e.key
WHERE s.id = ?

-- name: load_effects
SELECT place, data FROM journal WHERE place > ? AND place < ? ORDER BY place

-- name: load_open
SELECT {query_columns} FROM queries q INDEXED BY queries_open WHERE q.place > ? AND q.place < ? AND q.state = 'open' ORDER BY q.place

-- name: list_sessions
SELECT s.key, {session_columns} FROM sessions s
WHERE s.key < :after
AND (:states = '' OR instr(:states, ',' || s.state || ','))
AND (:name IS NULL OR s.name = :name)
AND (:idle_before IS NULL OR s.updated_at < :idle_before)
ORDER BY s.key DESC LIMIT :limit

-- name: list_sessions_of_tenant
SELECT s.key, {session_columns} FROM sessions s INDEXED BY sessions_of_tenant
WHERE s.tenant = :tenant AND s.key < :after
AND (:states = '' OR instr(:states, ',' || s.state || ','))
AND (:name IS NULL OR s.name = :name)
AND (:idle_before IS NULL OR s.updated_at < :idle_before)
ORDER BY s.key DESC LIMIT :limit

-- name: list_sessions_of_template
SELECT s.key, {session_columns} FROM sessions s INDEXED BY sessions_of_template
WHERE s.template_id = :template_id AND s.key < :after AND (:tenant IS NULL OR s.tenant = :tenant)
AND (:states = '' OR instr(:states, ',' || s.state || ','))
AND (:name IS NULL OR s.name = :name)
AND (:idle_before IS NULL OR s.updated_at < :idle_before)
ORDER BY s.key DESC LIMIT :limit

-- In the order of SessionState. GROUP BY would sort them all.
-- name: count_sessions
SELECT total(state = 'starting'), total(state = 'ready'), total(state = 'running'),
    total(state = 'paused'), total(state = 'crashed'), total(state = 'closed')
FROM sessions WHERE :tenant IS NULL OR tenant = :tenant

-- name: list_forks
SELECT {session_columns} FROM sessions s INDEXED BY sessions_forked WHERE s.origin_session = ? ORDER BY s.key


-- ---- executions and events

-- name: get_execution
SELECT s.id, {execution_columns} FROM executions e JOIN inputs i ON i.execution = e.key JOIN sessions s ON s.key = e.session WHERE e.id = ?

-- name: list_executions
SELECT e.key, s.id, {execution_columns}
FROM executions e JOIN inputs i ON i.execution = e.key JOIN sessions s ON s.key = e.session
WHERE e.key < :after AND (:statuses = '' OR instr(:statuses, ',' || e.status || ','))
AND (:kinds = '' OR instr(:kinds, ',' || e.kind || ',')) AND (:strategy IS NULL OR e.strategy = :strategy)
AND (NOT :roots OR s.branch_of IS NULL) AND (:tenant IS NULL OR s.tenant = :tenant)
ORDER BY e.key DESC LIMIT :limit

-- name: list_executions_of_session
SELECT e.key, s.id, {execution_columns}
FROM sessions s JOIN executions e INDEXED BY executions_of_session ON e.session = s.key JOIN inputs i ON i.execution = e.key
WHERE s.id = :session_id AND e.key < :after AND (:statuses = '' OR instr(:statuses, ',' || e.status || ','))
AND (:kinds = '' OR instr(:kinds, ',' || e.kind || ',')) AND (:strategy IS NULL OR e.strategy = :strategy)
AND (NOT :roots OR s.branch_of IS NULL) AND (:tenant IS NULL OR s.tenant = :tenant)
ORDER BY e.key DESC LIMIT :limit

-- Where the counters are in `metrics` is said by Metrics.as_row. A row that is damaged does not count.
-- name: strategy_figures
SELECT e.strategy, count(*),
    sum(json_extract(e.metrics, '$[0]')), sum(json_extract(e.metrics, '$[7]')), sum(json_extract(e.metrics, '$[5]')),
    sum(json_extract(e.metrics, '$[8]')), sum(json_extract(e.metrics, '$[9]')),
    sum(json_extract(e.metrics, '$[13]')), sum(json_extract(e.metrics, '$[15]'))
FROM executions e INDEXED BY executions_strategies JOIN sessions s ON s.key = e.session
WHERE e.strategy IS NOT NULL AND CASE WHEN json_valid(e.metrics) THEN json_array_length(e.metrics) = 17 END
AND e.started_at >= :since AND e.status NOT IN ('running', 'paused') AND s.branch_of IS NULL
AND (:tenant IS NULL OR s.tenant = :tenant)
GROUP BY e.strategy ORDER BY e.strategy

-- name: execution_place
SELECT session, first_step, last_step FROM executions WHERE id = ?

-- Both seq and number go up within an execution. So how many steps to leave out is found by halves, from a power of two downwards, and
-- not by reading all of them. Between its steps may be some of others: what counts is the first of its own at or after the number.
-- name: list_events
WITH RECURSIVE known (number, more) AS (
    SELECT :first - 1, :most
    UNION ALL
    SELECT known.number + iif((
        SELECT t.last_seq FROM steps t
        WHERE t.session = :session AND t.number BETWEEN known.number + known.more AND :last AND t.execution_id = :execution_id
        ORDER BY t.number LIMIT 1
    ) <= :after_seq, known.more, 0), known.more / 2
    FROM known WHERE known.more > 0
)
SELECT first_seq, events FROM steps
WHERE session = :session AND number > (SELECT max(number) FROM known) AND number <= :last
AND execution_id = :execution_id AND last_seq > :after_seq AND events IS NOT NULL ORDER BY number

-- name: step_events
SELECT t.first_seq, t.events FROM sessions s JOIN steps t ON t.session = s.key WHERE s.id = ? AND t.number = ?


-- ---- the feed of steps. Number 0 is no step, and what is left of a deleted session has none that it belongs to

-- name: list_steps
SELECT t.key, :tenant IS NULL OR s.tenant = :tenant, s.id, t.execution_id, t.number, t.first_seq,
    iif(:tenant IS NULL OR s.tenant = :tenant, t.events, NULL)
FROM steps t CROSS JOIN sessions s ON s.key = t.session
WHERE t.key > :after AND t.number > 0 ORDER BY t.key LIMIT :limit

-- name: list_steps_of_session
SELECT execution_id, number, first_seq, events FROM steps
WHERE session = ? AND number > max(?, 0) ORDER BY number LIMIT ?

-- name: last_key
SELECT coalesce(max(key), 0) FROM steps

-- name: last_number
SELECT coalesce(max(number), 0) FROM steps WHERE session = ?


-- ---- queries

-- name: get_query
SELECT {query_columns} FROM sessions s JOIN queries q ON q.place = s.key << 28 | ? WHERE s.id = ?

-- name: list_queries_of_session
SELECT s.id, q.place, {query_columns} FROM sessions s JOIN queries q ON q.place > max(s.key << 28, :after) AND q.place < (s.key + 1) << 28
WHERE s.key = :session AND (:tenant IS NULL OR s.tenant = :tenant)
AND (:execution_id IS NULL OR q.execution_id = :execution_id)
AND (:states = '' OR instr(:states, ',' || q.state || ','))
AND (:kinds = '' OR instr(:kinds, ',' || q.kind || ','))
ORDER BY q.place LIMIT :limit

-- Of those that were answered, of which there may be thousands, none is looked at.
-- name: list_open_queries_of_session
SELECT s.id, q.place, {query_columns}
FROM sessions s JOIN queries q INDEXED BY queries_open ON q.place > max(s.key << 28, :after) AND q.place < (s.key + 1) << 28
WHERE s.key = :session AND (:tenant IS NULL OR s.tenant = :tenant) AND q.state = 'open'
AND (:execution_id IS NULL OR q.execution_id = :execution_id)
AND (:kinds = '' OR instr(:kinds, ',' || q.kind || ','))
ORDER BY q.place LIMIT :limit

-- name: list_queries
SELECT s.id, q.place, {query_columns}
FROM (
    SELECT place, asked_at FROM queries
    WHERE (asked_at, place) > (:after_time, :after)
    AND (:states = '' OR instr(:states, ',' || state || ','))
    AND (:kinds = '' OR instr(:kinds, ',' || kind || ','))
    AND (:tenant IS NULL OR (SELECT o.tenant FROM sessions o WHERE o.key = place >> 28) = :tenant)
    ORDER BY asked_at, place LIMIT :limit
) found
JOIN queries q ON q.place = found.place
JOIN sessions s ON s.key = found.place >> 28
ORDER BY found.asked_at, found.place

-- The index has all that is needed to find them: the rows are read only for one page.
-- name: list_open_queries
SELECT s.id, q.place, {query_columns}
FROM (
    SELECT place, asked_at FROM queries INDEXED BY queries_open
    WHERE state = 'open' AND (asked_at, place) > (:after_time, :after)
    AND (:kinds = '' OR instr(:kinds, ',' || kind || ','))
    AND (:tenant IS NULL OR (SELECT o.tenant FROM sessions o WHERE o.key = place >> 28) = :tenant)
    ORDER BY asked_at, place LIMIT :limit
) found
JOIN queries q ON q.place = found.place
JOIN sessions s ON s.key = found.place >> 28
ORDER BY found.asked_at, found.place


-- ---- checkpoints

-- name: chain
WITH RECURSIVE walk (key, session, base, place) AS (
    SELECT t.key, coalesce(t.base_session, t.session), t.base_number, 0 FROM steps t
    WHERE t.session = ? AND t.number = ? AND t.depth IS NOT NULL
    UNION ALL
    SELECT t.key, coalesce(t.base_session, t.session), t.base_number, walk.place + 1
    FROM walk JOIN steps t ON t.session = walk.session AND t.number = walk.base
    WHERE t.depth IS NOT NULL AND walk.place < 1000 -- a damaged base may lead in a circle
)
SELECT {link_columns}
FROM walk JOIN steps t ON t.key = walk.key JOIN sessions s ON s.key = t.session LEFT JOIN sessions b ON b.key = t.base_session
ORDER BY walk.place

-- name: session_key
SELECT key, origin_session, origin_number FROM sessions WHERE id = ?

-- name: get_node
SELECT {node_columns} FROM sessions s JOIN steps t ON t.session = s.key LEFT JOIN sessions b ON b.key = t.base_session
WHERE s.id = ? AND t.number = ? AND t.number > 0 AND t.depth IS NOT NULL

-- name: list_nodes
SELECT {node_columns} FROM sessions s JOIN steps t ON t.session = s.key LEFT JOIN sessions b ON b.key = t.base_session
WHERE s.id = ? AND t.number > 0 ORDER BY t.number

-- name: list_dependents
SELECT {link_columns}
FROM sessions b JOIN steps t INDEXED BY steps_on_others ON t.base_session = b.key JOIN sessions s ON s.key = t.session
WHERE b.id = ? AND t.depth IS NOT NULL ORDER BY t.session, t.number


-- ---- the rest

-- name: list_errors
SELECT e.key, e.id, e.timestamp, e.resolved_at, e.data
FROM sessions s JOIN errors e INDEXED BY errors_of_session ON e.session = s.key
WHERE s.id = ? AND e.key > ? ORDER BY e.key LIMIT ?

-- name: read_usage
SELECT member, hour, cpu_us, steps, events, bytes, sessions FROM usage WHERE scope = ? AND hour IN (0, ?)

-- name: count_running
SELECT created_by, count(*) FROM sessions INDEXED BY sessions_busy
WHERE state IN ('starting', 'running') AND tenant = ? AND owner IS NOT ? GROUP BY created_by

-- name: get_reply
SELECT name, request, outcome, created_at FROM replies WHERE name = ?

-- name: is_alive
SELECT 1 FROM nodes WHERE node = ? AND expires_at BETWEEN ? AND ?

-- name: list_leases
SELECT node FROM nodes WHERE expires_at BETWEEN ? AND ?

-- name: list_interrupted
SELECT s.id FROM sessions s INDEXED BY sessions_busy LEFT JOIN nodes n ON n.node = s.owner AND n.expires_at BETWEEN ? AND ?
WHERE s.state IN ('starting', 'running') AND n.node IS NULL ORDER BY s.key LIMIT ?

-- name: list_orphans
SELECT {session_columns} FROM sessions s INDEXED BY sessions_branches
LEFT JOIN sessions p ON p.id = s.branch_of
LEFT JOIN queries q ON q.place = p.key << 28 | s.branch_query AND q.state = 'open'
WHERE s.branch_of IS NOT NULL AND s.state IN ('running', 'paused') AND q.place IS NULL ORDER BY s.key LIMIT ?

-- name: list_due
SELECT wake_at, id FROM sessions INDEXED BY sessions_waking
WHERE state = 'paused' AND wake_at IS NOT NULL AND wake_at <= ? ORDER BY wake_at, key LIMIT ?

-- name: get_document
SELECT version, data FROM documents WHERE id = ?

-- name: list_documents
SELECT id FROM documents ORDER BY key
