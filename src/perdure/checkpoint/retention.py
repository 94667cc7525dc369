"""What a retention policy says: which checkpoints of which namespaces may go, and after how long whole threads do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from perdure.constants import NS_END, NS_SEP
from perdure.errors import CorruptRecord, InvalidConfig
from perdure.ids import ticks_in, unix_ns_of

Age = timedelta | float
"""A duration: a `timedelta`, or seconds."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Which checkpoints may go. One goes only if everything that is given lets it go.

    Attributes:
        keep_last: not the newest so many of a namespace.
        older_than: only those that are older than this, by the time in their ids; a `timedelta`, or seconds.
        namespaces: only in these: "" is the root, "research" the subgraph in node "research", "outer|inner" one inside a subgraph.
            None: in all of them.
        max_bytes: only as many of the oldest as have to go so that a thread takes at most this much, as `Pruned.bytes` counts; what has to
            stay may take more.
        thread_ttl: threads that nothing happened to for so long are deleted by `sweep`, unless a run holds them, they wait for an
            answer, or a branch of theirs has a name.

    Raises:
        InvalidConfig: a number is not positive, or nothing is given.
    """

    keep_last: int | None = None
    older_than: Age | None = None
    namespaces: Sequence[str] | None = None
    thread_ttl: Age | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise InvalidConfig(
                f"keep_last must be a whole number from 1 on, got {self.keep_last!r}: the newest checkpoint always stays; delete_thread "
                "removes a thread altogether",
                key="keep_last",
            )
        if self.max_bytes is not None and (type(self.max_bytes) is not int or self.max_bytes < 1):
            raise InvalidConfig(f"max_bytes must be a whole number from 1 on, got {self.max_bytes!r}", key="max_bytes")
        for name in ("older_than", "thread_ttl"):
            nanoseconds_of(getattr(self, name), name)
        if not _are_names(self.namespaces):
            raise InvalidConfig(
                f"namespaces must be a list of names, such as ['', 'research'], got {self.namespaces!r}", key="namespaces"
            )
        if self.namespaces is not None and self.thread_ttl is not None:
            raise InvalidConfig(
                "thread_ttl is about whole threads: give it in a Retention without namespaces", key="thread_ttl"
            )
        if not self.thins and self.thread_ttl is None:
            raise InvalidConfig(
                "retention needs keep_last=, older_than=, max_bytes= or thread_ttl=; for example keep_last=20 keeps the newest 20 checkpoints",
                key="keep_last",
            )

    @property
    def thins(self) -> bool:
        """Whether it lets checkpoints go."""
        return self.keep_last is not None or self.older_than is not None or self.max_bytes is not None

    def cutoff(self, now_ns: int) -> int | None:
        """Only what was made before this may go; None: whenever."""
        age = nanoseconds_of(self.older_than, "older_than")
        return None if age is None else now_ns - age


def _are_names(given: Any) -> bool:
    if given is None:
        return True
    return isinstance(given, Iterable) and not isinstance(given, str) and all(isinstance(name, str) for name in given)


@dataclass(slots=True)
class Pruned:
    """What retention took away, or would take away.

    Attributes:
        threads: how many threads were looked at.
        checkpoints, writes, values, namespaces: how many rows of each kind went.
        bytes: of the values, and of the bodies of checkpoints and writes, that went.
        deleted: threads that went altogether, as their time had come.
        busy: threads that were left alone, at least in part, because a run holds them or held them when its process died.
        damaged: threads that were left alone because a checkpoint that stays needs one that is missing; `verify` tells which.
        dry_run: nothing was changed.
        reclaimed: how many bytes were given back to the system.
    """

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    namespaces: int = 0
    bytes: int = 0
    deleted: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    dry_run: bool = field(default=False, compare=False)
    reclaimed: int = field(default=0, compare=False)

    def add(self, other: Pruned) -> None:
        """Count what another one counted."""
        self.threads += other.threads
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values
        self.namespaces += other.namespaces
        self.bytes += other.bytes
        self.deleted += other.deleted
        self.busy += other.busy
        self.damaged += other.damaged


def nanoseconds_of(age: Any, name: str) -> int | None:
    """A duration in nanoseconds.

    Raises:
        InvalidConfig: it is none, or not positive.
    """
    if age is None:
        return None
    seconds = age.total_seconds() if isinstance(age, timedelta) else age
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise InvalidConfig(
            f"{name} must be a positive duration, a timedelta or seconds, got {age!r}; for example timedelta(days=30)", key=name
        )
    return int(seconds * 1e9)


def rules_of(given: Any) -> tuple[Retention, ...]:
    """A policy as a list of rules.

    Raises:
        InvalidConfig: it is neither a `Retention` nor a list of them.
    """
    if given is None:
        return ()
    rules = (given,) if isinstance(given, Retention) else tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(rule, Retention) for rule in rules):
        raise InvalidConfig(f"retention must be a Retention or a list of them, got {given!r}", key="retention")
    return rules


def rule_for(namespace: str, rules: Sequence[Retention]) -> Retention | None:
    """The rule for a namespace: the last one that names it, else the last one for all; None: everything there stays."""
    named = nodes_of(namespace)
    own = [rule for rule in rules if rule.thins and rule.namespaces is not None and named in rule.namespaces]
    every = [rule for rule in rules if rule.thins and rule.namespaces is None]
    found = own or every
    return found[-1] if found else None


def nodes_of(namespace: str) -> str:
    """A namespace's name without the ids of tasks: "outer:1ef…|inner:1f0…" is "outer|inner"."""
    return NS_SEP.join(part.partition(NS_END)[0] for part in namespace.split(NS_SEP))


def chosen(rows: Sequence[tuple[int, str]], rule: Retention | None, now_ns: int) -> set[int]:
    """The numbers of the checkpoints of one namespace that a rule keeps.

    Args:
        rows: number and public id of each, in order.
        rule: None keeps all.
        now_ns: the time by which they are old.
    """
    if rule is None:
        return {n for n, _ in rows}
    kept: set[int] = set()
    if rule.keep_last is not None:
        kept.update(n for n, _ in rows[-rule.keep_last :])
    cutoff = rule.cutoff(now_ns)
    if cutoff is not None:
        kept.update(n for n, public in rows if not _made_before(public, cutoff))
    return kept


def _made_before(public: str, cutoff: int) -> bool:
    """False where an id does not tell its time: what nobody knows to be old is kept."""
    try:
        return unix_ns_of(ticks_in(public)) < cutoff
    except CorruptRecord:
        return False
