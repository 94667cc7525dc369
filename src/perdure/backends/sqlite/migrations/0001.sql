-- Every key begins with the thread's, so that a thread's rows lie together and are deleted together.

CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    key BLOB NOT NULL,            -- random; keys the hashes of deleted thread ids
    format INTEGER NOT NULL,      -- of the row bodies, when the database was made
    created_ns INTEGER NOT NULL
);

-- AUTOINCREMENT: a key is never used again, so a key is one incarnation of a thread.
-- Changed at start, pause, end and edit only; what changes at every commit is in `lease`.
CREATE TABLE thread (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_id TEXT NOT NULL UNIQUE,
    incarnation INTEGER NOT NULL,
    status TEXT NOT NULL,
    graph TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    metadata BLOB NOT NULL,
    created_ns INTEGER NOT NULL,
    updated_ns INTEGER NOT NULL
);

CREATE INDEX thread_by_updated ON thread (updated_ns);

CREATE INDEX thread_by_status ON thread (status, updated_ns);

CREATE TABLE lease (
    thread_key INTEGER PRIMARY KEY,
    token TEXT,
    epoch INTEGER NOT NULL,
    expires_ns INTEGER NOT NULL,
    holder BLOB,
    head INTEGER,
    next_n INTEGER NOT NULL,
    newest INTEGER NOT NULL
);

CREATE TABLE checkpoint (
    thread_key INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    n INTEGER NOT NULL,
    id BLOB NOT NULL,             -- 16 bytes of a UUID, or text
    body BLOB NOT NULL,
    PRIMARY KEY (thread_key, ns, n)
) WITHOUT ROWID;

CREATE UNIQUE INDEX checkpoint_by_id ON checkpoint (thread_key, id);

-- key = thread_key << 32 | n: one b-tree, clustered by thread, with rows that may be large.
CREATE TABLE value (
    key INTEGER PRIMARY KEY,
    tag TEXT NOT NULL,
    data BLOB NOT NULL
);

CREATE TABLE write (
    thread_key INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (thread_key, ns, origin, path, kind)
) WITHOUT ROWID;

-- The root, namespace 0, is not stored.
CREATE TABLE namespace (
    thread_key INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (thread_key, ns)
) WITHOUT ROWID;

CREATE UNIQUE INDEX namespace_by_name ON namespace (thread_key, name);

CREATE TABLE child (
    thread_key INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    path TEXT NOT NULL,
    call INTEGER NOT NULL,
    child_ns INTEGER NOT NULL,
    head INTEGER NOT NULL,
    PRIMARY KEY (thread_key, ns, origin, path, call)
) WITHOUT ROWID;

-- Named branches of the root: `head` is the newest checkpoint of each.
CREATE TABLE branch (
    thread_key INTEGER NOT NULL,
    name TEXT NOT NULL,
    head INTEGER NOT NULL,
    PRIMARY KEY (thread_key, name)
) WITHOUT ROWID;

-- hash = BLAKE2b of the thread id, keyed with store.key: it tells whether an id was deleted, and no id can be read from it.
CREATE TABLE tombstone (
    hash BLOB PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    deleted_ns INTEGER NOT NULL
) WITHOUT ROWID;
