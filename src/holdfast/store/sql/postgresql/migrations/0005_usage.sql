-- What sessions use over time: of each session as JSON (Usage.as_row), and of tenants, tokens and families of forks by the hour.
-- Hour 0 has what is stored now, and CPU time and steps in total. Each process adds to rows of a shard of its own, so that two of them
-- that serve the same tenant do not wait for each other.

ALTER TABLE sessions ADD COLUMN usage text;

CREATE TABLE usage (
    scope text NOT NULL,
    member text NOT NULL,
    hour bigint NOT NULL,
    shard bigint NOT NULL,
    cpu_us bigint NOT NULL,
    steps bigint NOT NULL,
    events bigint NOT NULL,
    bytes bigint NOT NULL,
    sessions bigint NOT NULL,
    PRIMARY KEY (scope, hour, member, shard)
);

-- What was stored before is counted once, so that deleting it gives it back.
UPDATE sessions SET usage = (
    SELECT json_build_array(
        0, count(*), coalesce(sum(t.last_seq - t.first_seq + 1), 0),
        coalesce(sum(coalesce(length(t.events), 0) + coalesce(length(t.sealed), 0)), 0), 0, 0, 0, 0, 0, 0, 0, 0, 0,
        coalesce(sum(t.last_seq - t.first_seq + 1), 0),
        coalesce(sum(coalesce(length(t.events), 0) + coalesce(length(t.sealed), 0)), 0), NULL
    )::text
    FROM steps AS t WHERE t.session = sessions.key
);
INSERT INTO usage (scope, member, hour, shard, cpu_us, steps, events, bytes, sessions)
SELECT 'tenant/' || tenant, created_by, 0, 0, 0, sum((usage::json ->> 1)::bigint), sum((usage::json ->> 13)::bigint),
    sum((usage::json ->> 14)::bigint), count(*)
FROM sessions GROUP BY tenant, created_by;
