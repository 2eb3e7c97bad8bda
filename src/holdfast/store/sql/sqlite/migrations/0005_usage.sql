-- What sessions use over time: of each session as JSON (Usage.as_row), and of tenants, tokens and families of forks by the hour.
-- Hour 0 has what is stored now, and CPU time and steps in total.

ALTER TABLE sessions ADD COLUMN usage TEXT;

CREATE TABLE usage (
    scope TEXT NOT NULL,
    member TEXT NOT NULL,
    hour INTEGER NOT NULL,
    cpu_us INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sessions INTEGER NOT NULL,
    PRIMARY KEY (scope, member, hour)
) WITHOUT ROWID;

-- What was stored before is counted once, so that deleting it gives it back.
UPDATE sessions SET usage = (
    SELECT json_array(
        0, count(*), coalesce(sum(t.last_seq - t.first_seq + 1), 0),
        coalesce(sum(coalesce(length(t.events), 0) + coalesce(length(t.sealed), 0)), 0), 0, 0, 0, 0, 0, 0, 0, 0, 0,
        coalesce(sum(t.last_seq - t.first_seq + 1), 0),
        coalesce(sum(coalesce(length(t.events), 0) + coalesce(length(t.sealed), 0)), 0), NULL
    )
    FROM steps t WHERE t.session = sessions.key
);
INSERT INTO usage (scope, member, hour, cpu_us, steps, events, bytes, sessions)
SELECT 'tenant/' || tenant, created_by, 0, 0, sum(json_extract(usage, '$[1]')), sum(json_extract(usage, '$[13]')),
    sum(json_extract(usage, '$[14]')), count(*)
FROM sessions GROUP BY tenant, created_by;
