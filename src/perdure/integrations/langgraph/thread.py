"""One thread of LangGraph's tables, as the rows of a thread of ours. Pure, but for the tables that are read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from perdure.checkpoint.incremental.writer import ValueWriter
from perdure.checkpoint.numbering import Numbers
from perdure.checkpoint.pauses import Asked, stored
from perdure.checkpoint.records import (
    ANSWERS,
    ERROR,
    FULL_EVERY,
    PAUSES,
    RESULT,
    ROOT_NS,
    CheckpointRow,
    ChildRow,
    Entry,
    Packed,
    Pending,
    Status,
    ThreadRow,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.rows import checkpoint_body, pack_id, write_body
from perdure.checkpoint.transfer.raw import CHECKPOINT, CHILD, NAMESPACE, VALUE, WRITE, RawRow, place
from perdure.clock import Clock
from perdure.constants import ERROR as ERROR_CHANNEL
from perdure.constants import ERROR_SOURCE_NODE, MEMORIES, NO_WRITES, NULL_TASK_ID, START, TASKS
from perdure.constants import INTERRUPT as INTERRUPT_CHANNEL
from perdure.constants import RESUME as RESUME_CHANNEL
from perdure.errors import NotStorable
from perdure.ids import interrupt_id, task_id, unix_ns_of
from perdure.integrations.langgraph import steering as steer
from perdure.integrations.langgraph.records import entrypoint_in, error_of, in_order, refuse_deltas, scalars, ticks
from perdure.integrations.langgraph.report import ThreadReport
from perdure.integrations.langgraph.tables import Key, StoredWrite, Tables, by_task
from perdure.integrations.langgraph.values import Delta, Question, Refusal, Values
from perdure.types import Interrupt

CHAIN_SPAN = 512
"""As in the books of a run: a chain of checkpoints that spans more numbers is cut."""

_NULL = Packed("null", b"")
_NOTHING = (WriteItem(NO_WRITES, _NULL),)
_SPECIAL = (INTERRUPT_CHANNEL, RESUME_CHANNEL, ERROR_CHANNEL, ERROR_SOURCE_NODE, "__scheduled__")


@dataclass(slots=True)
class _Place:
    """A checkpoint that has its row: what later ones have to know of it."""

    key: Key
    row: CheckpointRow
    entries: dict[str, Entry]
    depth: int
    next: tuple[str, ...]
    versions: dict[str, Any]
    tasks: dict[str, steer.Task] = field(default_factory=dict)
    results: list[Pending] = field(default_factory=list)
    sends: list[Any] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    questions: dict[str, list[Asked]] = field(default_factory=dict)
    taken: list[Any] = field(default_factory=list)
    loose: list[Any] = field(default_factory=list)
    failed: bool = False


class ThreadImport:
    """Brings one thread.

    Args:
        tables: where it is.
        thread: its id.
        serde: the serializer of the saver that it goes to.
        clock: its clock.
        langchain: keep messages as LangChain's own classes.
    """

    def __init__(self, tables: Tables, thread: str, serde: Any, clock: Clock, *, langchain: bool = False) -> None:
        self.report = ThreadReport(thread)
        self._tables = tables
        self._values = Values(serde, self.report.notes, langchain=langchain)
        self._serde = serde
        self._numbers = Numbers(1, 0, clock)
        self._places: dict[tuple[str, str], _Place] = {}
        self._namespaces: dict[str, int] = {"": ROOT_NS}
        self._names: dict[str, str] = {"": ""}
        self._writers: dict[int, ValueWriter] = {}
        self._writes: list[WriteRow] = []
        self._children: list[ChildRow] = []
        self._entrypoint: str | None = None

    def read(self) -> tuple[ThreadRow, list[RawRow]]:
        """The thread's row, and its other rows in the order of travel.

        Raises:
            Refusal: it cannot be brought.
            CorruptRecord: the tables are damaged.
            NotStorable: a value of it cannot be stored.
        """
        with self._tables.snapshot():
            for key in in_order(self._tables.keys(self.report.thread)):
                if key.namespace not in self._namespaces:
                    self._namespaces[key.namespace] = self._numbers.take()
                self._checkpoint(key)
        head = max((here.key.id for here in self._places.values() if not here.key.namespace), default=None)
        if head is None:
            raise Refusal("it has no checkpoint of its root graph")
        self._link()
        for here in self._places.values():
            self._loose(here)
        return self._thread(self._places["", head]), self._raw()

    # -- checkpoints --------------------------------------------------------------------------------------------------------

    def _checkpoint(self, key: Key) -> None:
        stored_one = self._tables.checkpoint(self.report.thread, key, self._values.decode)
        above = None if key.parent is None else self._places.get((key.namespace, key.parent))
        if key.parent is not None and above is None:
            self.report.notes["a checkpoint's parent is not in the tables any more; it begins a line of its own"] += 1
        if self._entrypoint is None and not key.namespace:
            self._entrypoint = entrypoint_in(stored_one)
        n = self._numbers.take()
        ns = self._namespaces[key.namespace]
        sent = above.sends if above is not None and (stored_one.fields.get("v") or 1) < 4 else ()
        found = steer.steering_of(stored_one, n, sent, None if key.namespace else self._entrypoint, self.report.notes)
        metadata = stored_one.metadata
        refuse_deltas(stored_one)
        go_on = self._numbers.follows(ns, n, None if above is None else above.row.n)
        row = CheckpointRow(
            n,
            ns,
            key.id,
            None if above is None else above.row.n,
            n,
            int(metadata.get("step", 0)),
            str(metadata.get("source") or "loop"),
            {},
            True,
            found.frontier,
            _ran(metadata, above),
            found.joins,
            found.deferred,
            scalars(metadata),
        )
        here = _Place(key, row, {}, 0, found.next, dict(stored_one.fields.get("channel_versions") or {}))
        here.parents = {str(name): str(public) for name, public in (metadata.get("parents") or {}).items()}
        self._entries(here, above, found, go_on=go_on)
        self._places[key.namespace, key.id] = here
        self._tasks(here, stored_one.writes)
        self.report.checkpoints += 1

    def _entries(self, here: _Place, above: _Place | None, found: steer.Steering, *, go_on: bool) -> None:
        """Where each value is: one that has the version it had before is not stored again."""
        row, writer = here.row, self._writer(here.row.ns)
        writer.begin()
        if not go_on:
            writer.closed()
        entries = here.entries
        for channel, given in found.state.items():
            value = given.value if isinstance(given, Delta) else given
            before = None if above is None else above.entries.get(channel)
            version = here.versions.get(channel)
            if above is not None and before is not None and version is not None and version == above.versions.get(channel):
                entries[channel] = before if go_on else before.closed()
                continue
            try:
                form = writer.whole(value) if channel == START else writer.channel(channel, value, go_on=go_on)[0]
            except NotStorable as error:
                raise Refusal(f"the value of {channel!r} cannot be stored: {error}") from error
            entries[channel] = Entry(row.n, *form)
        if found.sends:
            entries[TASKS] = Entry(row.n, *writer.whole(found.sends))
        writer.end()
        base = None if above is None else above.row
        if above is None or base is None or not go_on or above.depth + 1 >= FULL_EVERY or row.n - base.base > CHAIN_SPAN:
            row.changes = dict(entries)
            return
        row.full, row.base, here.depth = False, base.base, above.depth + 1
        row.changes = {channel: entry for channel, entry in entries.items() if above.entries.get(channel) != entry}
        row.changes.update(dict.fromkeys(channel for channel in above.entries if channel not in entries))

    def _writer(self, ns: int) -> ValueWriter:
        if ns not in self._writers:
            self._writers[ns] = ValueWriter(self._numbers, lambda: self._serde)
        return self._writers[ns]

    # -- what tasks left ----------------------------------------------------------------------------------------------------

    def _tasks(self, here: _Place, writes: list[StoredWrite]) -> None:
        known = {task.path: task for task in here.row.frontier if task.path != START and "-" not in task.path}
        given = by_task(writes)
        loose = given.pop(NULL_TASK_ID, [])
        here.sends = steer.sends_among(writes, self._values.decode)
        steps = 0
        for task, of_task in given.items():
            path = of_task[0].path
            named = steer.task_of(path, known)
            if named is None:
                if path.startswith((steer.EDIT, steer.DELTA)):
                    continue
                if path.startswith(steer.PUSH):
                    steps += 1
                else:
                    self.report.notes["writes of a task that the tables do not name were left behind: it runs again"] += 1
                continue
            here.tasks[task] = named
            if START not in (named.node, named.path):
                self._task(here, named, of_task)
        if steps:
            self.report.notes["results of durable steps were left behind: a step of a node that has not ended runs again"] += (
                steps
            )
        for write in loose:
            if write.channel == RESUME_CHANNEL:
                here.loose.append(self._values.decode(write.tag, write.data))
            else:
                self.report.notes["a command's update or goto counts only where a checkpoint came of it"] += 1

    def _task(self, here: _Place, task: steer.Task, writes: list[StoredWrite]) -> None:
        n, ns = here.row.n, here.row.ns
        decoded = [(write.channel, self._values.decode(write.tag, write.data)) for write in writes]
        special = {channel: value for channel, value in decoded if channel in _SPECIAL}
        results = [(channel, value) for channel, value in decoded if channel not in _SPECIAL]
        if results:
            kept = [(channel, value) for channel, value in results if channel != NO_WRITES and not channel.startswith("join:")]
            self._writes.append(WriteRow(ns, n, task.path, RESULT, self._items(ns, kept)))
            here.results.append(Pending(task.path, n, (task.node,)))
            self.report.results += 1
        questions = [one for one in special.get(INTERRUPT_CHANNEL) or () if isinstance(one, Question)]
        answers = special.get(RESUME_CHANNEL)
        self._pauses(here, task, questions, answers if isinstance(answers, list) else [])
        if ERROR_CHANNEL in special and not results:
            items: list[tuple[str, Any]] = [("error", error_of(special[ERROR_CHANNEL]))]
            if ERROR_SOURCE_NODE in special:
                items.append((ERROR_SOURCE_NODE, special[ERROR_SOURCE_NODE]))
            self._writes.append(WriteRow(ns, n, task.path, ERROR, self._items(ns, items)))
            here.failed = True

    def _pauses(self, here: _Place, task: steer.Task, questions: list[Question], answers: list[Any]) -> None:
        """Questions are told apart by their place among the calls of the node, as they were there. Of those that were answered only the
        answers are left.
        """
        if not questions and not answers:
            return
        n, ns = here.row.n, here.row.ns
        own = task_id(here.key.id, self._names.get(here.key.namespace, here.key.namespace), task.path)
        given: dict[str, Any] = {}
        asked: list[Asked] = []
        here.taken += answers
        for at, answer in enumerate(answers):
            pause = interrupt_id(own, str(at))
            asked.append(Asked(Interrupt(None, pause, node=task.node), str(at), "", at + 1))
            given[pause] = answer
        for at, question in enumerate(questions, len(answers)):
            pause = question.id or interrupt_id(own, str(at))
            if not question.id:
                self.report.notes["a question has got a new id, for the tables do not have one"] += 1
            told = Interrupt(question.value, pause, response_schema=question.schema, node=task.node)
            asked.append(Asked(told, str(at), "", len(answers) + 1))
        here.questions[task.path] = asked
        self._writes.append(
            WriteRow(ns, n, task.path, PAUSES, self._items(ns, [(one.question.id, stored(one)) for one in asked]))
        )
        if given:
            self._writes.append(WriteRow(ns, n, task.path, ANSWERS, self._items(ns, list(given.items()))))

    def _loose(self, here: _Place) -> None:
        """The answer that a caller's command left on a checkpoint, if no task has taken it yet. A task that took it has it among its own,
        also a task of a subgraph; where that cannot be told, for two answers are equal, the question is asked again.
        """
        done = {task.path for task in here.results}
        waiting = [(path, asked[-1].question.id) for path, asked in here.questions.items() if path not in done]
        below = [one for one in self._places.values() if here.key.id in one.parents.values()]
        taken = [answer for one in (here, *below) for answer in one.taken]
        for answer in here.loose:
            if len(waiting) == 1 and answer not in taken:
                path, pause = waiting[0]
                key = (here.row.ns, here.row.n, path, ANSWERS)
                rows = [row for row in self._writes if (row.ns, row.origin, row.path, row.kind) == key]
                before = rows[-1].items if rows else ()
                items = self._items(here.row.ns, [(pause, answer)])
                self._writes.append(WriteRow(here.row.ns, here.row.n, path, ANSWERS, (*before, *items)))

    def _items(self, ns: int, values: list[tuple[str, Any]]) -> tuple[WriteItem, ...]:
        writer = self._writer(ns)
        writer.begin()
        items = []
        for channel, value in values:
            try:
                items.append(WriteItem(channel, *writer.whole(value)) if value is not None else WriteItem(channel, _NULL))
            except NotStorable as error:
                raise Refusal(f"what a task wrote to {channel!r} cannot be stored: {error}") from error
        writer.end()
        return tuple(items) or _NOTHING

    # -- subgraphs ----------------------------------------------------------------------------------------------------------

    def _link(self) -> None:
        """Give the tasks pointers to the subgraphs they ran, and the subgraphs the names they have here."""
        for name in sorted((name for name in self._namespaces if name), key=lambda name: name.count("|")):
            self._link_one(name)

    def _link_one(self, name: str) -> None:
        around, node, old_task, call = steer.namespace_parts(name)
        groups: defaultdict[str, list[_Place]] = defaultdict(list)
        for (namespace, _), here in self._places.items():
            if namespace == name:
                above = max(here.parents, key=lambda one: (one.count("|"), len(one)), default="")
                around = above if old_task is None else around
                groups[here.parents.get(around, "")].append(here)
        ns = self._namespaces[name]
        self._names[name] = name
        for parent_id, places in groups.items():
            parent = self._places.get((around, parent_id))
            path = None if parent is None else _path_of(parent, node, old_task)
            if parent is None or path is None:
                self.report.notes[f"a run of subgraph {node!r} has lost its parent: it can be looked at, not gone on with"] += 1
                continue
            head = max(places, key=lambda here: here.row.n)
            self._children.append(ChildRow(parent.row.ns, parent.row.n, path, call, ns, head.row.n))
            if old_task is not None:
                own = task_id(parent.key.id, self._names[around], path)
                prefix = f"{self._names[around]}|" if around else ""
                self._names[name] = f"{prefix}{node}:{own}" + (f"|{call}" if call else "")
            else:
                self._remember(parent, path, name, head.row.n)
            self._pass_up(parent, path, head)

    def _remember(self, parent: _Place, path: str, name: str, head: int) -> None:
        """From here on, the subgraph's memory is what this run left."""
        for at, row in enumerate(self._writes):
            if (row.ns, row.origin, row.path, row.kind) == (parent.row.ns, parent.row.n, path, RESULT):
                self._writes[at] = WriteRow(
                    row.ns, row.origin, row.path, row.kind, (*row.items, *self._items(row.ns, [(MEMORIES, {name: head})]))
                )
        after = {parent.row.n}
        for here in self._places.values():
            if here.row.ns == parent.row.ns and here.row.parent in after:
                after.add(here.row.n)
                here.row.memories = {**here.row.memories, name: max(head, here.row.memories.get(name, 0))}

    def _pass_up(self, parent: _Place, path: str, head: _Place) -> None:
        """A question of a subgraph is its parent's task's as well, there without a place of its own."""
        inner = {one.question.id for asked in head.questions.values() for one in asked}
        for at, row in enumerate(self._writes):
            if (row.ns, row.origin, row.path, row.kind) == (parent.row.ns, parent.row.n, path, PAUSES):
                asked = [
                    one._replace(place=None, child=(head.row.ns, head.row.n)) if one.question.id in inner else one
                    for one in parent.questions.get(path, ())
                ]
                parent.questions[path] = asked
                items = self._items(row.ns, [(one.question.id, stored(one)) for one in asked])
                self._writes[at] = WriteRow(row.ns, row.origin, row.path, PAUSES, items)

    # -- rows ---------------------------------------------------------------------------------------------------------------

    def _thread(self, head: _Place) -> ThreadRow:
        report = self.report
        answered = {
            item.channel for row in self._writes if row.kind == ANSWERS and row.origin == head.row.n for item in row.items
        }
        done = {task.path for task in head.results}
        report.next = tuple(node for node in head.next if node not in done)
        report.pauses = sum(
            one.question.id not in answered for path, asked in head.questions.items() if path not in done for one in asked
        )
        report.namespaces = len(self._namespaces) - 1
        status: Status = "error" if head.failed else "interrupted" if head.row.frontier else "idle"
        newest = max(ticks(here.key.id) for here in self._places.values())
        times = [unix_ns_of(when) for when in sorted(ticks(here.key.id) for here in self._places.values()) if when]
        return ThreadRow(
            report.thread,
            head=head.row.n,
            next_n=self._numbers.next_n,
            newest=newest,
            status=status,
            created_ns=max(0, times[0]) if times else 0,
            updated_ns=max(0, times[-1]) if times else 0,
        )

    def _raw(self) -> list[RawRow]:
        rows: list[RawRow] = []
        for name, ns in self._namespaces.items():
            if name:
                rows.append(RawRow(NAMESPACE, (ns,), self._names[name].encode()))
        for writer in self._writers.values():
            rows += [RawRow(VALUE, (value.n, value.packed.tag), value.packed.data) for value in writer.taken()]
        for here in self._places.values():
            row = here.row
            rows.append(RawRow(CHECKPOINT, (row.ns, row.n, pack_id(row.id)), checkpoint_body(row)))
        written = {(row.ns, row.origin, row.path, row.kind): row for row in self._writes}
        rows += [RawRow(WRITE, key, write_body(row.items)) for key, row in written.items()]
        rows += [RawRow(CHILD, tuple(child)) for child in {child[:4]: child for child in self._children}.values()]
        return sorted(rows, key=place)


def _ran(metadata: dict[str, Any], above: _Place | None) -> tuple[Pending, ...]:
    return tuple(above.results) if above is not None and metadata.get("source") == "loop" else ()


def _path_of(parent: _Place, node: str, old_task: str | None) -> str | None:
    """The path of the task that ran a subgraph: by the task's id where it left writes, or else the only task of that node."""
    if old_task is not None and old_task in parent.tasks:
        return parent.tasks[old_task].path
    paths = [task.path for task in (*parent.row.frontier, *parent.results) if task.path == node]
    if paths:
        return node
    sends = [task.path for task in parent.row.frontier if task.path.startswith("#")]
    return sends[0] if len(sends) == 1 and "-" not in sends[0] and node in parent.next else None
