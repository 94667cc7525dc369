"""The methods of savers that move threads."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any

from perdure.bridge import run_blocking
from perdure.checkpoint.over_records import OverRecords
from perdure.checkpoint.transfer.port import movable
from perdure.errors import ThreadExists
from perdure.ids import thread_text

if TYPE_CHECKING:
    from perdure.checkpoint.transfer.flow import Source
    from perdure.checkpoint.transfer.raw import Contents

File = str | os.PathLike[str] | IO[bytes]


class Movable(OverRecords):
    """Copying, exporting and importing threads, for savers over a record store."""

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> Contents:
        """Copy a thread to another id, whole: history, branches, subgraphs, open questions, stored results.

        The copy has the same checkpoint ids, and goes on by itself. Nobody sees it before it is whole.

        Args:
            source_thread_id: which thread.
            target_thread_id: the copy's id.

        Returns:
            How many rows were copied, and their digest; the copy was read back and compared.

        Raises:
            UnknownThread: there is no such thread.
            ThreadBusy: a run holds it, or it was written to meanwhile. Nothing was stored.
            ThreadExists: the other id is taken, or is the same. Nothing was stored.
            SaveFailed: the database failed. Nothing was stored.
        """
        from perdure.checkpoint.transfer.flow import copied

        target = _another(source_thread_id, target_thread_id)
        return run_blocking(copied(self._source(source_thread_id, blocking=True), movable(self.blocking()), target, self.clock))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> Contents:
        """See `copy_thread`."""
        from perdure.checkpoint.transfer.flow import copied

        target = _another(source_thread_id, target_thread_id)
        return await copied(self._source(source_thread_id, blocking=False), movable(self.suspending()), target, self.clock)

    def export_thread(self, thread_id: str, file: File) -> Contents:
        """Write a thread into a file, whole, in a documented format that is verified when it is imported.

        Args:
            thread_id: which thread.
            file: a path, or a file that is open for writing bytes. A file that is there already is replaced, at the end.

        Returns:
            How many rows were written, and their digest.

        Raises:
            UnknownThread: there is no such thread.
            ThreadBusy: a run holds it, or it was written to meanwhile. No file is left then.
            OSError: the file could not be written. None is left then, and one that was there is as it was.
            TypeError: this is no file for bytes.
        """
        from perdure.checkpoint.transfer.connections import BlockingWork, OutFile
        from perdure.checkpoint.transfer.flow import exported

        return run_blocking(exported(self._source(thread_id, blocking=True), OutFile(file), BlockingWork()))

    async def aexport_thread(self, thread_id: str, file: File) -> Contents:
        """See `export_thread`. The file is written on another thread."""
        from perdure.checkpoint.transfer.connections import OutFile, SuspendingWork
        from perdure.checkpoint.transfer.flow import exported

        return await exported(self._source(thread_id, blocking=False), OutFile(file), SuspendingWork())

    def import_thread(self, file: File, thread_id: str | None = None) -> Contents:
        """Store the thread of a file that `export_thread` wrote. Nobody sees it before it is whole and verified.

        Args:
            file: a path, or a file that is open for reading bytes.
            thread_id: its id here; the one it had, if not given.

        Returns:
            How many rows were stored, and their digest; they were read back and compared.

        Raises:
            CorruptRecord: the file was cut off or altered, or is none. Nothing was stored.
            UnknownFormat: a newer version wrote it.
            ThreadExists: there is a thread of that id. Nothing was stored.
            SaveFailed: the database failed. Nothing was stored.
            OSError: the file could not be read. Nothing was stored.
            TypeError: this is no file for bytes.
        """
        from perdure.checkpoint.transfer.connections import BlockingWork, InFile
        from perdure.checkpoint.transfer.flow import imported

        name = None if thread_id is None else thread_text(thread_id)
        return run_blocking(imported(InFile(file), movable(self.blocking()), name, self.clock, BlockingWork()))[1]

    async def aimport_thread(self, file: File, thread_id: str | None = None) -> Contents:
        """See `import_thread`. The file is read on another thread."""
        from perdure.checkpoint.transfer.connections import InFile, SuspendingWork
        from perdure.checkpoint.transfer.flow import imported

        name = None if thread_id is None else thread_text(thread_id)
        return (await imported(InFile(file), movable(self.suspending()), name, self.clock, SuspendingWork()))[1]

    def _source(self, thread: Any, *, blocking: bool) -> Source:
        from perdure.checkpoint.transfer.flow import Source

        return Source(movable(self.blocking() if blocking else self.suspending()), thread_text(thread), self.clock)


def _another(source: str, target: str) -> str:
    """The id of a copy."""
    text = thread_text(target)
    if text == thread_text(source):
        raise ThreadExists(f"a thread cannot be copied onto itself: give the copy of {text!r} another id", thread=text)
    return text
