"""Typed items: every part of version "v2" is what its TypedDict says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints

import pydantic
import pytest

from perdure import types
from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_message_writer, get_stream_writer
from perdure.streaming import parts
from perdure.types import interrupt
from tests.engine.colours import Colour, thread
from tests.streaming.stories import line

SHAPE_OF = {
    "values": parts.ValuesStreamPart,
    "updates": parts.UpdatesStreamPart,
    "messages": parts.MessagesStreamPart,
    "custom": parts.CustomStreamPart,
    "checkpoints": parts.CheckpointStreamPart,
    "tasks": parts.TasksStreamPart,
    "debug": parts.DebugStreamPart,
}


def fits(value: Any, shape: Any) -> bool:
    """Whether a dict has the keys of a TypedDict and no other."""
    return bool(shape.__required_keys__ <= set(value) <= set(get_type_hints(shape)))


def everything(colour: Colour) -> list[Any]:
    def node(_: Any) -> Any:
        get_stream_writer()({"any": "thing"})
        get_message_writer().write("x")
        return {"log": ["a"]}

    def asks(_: Any) -> Any:
        return {"log": [interrupt("q")]}

    graph = line(("n", colour.node(node)), ("asks", colour.node(asks))).compile(InMemorySaver())
    return colour.stream(graph, {"log": []}, thread(), stream_mode=list(SHAPE_OF), version="v2")


def test_every_part_has_the_keys_of_its_shape(colour: Colour) -> None:
    found = everything(colour)
    assert {part["type"] for part in found} == set(SHAPE_OF)
    for part in found:
        assert fits(part, SHAPE_OF[part["type"]]), part
        assert part["ns"] == ()


def test_payloads_have_the_keys_of_theirs(colour: Colour) -> None:
    for part in everything(colour):
        data = part["data"]
        if part["type"] == "tasks":
            assert fits(data, parts.TaskPayload) or fits(data, parts.TaskResultPayload)
        elif part["type"] == "checkpoints":
            assert fits(data, parts.CheckpointPayload)
            assert all(fits(task, parts.CheckpointTask) for task in data["tasks"])
        elif part["type"] == "debug":
            shape = {"checkpoint": parts.DebugCheckpoint, "task": parts.DebugTask, "task_result": parts.DebugTaskResult}
            assert fits(data, shape[data["type"]])
            payload = {"checkpoint": parts.CheckpointPayload, "task": parts.TaskPayload, "task_result": parts.TaskResultPayload}
            assert fits(data["payload"], payload[data["type"]])


def test_questions_stand_beside_the_values(colour: Colour) -> None:
    last = [part for part in everything(colour) if part["type"] == "values"][-1]
    assert last["data"] == {"log": ["a"]}
    assert [question.value for question in last["interrupts"]] == ["q"]


def test_the_shapes_are_names_of_types_too() -> None:
    for name in parts.PARTS:
        assert getattr(types, name) is getattr(parts, name)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = types.Nothing  # type: ignore[attr-defined]


def test_pydantic_can_check_parts(colour: Colour) -> None:
    update, *_ = (part for part in everything(colour) if part["type"] == "updates")
    assert pydantic.TypeAdapter(parts.UpdatesStreamPart).validate_python(update) == update


class Model(pydantic.BaseModel):
    """A state as a model."""

    a: int = 0
    b: str = ""


class Answer(pydantic.BaseModel):
    """An output that is not complete from the beginning."""

    b: str


@dataclass
class Data:
    """A state as a dataclass."""

    a: int = 0


def test_values_are_objects_of_the_output_schema(colour: Colour) -> None:
    for schema in (Model, Data):
        graph = line(("n", colour.node(lambda state: {"a": state.a + 1})), state=schema).compile(InMemorySaver())
        found = colour.stream(graph, {"a": 1}, thread(), stream_mode=["values", "checkpoints", "debug", "tasks"], version="v2")
        assert [part["data"] for part in found if part["type"] == "values"] == [schema(a=1), schema(a=2)]
        checkpoints = [part["data"] for part in found if part["type"] == "checkpoints"]
        debug = [part["data"]["payload"] for part in found if part["type"] == "debug" and part["data"]["type"] == "checkpoint"]
        for shown in (checkpoints, debug):
            assert [type(each["values"]) for each in shown] == [dict, schema, schema]
        plain = colour.stream(graph, {"a": 1}, thread("2"), stream_mode="values")
        assert [type(values) for values in plain] == [dict, dict]


def test_an_output_that_is_not_complete_yet_is_shown_as_far_as_it_is(colour: Colour) -> None:
    from perdure import START, StateGraph

    graph: Any = StateGraph(Model, output_schema=Answer).add_node("n", colour.node(lambda _: {"b": "x"})).add_edge(START, "n")
    found = colour.stream(graph.compile(), {"a": 1}, stream_mode="values", version="v2")
    assert found[-1]["data"] == Answer(b="x")
    assert found[0]["data"] in ({"a": 1}, Answer(b=""))


def test_only_the_graphs_own_values_are_objects(colour: Colour) -> None:
    inner = line(("n", colour.node(lambda state: {"a": state.a + 1})), state=Model).compile()
    graph = line(("p", inner), state=Data).compile()
    found = colour.stream(graph, {"a": 1}, stream_mode="values", version="v2", subgraphs=True)
    assert {(len(part["ns"]), type(part["data"])) for part in found} == {(0, Data), (1, dict)}


def test_values_restricted_to_keys_are_no_objects(colour: Colour) -> None:
    graph = line(("n", colour.node(lambda _: {"b": "x"})), state=Model).compile()
    found = colour.stream(graph, {"a": 1}, stream_mode="values", version="v2", output_keys=["b"])
    assert [part["data"] for part in found] == [{"b": "x"}]
