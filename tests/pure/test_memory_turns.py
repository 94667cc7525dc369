"""A signal handler that comes in the middle of a turn at the memory store: whatever it calls is refused, for the turn is half done."""

import inspect
from typing import Any

import pytest

from perdure.backends.memory.records import MemoryRecords
from perdure.bridge import run_blocking
from perdure.errors import InvalidCall, SaverClosed

METHODS = [
    name
    for name, method in vars(MemoryRecords).items()
    if inspect.iscoroutinefunction(method) and name not in {"close", "_open"}
]


def call(records: MemoryRecords, name: str) -> Any:
    method = getattr(records, name)
    wanted = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    positional = [None for one in wanted if one.kind is not one.KEYWORD_ONLY]
    return run_blocking(method(*positional, **{one.name: None for one in wanted if one.kind is one.KEYWORD_ONLY}))


@pytest.mark.parametrize("name", METHODS)
def test_a_call_inside_a_turn_is_refused_and_one_after_the_end_too(name: str):
    records = MemoryRecords()
    with records._lock, pytest.raises(InvalidCall, match="signal handler"):
        call(records, name)
    run_blocking(records.close())
    with pytest.raises(SaverClosed):
        call(records, name)


def test_these_are_all_methods_of_the_store():
    assert {"commit", "recent", "runs", "reclaim", "renew", "release", "discard", "rows"} <= {*METHODS}
