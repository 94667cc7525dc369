"""The questions of one task: which call of `interrupt` each belongs to, over any number of entries into the task's code.

Code that is entered again asks again. A question is the same as before if it has the same `key`, or else stands at the same place
among the calls and has the same value; calls that were open together may come in another order, so those are told apart by their
values alone. A lone question whose text has changed (a time of day in it, say) is still the one at its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.pauses import Asked
from perdure.errors import AmbiguousPause
from perdure.ids import interrupt_id
from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.engine.tasks.task import Task


class Questions:
    """The questions of a task, those of earlier entries and those of this one.

    Notes:
        Helpers of a node may ask from several threads at once; the task holds its lock while one of them is matched.
    """

    __slots__ = ("_before", "_calls", "_task", "_used", "earlier", "now")

    def __init__(self, task: Task, earlier: Sequence[Asked] = ()) -> None:
        self._task = task
        self.know(earlier)
        self.now: list[Asked] = []
        self._used: set[str] = set()
        self._calls = 0

    def know(self, earlier: Sequence[Asked]) -> None:
        """Take in what was asked in earlier entries."""
        self.earlier = {asked.question.id: asked for asked in earlier}
        self._before = max((asked.entry for asked in earlier), default=0)

    @property
    def entry(self) -> int:
        """Number of this entry into the task's code, from 1: each attempt is one."""
        return self._before + max(self._task.attempt, 1)

    def begin(self) -> None:
        """Another attempt at the same entry begins."""
        self.now = []
        self._used = set()
        self._calls = 0

    def identify(self, value: Any, key: str | None) -> tuple[str, str, str]:
        """The id, the place and the digest of a question that is asked now.

        Raises:
            AmbiguousPause: it may be any of several that were open together.
        """
        call = self._calls
        self._calls += 1
        digest = _digest(value)
        place = self._place(call, digest) if key is None else f"key:{key}"
        # One that was asked before keeps its id, which is another one where it was brought from elsewhere.
        before = next((asked.question.id for asked in self.earlier.values() if asked.place == place), None)
        identity = before or interrupt_id(self._task.id, place)
        if key is not None and identity in self._used:
            raise AmbiguousPause(
                f"node {self._task.node.name!r} asks two questions with key={key!r} in one run; give each a key of its own",
                node=self._task.node.name,
                key=key,
            )
        self._used.add(identity)
        return identity, place, digest

    def _place(self, call: int, digest: str) -> str:
        unused = [asked for asked in self.earlier.values() if asked.place is not None and asked.question.id not in self._used]
        here = next((asked for asked in unused if asked.place == str(call)), None)
        if here is not None and here.digest == digest:
            return str(call)
        same = next((asked for asked in unused if asked.digest == digest and not str(asked.place).startswith("key:")), None)
        if same is not None:
            return str(same.place)
        if here is not None:
            if here.together:
                raise AmbiguousPause(
                    f"node {self._task.node.name!r} asks several questions at once, and one of them differs from those it asked before, "
                    "so its answer cannot be found: give each a name with interrupt(value, key=...)",
                    node=self._task.node.name,
                )
            return str(call)
        taken = {asked.place for asked in (*self.earlier.values(), *self.now)}
        while str(call) in taken:
            call += 1
        return str(call)

    def register(self, question: Interrupt, place: str, digest: str) -> None:
        """Note a question that has no answer; it counts even if the node swallows the pause."""
        together = bool(self.now)
        if together:
            self.now = [asked._replace(together=True) for asked in self.now]
        self.now.append(Asked(question, place, digest, self.entry, together, None, self._task.called, self._n))

    def adopt(self, question: Interrupt, child: tuple[int, int] | None, steps: int | None = None) -> None:
        """Note a question that a subgraph of the task asked, or a durable step: that which began after `steps` others."""
        if all(asked.question.id != question.id for asked in self.now):
            begun = self._task.called if steps is None else steps
            self.now.append(Asked(question, None, "", self.entry, False, child, begun, self._n))

    @property
    def _n(self) -> int:
        journal = self._task.run.journal
        return 0 if journal is None else journal.session.numbers.next_n

    def all(self) -> list[Asked]:
        """All that is to be kept: this entry's questions, and those of earlier entries that it did not ask again."""
        asked_now = {asked.question.id for asked in self.now}
        return [*(asked for asked in self.earlier.values() if asked.question.id not in asked_now), *self.now]


def _digest(value: Any) -> str:
    # Only equality within one task matters, so the value's own text is enough, and works for what no serializer knows.
    return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
