"""The saver that keeps threads in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.backends.memory.records import MemoryRecords
from perdure.checkpoint.saver import Saver

if TYPE_CHECKING:
    from perdure.checkpoint.records import RecordStore


class InMemorySaver(Saver):
    """Keeps threads in a dictionary of this process: for tests, notebooks and trying things out. All is gone with the process.

    What is stored is detached from the caller's objects, as with any other saver: values are kept as bytes.

    Args:
        serde: how values become bytes; `JsonPlusSerializer()` if not given.
        options: `lease_seconds`, `persist`, `head_cache`, `retention`, `clock`; see `perdure.checkpoint.saver.Saver`.
    """

    def __init__(self, *, serde: Any = None, **options: Any) -> None:
        super().__init__(serde=serde, **options)
        self._records = MemoryRecords()

    def blocking(self) -> RecordStore:
        """The records; they never wait for anything, so both colours share them."""
        return self._records

    def suspending(self) -> RecordStore:
        """See `blocking`."""
        return self._records

    def __exit__(self, *_: object) -> None:
        """Leaving a `with` keeps what is stored: there is no connection to release."""

    async def __aexit__(self, *_: object) -> None:
        """See `__exit__`."""
