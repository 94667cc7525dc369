"""Rows written by hand: what the engine would write, without an engine."""

from __future__ import annotations

import os
from typing import Any

from perdure.bridge import run_blocking
from perdure.checkpoint.leases import identity
from perdure.checkpoint.numbering import Numbers
from perdure.checkpoint.records import CheckpointRow, Commit, Entry, Holder, LeaseOp, Loaded, Packed, ThreadUpdate
from perdure.clock import SYSTEM_CLOCK, Clock

SECOND = 1_000_000_000


def packed(value: int) -> Packed:
    """Some bytes."""
    return Packed("int", str(value).encode())


def entry(n: int, value: int = 0) -> Entry:
    """A small value that checkpoint `n` set."""
    return Entry(n, packed(value))


class Over:
    """The records of a saver, called like plain functions, in the blocking colour."""

    def __init__(self, saver: Any) -> None:
        self._records = saver.blocking()

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: run_blocking(getattr(self._records, name)(*args, **kwargs))


class Writer:
    """A run's hold on a thread: loads it, hands out numbers, commits.

    Args:
        records: a record store, called like plain functions.
        thread: the thread's id.
        clock: wall time.
        holder: who says to be writing; this process unless given.
        lease_seconds: how long its lease lasts.
    """

    def __init__(
        self,
        records: Any,
        thread: str = "t",
        *,
        clock: Clock = SYSTEM_CLOCK,
        holder: Holder | None = None,
        lease_seconds: float = 30.0,
    ) -> None:
        self.records = records
        self.thread = thread
        self.clock = clock
        self.holder = holder or identity.holder("run", clock.now_ns())
        self.lease_ns = int(lease_seconds * SECOND)
        self.token = os.urandom(8).hex()
        self.load()

    @classmethod
    def over(cls, saver: Any, thread: str = "t") -> Writer:
        """A writer to a thread of a saver."""
        return cls(Over(saver), thread)

    def load(self) -> Loaded:
        """Look at the thread again."""
        loaded: Loaded = self.records.load(self.thread, 0, None)
        self.loaded = loaded
        row = loaded.thread
        self.numbers = Numbers(row.next_n, row.newest, self.clock)
        self.epoch = row.lease.epoch + 1
        return loaded

    def row(self, parent: CheckpointRow | None = None, *, full: bool | None = None, **fields: Any) -> CheckpointRow:
        """The next checkpoint: full unless it has a parent.

        Args:
            parent: what it hangs on.
            full: whether its changes are all channels.
            fields: others of `CheckpointRow`.
        """
        n, public = self.numbers.checkpoint(fields.get("step", 0))
        whole = parent is None if full is None else full
        given: dict[str, Any] = {
            "n": n,
            "ns": 0,
            "id": public,
            "parent": None if parent is None else parent.n,
            "base": n if whole or parent is None else parent.base,
            "step": 0,
            "source": "loop",
            "changes": {},
            "full": whole,
        }
        return CheckpointRow(**given | fields)

    def commit(self, op: LeaseOp, *rows: CheckpointRow, **fields: Any) -> Commit:
        """Commit rows; the last of the root becomes its head."""
        thread = self.loaded.thread
        roots = [row.n for row in rows if row.ns == 0]
        given: dict[str, Any] = {
            "thread": self.thread,
            "incarnation": thread.incarnation,
            "lease": op,
            "token": self.token,
            "epoch": self.epoch,
            "expect_head": thread.head,
            "now_ns": self.clock.now_ns(),
            "lease_ns": self.lease_ns,
            "holder": self.holder,
            "first_n": self.numbers.first_n,
            "next_n": self.numbers.next_n,
            "newest": self.numbers.newest,
            "head": roots[-1] if roots else None,
            "checkpoints": [*rows],
            "update": None if op == "keep" else ThreadUpdate("busy" if op == "take" else "idle"),
        }
        commit = Commit(**given | fields)
        self.records.commit(commit)
        if op in ("once", "release"):
            self.load()
        return commit
