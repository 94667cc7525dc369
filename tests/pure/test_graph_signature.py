"""What the runtime gives to a function's parameters."""

# ruff: noqa: UP045, UP037 - old spellings of annotations are under test
from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Generic, Optional, TypeVar, Union
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest
from typing_extensions import TypedDict

from perdure.errors import InvalidGraph
from perdure.graph.signature import inspect_call, is_async_callable, receives, type_names
from perdure.types import RunnableConfig, StreamWriter

if TYPE_CHECKING:
    from nowhere import NodeError, Unknown  # type: ignore[import-not-found]

C = TypeVar("C")


class Context(TypedDict):
    user: str


class Runtime(Generic[C]):
    pass


class BaseStore:
    pass


class SomeStore(BaseStore):
    pass


class State(TypedDict):
    x: int


typed_dict: Any = TypedDict
NamedLikeAConfig: Any = typed_dict("RunnableConfig", {"x": int})


def look(function: Any, **given: Any) -> Any:
    return inspect_call(function, where="node 'n'", **given)


def given_to(function: Any, **given: Any) -> dict[str, str]:
    return dict(look(function, **given).call.inject)


def test_by_name_and_by_annotation() -> None:
    def everything(state, config, runtime, store, writer, previous): ...  # noqa: ANN001

    def annotated(
        state: State,
        cfg: RunnableConfig,
        maybe: Optional[RunnableConfig],
        either: RunnableConfig | None,
        rt: Runtime[Context],
        bare: Runtime,  # type: ignore[type-arg]
        db: Optional[BaseStore],
        other_db: SomeStore,
        out: Annotated[Runtime[Context], "x"],
        writer: StreamWriter,
    ) -> None: ...

    assert given_to(everything) == {name: name for name in ("config", "runtime", "store", "writer", "previous")}
    assert given_to(annotated) == {
        "cfg": "config",
        "maybe": "config",
        "either": "config",
        "rt": "runtime",
        "bare": "runtime",
        "db": "store",
        "other_db": "store",
        "out": "runtime",
        "writer": "writer",
    }


def test_annotations_that_cannot_be_evaluated_are_read_as_text() -> None:
    def node(
        state: Unknown, cfg: "Optional[Unknown.RunnableConfig]", rt: "Unknown.Runtime[Unknown]", error: NodeError
    ) -> None: ...

    assert given_to(node) == {"cfg": "config", "rt": "runtime", "error": "error"}
    assert look(node).call.takes_state


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RunnableConfig", {"RunnableConfig"}),
        ("a.b.Runtime[x]", {"Runtime"}),
        ("Optional[a.RunnableConfig]", {"RunnableConfig"}),
        ("Union[RunnableConfig, None]", {"RunnableConfig"}),
        ("RunnableConfig | None", {"RunnableConfig"}),
        ("'RunnableConfig'", {"RunnableConfig"}),
        ("Annotated[Runtime, RunnableConfig]", {"Runtime"}),
        ("list[RunnableConfig]", {"list"}),
        ("None", set()),
        ("no python [", set()),
        ("", set()),
    ],
)
def test_names_in_text(text: str, names: set[str]) -> None:
    assert type_names(text) == names


@pytest.mark.parametrize(
    ("name", "annotation", "what"),
    [
        ("config", dict, "config"),
        ("config", dict[str, Any], "config"),
        ("config", Mapping[str, Any], "config"),
        ("config", Any, "config"),
        ("config", Context, None),
        ("config", int, None),
        ("conf", dict, None),
        ("runtime", Context, "runtime"),
        ("runtime", float, None),
        ("runtime", Optional[float], None),
        ("writer", Callable[[Any], None], "writer"),
        ("writer", str, None),
        ("store", Any, "store"),
        ("store", str, None),
        ("store", Union[SomeStore, None], "store"),
        ("previous", int, "previous"),
        ("error", Exception, None),
        ("error", Any, None),
    ],
)
def test_the_nearest_wrong_annotation(name: str, annotation: Any, what: str | None) -> None:
    assert receives(name, annotation) == what


def test_keyword_only_and_positional_only() -> None:
    def words(state: State, *, config: RunnableConfig, runtime: Any = None, depth: int = 3) -> None: ...

    def places(state: State, config: RunnableConfig, writer: Any, /) -> Any:
        return state, config, writer

    assert given_to(words) == {"config": "config", "runtime": "runtime"}
    call = look(places).call
    assert dict(call.inject) == {"config": "config", "writer": "writer"}
    assert call.fn("state", writer=3, config={}) == ("state", {}, 3)


def test_variable_arguments_get_the_state_and_nothing_else() -> None:
    def variable(*args: Any, **words: Any) -> None: ...

    def named(state: State, *args: Any, config: RunnableConfig, **words: Any) -> None: ...

    assert look(variable).call.takes_state
    assert given_to(variable) == {}
    assert given_to(named) == {"config": "config"}


def test_functions_that_take_no_state() -> None:
    def nothing() -> None: ...

    def only_runtime(runtime: Runtime[Context]) -> None: ...

    def only_config(config) -> None: ...  # noqa: ANN001

    def only_words(**words: Any) -> None: ...

    for function in (nothing, only_runtime, only_config, only_words):
        assert not look(function).call.takes_state
    assert given_to(only_runtime) == {"runtime": "runtime"}
    assert given_to(only_config) == {"config": "config"}


def test_a_first_parameter_that_could_be_a_state_is_the_state() -> None:
    for function in (lambda store: 0, lambda previous: 0, lambda error: 0, lambda x: 0, lambda value, config: 0):
        assert look(function).call.takes_state

    def node(state: NamedLikeAConfig) -> None: ...

    assert not look(node).call.takes_state
    assert look(node, states=[NamedLikeAConfig]).call.takes_state


def test_what_the_runtime_cannot_give() -> None:
    def one_too_many(state: State, foo: Context) -> None: ...

    def word(state: State, *, foo) -> None: ...  # noqa: ANN001

    def wrong(state: State, config: Context) -> None: ...

    for function, shown in ((one_too_many, "foo: Context"), (word, "foo"), (wrong, "config: Context")):
        with pytest.raises(InvalidGraph, match=f"node 'n' needs an argument that the runtime cannot give: `{shown}`"):
            look(function)
    assert given_to(lambda state, foo=1: 0) == {}
    assert given_to(functools.partial(one_too_many, foo=Context(user="u"))) == {}


def test_what_a_partial_binds_is_left_alone() -> None:
    def node(state: State, config: RunnableConfig, k: int) -> None: ...

    def outer(k: int, state: State, config: RunnableConfig) -> None: ...

    assert given_to(functools.partial(node, k=1)) == {"config": "config"}
    assert given_to(functools.partial(node, k=1, config={})) == {}
    bound = look(functools.partial(outer, 3))
    assert dict(bound.call.inject) == {"config": "config"}
    assert bound.state is State


async def coroutine(state: State, config: RunnableConfig) -> None: ...


class Box:
    def method(self, state: State, config: RunnableConfig) -> None: ...

    async def amethod(self, state: State) -> None: ...

    @staticmethod
    def static(state: State, runtime: Any) -> None: ...

    @classmethod
    def of_class(cls, state: State, writer: Any) -> None: ...

    def __call__(self, state: State, store: Any) -> None: ...


class AsyncBox:
    async def __call__(self, state: State, config: RunnableConfig) -> None: ...


class Built:
    def __init__(self, state: State, config: RunnableConfig) -> None: ...

    async def __call__(self, state: State) -> None: ...


def test_all_kinds_of_callables() -> None:
    assert given_to(Box().method) == {"config": "config"}
    assert given_to(Box.static) == {"runtime": "runtime"}
    assert given_to(Box.of_class) == {"writer": "writer"}
    assert given_to(Box()) == {"store": "store"}
    assert given_to(AsyncBox()) == {"config": "config"}
    assert given_to(Built) == {"config": "config"}
    for each in (Box().method, Box.static, Box.of_class, Box(), AsyncBox(), Built):
        assert look(each).state is State
        assert look(each).call.takes_state


def test_async_is_recognised() -> None:
    partial = functools.partial
    for each in (coroutine, partial(coroutine), partial(partial(coroutine)), Box().amethod, AsyncBox(), partial(AsyncBox())):
        assert is_async_callable(each)
        assert look(each).call.is_async
    for other in (
        Box(),
        Box().method,
        Built,
        AsyncBox,
        len,
        lambda s: coroutine(s, {}),
        functools.wraps(coroutine)(lambda s: s),
    ):
        assert not is_async_callable(other)


def test_builtins_without_signature_get_the_state() -> None:
    call = look(max).call
    assert call.takes_state
    assert call.inject == ()


def test_a_decorator_that_hides_parameters() -> None:
    def node(state: State, config: RunnableConfig) -> None: ...

    @functools.wraps(node)
    def passing(*args: Any, **words: Any) -> None: ...

    @functools.wraps(lambda state, config=None: 0)
    def dropping(state: Any) -> None: ...

    assert given_to(passing) == {"config": "config"}
    assert given_to(dropping) == {}


def test_generators_are_refused() -> None:
    def generator(state: State) -> Any:
        yield 1

    async def agenerator(state: State) -> Any:
        yield 1

    class Box:
        def __call__(self, state: State) -> Any:
            yield 1

    for each in (generator, agenerator, Box(), functools.partial(generator)):
        with pytest.raises(InvalidGraph, match=r"is a generator.*get_stream_writer"):
            look(each)


def test_what_cannot_be_called() -> None:
    class Uncompiled:
        def compile(self) -> None: ...

    with pytest.raises(InvalidGraph, match="Expected a function, a callable object or a compiled graph as node 'n', got int"):
        look(3)
    with pytest.raises(InvalidGraph, match=r"pass graph.compile\(\)"):
        look(Uncompiled())


def test_runnables_are_called_through_invoke() -> None:
    class Runnable:
        def invoke(self, input: Any, config: Optional[RunnableConfig] = None, **words: Any) -> Any:
            return input, config

    class Chain(Runnable):
        def __call__(self, other: int, thing: int) -> None: ...

    for each in (Runnable(), Chain()):
        call = look(each).call
        assert dict(call.inject) == {"config": "config"}
        assert call.fn(1, config={}) == (1, {})


def test_mocks_are_functions() -> None:
    for mock in (MagicMock(), Mock(return_value={})):
        call = look(mock).call
        assert (call.takes_state, call.is_async, call.subgraph) == (True, False, None)
    assert look(AsyncMock()).call.is_async


def test_error_handlers_may_leave_the_annotation_out() -> None:
    def handler(state, error): ...  # noqa: ANN001

    assert given_to(handler, handler=True) == {"error": "error"}
    with pytest.raises(InvalidGraph, match="`error`"):
        look(handler)


def test_local_names_in_annotations() -> None:
    class Private(TypedDict):
        y: int

    class RunnableConfig(TypedDict):
        z: int

    class State(TypedDict):
        """Hides the module's own."""

    def node(state: Private, cfg: RunnableConfig) -> None: ...

    def other(state: State) -> None: ...

    found = look(node)
    assert found.state is Private
    assert look(other).state is State
    assert dict(found.call.inject) == {"cfg": "config"}
