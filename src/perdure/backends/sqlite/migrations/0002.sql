-- The runs of a thread. `epoch` is that of the lease which a run took: it names the run, and later runs have larger ones.
CREATE TABLE run (
    thread_key INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (thread_key, epoch)
) WITHOUT ROWID;

-- Threads of one status, by id: a page of them is one seek. (thread_by_status has them by time.)
CREATE INDEX thread_by_status_and_id ON thread (status, thread_id);
