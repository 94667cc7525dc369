"""Where files are touched: what a path or an open file is written to and read from, in each colour."""

from __future__ import annotations

import asyncio
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar, TypeVarTuple

from perdure.checkpoint.transfer.file_format import FileReader, FileWriter
from perdure.errors import CorruptRecord, InvalidArgument, WrongType
from perdure.failpoints import failpoint

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Work(Protocol):
    """Does what takes a disk's time."""

    async def do(self, call: Callable[[*Ts], T], *args: *Ts) -> T:
        """The result of a call."""
        ...


class BlockingWork:
    """See `Work`: on the caller's thread."""

    async def do(self, call: Callable[[*Ts], T], *args: *Ts) -> T:
        """See `Work.do`."""
        return call(*args)


class SuspendingWork:
    """See `Work`: on another thread, so that the loop goes on meanwhile."""

    async def do(self, call: Callable[[*Ts], T], *args: *Ts) -> T:
        """See `Work.do`."""
        return await asyncio.to_thread(call, *args)


class OutFile:
    """What a thread is exported to.

    A path gets its file when that is whole: it is written beside it, under a name of its own that ends in `.partial`, and put in
    place by one rename. An open file is written to from where it stands.

    Args:
        target: a path, or a file that is open for writing bytes.

    Raises:
        WrongType: it is neither.
        InvalidArgument: the path cannot be one.
    """

    def __init__(self, target: Any) -> None:
        self._path = _path(target, "write")
        self._partial = Path()
        self._file: Any = target
        self.writer = FileWriter(target)

    def open(self) -> None:
        """Begin. What processes that died left half-written is removed.

        Raises:
            FileNotFoundError: there is no such folder. It names the path that was given, and not that of the half-written file.
        """
        if self._path is None:
            return
        if not self._path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist, and an export makes none", str(self._path))
        for left in self._path.parent.glob("*.partial"):
            if left.name.startswith(f"{self._path.name}."):
                left.unlink(missing_ok=True)
        self._partial = self._path.with_name(f"{self._path.name}.{os.getpid()}-{os.urandom(4).hex()}.partial")
        self._file = self._partial.open("xb")
        self.writer = FileWriter(self._file)
        failpoint("transfer.export.begun")

    def finish(self) -> None:
        """Make it durable, and put it in place."""
        if self._path is None:
            return
        failpoint("transfer.export.written")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)
        failpoint("transfer.export.replaced")
        _sync_folder(self._path.parent)

    def abandon(self) -> None:
        """Remove what was written, where that can be done."""
        if self._path is not None and self._file is not None:
            try:
                self._file.close()
            except OSError:
                pass  # the disk is full, so what was buffered cannot be written; it is closed all the same
            self._partial.unlink(missing_ok=True)


class InFile:
    """What a thread is imported from.

    Args:
        source: a path, or a file that is open for reading bytes. Of the latter nothing behind the thread is read.

    Raises:
        WrongType: it is neither.
        InvalidArgument: the path cannot be one.
    """

    def __init__(self, source: Any) -> None:
        self._path = _path(source, "read")
        self._file: IO[bytes] = source
        self.reader = FileReader(source, str(getattr(source, "name", "the file")))

    def open(self) -> None:
        """Begin."""
        if self._path is not None:
            self._file = self._path.open("rb")
            self.reader = FileReader(self._file, str(self._path))

    def end(self) -> None:
        """A file of one thread has nothing behind it.

        Raises:
            CorruptRecord: it has.
        """
        if self._path is not None and self._file.read(1):
            raise CorruptRecord(
                f"{self._path} cannot be imported: there is something behind the thread. Nothing of it was stored"
            )

    def close(self) -> None:
        """End, however it ended."""
        if self._path is not None and not isinstance(self._file, (str, os.PathLike)):
            self._file.close()


def _path(target: Any, method: str) -> Path | None:
    if isinstance(target, (str, os.PathLike)):
        name = os.fspath(target)
        if isinstance(name, str) and name and "\x00" not in name:
            return Path(name)
        raise InvalidArgument(f"the path of a file is text that is not empty and holds no NUL character, got {name!r}")
    reads = method == "read"
    # Not every object that one can read from has these methods.
    is_able = getattr(target, "readable" if reads else "writable", None)
    if isinstance(target, io.TextIOBase) or not hasattr(target, method) or (callable(is_able) and not is_able()):
        mode = getattr(target, "mode", None)
        raise WrongType(
            f"a thread is {'imported from' if reads else 'exported to'} a path or a file that is open for bytes, such as "
            f"open('thread.perdure', {'rb' if reads else 'wb'!r}), not {type(target).__name__}"
            + (f" in mode {mode!r}" if isinstance(mode, str) else "")
        )
    return None


def _sync_folder(folder: Path) -> None:
    # The rename survives a power cut once the folder is on the disk. Systems that cannot open folders do without.
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
