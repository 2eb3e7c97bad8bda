-- Number 0 is no step, but the beginning of a fork. With `bytes`, a page ends with the step by which its events have as many; the length of
-- a text is known without reading it.

-- name: list_steps
SELECT t.xid::text::bigint, t.session, (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text), s.id, t.execution_id, t.number, t.first_seq,
    CASE WHEN (%(tenant)s::text IS NULL OR s.tenant = %(tenant)s::text) THEN t.events END
FROM (
    SELECT xid, session, execution_id, number, first_seq, events,
        sum(coalesce(octet_length(events), 0)) OVER (ORDER BY xid, session, number ROWS UNBOUNDED PRECEDING)
            - coalesce(octet_length(events), 0) AS before
    FROM steps
    WHERE (xid, session, number) > (%(xid)s::xid8, %(session)s::bigint, %(number)s::bigint)
        AND xid < pg_snapshot_xmin(pg_current_snapshot())
        AND number > 0
        AND NOT coalesce(pg_visible_in_snapshot(xid, %(snapshot)s::pg_snapshot), false)
    ORDER BY xid, session, number LIMIT %(limit)s
) AS t
JOIN sessions AS s ON s.key = t.session
WHERE %(bytes)s::bigint IS NULL OR t.before < %(bytes)s::bigint
ORDER BY t.xid, t.session, t.number

-- name: list_steps_of_session
SELECT execution_id, number, first_seq, events FROM (
    SELECT execution_id, number, first_seq, events,
        sum(coalesce(octet_length(events), 0)) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING)
            - coalesce(octet_length(events), 0) AS before
    FROM steps
    WHERE session = (SELECT key FROM sessions WHERE id = %(id)s) AND number > %(after)s
    ORDER BY number LIMIT %(limit)s
) AS t
WHERE %(bytes)s::bigint IS NULL OR before < %(bytes)s::bigint
ORDER BY number

-- name: last_number
SELECT coalesce((SELECT max(t.number) FROM steps AS t WHERE t.session = s.key), 0) FROM sessions AS s WHERE s.id = %s

-- name: snapshot
SELECT pg_current_snapshot()::text

-- name: next_xid
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint

-- name: has_foreign_xids
-- A store that was restored from a dump has the numbers of another server's transactions. If they are greater than any of this one, they
-- would come after all that is committed from now on.
SELECT 1 FROM steps WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) LIMIT 1

-- name: settle_xids
-- So they come first, the steps of each session in their order.
UPDATE steps SET xid = '1' WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())
