"""What a process remembers of the newest states it has stored or read, so that the next turn of a long thread neither reads nor decodes
them again.

Nothing here is ever believed: a load says which checkpoint it found, and only what was remembered of that very checkpoint counts.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from perdure.checkpoint.incremental.originals import Known
from perdure.checkpoint.incremental.outline import Look
from perdure.checkpoint.records import Have

HEAD_CACHE = 64 * 1024 * 1024
"""About how many bytes of states a saver remembers, if it is not told otherwise."""

FOR_EACH = 200
"""What an element takes beside its stored bytes."""

FOR_MODEL = 1000
"""The same, of a model."""


class Head(NamedTuple):
    """What is remembered of one checkpoint.

    Attributes:
        incarnation: of its thread.
        checkpoint: its public id.
        values: of channels whose value is large and stored by element.
    """

    incarnation: int
    checkpoint: str
    values: Mapping[str, Known]

    @property
    def have(self) -> Have:
        """What a load need not bring."""
        return Have(self.incarnation, self.checkpoint, frozenset(self.values))

    def known_to(self, look: Look) -> Head:
        """What of it consists of classes that can still be loaded. One that was defined anew, as notebooks do, is another one now.

        Args:
            look: what objects of a class consist of, for the serializer that would load them.
        """
        gone = {key for key, known in self.values.items() if None in map(look, known.originals.classes)}
        return self._replace(values={key: self.values[key] for key in self.values.keys() - gone}) if gone else self

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        originals = [known.originals for known in self.values.values()]
        return sum(each.size + (FOR_MODEL if each.has_models else FOR_EACH) * len(each.values) for each in originals)


class Heads:
    """Remembers heads of threads, by thread, namespace and branch; those used last.

    Args:
        limit: about how many bytes; 0: it remembers nothing.

    Notes:
        Safe to share between threads: one lock, under which only dictionaries change. What is handed out is never changed, so whoever
        got it may go on using it. A child process made by a fork begins with nothing.
    """

    def __init__(self, limit: int = HEAD_CACHE) -> None:
        self.limit = limit
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._heads: OrderedDict[tuple[str, str], tuple[Head, int]] = OrderedDict()
        self.size = 0

    def get(self, thread: str, branch: str = "") -> Head | None:
        """What is remembered of the root's head, or of the tip of a named branch."""
        if not self.limit:
            return None
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            found = self._heads.get((thread, branch))
            if found is None:
                return None
            self._heads.move_to_end((thread, branch))
            return found[0]

    def put(self, thread: str, branch: str, head: Head) -> None:
        """Remember a head, in the place of an older one."""
        if self._pid != os.getpid():
            self._begin()
        size = head.size
        with self._lock:
            self._drop((thread, branch))
            if head.values and size <= self.limit:
                self._heads[thread, branch] = (head, size)
                self.size += size
            while self.size > self.limit:
                self._drop(next(iter(self._heads)))

    def forget(self, thread: str) -> None:
        """Forget all of a thread."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            for key in [key for key in self._heads if key[0] == thread]:
                self._drop(key)

    def clear(self) -> None:
        """Forget everything."""
        self._begin()

    def _drop(self, key: tuple[str, str]) -> None:
        found = self._heads.pop(key, None)
        if found is not None:
            self.size -= found[1]
