"""Where a subgraph's checkpoint hangs: upwards from a checkpoint that a config names, or downwards from where the thread is now.

A child has no head of its own. A task points to the newest checkpoint of each subgraph that it runs, and a checkpoint says where the
subgraphs that remember are as of it. So "now" is what is found on the way down from the root's head, and a checkpoint belongs to the
task whose pointer has it among its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perdure.checkpoint.records import RESULT, ROOT_NS, BranchName, ChildRow, Loaded
from perdure.constants import NS_END, NS_SEP
from perdure.engine.deciding.frontier import indexes
from perdure.engine.deciding.known_calls import top_of
from perdure.engine.past.forking import Inside
from perdure.errors import UnknownCheckpoint

if TYPE_CHECKING:
    from perdure.engine.storing.session import Access

MEMORY = "="
"""How the path of a pointer begins that no task made, but an edit of what a subgraph remembers."""


class Place(NamedTuple):
    """Where a checkpoint of a subgraph hangs.

    Attributes:
        above: the checkpoints around it, from the root's to the one whose task runs the subgraph, or whose memory it is.
        links: for each of these, its pointer to the next; None where that is a memory.
        target: the checkpoint itself.
        is_now: it is where the thread, or the branch that was asked for, stands.
    """

    above: Sequence[Loaded]
    links: Sequence[ChildRow | None]
    target: Loaded
    is_now: bool

    @property
    def root(self) -> Loaded:
        """The root's checkpoint around it."""
        return self.above[0]

    @property
    def waits(self) -> bool:
        """The thread is about to go on there, so that no branch is needed for that: no task on the way has a result yet."""
        return self.is_now and all(
            link is not None and not _has_result(at, link) for at, link in zip(self.above, self.links, strict=True)
        )

    @property
    def inside(self) -> Inside | None:
        """The way from the root's checkpoint to it; as far as tasks lead, for a memory belongs to the checkpoint that has it."""
        found: Inside | None = None
        numbers = [(at.row.ns, at.row.n) for at in (*self.above[1:], self.target) if at.row is not None]
        led = self.links.index(None) if None in self.links else len(self.links)
        for link, (ns, n) in reversed([*zip(self.links[:led], numbers[:led], strict=True)]):
            if link is not None:
                found = Inside(link.path, link.call, ns, n, found)
        return found


async def standing(access: Access, namespace: str, branch: BranchName | None = None, n: int | None = None) -> Place | None:
    """Where a subgraph stands now; None if the thread, or its branch, does not lead there.

    Args:
        access: the way to the thread.
        namespace: the subgraph's.
        branch: of which branch; None: the head's.
        n: it has to stand at this checkpoint. (Several tasks may run one that remembers.)
    """
    root = await access.records.load(access.thread, ROOT_NS, branch)
    return await _down(access, (namespace, n), (root,), ())


async def _down(
    access: Access, wanted: tuple[str, int | None], above: tuple[Loaded, ...], links: tuple[ChildRow | None, ...]
) -> Place | None:
    namespace, number = wanted
    for name, n, link in _ways(above[-1], namespace):
        if name == namespace and number not in (None, n):
            continue
        below = await access.records.load(access.thread, name, n)
        if below.row is None:
            continue
        if name == namespace:
            return Place(above, (*links, link), below, True)
        found = await _down(access, wanted, (*above, below), (*links, link))
        if found is not None:
            return found
    return None


def _ways(at: Loaded, namespace: str) -> Iterator[tuple[str, int, ChildRow | None]]:
    """What leads from a checkpoint to a namespace: subgraphs of its open tasks, the newest first; then what it remembers."""
    row = at.row
    if row is None:
        return
    for child in sorted(at.children, key=lambda child: -child.head):
        name = at.namespaces.get(child.child_ns, "")
        if _leads(name, namespace) and is_open(at, child):
            yield name, child.head, child
    for name in sorted(row.memories, key=len, reverse=True):
        if _leads(name, namespace):
            yield name, row.memories[name], None


def _leads(name: str, namespace: str) -> bool:
    """Whether a subgraph of one name is in, or around, that of another. A memory's name does not say which tasks are around it."""
    ours, wanted = name.split(NS_SEP), namespace.split(NS_SEP)
    if len(ours) > len(wanted):
        return False
    return all(
        part == want or (NS_END not in want and part.partition(NS_END)[0] == want)
        for part, want in zip(ours, wanted, strict=False)
    )


def _has_result(at: Loaded, child: ChildRow) -> bool:
    top = top_of(child.path)
    return any((row.origin, row.path, row.kind) == (child.origin, top, RESULT) for row in at.writes)


def is_open(at: Loaded, child: ChildRow) -> bool:
    """Whether the task that a pointer is of is among those that a checkpoint leads to."""
    row = at.row
    top = top_of(child.path).lstrip("!")
    sent = int(top[1:]) if top.startswith("#") else None
    tasks = () if row is None else (*row.frontier, *row.deferred)
    return any(
        task.origin == child.origin
        and (task.path == top or (sent is not None and task.path[0] == "#" and sent in indexes(task.path)))
        for task in tasks
    )


async def locate(access: Access, namespace: str, checkpoint: str, *, now: bool = True) -> Place:
    """Where a checkpoint inside a subgraph hangs.

    Args:
        access: the way to the thread.
        namespace: the subgraph's.
        checkpoint: its id.
        now: look whether the thread stands there; False: look only for the task that made it.

    Raises:
        UnknownCheckpoint: there is no such checkpoint in that namespace.
    """
    records, thread = access.records, access.thread
    target = await records.load(thread, namespace, checkpoint)
    if target.row is None:
        raise _unknown(access, namespace, checkpoint)
    here = await standing(access, namespace, n=target.row.n) if now else None
    if here is not None:
        return here
    above: list[Loaded] = []
    links: list[ChildRow | None] = []
    at = target
    while True:
        row = at.row
        pointer = None if row is None else await _pointer_to(access, row.ns, row.n)
        if row is None or pointer is None:
            raise _unknown(access, namespace, checkpoint)
        # The checkpoint under which the subgraph ran then: an edit may have come after the one that triggered the task.
        at = await records.load(thread, pointer.ns, None, within=row.n)
        if at.row is None or not is_open(at, pointer):
            at = await records.load(thread, pointer.ns, pointer.origin)
        above.append(at)
        links.append(None if pointer.path.startswith(MEMORY) else pointer)
        if pointer.ns == ROOT_NS:
            return Place(above[::-1], links[::-1], target, False)


async def _pointer_to(access: Access, ns: int, n: int) -> ChildRow | None:
    """The pointer of the task that made checkpoint `n`: several tasks may be at work in the namespace of a memory."""
    records, thread = access.records, access.thread
    first = pointer = await records.pointer_to(thread, ns, n)
    while pointer is not None and pointer.head != n:
        if await _descends(access, ns, pointer.head, n):
            return pointer
        pointer = await records.pointer_to(thread, ns, pointer.head + 1)
    return pointer or first


async def _descends(access: Access, ns: int, n: int, ancestor: int) -> bool:
    """Whether checkpoint `n` of a namespace descends from another one."""
    at: int | None = n
    while at is not None and at > ancestor:
        chain = (await access.records.load(access.thread, ns, at)).chain
        if any(row.n == ancestor for row in chain):
            return True
        at = chain[0].parent if chain else None
    return at == ancestor


def _unknown(access: Access, namespace: str, checkpoint: str) -> UnknownCheckpoint:
    return UnknownCheckpoint(
        f"thread {access.thread!r} has no checkpoint {checkpoint!r} in namespace {namespace!r}; take configs from "
        "get_state(config, subgraphs=True)",
        thread=access.thread,
        checkpoint=checkpoint,
    )
