"""States of every kind: pydantic, dataclass, root values, input and output schemas, private keys."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from perdure import END, START, StateGraph
from perdure.channels import UntrackedValue
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidState, UnknownKey
from perdure.types import Send
from tests.engine.colours import Colour, thread


class Inner(BaseModel):
    n: int


class Model(BaseModel):
    name: str
    count: int = 0
    log: Annotated[list[str], operator.add] = []
    inner: Inner | None = None


@dataclass
class Data:
    name: str
    count: int = 0
    log: Annotated[list[str], operator.add] = field(default_factory=list)


# -- pydantic -------------------------------------------------------------------------------------------------------------


def test_a_node_gets_a_pydantic_object_and_invoke_gives_the_raw_values(colour: Colour, saver: Any) -> None:
    seen: list[Any] = []

    def node(state: Model) -> dict[str, Any]:
        seen.append(state)
        return {"log": [state.name], "inner": Inner(n=state.count)}

    graph = StateGraph(Model).add_node("a", colour.node(node)).add_edge(START, "a").compile(saver)
    out = colour.invoke(graph, {"name": "n", "count": 2}, thread())
    assert seen == [Model(name="n", count=2)]
    assert out == {"name": "n", "count": 2, "log": ["n"], "inner": Inner(n=2)}


def test_values_are_stored_raw_and_coerced_where_a_node_sees_them(colour: Colour, saver: Any) -> None:
    seen: list[Any] = []
    graph = (
        StateGraph(Model).add_node("a", colour.node(lambda state: seen.append(state.count))).add_edge(START, "a").compile(saver)
    )
    out = colour.invoke(graph, {"name": "n", "count": "3"}, thread())
    assert (seen, out["count"]) == ([3], "3")


def test_an_input_that_no_node_can_take_fails_there(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Model).add_node("a", colour.node(lambda _: {"log": ["a"]})).add_edge(START, "a").compile(kept)
    with pytest.raises((ValidationError, InvalidState)):
        colour.invoke(graph, {"count": "many", "name": "n"}, thread())


def test_an_input_may_be_an_object(colour: Colour, saver: Any) -> None:
    for schema in (Model, Data):
        graph = (
            StateGraph(schema)
            .add_node("a", colour.node(lambda state: {"log": [state.name]}))
            .add_edge(START, "a")
            .compile(saver)
        )
        out = colour.invoke(graph, schema(name="n", count=4), thread(schema.__name__))
        assert (out["name"], out["count"], out["log"]) == ("n", 4, ["n"])


def test_a_node_may_return_an_object_and_its_unset_none_is_no_update(colour: Colour, saver: Any) -> None:
    def node(state: Model) -> Model:
        return Model(name="new", log=["a"])

    graph = StateGraph(Model).add_node("a", colour.node(node)).add_edge(START, "a").compile(saver)
    out = colour.invoke(graph, {"name": "n", "inner": Inner(n=1)}, thread())
    assert (out["name"], out["log"], out["inner"]) == ("new", ["a"], Inner(n=1))


def test_the_second_version_of_invoke_gives_the_object(colour: Colour) -> None:
    for schema in (Model, Data):
        graph = StateGraph(schema).add_node("a", colour.node(lambda _: {"log": ["a"]})).add_edge(START, "a").compile()
        out = colour.invoke(graph, {"name": "n"}, version="v2")
        assert out.value == schema(name="n", log=["a"])
        assert type(out.value) is schema


def test_P32_a_wrong_value_is_refused_after_its_reducer_and_names_node_and_key(colour: Colour, saver: Any) -> None:
    for schema in (Model, Data):
        graph = (
            StateGraph(schema)
            .add_node("writes", colour.node(lambda _: {"count": "many"}))
            .add_edge(START, "writes")
            .compile(saver)
        )
        with pytest.raises(InvalidState, match=r"Key 'count' cannot hold 'many' \(str\)") as caught:
            colour.invoke(graph, {"name": "n"}, thread(schema.__name__))
        assert (caught.value.key, caught.value.node) == ("count", "writes")


def test_P32_what_a_reducer_made_is_what_is_checked(colour: Colour) -> None:
    def joined(left: Any, right: Any) -> Any:
        return "broken" if right == "break" else [*(left or []), right]

    class Joined(BaseModel):
        log: Annotated[list[str], joined] = []

    graph = StateGraph(Joined).add_node("a", colour.node(lambda _: {"log": "break"})).add_edge(START, "a").compile()
    with pytest.raises(InvalidState, match="'log' cannot hold 'broken'"):
        colour.invoke(graph, {"log": "fine"})


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_P32_nothing_wrong_is_stored_and_after_the_fix_only_what_is_missing_runs(
    colour: Colour, kept: Saver, beside: bool
) -> None:
    runs = {"good": 0, "bad": 0}
    value: list[Any] = ["many"]

    def bad(_: Model) -> dict[str, Any]:
        runs["bad"] += 1
        return {"count": value[0]}

    def good(_: Model) -> dict[str, Any]:
        runs["good"] += 1
        return {"log": ["good"]}

    graph = StateGraph(Model).add_node("good", colour.node(good)).add_node("bad", colour.node(bad)).add_edge(START, "good")
    compiled = graph.add_edge(START if beside else "good", "bad").compile(kept)
    with pytest.raises(InvalidState):
        colour.invoke(compiled, {"name": "n"}, thread())
    state = colour.state(compiled, thread())
    assert "count" not in state.values
    assert "bad" in state.next
    assert "'count' cannot hold 'many'" in str(next(task.error for task in state.tasks if task.name == "bad"))
    value[0] = 5
    out = colour.invoke(compiled, None, thread())
    assert out == {"name": "n", "count": 5, "log": ["good"]}
    assert runs == {"good": 1, "bad": 2}


def test_a_typed_dict_promises_nothing(colour: Colour, saver: Any) -> None:
    class State(TypedDict):
        n: int

    graph = StateGraph(State).add_node("a", colour.node(lambda _: {"n": "text"})).add_edge(START, "a").compile(saver)
    assert colour.invoke(graph, {"n": 1}, thread()) == {"n": "text"}


def test_path_functions_get_the_object_too(colour: Colour) -> None:
    def path(state: Model) -> str:
        return END if state.count else "a"

    graph = StateGraph(Model).add_node("a", colour.node(lambda _: {"count": 1})).add_edge(START, "a")
    graph.add_conditional_edges("a", colour.node(path))
    assert colour.invoke(graph.compile(), {"name": "n"})["count"] == 1


# -- dataclasses ----------------------------------------------------------------------------------------------------------


def test_a_dataclass_state(colour: Colour, saver: Any) -> None:
    seen: list[Any] = []

    def first(state: Data) -> Data:
        seen.append(state)
        return Data("changed", state.count + 1, ["a"])

    graph = StateGraph(Data).add_node("a", colour.node(first)).add_node("b", colour.node(lambda state: {"log": [state.name]}))
    compiled = graph.add_edge(START, "a").add_edge("a", "b").compile(saver)
    assert colour.invoke(compiled, {"name": "n", "count": 1}, thread()) == {
        "name": "changed",
        "count": 2,
        "log": ["a", "changed"],
    }
    assert seen == [Data("n", 1, [])]


def test_a_field_without_a_value_says_which(colour: Colour) -> None:
    graph = StateGraph(Data).add_node("a", colour.node(lambda state: None)).add_edge(START, "a").compile()
    with pytest.raises(TypeError) as caught:
        colour.invoke(graph, {"count": 1})
    assert any("'name'" in note for note in caught.value.__notes__)


# -- states without keys --------------------------------------------------------------------------------------------------


def test_a_bare_value_is_the_whole_state(colour: Colour, saver: Any) -> None:
    graph: Any = StateGraph(int).add_node("double", colour.node(lambda n: n * 2)).add_node("inc", colour.node(lambda n: n + 1))
    compiled = graph.add_edge(START, "double").add_edge("double", "inc").compile(saver)
    assert colour.invoke(compiled, 3, thread()) == 7
    assert colour.stream(compiled, 3, thread("2"), stream_mode=["updates", "values"]) == [
        ("values", 3),
        ("updates", {"double": 6}),
        ("values", 6),
        ("updates", {"inc": 7}),
        ("values", 7),
    ]


def test_a_bare_value_may_have_a_reducer_and_none_is_no_update(colour: Colour, kept: Saver) -> None:
    graph: Any = StateGraph(Annotated[list[int], operator.add])
    graph.add_node("a", colour.node(lambda _: [1])).add_node("b", colour.node(lambda _: None)).add_edge(START, "a").add_edge(
        START, "b"
    )
    compiled = graph.compile(kept)
    assert colour.invoke(compiled, [0], thread()) == [0, 1]
    assert colour.invoke(compiled, [5], thread()) == [0, 1, 5, 1]
    assert colour.state(compiled, thread()).values == [0, 1, 5, 1]


@pytest.mark.parametrize("value", [0, False, "", [], {}], ids=repr)
def test_a_falsy_bare_value_is_a_value(colour: Colour, saver: Any, value: Any) -> None:
    seen: list[Any] = []
    graph: Any = StateGraph(Any).add_node("a", colour.node(lambda state: seen.append(state))).add_edge(START, "a")
    assert colour.invoke(graph.compile(saver), value, thread()) == value
    assert seen == [value]


# -- schemas --------------------------------------------------------------------------------------------------------------


class Given(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class Overall(Given, Answer):
    log: Annotated[list[str], operator.add]


def test_input_and_output_schemas_restrict_what_goes_in_and_out(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Overall, input_schema=Given, output_schema=Answer)
    graph.add_node("a", colour.node(lambda state: {"answer": state["question"] + "!", "log": ["a"]})).add_edge(START, "a")
    compiled = graph.compile(saver)
    assert colour.invoke(compiled, {"question": "q"}, thread()) == {"answer": "q!"}
    with pytest.raises(UnknownKey, match="'log'"):
        colour.invoke(compiled, {"question": "q", "log": ["x"]}, thread("2"))
    events = colour.stream(compiled, {"question": "q"}, thread("3"), stream_mode=["updates", "values"])
    assert events[-2:] == [
        ("updates", {"a": {"answer": "q!", "log": ["a"]}}),
        ("values", {"question": "q", "answer": "q!", "log": ["a"]}),
    ], "a stream shows the whole state"


def test_a_snapshot_shows_all_keys(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Overall, input_schema=Given, output_schema=Answer)
    graph.add_node("a", colour.node(lambda _: {"answer": "x", "log": ["a"]})).add_edge(START, "a")
    compiled = graph.compile(kept)
    colour.invoke(compiled, {"question": "q"}, thread())
    assert colour.state(compiled, thread()).values == {"question": "q", "answer": "x", "log": ["a"]}


class Private(TypedDict):
    secret: str


def test_private_keys_go_from_node_to_node_and_not_out(colour: Colour, saver: Any) -> None:
    seen: list[Any] = []

    def write(state: Overall) -> Private:
        return {"secret": "s"}

    def read(state: Private) -> dict[str, Any]:
        seen.append(dict(state))
        return {"log": [state["secret"]]}

    def last(state: Overall) -> None:
        seen.append(sorted(state))

    graph = (
        StateGraph(Overall)
        .add_node("write", colour.node(write))
        .add_node("read", colour.node(read))
        .add_node("last", colour.node(last))
    )
    compiled = graph.add_edge(START, "write").add_edge("write", "read").add_edge("read", "last").compile(saver)
    assert colour.invoke(compiled, {"question": "q"}, thread()) == {"question": "q", "log": ["s"]}
    assert seen == [{"secret": "s"}, ["log", "question"]]


def test_keys_without_a_value_are_absent(colour: Colour) -> None:
    class State(TypedDict):
        there: int
        missing: NotRequired[int]

    seen: list[Any] = []
    graph = StateGraph(State).add_node("a", colour.node(lambda state: seen.append(dict(state)))).add_edge(START, "a")
    assert colour.invoke(graph.compile(), {"there": 1}) == {"there": 1}
    assert seen == [{"there": 1}]


def test_keys_come_in_the_order_of_the_schema(colour: Colour, kept: Saver) -> None:
    class State(TypedDict):
        one: int
        two: int
        three: int

    seen: list[list[str]] = []

    def node(state: State) -> dict[str, Any]:
        seen.append(list(state))
        return {"one": 1}

    graph = (
        StateGraph(State)
        .add_node("a", colour.node(node))
        .add_node("b", colour.node(node))
        .add_edge(START, "a")
        .add_edge("a", "b")
    )
    compiled = graph.compile(kept)
    assert list(colour.invoke(compiled, {"three": 3, "two": 2}, thread())) == ["one", "two", "three"]
    assert seen == [["two", "three"], ["one", "two", "three"]]
    assert list(colour.state(compiled, thread()).values) == ["one", "two", "three"]


def test_P35_what_goes_in_and_out_is_detached_from_what_is_stored(colour: Colour, kept: Saver) -> None:
    class State(TypedDict):
        box: dict[str, list[int]]

    graph = StateGraph(State).add_node("a", colour.node(lambda _: {})).add_edge(START, "a").compile(kept)
    mine = {"box": {"l": [1]}}
    out = colour.invoke(graph, mine, thread())
    mine["box"]["l"].append(2)
    out["box"]["l"].append(3)
    state = colour.state(graph, thread())
    assert state.values == {"box": {"l": [1]}}
    state.values["box"]["l"].append(4)
    assert colour.state(graph, thread()).values == {"box": {"l": [1]}}


class Untracked(TypedDict):
    log: Annotated[list[Any], operator.add]
    client: Annotated[Any, UntrackedValue(Any)]


def test_untracked_values_live_for_one_run_and_are_never_stored(colour: Colour, kept: Saver) -> None:
    client = object()
    graph = StateGraph(Untracked).add_node("a", colour.node(lambda _: {"client": client}))
    graph.add_node("b", colour.node(lambda state: {"log": [state["client"] is client]})).add_edge(START, "a").add_edge("a", "b")
    compiled = graph.compile(kept)
    out = colour.invoke(compiled, {"log": []}, thread())
    assert out["log"] == [True]
    assert "client" not in colour.state(compiled, thread()).values


def test_untracked_values_may_come_with_the_input_and_with_sends(colour: Colour, kept: Saver) -> None:
    client = object()
    graph = StateGraph(Untracked).add_node("w", colour.node(lambda arg: {"log": [arg["client"] is client, arg["n"]]}))
    graph.add_node("a", colour.node(lambda state: {"log": [state["client"] is client]})).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: [Send("w", {"client": state["client"], "n": n}) for n in (1, 2)])
    compiled = graph.compile(kept)
    assert colour.invoke(compiled, {"log": [], "client": client}, thread())["log"] == [True, True, 1, True, 2]
    assert [len(snapshot.next) for snapshot in colour.history(compiled, thread())] == [0, 2, 1, 1]
