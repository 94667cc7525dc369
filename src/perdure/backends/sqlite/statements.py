"""The SQL that is sent. Everything that comes from outside is a bound parameter.

Lists of numbers are bound as one JSON array, so that a text does not depend on how long they are. Parameters are plain `?`:
Python 3.12.0 to 3.12.3 warn of `?1`, and filters may make that an error.
"""

from __future__ import annotations

from collections.abc import Collection

BEGIN_READ = "BEGIN"
BEGIN_WRITE = "BEGIN IMMEDIATE"
COMMIT = "COMMIT"

# ------------------------------------------------------------------------------------------------------- threads and leases

_THREAD = """
SELECT t.key, t.thread_id, t.incarnation, t.status, t.graph, t.fingerprint, t.metadata, t.created_ns, t.updated_ns,
       l.token, l.epoch, l.expires_ns, l.holder, l.head, l.next_n, l.newest
  FROM thread AS t CROSS JOIN lease AS l ON l.thread_key = t.key
"""

THREAD = f"{_THREAD} WHERE t.thread_id = ?"
AFTER = "{id} > ?"
FROM = "{id} >= ?"
BELOW = "{id} < ?"
OF_STATUS = "t.status = ?"
OF_GRAPH = "t.graph = ?"
UPDATED_AFTER = "t.updated_ns > ?"
HAVING = "instr(t.metadata, ?) > 0"
OLDER = "(t.updated_ns, {id}) < (?, ?)"
THREAD_KEY = "SELECT key, incarnation FROM thread WHERE thread_id = ?"
TOMBSTONE = "SELECT incarnation FROM tombstone WHERE hash = ?"


def threads(conditions: Collection[str], *, by_time: bool = False) -> str:
    """Threads that meet conditions, constants of this module, by id or the latest update first; the last parameter is the limit.

    A `+` keeps SQLite, which knows no statistics, from walking along all ids where the time of the update leads to fewer threads.
    """
    name = "+t.thread_id" if by_time or UPDATED_AFTER in conditions else "t.thread_id"
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "t.updated_ns DESC, {id} DESC" if by_time else "{id}"
    return f"{_THREAD} {where} ORDER BY {order} LIMIT ?".format(id=name)


INSERT_THREAD = """
INSERT INTO thread (thread_id, incarnation, status, graph, fingerprint, metadata, created_ns, updated_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
INSERT_LEASE = """
INSERT INTO lease (thread_key, token, epoch, expires_ns, holder, head, next_n, newest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
UPDATE_THREAD = """
UPDATE thread
   SET status = ?, graph = coalesce(?, graph), fingerprint = coalesce(?, fingerprint), metadata = coalesce(?, metadata),
       updated_ns = ?
 WHERE key = ?
"""
UPDATE_STATUS = "UPDATE thread SET status = ?, updated_ns = max(updated_ns, ?) WHERE key = ?"

_GROW = "head = coalesce(?, head), next_n = max(next_n, ?), newest = max(newest, ?)"

TAKE = f"UPDATE lease SET token = ?, epoch = ?, expires_ns = ?, holder = ?, {_GROW} WHERE thread_key = ?"
KEEP = f"UPDATE lease SET expires_ns = ?, {_GROW} WHERE thread_key = ? AND token = ? AND epoch = ?"
GIVE_BACK = f"""
UPDATE lease SET token = NULL, expires_ns = 0, holder = NULL, {_GROW} WHERE thread_key = ? AND token = ? AND epoch = ?
"""
RENEW = """
UPDATE lease SET expires_ns = ?
 WHERE thread_key = (SELECT key FROM thread WHERE thread_id = ?) AND token = ? AND epoch = ?
"""

# -------------------------------------------------------------------------------------------------------------- rows, written

INSERT_CHECKPOINT = "INSERT INTO checkpoint (thread_key, ns, n, id, body) VALUES (?, ?, ?, ?, ?)"
INSERT_VALUE = "INSERT INTO value (key, tag, data) VALUES (?, ?, ?)"
INSERT_WRITE = "INSERT OR IGNORE INTO write (thread_key, ns, origin, path, kind, body) VALUES (?, ?, ?, ?, ?, ?)"
REPLACE_WRITE = "INSERT OR REPLACE INTO write (thread_key, ns, origin, path, kind, body) VALUES (?, ?, ?, ?, ?, ?)"
# Not OR IGNORE: the same name under a second number would hide rows, so that is an error.
INSERT_NAMESPACE = "INSERT INTO namespace (thread_key, ns, name) VALUES (?, ?, ?) ON CONFLICT (thread_key, ns) DO NOTHING"
REPLACE_CHILD = """
INSERT OR REPLACE INTO child (thread_key, ns, origin, path, call, child_ns, head) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

REPLACE_BRANCH = "INSERT OR REPLACE INTO branch (thread_key, name, head) VALUES (?, ?, ?)"
DELETE_BRANCH = "DELETE FROM branch WHERE thread_key = ? AND name = ?"

REPLACE_RUN = "INSERT OR REPLACE INTO run (thread_key, epoch, body) VALUES (?, ?, ?)"
DELETE_OLD_RUNS = "DELETE FROM run WHERE thread_key = ? AND epoch <= ?"

# ----------------------------------------------------------------------------------------------------------------- rows, read

NAMESPACE = "SELECT ns FROM namespace WHERE thread_key = ? AND name = ?"
NAMESPACE_NAMES = "SELECT ns, name FROM namespace WHERE thread_key = ? AND ns IN (SELECT value FROM json_each(?))"

POINTER_TO = """
SELECT c.ns, c.origin, c.path, c.call, c.child_ns, c.head
  FROM thread AS t CROSS JOIN child AS c ON c.thread_key = t.key
 WHERE t.thread_id = ? AND c.child_ns = ? AND c.head >= ?
 ORDER BY c.head, c.origin LIMIT 1
"""

RUNS = """
SELECT r.epoch, r.body FROM thread AS t CROSS JOIN run AS r ON r.thread_key = t.key
 WHERE t.thread_id = ? AND r.epoch < ? ORDER BY r.epoch DESC LIMIT ?
"""

BRANCH = "SELECT head FROM branch WHERE thread_key = ? AND name = ?"
BRANCHES = """
SELECT b.name, c.id
  FROM thread AS t CROSS JOIN branch AS b ON b.thread_key = t.key
       CROSS JOIN checkpoint AS c ON c.thread_key = t.key AND c.ns = 0 AND c.n = b.head
 WHERE t.thread_id = ? ORDER BY b.name
"""
# A checkpoint and all later ones of its namespace, in order.
FROM_CHECKPOINT = """
SELECT s.name, c.n, c.ns, c.id, c.body
  FROM thread AS t CROSS JOIN checkpoint AS a ON a.thread_key = t.key
       CROSS JOIN checkpoint AS c ON c.thread_key = t.key AND c.ns = a.ns AND c.n >= a.n
       LEFT JOIN namespace AS s ON s.thread_key = t.key AND s.ns = a.ns
 WHERE t.thread_id = ? AND a.id = ? ORDER BY c.n
"""

CHECKPOINT_BY_ID = "SELECT ns, n, id, body FROM checkpoint WHERE thread_key = ? AND id = ?"
CHECKPOINT_BY_NUMBER = "SELECT ns, n, id, body FROM checkpoint WHERE thread_key = ? AND ns = ? AND n = ?"
NEWEST_CHECKPOINTS = """
SELECT ns, n, id, body FROM checkpoint WHERE thread_key = ? AND ns = ? AND n <= ? ORDER BY n DESC LIMIT ?
"""
CHECKPOINTS_DOWN = (
    "SELECT n, id, body FROM checkpoint WHERE thread_key = ? AND ns = ? AND n BETWEEN ? AND ? ORDER BY n DESC LIMIT ?"
)
NUMBER_OF = """
SELECT c.n FROM thread AS t CROSS JOIN checkpoint AS c ON c.thread_key = t.key WHERE t.thread_id = ? AND c.id = ?
"""

# The namespaces of a thread with the newest number of each, newest first: one seek a namespace, never the whole history.
NAMESPACES_BY_NEWEST = """
SELECT ns, newest FROM (
    SELECT s.ns, (SELECT max(c.n) FROM checkpoint AS c WHERE c.thread_key = ? AND c.ns = s.ns AND c.n <= ?) AS newest
      FROM (SELECT 0 AS ns UNION ALL SELECT ns FROM namespace WHERE thread_key = ?) AS s
) WHERE newest IS NOT NULL ORDER BY newest DESC LIMIT ?
"""

# For the next four, the list is one of pairs [ns, number]; CROSS JOIN makes it the outer loop, each pair one seek.
_PAIRS = "FROM json_each(?) AS j CROSS JOIN"
WRITES = f"""
SELECT r.ns, r.origin, r.path, r.kind, r.body {_PAIRS} write AS r
    ON r.thread_key = ? AND r.ns = json_extract(j.value, '$[0]') AND r.origin = json_extract(j.value, '$[1]')
"""
CHILDREN = f"""
SELECT r.ns, r.origin, r.path, r.call, r.child_ns, r.head {_PAIRS} child AS r
    ON r.thread_key = ? AND r.ns = json_extract(j.value, '$[0]') AND r.origin = json_extract(j.value, '$[1]')
"""
CHECKPOINTS = f"""
SELECT r.ns, r.n, r.id, r.body {_PAIRS} checkpoint AS r
    ON r.thread_key = ? AND r.ns = json_extract(j.value, '$[0]') AND r.n = json_extract(j.value, '$[1]')
"""
CHECKPOINT_IDS = f"""
SELECT r.ns, r.n, r.id {_PAIRS} checkpoint AS r
    ON r.thread_key = ? AND r.ns = json_extract(j.value, '$[0]') AND r.n = json_extract(j.value, '$[1]')
"""
# The list is one of ranges [first, last]: one seek each, however many rows it holds.
VALUES = """
SELECT v.key, v.tag, v.data FROM json_each(?) AS j CROSS JOIN value AS v
    ON v.key BETWEEN json_extract(j.value, '$[0]') AND json_extract(j.value, '$[1]')
"""
IS_NEWEST = "SELECT max(n) FROM checkpoint WHERE thread_key = ? AND ns = ?"

# All rows of a thread, table by table, each from behind a key on.

# ------------------------------------------------------------------------------------------------------------------ retention

REPLACE_CHECKPOINT = "UPDATE checkpoint SET body = ? WHERE thread_key = ? AND ns = ? AND n = ?"
DELETE_CHECKPOINT = "DELETE FROM checkpoint WHERE thread_key = ? AND ns = ? AND n = ?"
DELETE_WRITE = "DELETE FROM write WHERE thread_key = ? AND ns = ? AND origin = ? AND path = ? AND kind = ?"
DELETE_CHILD = "DELETE FROM child WHERE thread_key = ? AND ns = ? AND origin = ? AND path = ? AND call = ?"
DELETE_NAMESPACE = "DELETE FROM namespace WHERE thread_key = ? AND ns = ?"
DELETE_VALUE = "DELETE FROM value WHERE key = ?"

# ------------------------------------------------------------------------------------------------------------------- deletion

DELETE_VALUES = "DELETE FROM value WHERE key BETWEEN ? AND ?"
DELETE_ROWS = (
    *(
        f"DELETE FROM {table} WHERE thread_key = ?"
        for table in ("write", "child", "branch", "run", "checkpoint", "namespace", "lease")
    ),
    "DELETE FROM thread WHERE key = ?",
)
REPLACE_TOMBSTONE = """
INSERT INTO tombstone (hash, incarnation, deleted_ns) VALUES (?, ?, ?)
    ON CONFLICT (hash) DO UPDATE SET incarnation = max(incarnation, excluded.incarnation), deleted_ns = excluded.deleted_ns
"""
TRUNCATE_WAL = "PRAGMA wal_checkpoint(TRUNCATE)"
