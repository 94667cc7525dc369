"""Dicts that tell of changes: every way to change one is told, and nothing else is."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from perdure.checkpoint.incremental.outline import Outliner
from perdure.messages import Message, RemoveMessage
from perdure.telling import TELLING, TellingDict, last_change, telling


def set_item(message: Message) -> None:
    message["content"] = "other"


def delete_item(message: Message) -> None:
    del message["content"]


def make_anew(message: Message) -> None:
    Message.__init__(message, role="user", content="other")


def merge(message: Message) -> None:
    message |= {"content": "other"}


CHANGES: list[Callable[[Message], Any]] = [
    set_item,
    delete_item,
    merge,
    make_anew,
    lambda message: message.update(content="other"),
    lambda message: message.update({"content": "other"}),
    lambda message: message.setdefault("name", "other"),
    lambda message: message.pop("content"),
    lambda message: message.popitem(),
    lambda message: message.clear(),
]


def half(message: Message) -> None:
    def pairs() -> Any:
        yield "content", "other"
        raise ValueError

    message.update(pairs())


@pytest.mark.parametrize("change", CHANGES)
def test_every_way_to_change_one_is_told(change: Callable[[Message], Any]) -> None:
    message, before, known = Message(role="user", content="hi"), last_change(), dict(role="user", content="hi")
    change(message)
    assert message != known
    assert last_change() is not before


def test_all_methods_of_a_dict_that_change_it_are_covered() -> None:
    reading = {"__contains__", "__getitem__", "__len__", "__iter__", "__reversed__", "__or__", "__ror__", "__class_getitem__"}
    reading |= {"copy", "fromkeys", "get", "items", "keys", "values"}
    of_objects = set(dir(object)) | {"__hash__"}
    changing = {name for name in dir(dict) if name not in of_objects} - reading
    assert {name for name in changing if getattr(TellingDict, name) is getattr(dict, name)} == set()


def test_a_change_that_fails_half_way_is_told() -> None:
    message, before = Message(role="user", content="hi"), last_change()
    with pytest.raises(ValueError):
        half(message)
    assert message["content"] == "other"
    assert last_change() is not before


def test_making_and_reading_tells_nothing() -> None:
    message, before = Message(role="user", content="hi", id="1"), last_change()
    assert message.copy() == dict(message) == {**message} == dict(message.items())
    assert (message.role, message.get("x"), (RemoveMessage("1") | {"x": 1})["x"]) == ("user", None, 1)
    assert last_change() is before


def test_what_is_put_right_is_told_whatever_stands_beside_it() -> None:
    message, plain = Message(role="user", content="hi"), {"role": "user"}
    outline = Outliner(lambda _: "items").of([message, plain])
    assert outline is not None
    message["content"] = "other"
    before = last_change()
    assert outline.restore()
    assert message == Message(role="user", content="hi")
    assert last_change() is not before


def test_copies_are_whole() -> None:
    message = Message(role="user", content=["hi"], id="1")
    for made in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert (type(made), made) == (Message, message)


def test_a_class_counts_only_if_it_says_so() -> None:
    class Silent(Message):
        __slots__ = ("other",)

    @telling
    class Telling(TellingDict[str, int]):
        __slots__ = ()

    try:
        assert {Message, RemoveMessage, Telling} <= TELLING
        assert Silent not in TELLING
    finally:
        TELLING.discard(Telling)
