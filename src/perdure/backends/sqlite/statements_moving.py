"""The SQL of threads that move: rows in the order of travel, and rows of arrivals. See `moving` for what an arrival is."""

from __future__ import annotations

from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, CHILD, NAMESPACE, VALUE, WRITE

# Per kind: the table, what identifies a row in the order of travel, and what else there is.
_TABLES = {
    NAMESPACE: ("namespace", ("ns",), ("name",)),
    CHECKPOINT: ("checkpoint", ("ns", "n"), ("id", "body")),
    WRITE: ("write", ("ns", "origin", "path", "kind"), ("body",)),
    CHILD: ("child", ("ns", "origin", "path", "call"), ("child_ns", "head")),
    BRANCH: ("branch", ("name",), ("head",)),
}


def _read(kind: int, *, after: bool) -> str:
    table, keys, others = _TABLES[kind]
    order = ", ".join(keys)
    # A comparison of whole rows: one seek into the primary key, however far the reading has come.
    beyond = f" AND ({order}) > ({', '.join('?' * len(keys))})" if after else ""
    return f"SELECT {', '.join((*keys, *others))} FROM {table} WHERE thread_key = ?{beyond} ORDER BY {order}"


READ = {
    VALUE: "SELECT key, tag, data FROM value WHERE key BETWEEN ? AND ? ORDER BY key",
    **{kind: _read(kind, after=False) for kind in _TABLES},
}
READ_SIZES = "SELECT key, tag, length(data) FROM value WHERE key BETWEEN ? AND ? ORDER BY key"
READ_AFTER = {kind: _read(kind, after=True) for kind in _TABLES}


def _insert(kind: int) -> str:
    table, keys, others = _TABLES[kind]
    columns = ("thread_key", *keys, *others)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


INSERT = {VALUE: "INSERT INTO value (key, tag, data) VALUES (?, ?, ?)", **{kind: _insert(kind) for kind in _TABLES}}

ARRIVALS = "SELECT thread_key, token, expires_ns, holder FROM lease WHERE thread_key < 0"
ARRIVAL = "SELECT thread_key FROM lease WHERE thread_key < 0 AND token = ?"
EXTEND = "UPDATE lease SET expires_ns = ? WHERE thread_key = ?"
DELETE_LEASE = "DELETE FROM lease WHERE thread_key = ?"
DELETE_THREAD = "DELETE FROM thread WHERE key = ?"
ADMIT_THREAD = """
INSERT INTO thread (key, thread_id, incarnation, status, graph, fingerprint, metadata, created_ns, updated_ns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
