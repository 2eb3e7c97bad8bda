-- A session that is a branch of a script's fork: of which session and query, and the rest of its family as JSON.

ALTER TABLE sessions ADD COLUMN branch_of BLOB;
ALTER TABLE sessions ADD COLUMN branch_query INTEGER;
ALTER TABLE sessions ADD COLUMN branch TEXT;
CREATE INDEX sessions_branches ON sessions (key) WHERE branch_of IS NOT NULL AND state IN ('running', 'paused');

-- What a script counts itself, and the name of a strategy, by which figures are kept. So far all had the same.

ALTER TABLE executions ADD COLUMN strategy TEXT;
ALTER TABLE executions ADD COLUMN custom TEXT;
UPDATE executions SET strategy = 'strategy' WHERE kind = 'strategy';
CREATE INDEX executions_strategies ON executions (started_at) WHERE strategy IS NOT NULL;
