-- What a node or a step left for equal input. A table with row ids, because the data may be large.
CREATE TABLE result (
    namespace BLOB NOT NULL,      -- each part with its length before it, in UTF-8: 3:abc2:de
    key BLOB NOT NULL,            -- UTF-8
    tag TEXT NOT NULL,
    data BLOB NOT NULL,
    expires_ns INTEGER,           -- Unix time; null: never
    PRIMARY KEY (namespace, key)
);

CREATE INDEX result_by_expiry ON result (expires_ns) WHERE expires_ns IS NOT NULL;
