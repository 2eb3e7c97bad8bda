-- State: values by namespace and key, which change with the steps of sessions. Keys are sorted by code points, whatever the server's
-- language is. `version` is the token of the commit that wrote the row last.

CREATE TABLE state (
    namespace  text   COLLATE "C" NOT NULL,
    key        text   COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    expires_at bigint,
    value      text   NOT NULL,
    PRIMARY KEY (namespace, key)
);

CREATE INDEX state_expiring ON state (expires_at) WHERE expires_at IS NOT NULL;

-- The effects of the steps that are under way: those of `sessions.begun`, which had them itself before. Each is written once, or twice if
-- its reply came later than the intent.
CREATE TABLE effects (
    session  bigint NOT NULL,
    position bigint NOT NULL,
    data     text   NOT NULL,
    PRIMARY KEY (session, position)
);

-- Apart by elements and not by place, which would read escapes such as \u0000 that no text can hold.
INSERT INTO effects (session, position, data)
SELECT s.key, e.number - 1, e.effect
FROM sessions AS s
CROSS JOIN json_array_elements(s.begun::json) WITH ORDINALITY AS p (part, place)
CROSS JOIN json_array_elements(CASE p.place WHEN 4 THEN p.part END) WITH ORDINALITY AS e (effect, number);

UPDATE sessions AS s
SET begun = (
    SELECT '[' || string_agg(p.part::text, ',' ORDER BY p.place) || ']'
    FROM json_array_elements(s.begun::json) WITH ORDINALITY AS p (part, place)
    WHERE p.place <> 4
)
WHERE s.begun IS NOT NULL;
