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
