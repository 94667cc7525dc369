"""Which rows of a thread retention takes away, and which have to be written anew so that the rest reads as before. Pure.

What a policy keeps is only the beginning. The tip stays, and so do the tips of named branches and open questions that nothing was made
of. From there everything stays that reading, resuming or forking these needs: the checkpoints where their waiting tasks were triggered
(task ids are made of those), what is filed under their tasks, the subgraphs of tasks that may still run, memories of subgraphs. Of each
namespace that stays, the newest checkpoint does: it says which numbers are kept for appending.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from perdure.checkpoint.incremental.manifest import is_within, merged_spans
from perdure.checkpoint.reading import one_by_one, origins_of, spans_of, task_at
from perdure.checkpoint.records import (
    ANSWERS,
    PAUSES,
    RESULT,
    ROOT_NS,
    CheckpointRow,
    ChildRow,
    ThreadRow,
    WriteRow,
)
from perdure.checkpoint.retention import Pruned, Retention, chosen, rule_for
from perdure.checkpoint.survey import Removal
from perdure.checkpoint.thread_rows import ThreadRows
from perdure.constants import NS_SEP
from perdure.errors import CorruptRecord

MEMORY = "="
"""How the path of a pointer begins that no task made, but an edit of what a subgraph remembers."""

Spans = tuple[tuple[int, int], ...]


class Node(NamedTuple):
    """A checkpoint, as far as retention has to know it.

    Attributes:
        n, ns, id, parent, base, full: as in its row.
        waiting: (path, origin) of the tasks that it leads to.
        origins: under which writes and pointers of its tasks are filed.
        memories: numbers of the checkpoints that are what subgraphs remember.
        changes: the numbers of value rows that its channels refer to; None for a channel that it emptied.
        bytes: how long its body is, as it is stored.
    """

    n: int
    ns: int
    id: str
    parent: int | None
    base: int
    full: bool
    waiting: tuple[tuple[str, int], ...]
    origins: frozenset[int]
    memories: tuple[int, ...]
    changes: Mapping[str, Spans | None]
    bytes: int


class Filed(NamedTuple):
    """A write row: its key, the channels of its items, the numbers of the value rows that they refer to, and how long it is."""

    key: tuple[int, int, str, int]
    channels: tuple[str, ...]
    spans: Spans
    bytes: int


class Rewrite(NamedTuple):
    """A kept checkpoint whose row changes: its new parent, and its new base; `full` if it has to hold all channels from now on."""

    ns: int
    n: int
    parent: int | None
    base: int
    full: bool


class Step(NamedTuple):
    """Rows that have to change in one commit, or the checkpoint (namespace, number) or the pointer that goes."""

    rewrites: tuple[Rewrite, ...] = ()
    gone: tuple[int, int] | None = None
    pointer: tuple[int, int, str, int] | None = None


class Plan(NamedTuple):
    """What is to be done.

    Attributes:
        kept: numbers of the checkpoints that stay.
        steps: in which order checkpoints and pointers are rewritten or removed, so that a reader who comes in between finds each that
            is still there whole.
        removed: all that is removed.
        pruned: how much that is.
    """

    kept: frozenset[int]
    steps: tuple[Step, ...]
    removed: Removal
    pruned: Pruned


class Outline:
    """All rows of a thread without their contents."""

    __slots__ = ("branches", "children", "namespaces", "nodes", "sizes", "thread", "writes")

    def __init__(self, thread: ThreadRow) -> None:
        self.thread = thread
        self.nodes: dict[int, Node] = {}
        self.children: list[ChildRow] = []
        self.writes: dict[tuple[int, int, str, int], Filed] = {}
        self.namespaces: dict[int, str] = {ROOT_NS: ""}
        self.branches: dict[str, int] = {}
        self.sizes: dict[int, int] = {}

    def add(self, some: ThreadRows) -> None:
        """Take in some of the rows."""
        self.namespaces.update(some.namespaces)
        self.branches.update(some.branches)
        nodes = zip(some.checkpoints, some.checkpoint_sizes, strict=True)
        self.nodes.update((row.n, _node(row, size)) for row, size in nodes)
        self.children += some.children
        filed = map(_filed, some.writes, some.write_sizes)
        self.writes.update((write.key, write) for write in filed)
        self.sizes.update(some.sizes)


def _node(row: CheckpointRow, size: int) -> Node:
    waiting = ((path, task.origin) for task in (*row.frontier, *row.deferred) for path in one_by_one(task.path))
    changes = {key: None if entry is None else tuple(spans_of([entry])) for key, entry in row.changes.items()}
    origins = frozenset(origins_of(row))
    memories = tuple(row.memories.values())
    return Node(row.n, row.ns, row.id, row.parent, row.base, row.full, tuple(waiting), origins, memories, changes, size)


def _filed(row: WriteRow, size: int) -> Filed:
    key = (row.ns, row.origin, row.path, row.kind)
    return Filed(key, tuple(item.channel for item in row.items), tuple(spans_of((), [row])), size)


def plan(outline: Outline, rules: Sequence[Retention], now_ns: int) -> Plan:
    """What the rules make of a thread.

    Raises:
        CorruptRecord: a checkpoint that stays needs one that is missing.
    """
    if not any(rule.max_bytes for rule in rules):
        return _plan(outline, rules, now_ns)
    # The fewer of the newest are kept, the less is left: so how many fit is found by halving.
    fewest, most = 1, max(1, len(outline.nodes))
    found = _plan(outline, _keeping_last(rules, most), now_ns)
    if _fits(outline, found, rules):
        return found
    found = _plan(outline, _keeping_last(rules, fewest), now_ns)
    while most - fewest > 1:
        middle = (fewest + most) // 2
        tried = _plan(outline, _keeping_last(rules, middle), now_ns)
        if _fits(outline, tried, rules):
            fewest, found = middle, tried
        else:
            most = middle
    return found


def _plan(outline: Outline, rules: Sequence[Retention], now_ns: int) -> Plan:
    keeping = _Keeping(outline)
    keeping.root(rules, now_ns)
    keeping.subgraphs(rules, now_ns)
    return _planned(outline, keeping)


def _keeping_last(rules: Sequence[Retention], number: int) -> list[Retention]:
    """The rules, with so many of the newest kept where a number of bytes is given."""
    return [
        replace(rule, max_bytes=None, keep_last=max(number, rule.keep_last or 1)) if rule.max_bytes else rule for rule in rules
    ]


def _fits(outline: Outline, planned: Plan, rules: Sequence[Retention]) -> bool:
    left = Pruned()
    count(left, outline, everything(outline))
    return left.bytes - planned.pruned.bytes <= min(rule.max_bytes for rule in rules if rule.max_bytes)


def waits(outline: Outline) -> bool:
    """Whether a question of the thread is open, on whatever branch."""
    return any(True for _ in _Keeping(outline).waiting())


class _Keeping:
    """What stays, as it grows.

    Attributes:
        kept: numbers of checkpoints.
        pointers: to subgraphs, by key.
    """

    def __init__(self, outline: Outline) -> None:
        self.kept: set[int] = set()
        self.pointers: set[tuple[int, int, str, int]] = set()
        self._outline = outline
        self._queue: list[int] = []
        self._spaces: defaultdict[int, list[int]] = defaultdict(list)
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        self._covered: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._pointing: defaultdict[tuple[int, int], list[ChildRow]] = defaultdict(list)
        for n in sorted(outline.nodes):
            node = outline.nodes[n]
            self._spaces[node.ns].append(n)
            if node.parent is not None:
                self._below[node.parent].append(n)
        for child in outline.children:
            self._pointing[child.ns, child.origin].append(child)
        self._filed = outline.writes
        self._asked = {(ns, origin, task_at(path)) for ns, origin, path, kind in self._filed if kind == PAUSES}

    def root(self, rules: Sequence[Retention], now_ns: int) -> None:
        """What stays of the root, and what that needs."""
        nodes, numbers = self._outline.nodes, self._spaces[ROOT_NS]
        pinned = [*self._outline.branches.values()]
        if self._outline.thread.head is not None:
            pinned.append(self._outline.thread.head)
        self._keep(chosen([(n, nodes[n].id) for n in numbers], rule_for("", rules), now_ns))
        self._keep([*pinned, *self.waiting()])
        led = self._led_to()
        # What was gone on from stays known as such: a run on its name would take up what its tasks did there otherwise.
        self._keep(self._below[n][-1] for n in pinned if self._below.get(n) and n not in led)

    def waiting(self) -> Iterator[int]:
        """The checkpoints of the root with questions that nothing was made of."""
        return (n for n in self._spaces[ROOT_NS] if n not in self._below and self._waits(self._outline.nodes[n]))

    def subgraphs(self, rules: Sequence[Retention], now_ns: int) -> None:
        """What stays of the subgraphs that are needed."""
        nodes = self._outline.nodes
        while True:
            before = len(self.kept)
            for ns in sorted({nodes[n].ns for n in self.kept}):
                numbers = self._spaces[ns]
                self._keep([numbers[-1]])
                if ns != ROOT_NS:
                    covered = merged_spans(self._covered[ns])
                    ran = [n for n in numbers if is_within(n, covered)]
                    rule = rule_for(self._outline.namespaces.get(ns, ""), rules)
                    self._keep(chosen([(n, nodes[n].id) for n in ran], rule, now_ns))
            if len(self.kept) == before:
                break
        for child in self._outline.children:
            if child.path.startswith(MEMORY) and child.origin in self.kept and child.head in self.kept:
                self.pointers.add(child[:4])

    def _keep(self, numbers: Iterable[int]) -> None:
        self._queue.extend(numbers)
        while self._queue:
            n = self._queue.pop()
            node = self._outline.nodes.get(n)
            if node is None or n in self.kept:
                continue
            self.kept.add(n)
            self._queue.extend(node.memories)
            tasks = set(node.waiting)
            for origin in {origin for _, origin in tasks}:
                self._queue.append(origin)
                for child in self._pointing.get((node.ns, origin), ()):
                    if (task_at(child.path), origin) in tasks:
                        self._point(child)

    def _point(self, child: ChildRow) -> None:
        """A pointer of a task that may still run."""
        if child[:4] in self.pointers:
            return
        self.pointers.add(child[:4])
        self._queue.append(child.head)
        self._covered[child.child_ns].append((child.origin + 1, max(child.origin + 1, child.head)))
        if (child.ns, child.origin, task_at(child.path)) in self._asked:
            # A branch in which a question is answered anew starts where the subgraph asked it: at one of these.
            self._queue.extend(n for n in self._spaces[child.child_ns] if child.origin < n <= child.head)

    def _waits(self, node: Node) -> bool:
        """Whether a task has a question without an answer."""
        for path, origin in node.waiting:
            for place in (path, f"!{path}"):
                at = (node.ns, origin, place)
                asked = self._filed.get((*at, PAUSES))
                if asked is None or (*at, RESULT) in self._filed:
                    continue
                answers = self._filed.get((*at, ANSWERS))
                if set(asked.channels).difference(() if answers is None else answers.channels):
                    return True
        return False

    def _led_to(self) -> set[int]:
        """The ancestors of what stays."""
        found: set[int] = set()
        for n in self.kept:
            above = self._outline.nodes[n].parent
            while above is not None and above not in found:
                found.add(above)
                node = self._outline.nodes.get(above)
                above = None if node is None else node.parent
        return found


def _planned(outline: Outline, keeping: _Keeping) -> Plan:
    nodes, kept = outline.nodes, keeping.kept
    rewrites = _rewrites(nodes, kept)
    gone = sorted((n for n in nodes if n not in kept), reverse=True)
    needed: set[tuple[int, int]] = set()
    for n in kept:
        rewrite = rewrites.get(n)
        changes = _folded(nodes, nodes[n]) if rewrite is not None and rewrite.full else nodes[n].changes
        needed.update(span for spans in changes.values() if spans is not None for span in spans)
    filed = {(nodes[n].ns, origin) for n in kept for origin in nodes[n].origins}
    needed.update(span for key, write in outline.writes.items() if key[:2] in filed for span in write.spans)
    spans = merged_spans(needed)
    spaces = {nodes[n].ns for n in kept}
    values = [n for n in sorted(outline.sizes) if not is_within(n, spans)]
    removed = Removal(
        [(nodes[n].ns, n) for n in gone],
        [key for key in outline.writes if key[:2] not in filed],
        [child[:4] for child in outline.children if child[:4] not in keeping.pointers],
        [ns for ns in sorted(outline.namespaces) if ns not in spaces and ns != ROOT_NS],
        values,
    )
    pruned = Pruned(1)
    count(pruned, outline, removed)
    return Plan(frozenset(kept), _steps(outline, rewrites, removed), removed, pruned)


def count(pruned: Pruned, outline: Outline, removed: Removal) -> None:
    """Add what a removal takes away."""
    pruned.checkpoints += len(removed.checkpoints)
    pruned.writes += len(removed.writes)
    pruned.values += len(removed.values)
    pruned.namespaces += len(removed.namespaces)
    pruned.bytes += sum(outline.nodes[n].bytes for _, n in removed.checkpoints)
    pruned.bytes += sum(outline.writes[key].bytes for key in removed.writes)
    pruned.bytes += sum(outline.sizes[n] for n in removed.values)


def _rewrites(nodes: Mapping[int, Node], kept: set[int]) -> dict[int, Rewrite]:
    """The rows of kept checkpoints that have to change, by number: those whose parent goes, and those based on what goes."""
    near: dict[int, int | None] = {}
    bases: dict[int, int] = {}
    found: dict[int, Rewrite] = {}
    for n in sorted(nodes):
        node = nodes[n]
        above = None if node.parent is None else near.get(node.parent)
        near[n] = n if n in kept else above
        if n not in kept:
            continue
        cut = above != node.parent
        bases[n] = base = n if cut or node.full else node.base if above is None else bases[above]
        if cut or base != node.base:
            found[n] = Rewrite(node.ns, n, above, base, cut and not node.full)
    return found


def _folded(nodes: Mapping[int, Node], node: Node) -> dict[str, Spans | None]:
    """What all channels of a checkpoint refer to.

    Raises:
        CorruptRecord: one of its chain is missing.
    """
    chain = [node]
    while chain[-1].n != node.base:
        above = nodes.get(chain[-1].parent or 0)
        if above is None or above.n < node.base:
            raise CorruptRecord(
                f"checkpoint {node.id} cannot be kept: its ancestor {chain[-1].parent} is missing", checkpoint=node.id
            )
        chain.append(above)
    found: dict[str, Spans | None] = {}
    for one in reversed(chain):
        if one.full:
            found.clear()
        found.update(one.changes)
    return found


def _steps(outline: Outline, rewrites: Mapping[int, Rewrite], removed: Removal) -> tuple[Step, ...]:
    """Outermost first, for what leads to a subgraph goes before it; and in a namespace newest first: what is based on a row changes
    with it, and what hangs on it and goes is gone by then.
    """
    groups: defaultdict[int, list[Rewrite]] = defaultdict(list)
    for rewrite in rewrites.values():
        groups[rewrite.base].append(rewrite)
    depths = {ns: name.count(NS_SEP) + 1 for ns, name in outline.namespaces.items() if name}
    steps = [(depths.get(ns, 0), 0, -n, Step(gone=(ns, n))) for ns, n in removed.checkpoints]
    steps += [(depths.get(group[0].ns, 0), 0, -lead, Step(tuple(group))) for lead, group in groups.items()]
    steps += [(depths.get(key[0], 0), 1, at, Step(pointer=key)) for at, key in enumerate(removed.children)]
    return tuple(step[-1] for step in sorted(steps, key=lambda step: step[:3]))


def everything(outline: Outline) -> Removal:
    """All rows of a thread, to be counted."""
    return Removal(
        [(node.ns, node.n) for node in outline.nodes.values()],
        [*outline.writes],
        [child[:4] for child in outline.children],
        [ns for ns in outline.namespaces if ns != ROOT_NS],
        [*outline.sizes],
        thread=True,
    )


def batches(planned: Plan, size: int) -> Iterator[tuple[Sequence[Rewrite], Removal]]:
    """What each commit rewrites and removes, of about `size` rows: checkpoints first, then what only they referred to."""
    rewrites: list[Rewrite] = []
    gone: list[tuple[int, int]] = []
    pointers: list[tuple[int, int, str, int]] = []
    for step in planned.steps:
        rewrites += step.rewrites
        gone += [] if step.gone is None else [step.gone]
        pointers += [] if step.pointer is None else [step.pointer]
        if len(rewrites) + len(gone) + len(pointers) >= size:
            yield rewrites, Removal(gone, children=pointers)
            rewrites, gone, pointers = [], [], []
    part, left = Removal(gone, children=pointers), size - len(rewrites) - len(gone) - len(pointers)
    for name in ("writes", "namespaces", "values"):
        keys = getattr(planned.removed, name)
        while keys:
            part = part._replace(**{name: keys[:left]})
            keys, left = keys[left:], left - len(keys)
            if left <= 0:
                yield rewrites, part
                rewrites, part, left = [], Removal(), size
    if rewrites or any(part):
        yield rewrites, part
