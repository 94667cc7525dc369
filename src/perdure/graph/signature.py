"""Looking at a user's function once, so that calling it needs no further look: what it takes, and whether it is async.

A function's first positional parameter receives the state. The others are filled by the runtime, recognised by their annotation
(`RunnableConfig`, `Runtime[Context]`, `NodeError`, …, as a class, as text or inside Optional) or by their name. Classes are
compared by name, so that LangChain's and this library's own are both known without importing either.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

import typing_extensions

from perdure.engine.program import Call, Injectable, Program
from perdure.errors import InvalidGraph
from perdure.graph.annotations import signature_types

_BY_TYPE: Final[Mapping[str, Injectable]] = {
    "RunnableConfig": "config",
    "Runtime": "runtime",
    "StreamWriter": "writer",
    "BaseStore": "store",
    "NodeError": "error",
}
_BY_NAME: Final[Mapping[str, Injectable]] = {
    "config": "config",
    "runtime": "runtime",
    "writer": "writer",
    "store": "store",
    "previous": "previous",
}
# Annotations that leave room for what the parameter's name says.
_OPEN: Final[Mapping[Injectable, frozenset[str]]] = {
    "config": frozenset({"dict", "Dict", "Mapping", "MutableMapping"}),
    "writer": frozenset({"Callable"}),
}
_SCALARS: Final = frozenset({"int", "float", "str", "bool", "bytes"})
# As the only or first parameter these cannot be meant as the state.
_NEVER_STATE: Final = frozenset({"config", "runtime", "writer"})


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """What a look at a function's signature found.

    Attributes:
        call: how to call it.
        state: the annotation of the parameter that receives the state; None without one.
        returns: its return annotation; None without one.
    """

    call: Call
    state: Any = None
    returns: Any = None


def is_compiled_graph(action: Any) -> bool:
    """Whether this is a compiled graph, which may be a node as it is."""
    return isinstance(getattr(action, "program", None), Program) and callable(getattr(action, "invoke", None))


def is_runnable(action: Any) -> bool:
    """Whether this has the shape of a LangChain Runnable."""
    if isinstance(action, type) or not callable(getattr(action, "invoke", None)):
        return False
    return not callable(action) or any(base.__name__ == "Runnable" for base in type(action).__mro__)


def inspect_call(action: Any, *, where: str, states: Iterable[Any] = (), handler: bool = False) -> Inspected:
    """How to call a user's function.

    Args:
        action: a function, method, partial, callable object, class, Runnable or compiled graph.
        where: what it is to the user, such as "node 'a'", for messages.
        states: the graph's state classes. A parameter so annotated is the state, whatever the class is called.
        handler: it handles errors: a parameter named `error` receives one even without annotation.

    Raises:
        InvalidGraph: it cannot be called, is a generator, or needs an argument that the runtime cannot give.
    """
    if is_compiled_graph(action):
        return Inspected(Call(action, subgraph=action))
    if is_runnable(action):
        action = action.invoke
    if not callable(action):
        raise InvalidGraph(
            f"Expected a function, a callable object or a compiled graph as {where}, got {type(action).__name__}"
            + (". A StateGraph must be compiled first: pass graph.compile()" if hasattr(action, "compile") else "")
        )
    _refuse_generator(action, where)
    is_async = is_async_callable(action)
    try:
        signature = _signature(action)
    except (ValueError, TypeError):
        # Some builtins do not tell; they get the state and nothing else.
        return Inspected(Call(action, is_async=is_async))
    hints = signature_types(_annotated(action))
    fixed = _bound_words(action)
    parameters = [p for p in signature.parameters.values() if p.name not in fixed]
    first = next((p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)), None)
    known_states = list(states)
    takes_state = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if first is not None:
        takes_state = _is_state(first, hints, known_states)
    inject: list[tuple[str, Injectable]] = []
    by_position: list[str] = []
    for parameter in parameters:
        if (takes_state and parameter is first) or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = _annotation(parameter, hints)
        what = receives(parameter.name, annotation)
        if what is None and handler and parameter.name == "error":
            what = "error"
        if what is not None and _accepts(action, parameter.name):
            inject.append((parameter.name, what))
            if parameter.kind is parameter.POSITIONAL_ONLY:
                by_position.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise InvalidGraph(_cannot_fill(parameter.name, annotation, where))
    state = _annotation(first, hints) if first is not None and takes_state else None
    call = Call(_positional(action, by_position) if by_position else action, is_async, takes_state, tuple(inject))
    return Inspected(call, None if state is inspect.Parameter.empty else state, hints.get("return"))


def inspect_step(function: Callable[..., Any], *, where: str) -> tuple[tuple[tuple[str, Injectable], ...], tuple[Any, ...]]:
    """What the runtime fills of a step's parameters: those annotated as the runtime's own types, and keyword-only ones of its names.

    Others are the caller's, whatever they are called.

    Args:
        function: the step's function.
        where: what it is to the user, such as "task 't'", for messages.

    Returns:
        (parameter name, what it receives) of those; and the annotations of the others and of the result.

    Raises:
        InvalidGraph: it is a generator.
    """
    _refuse_generator(function, where)
    try:
        signature = _signature(function)
    except (ValueError, TypeError):
        return (), ()
    hints = signature_types(_annotated(function))
    found: list[tuple[str, Injectable]] = []
    others: list[Any] = []
    for parameter in signature.parameters.values():
        annotation = _annotation(parameter, hints)
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        is_told = annotation is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY
        what = receives(parameter.name, annotation) if is_named and is_told else None
        if what is not None and what != "previous":
            found.append((parameter.name, what))
        elif annotation is not parameter.empty:
            others.append(annotation)
    return tuple(found), (*others, hints["return"]) if "return" in hints else tuple(others)


def is_async_callable(action: Any) -> bool:
    """Whether calling this is known to give an awaitable."""
    while isinstance(action, functools.partial):
        action = action.func
    if isinstance(action, type):
        return False
    return inspect.iscoroutinefunction(action) or inspect.iscoroutinefunction(getattr(action, "__call__", None))  # noqa: B004 - what it is, not whether it is there


def _refuse_generator(action: Any, where: str) -> None:
    while isinstance(action, functools.partial):
        action = action.func
    for function in (action, getattr(action, "__call__", None)):  # noqa: B004 - what it is, not whether it is there
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidGraph(
                f"The function of {where} is a generator: calling it runs nothing. Return the update instead of yielding, and send "
                "values out while it runs with get_stream_writer()"
            )


def _signature(action: Any, *, follow_wrapped: bool = True) -> inspect.Signature:
    try:
        return inspect.signature(action, follow_wrapped=follow_wrapped)
    except NameError:
        # Python 3.14 evaluates annotations here, and a name may exist for type checkers only.
        from annotationlib import Format  # type: ignore[import-not-found, unused-ignore]

        return inspect.signature(action, follow_wrapped=follow_wrapped, annotation_format=Format.STRING)  # type: ignore[call-arg, unused-ignore]


def _annotated(action: Any) -> Any:
    """The function whose annotations describe how this is called."""
    while isinstance(action, functools.partial):
        action = action.func
    if isinstance(action, type):
        return action.__init__  # type: ignore[misc]
    if inspect.isroutine(action) or hasattr(action, "__wrapped__"):
        return action
    return type(action).__call__


def _bound_words(action: Any) -> set[str]:
    """Parameters that a partial already gives a value; the runtime must not replace it."""
    words: set[str] = set()
    while isinstance(action, functools.partial):
        words |= action.keywords.keys()
        action = action.func
    return words


def _annotation(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    return hints.get(parameter.name, parameter.annotation)


def _is_state(first: inspect.Parameter, hints: Mapping[str, Any], states: list[Any]) -> bool:
    annotation = _annotation(first, hints)
    if any(annotation is state for state in states):
        return True
    if annotation is inspect.Parameter.empty:
        return first.name not in _NEVER_STATE
    return not (_BY_TYPE.keys() & type_names(annotation))


def receives(name: str, annotation: Any) -> Injectable | None:
    """What the runtime gives to a parameter of this name and annotation; None if it is not one of the runtime's."""
    names = type_names(annotation)
    for type_name, what in _BY_TYPE.items():
        if type_name in names:
            return what
    by_name = _BY_NAME.get(name)
    if by_name is None or annotation is inspect.Parameter.empty or not names or "Any" in names or by_name == "previous":
        return by_name
    if by_name == "runtime":
        return None if names <= _SCALARS else by_name
    return by_name if names & _OPEN.get(by_name, frozenset()) else None


def type_names(annotation: Any) -> frozenset[str]:
    """Names of the classes that an annotation allows, None left out: `Optional[a.B[C]]` gives B and B's bases."""
    if annotation is inspect.Parameter.empty or annotation is None or annotation is type(None):
        return frozenset()
    if isinstance(annotation, str):
        return _names_in_text(annotation)
    if isinstance(annotation, typing.ForwardRef):
        return _names_in_text(annotation.__forward_arg__)
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        return type_names(annotation.__origin__)
    if origin is typing.Union or origin is types.UnionType:
        return frozenset().union(*(type_names(each) for each in get_args(annotation)))
    if origin is not None:
        return type_names(origin)
    if isinstance(annotation, type):
        if typing_extensions.is_typeddict(annotation):
            return frozenset({annotation.__name__})
        return frozenset(base.__name__ for base in annotation.__mro__ if base is not object)
    name = getattr(annotation, "__name__", None) or getattr(annotation, "_name", None)
    return frozenset({name}) if name else frozenset()


def _names_in_text(text: str) -> frozenset[str]:
    try:
        return _names_in_tree(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return frozenset()


def _names_in_tree(node: ast.expr) -> frozenset[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return frozenset({name})
        case ast.Constant(value=str(text)):
            return _names_in_text(text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _names_in_tree(left) | _names_in_tree(right)
        case ast.Subscript(value=head, slice=inside):
            heads = _names_in_tree(head)
            members = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            if "Annotated" in heads:
                return _names_in_tree(members[0])
            if heads & {"Optional", "Union"}:
                return frozenset().union(*map(_names_in_tree, members))
            return heads
    return frozenset()


def _accepts(action: Any, name: str) -> bool:
    """Whether the outermost function takes this word: a decorator's wrapper may show a signature it does not have itself."""
    try:
        parameters = _signature(action, follow_wrapped=False).parameters
    except (ValueError, TypeError):
        return True
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _positional(action: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """The same call where some parameters cannot be given by name."""

    def call(*state: Any, **injected: Any) -> Any:
        return action(*state, *[injected.pop(name) for name in names], **injected)

    return call


def _cannot_fill(name: str, annotation: Any, where: str) -> str:
    written = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    shown = name if annotation is inspect.Parameter.empty else f"{name}: {written}"
    return (
        f"The function of {where} needs an argument that the runtime cannot give: `{shown}`. It is called with the state, and with "
        "any of `config: RunnableConfig`, `runtime: Runtime`, `store: BaseStore`, `writer: StreamWriter` (and, as an error handler, "
        "`error: NodeError`). Give the parameter a default, or bind it with functools.partial"
    )
