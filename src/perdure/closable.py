"""What is closed where a `with` or an `async with` ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


class Closable:
    """A context manager of both colours, for what has `close` and `aclose`."""

    def close(self) -> None:
        """Let go of what is held."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """`close` for async code."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
