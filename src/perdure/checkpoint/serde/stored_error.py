"""What is kept of an exception: its type, its message, its traceback as text. The exception itself is never rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

MAX_MESSAGE: Final = 100_000
MAX_TRACEBACK: Final = 200_000


@dataclass(frozen=True, slots=True, repr=False)
class StoredError:
    """An exception as it comes back from storage.

    Attributes:
        type: module and qualified name of its class, as "builtins.ValueError".
        message: its text.
        traceback: its formatted traceback.
    """

    type: str
    message: str
    traceback: str = ""

    def __repr__(self) -> str:
        return f"{self.type.rpartition('.')[2]}({self.message!r})"

    def __str__(self) -> str:
        return self.message

    @classmethod
    def of(cls, error: BaseException) -> StoredError:
        """The record of an exception. Never fails, whatever the exception's own methods do."""
        kind = type(error)
        module, name = _attempt(lambda: kind.__module__), _attempt(lambda: kind.__qualname__)
        text = _attempt(lambda: str(error))
        if text is None:
            text = f"<the text of this {name or 'error'} cannot be read: its __str__ fails>"
        return cls(f"{module or 'unknown'}.{name or 'unknown'}", _shortened(text, MAX_MESSAGE), _traceback_of(error))


def error_record(exc: BaseException) -> dict[str, str]:
    """Type, message and traceback of an exception as a plain dict. Never fails, whatever the exception's own methods do."""
    stored = StoredError.of(exc)
    return {"type": stored.type, "message": stored.message, "traceback": stored.traceback}


def text_of(error: BaseException) -> str:
    """One line about an exception, for messages. Never fails."""
    stored = StoredError.of(error)
    return _shortened(f"{stored.type.removeprefix('builtins.')}: {stored.message}", 500)


def _attempt(read: Any) -> str | None:
    # BaseException: a __str__ that raises SystemExit must not end the recording of a failure.
    try:
        text = read()
        if not isinstance(text, str):
            return None
        # Makes a plain str of a subclass, without calling its methods; lone surrogates become escapes.
        return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")
    except BaseException:  # noqa: BLE001
        return None


def _traceback_of(error: BaseException) -> str:
    import traceback

    # `error.__traceback__` can be a property of a hostile class, so even the fallback may fail.
    text = _attempt(lambda: "".join(traceback.format_exception(error)))
    if text is None:
        text = _attempt(lambda: "".join(traceback.format_tb(BaseException.__getattribute__(error, "__traceback__"))))
    return _shortened(text or "", MAX_TRACEBACK)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
