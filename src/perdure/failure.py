"""What every error of this library has in common, and the one for what it does not have; the other kinds are in `perdure.errors`."""

from __future__ import annotations

from typing import Any


class PerdureError(Exception):
    """Base of all errors of this library.

    Args:
        message: what happened, where, and what to do about it.
        thread: the thread concerned.
        checkpoint: the id of the checkpoint concerned.
        node: the node concerned.
        key: the state key, item key or path concerned.
        code: overrides the class's code where one class covers several known cases.
    """

    __module__ = "perdure.errors"
    code: str = "PERDURE"

    def __init__(
        self,
        message: str = "",
        *,
        thread: str | None = None,
        checkpoint: str | None = None,
        node: str | None = None,
        key: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.thread = thread
        self.checkpoint = checkpoint
        self.node = node
        self.key = key
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        # KeyError and ImportError, which some classes also inherit, print themselves oddly.
        return self.message

    def __reduce__(self) -> Any:
        # Keyword arguments are not in `args`, so the default would lose them when an error crosses a process.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[PerdureError], args: tuple[Any, ...], state: dict[str, Any]) -> PerdureError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class NotOffered(PerdureError, ImportError):
    """A name that other systems of this field have, and this one has not; the message says what to use."""

    __module__ = "perdure.errors"
    code = "NOT_OFFERED"
