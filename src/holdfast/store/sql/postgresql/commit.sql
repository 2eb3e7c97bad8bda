-- name: commit
-- A group of commits in one statement, and so in one round trip and one transaction. All parameters are arrays.
--
-- `written` is the compare-and-set. Rows are locked in the order given, which is that of the ids in every process. `keys` says for each
-- commit which session it was, or 0 if the commit did not apply: what follows belongs to those that did. Two parts of one statement do
-- not see each other's rows, so what is new and changed in one commit must come as new, in its last state.
-- `stay` is how many effects of the step that is under way there are afterwards; NULL: that step is not changed. A group in which no
-- such step is changed does without that part, as most do.
--
-- The plan is kept, and may stem from a time when tables were empty and any index would do. OFFSET 0 and `+ 0` leave it no choice: an
-- execution is found by its id, a query by session and number.
WITH {commit_parts}
{commit_result}

-- name: commit_with_effects
WITH {commit_parts},
{effect_parts}
{commit_result}

-- name: commit_parts
written AS (
    UPDATE sessions AS s
    SET
        token = g.token, template_version = g.template_version, state = g.state, updated_at = g.updated_at, name = g.name,
        meta = g.meta, closed_at = g.closed_at, version = g.version, fence = g.fence, owner = g.owner, head = g.head,
        steps = g.steps, queries = g.queries, execution_id = g.execution_id, wake_at = g.wake_at, seed = g.seed, budget = g.budget,
        llm_calls = g.llm_calls, tokens = g.tokens, last_error = g.last_error, usage = g.usage,
        begun = CASE WHEN g.stay IS NULL OR s.begun = g.begun THEN s.begun ELSE g.begun END
    FROM unnest(
        $1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::text[],
        $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::uuid[], $16::bigint[],
        $17::bigint[], $18::bigint[], $19::uuid[], $20::bigint[], $21::bigint[], $22::text[], $23::bigint[], $24::bigint[],
        $25::text[], $85::text[]
    ) WITH ORDINALITY AS g (
        id, expected, held, token, stay, begun, template_version, state, updated_at, name, meta, closed_at, version, fence,
        owner, head, steps, queries, execution_id, wake_at, seed, budget, llm_calls, tokens, last_error, usage, place
    )
    WHERE s.id = g.id AND s.version = g.expected AND s.fence = g.held
    RETURNING g.place, s.key
),
k AS MATERIALIZED (
    SELECT array_agg(coalesce(w.key, 0) ORDER BY p.place) AS keys
    FROM generate_series(1, cardinality($1::uuid[])) AS p (place)
    LEFT JOIN written AS w ON w.place = p.place
),
new_executions AS (
    INSERT INTO executions (
        session, id, kind, started_at, first_step, strategy, given, status, last_step, seq, ended_at, result, error, metrics, budget,
        custom
    )
    SELECT
        k.keys[n.place], n.id, n.kind, n.started_at, n.first_step, n.strategy, n.given, n.status, n.last_step, n.seq, n.ended_at,
        n.result, n.error, n.metrics, n.budget, n.custom
    FROM k, unnest(
        $26::bigint[], $27::uuid[], $28::text[], $29::bigint[], $30::bigint[], $31::text[], $32::text[], $33::text[],
        $34::bigint[], $35::bigint[], $36::bigint[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[]
    ) AS n (
        place, id, kind, started_at, first_step, strategy, given, status, last_step, seq, ended_at, result, error, metrics, budget,
        custom
    )
    WHERE k.keys[n.place] > 0
),
changed_executions AS (
    UPDATE executions AS e
    SET
        status = c.status, last_step = c.last_step, seq = c.seq, ended_at = c.ended_at, result = c.result, error = c.error,
        metrics = c.metrics, budget = c.budget, custom = c.custom
    FROM (
        SELECT k.keys[c.place] AS session, c.*
        FROM k, unnest(
            $42::bigint[], $43::uuid[], $44::text[], $45::bigint[], $46::bigint[], $47::bigint[], $48::text[], $49::text[],
            $50::text[], $51::text[], $52::text[]
        ) AS c (
            place, id, status, last_step, seq, ended_at, result, error, metrics, budget, custom
        )
        OFFSET 0
    ) AS c
    WHERE e.id = c.id AND e.session + 0 = c.session
    RETURNING 1
),
new_steps AS (
    INSERT INTO steps (
        session, number, parent, execution_id, created_at, first_seq, last_seq, events, depth, wake_at, open, sealed,
        base_session, base_number
    )
    SELECT
        k.keys[t.place], t.number, t.parent, t.execution_id, t.created_at, t.first_seq, t.last_seq, t.events, t.depth,
        t.wake_at, t.open, t.sealed, t.base_session, t.base_number
    FROM k, unnest(
        $53::bigint[], $54::bigint[], $55::bigint[], $56::uuid[], $57::bigint[], $58::bigint[], $59::bigint[], $60::text[],
        $61::bigint[], $62::bigint[], $63::text[], $64::bytea[], $65::uuid[], $66::bigint[]
    ) AS t (
        place, number, parent, execution_id, created_at, first_seq, last_seq, events, depth, wake_at, open, sealed,
        base_session, base_number
    )
    WHERE k.keys[t.place] > 0
),
asked AS (
    INSERT INTO queries (
        session, number, execution_id, kind, payload, asked_at, guest_id, deadline, state, started_at, closed_at, answer
    )
    SELECT
        k.keys[a.place], a.number, a.execution_id, a.kind, a.payload, a.asked_at, a.guest_id, a.deadline, a.state,
        a.started_at, a.closed_at, a.answer
    FROM k, unnest(
        $67::bigint[], $68::bigint[], $69::uuid[], $70::text[], $71::text[], $72::bigint[], $73::bigint[], $74::bigint[],
        $75::text[], $76::bigint[], $77::bigint[], $78::text[]
    ) AS a (
        place, number, execution_id, kind, payload, asked_at, guest_id, deadline, state, started_at, closed_at, answer
    )
    WHERE k.keys[a.place] > 0
),
closed AS (
    UPDATE queries AS q
    SET
        state = d.state, started_at = d.started_at, closed_at = d.closed_at, answer = d.answer
    FROM (
        SELECT k.keys[d.place] AS session, d.*
        FROM k, unnest(
            $79::bigint[], $80::bigint[], $81::text[], $82::bigint[], $83::bigint[], $84::text[]
        ) AS d (
            place, number, state, started_at, closed_at, answer
        )
        OFFSET 0
    ) AS d
    WHERE q.session = d.session AND q.number = d.number
    RETURNING 1
),
charged AS (
    INSERT INTO usage AS u (scope, member, hour, shard, cpu_us, steps, events, bytes, sessions)
    SELECT c.scope, c.member, c.hour, c.shard, sum(c.cpu_us), sum(c.steps), sum(c.events), sum(c.bytes), sum(c.sessions)
    FROM k, unnest(
        $86::bigint[], $87::text[], $88::text[], $89::bigint[], $90::bigint[], $91::bigint[], $92::bigint[], $93::bigint[],
        $94::bigint[], $95::bigint[]
    ) AS c (place, scope, member, hour, shard, cpu_us, steps, events, bytes, sessions)
    WHERE k.keys[c.place] > 0
    GROUP BY c.scope, c.member, c.hour, c.shard
    ORDER BY c.scope, c.member, c.hour
    ON CONFLICT (scope, hour, member, shard) DO UPDATE SET
        cpu_us = u.cpu_us + excluded.cpu_us, steps = u.steps + excluded.steps, events = u.events + excluded.events,
        bytes = u.bytes + excluded.bytes, sessions = u.sessions + excluded.sessions
)

-- name: effect_parts
effects_gone AS (
    DELETE FROM effects AS f
    USING (
        SELECT k.keys[g.place] AS session, g.stay
        FROM k, unnest($5::bigint[]) WITH ORDINALITY AS g (stay, place)
        WHERE g.stay IS NOT NULL
        OFFSET 0
    ) AS g
    WHERE f.session = g.session AND f.position >= g.stay
),
effects_put AS (
    INSERT INTO effects (session, position, data)
    SELECT k.keys[f.place], f.position, f.data
    FROM k, unnest($96::bigint[], $97::bigint[], $98::text[]) AS f (place, position, data)
    WHERE k.keys[f.place] > 0
    ON CONFLICT (session, position) DO UPDATE SET data = excluded.data
)

-- name: commit_result
-- An execution or a query that is to be changed must be there.
SELECT k.keys,
    CASE WHEN (SELECT count(*) FROM changed_executions)
        < (SELECT count(*) FROM unnest($42::bigint[]) AS p (place) WHERE k.keys[p.place] > 0) THEN refuse('HF001') END,
    CASE WHEN (SELECT count(*) FROM closed)
        < (SELECT count(*) FROM unnest($79::bigint[]) AS p (place) WHERE k.keys[p.place] > 0) THEN refuse('HF002') END
FROM k
