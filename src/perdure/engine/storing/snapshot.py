"""From a loaded checkpoint to the StateSnapshot that callers see. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.checkpoint.reading import metadata_of
from perdure.checkpoint.records import Loaded
from perdure.clock import iso_of
from perdure.constants import CONF, PULL, PUSH, START
from perdure.engine.deciding import returns
from perdure.engine.storing.restore import Restored
from perdure.errors import CorruptRecord
from perdure.ids import task_id, ticks_in, unix_ns_of
from perdure.types import Interrupt, PregelTask, RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from perdure.checkpoint.base import CheckpointMetadata
    from perdure.checkpoint.serde.base import SerializerProtocol
    from perdure.engine.program import Program


def nothing(config: RunnableConfig, *, root: bool) -> StateSnapshot:
    """The snapshot of a thread that does not exist."""
    return StateSnapshot(None if root else {}, (), config, None, None, None, (), ())


def address_of(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    """The config that addresses a checkpoint."""
    return {CONF: {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


class Snapshooter:
    """Makes the snapshot of one checkpoint.

    Args:
        program: the graph.
        loaded: the checkpoint.
        serde: how bytes become values.
        namespace: its namespace.
        live: it is asked for as "now", not by id: results of the open super-step are shown as if they were applied, and tasks that
            have one are not next.
        now_ns: the time by which questions are overdue.
    """

    def __init__(
        self, program: Program, loaded: Loaded, serde: SerializerProtocol, namespace: str, *, live: bool, now_ns: int = 0
    ) -> None:
        self.program = program
        self.loaded = loaded
        self.namespace = namespace
        self.live = live
        self.restored = Restored(program, loaded, serde, now_ns, reads=True)
        self.row = self.restored.row
        self.answers: dict[str, Any] = {}
        for path, origin in self.restored.paths():
            self.answers.update(self.restored.answers(origin, path))

    def snapshot(self, states: dict[tuple[int, str], Any]) -> StateSnapshot:
        """The snapshot.

        Args:
            states: per (origin, path) of a task: the config or snapshot of the subgraph that it runs.
        """
        row = self.row
        thread = self.loaded.thread.thread
        tasks = self._tasks(states)
        done = [write for task, writes in tasks if writes is not None and self.live for write in writes]
        # Where every task has a result and yet no checkpoint holds them, applying them failed: they are still to be applied.
        waits = self.live and any(writes is None for _, writes in tasks)
        following = tuple(task.name for task, writes in tasks if writes is None or not waits)
        parent = (row.extra or {}).get("parent") or (None if row.parent is None else self.loaded.ids.get(row.parent))
        shown = tuple(task for task, _ in tasks)
        return StateSnapshot(
            self._values(done),
            following,
            address_of(thread, self.namespace, row.id),
            self._metadata(),
            _created(row.id),
            None if parent is None else address_of(thread, self.namespace, parent),
            shown,
            tuple(pause for task in shown for pause in task.interrupts),
        )

    def _values(self, writes: Sequence[returns.Write]) -> Any:
        live = self.restored.live
        view = live.view
        if writes:
            try:
                view = live.preview(writes)
                if self.program.validate_state is not None:
                    self.program.validate_state(view, frozenset(key for key, _ in writes))
            except Exception:  # noqa: BLE001 - a reducer or the schema refused these results, which is why the run ended: that must be seen
                view = live.view
        if self.program.root:
            return next(iter(view.values()), None)
        single = self.program.single_output
        if single is not None:
            return view.get(single)
        return {key: view[key] for key in self.program.stream_keys if key in view}

    def _metadata(self) -> CheckpointMetadata:
        row = self.row
        if row.extra and "metadata" in row.extra:
            return row.extra["metadata"]  # type: ignore[no-any-return]
        metadata = metadata_of(row)
        metadata["writes"] = self._writes()
        return metadata  # type: ignore[return-value]

    def _writes(self) -> Any:
        """What made this checkpoint: the input, or the updates by node (P51)."""
        if self.row.source == "input":
            return None if self.restored.given is MISSING else self.restored.given
        if self.row.source == "fork":
            return None  # it says who ran before, so that an edit knows in whose name; nothing was written to make it
        found: dict[str, Any] = {}
        several: set[str] = set()
        for task, path in ((t, p) for t in self.row.ran for p in _paths(t.path)):
            writes = self.restored.result(task.origin, path)
            if writes is None:
                continue  # not kept: durability "exit"
            name = task.triggers[0] if task.triggers else path
            shown = self.program.single_output or tuple(self.program.channels)
            update = returns.update_of(writes, shown, root=self.program.root)
            if name in several:
                found[name].append(update)
            elif name in found:
                several.add(name)
                found[name] = [found[name], update]
            else:
                found[name] = update
        return found or None

    def _tasks(self, states: dict[tuple[int, str], Any]) -> list[tuple[PregelTask, list[returns.Write] | None]]:
        restored = self.restored
        if restored.enters:
            return [self._entry()]
        order = self.program.order
        paths = restored.paths(handlers=False)
        sends = [item for item in paths if item[0].startswith("#")]
        nodes = sorted((item for item in paths if not item[0].startswith("#")), key=lambda item: order.get(item[0], len(order)))
        return [self._task(path, origin, states.get((origin, path))) for path, origin in (*sends, *nodes)]

    def _entry(self) -> tuple[PregelTask, list[returns.Write] | None]:
        identity = task_id(self.row.id, self.namespace, START)
        writes = returns.input_writes(self.program, self.restored.given)
        result = None if self.live else returns.result_of(writes, self.program.stream_keys, root=self.program.root)
        return PregelTask(identity, START, (PULL, START), result=result), None

    def _task(self, path: str, origin: int, state: Any) -> tuple[PregelTask, list[returns.Write] | None]:
        restored = self.restored
        index = int(path[1:]) if path.startswith("#") else None
        name = path if index is None else restored.live.sends[index].node
        where: tuple[Any, ...] = (PULL, name) if index is None else (PUSH, index, False)
        writes = restored.result(origin, path)
        failure = None if writes is not None and self.live else restored.error(origin, path)
        if self.live:
            asked = restored.unanswered(origin, path, self.answers)
        else:
            # What an edit inside has closed is open again in a branch off an older checkpoint, but not where the thread stands.
            is_head = self.row.n == self.loaded.thread.head
            asked = [one for one in restored.asked(origin, path) if not (one.closed and is_head)]
        by_handler = restored.unanswered(origin, f"!{path}", self.answers)
        pauses: tuple[Interrupt, ...] = tuple(one.question for one in (*asked, *by_handler))
        if failure is not None and not failure.handled and any(one.place is not None for one in asked):
            failure = None  # it was tried again since, and asked
        result = None
        if writes is not None:
            result = returns.shown_of(self.program, writes)
        error = None if failure is None else failure.shown
        public = restored.ids.get(origin, self.row.id)
        if self.program.node(name) is None:
            status = "missing"
        elif writes is not None:
            status = "done"
        elif failure is not None and not failure.handled:
            status = "cancelled" if failure.cancelled else "error"
        else:
            status = "paused" if pauses else "pending"
        # What asked is counted; so is the entry that came to an end, which asks nothing.
        ended = writes is not None or (failure is not None and not pauses)
        entries = max((one.entry for one in restored.questions(origin, path)), default=0) + ended
        task = PregelTask(task_id(public, self.namespace, path), name, where, error, pauses, state, result, status, entries)
        return task, writes


def _paths(path: str) -> list[str]:
    if not path.startswith("#"):
        return [path]
    from perdure.engine.deciding.frontier import indexes

    return [f"#{index}" for index in indexes(path)]


def _created(checkpoint: str) -> str | None:
    try:
        return iso_of(unix_ns_of(ticks_in(checkpoint)))
    except CorruptRecord:
        return None
