-- name: get_execution
SELECT s.id, {execution_columns}
FROM executions AS e JOIN sessions AS s ON s.key = e.session
WHERE e.id = %s

-- name: list_executions
SELECT e.key, s.id, {execution_columns}
FROM executions AS e JOIN sessions AS s ON s.key = e.session
WHERE e.key < %(after)s
    AND (%(session_id)s::uuid IS NULL OR e.session = (SELECT key FROM sessions WHERE id = %(session_id)s::uuid))
    AND (%(statuses)s::text[] IS NULL OR e.status = ANY(%(statuses)s::text[]))
    AND (%(kinds)s::text[] IS NULL OR e.kind = ANY(%(kinds)s::text[]))
    AND (%(strategy)s::text IS NULL OR e.strategy = %(strategy)s::text)
    AND NOT (%(roots)s AND s.branch_of IS NOT NULL)
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
ORDER BY e.key DESC LIMIT %(limit)s

-- name: strategy_figures
-- Where the counters are in `metrics` is said by Metrics.as_row. Names are sorted by code points. A row that is damaged does not count:
-- CASE keeps the cast from it.
SELECT e.strategy, count(*), sum((e.m ->> 0)::bigint), sum((e.m ->> 7)::bigint), sum((e.m ->> 5)::bigint), sum((e.m ->> 8)::bigint),
    sum((e.m ->> 9)::bigint), sum((e.m ->> 13)::bigint), sum((e.m ->> 15)::bigint)
FROM (
    SELECT strategy, session,
        CASE WHEN metrics ~ '^\[(-?\d{1,15}, ?){14}"[^"]*", ?-?\d{1,15}, ?"[^"]*"\]$' THEN metrics::json END AS m
    FROM executions
    WHERE strategy IS NOT NULL AND started_at >= %(since)s AND status NOT IN ('running', 'paused')
) AS e
JOIN sessions AS s ON s.key = e.session
WHERE s.branch_of IS NULL AND e.m IS NOT NULL AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
GROUP BY e.strategy ORDER BY e.strategy COLLATE "C"

-- name: list_events
-- The steps in which they are: each has one at least. Both seq and number go up within an execution. So where to begin is found by
-- halves, and not by reading all that came before. Between its steps may be some of others: what counts is the first of its own at or
-- after the middle.
WITH RECURSIVE half (session, low, high) AS (
    SELECT session, first_step, last_step FROM executions WHERE id = %(id)s
    UNION ALL
    SELECT h.session, CASE WHEN m.is_before THEN m.middle + 1 ELSE h.low END, CASE WHEN m.is_before THEN h.high ELSE m.middle END
    FROM half AS h
    CROSS JOIN LATERAL (
        SELECT (h.low + h.high) / 2 AS middle, coalesce((
            SELECT t.last_seq FROM steps AS t
            WHERE t.session = h.session AND t.number BETWEEN (h.low + h.high) / 2 AND h.high AND t.execution_id = %(id)s
            ORDER BY t.number LIMIT 1
        ) <= %(after)s, false) AS is_before
        OFFSET 0
    ) AS m
    WHERE h.low < h.high AND %(after)s > 0
)
SELECT first_seq, events FROM (
    SELECT number, first_seq, events,
        sum(octet_length(events)) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) - octet_length(events) AS before
    FROM steps
    WHERE session = (SELECT session FROM executions WHERE id = %(id)s)
        AND number BETWEEN (SELECT max(low) FROM half) AND (SELECT last_step FROM executions WHERE id = %(id)s)
        AND execution_id = %(id)s AND last_seq > %(after)s AND events IS NOT NULL
    ORDER BY number LIMIT %(limit)s
) AS t
WHERE %(bytes)s::bigint IS NULL OR before < %(bytes)s::bigint
ORDER BY number

-- name: step_events
SELECT first_seq, events FROM steps WHERE session = (SELECT key FROM sessions WHERE id = %s) AND number = %s

-- name: has_execution
SELECT 1 FROM executions WHERE id = %s

-- name: get_query
SELECT {query_columns}
FROM queries AS q
WHERE q.session = (SELECT key FROM sessions WHERE id = %s) AND q.number = %s

-- name: list_queries
SELECT s.id, q.session, {query_columns}
FROM queries AS q JOIN sessions AS s ON s.key = q.session
WHERE (q.asked_at, q.session, q.number) > (%(after_time)s::bigint, %(after_session)s::bigint, %(after_number)s::bigint)
    AND (%(states)s::text[] IS NULL OR q.state = ANY(%(states)s::text[]))
    AND (%(kinds)s::text[] IS NULL OR q.kind = ANY(%(kinds)s::text[]))
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
ORDER BY q.asked_at, q.session, q.number LIMIT %(limit)s

-- name: list_open_queries
-- As above, for the inbox: the index on what is open has them in order.
SELECT s.id, q.session, {query_columns}
FROM queries AS q JOIN sessions AS s ON s.key = q.session
WHERE (q.asked_at, q.session, q.number) > (%(after_time)s::bigint, %(after_session)s::bigint, %(after_number)s::bigint)
    AND q.state = 'open'
    AND (%(kinds)s::text[] IS NULL OR q.kind = ANY(%(kinds)s::text[]))
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
ORDER BY q.asked_at, q.session, q.number LIMIT %(limit)s

-- name: list_open_queries_of_session
-- Of those that were answered, of which there may be thousands, none is looked at.
SELECT s.id, q.session, {query_columns}
FROM sessions AS s JOIN queries AS q ON q.session = s.key
WHERE s.key = coalesce(
        (SELECT key FROM sessions WHERE id = %(session_id)s::uuid), (SELECT session FROM executions WHERE id = %(execution_id)s::uuid)
    )
    AND q.number > %(after_number)s::bigint
    AND q.state = 'open'
    AND (%(session_id)s::uuid IS NULL OR s.id = %(session_id)s::uuid)
    AND (%(execution_id)s::uuid IS NULL OR q.execution_id = %(execution_id)s::uuid)
    AND (%(kinds)s::text[] IS NULL OR q.kind = ANY(%(kinds)s::text[]))
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
ORDER BY q.number LIMIT %(limit)s

-- name: list_queries_of_session
SELECT s.id, q.session, {query_columns}
FROM sessions AS s JOIN queries AS q ON q.session = s.key
WHERE s.key = coalesce(
        (SELECT key FROM sessions WHERE id = %(session_id)s::uuid), (SELECT session FROM executions WHERE id = %(execution_id)s::uuid)
    )
    AND q.number > %(after_number)s::bigint
    AND (%(session_id)s::uuid IS NULL OR s.id = %(session_id)s::uuid)
    AND (%(execution_id)s::uuid IS NULL OR q.execution_id = %(execution_id)s::uuid)
    AND (%(states)s::text[] IS NULL OR q.state = ANY(%(states)s::text[]))
    AND (%(kinds)s::text[] IS NULL OR q.kind = ANY(%(kinds)s::text[]))
    AND (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text)
ORDER BY q.number LIMIT %(limit)s

-- name: node_columns
t.number, t.parent, t.execution_id, t.created_at, t.depth,
    CASE WHEN t.base_number IS NOT NULL THEN coalesce(t.base_session, %(id)s) END, t.base_number, length(t.sealed), t.open, t.wake_at

-- name: get_node
SELECT {node_columns} FROM steps AS t
WHERE t.session = (SELECT key FROM sessions WHERE id = %(id)s) AND t.number = %(number)s AND t.number > 0 AND t.depth IS NOT NULL

-- name: list_nodes
SELECT {node_columns} FROM steps AS t
WHERE t.session = (SELECT key FROM sessions WHERE id = %(id)s) AND t.number > 0
ORDER BY t.number

-- name: list_dependents
SELECT s.id, t.number, t.depth, t.base_session, t.base_number, t.sealed
FROM steps AS t JOIN sessions AS s ON s.key = t.session
WHERE t.base_session = %s AND t.depth IS NOT NULL
ORDER BY t.session, t.number

-- name: create_error
INSERT INTO errors (session, id, timestamp, resolved_at, data) VALUES (%s, %s, %s, %s, %s)

-- name: list_errors
SELECT e.key, e.id, e.timestamp, e.resolved_at, e.data
FROM errors AS e
WHERE e.session = (SELECT key FROM sessions WHERE id = %(id)s) AND e.key > %(after)s
ORDER BY e.key LIMIT %(limit)s

-- name: resolve_error
UPDATE errors SET resolved_at = %(at)s
WHERE session = (SELECT key FROM sessions WHERE id = %(session_id)s) AND id = %(id)s
RETURNING key
