"""Errors of failed tasks are kept whatever the exception does."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.checkpoint.serde.stored_error import StoredError, error_record, text_of
from perdure.errors import GraphInterrupt, UnknownNode

SERDE = JsonPlusSerializer()


class Loud(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Quits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


class Sly(str):
    __slots__ = ()

    def encode(self, *args: Any) -> bytes:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError


class ChildText(Exception):
    def __str__(self) -> str:
        return Sly("sly")


class NoTraceback(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise SystemExit

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise RuntimeError


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("kind", [Loud, Quits, NotText, ChildText, NoTraceback])
def test_P30_error_records_are_never_refused(kind: type[Exception]) -> None:
    record = error_record(raised(kind("a")))
    assert record["type"] == f"{__name__}.{kind.__name__}"
    assert all(type(text) is str for text in record.values())
    assert SERDE.loads_typed(SERDE.dumps_typed(record)) == record
    assert type(SERDE.loads_typed(SERDE.dumps_typed({"e": kind("a")}))["e"]) is StoredError


def test_P30_error_records_keep_type_message_and_traceback() -> None:
    record = error_record(raised(ValueError("boom")))
    assert record["type"] == "builtins.ValueError"
    assert record["message"] == "boom"
    assert "in raised" in record["traceback"]
    assert record["traceback"].endswith("ValueError: boom\n")


def test_P30_surrogates_and_long_texts() -> None:
    record = error_record(ValueError("\ud800" + "x" * 1_000_000))
    assert record["message"].startswith("\\ud800")
    assert len(record["message"]) < 110_000
    assert "left out" in record["message"]


def test_P30_deep_recursion_is_recorded() -> None:
    def deeper() -> None:
        deeper()

    with pytest.raises(RecursionError) as caught:
        deeper()
    assert "repeated" in error_record(caught.value)["traceback"]


def test_exceptions_in_values_come_back_as_stored_errors() -> None:
    error = raised(UnknownNode("no node 'x'", node="x"))
    loaded = SERDE.loads_typed(SERDE.dumps_typed([error, GraphInterrupt(())]))
    assert repr(loaded[0]) == "UnknownNode(\"no node 'x'\")"
    assert loaded[0].type == "perdure.errors.UnknownNode"
    assert str(loaded[0]) == "no node 'x'"
    assert loaded[1].type == "perdure.errors.GraphInterrupt"
    assert SERDE.loads_typed(SERDE.dumps_typed(loaded)) == loaded


def test_stored_errors_look_like_the_exception() -> None:
    assert repr(StoredError.of(ValueError("boom"))) == "ValueError('boom')"
    assert text_of(ValueError("boom")) == "ValueError: boom"
