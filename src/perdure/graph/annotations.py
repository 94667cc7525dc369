"""Reading annotations: what the text behind `from __future__ import annotations` means, and what a type is made of.

Knows Python's typing, nothing of graphs. Names are looked up where the annotated thing was defined; those that are missing there
(a class inside a function) are looked up in the functions that are running now, nearest first.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any, ClassVar, Literal, get_args, get_origin

import typing_extensions

from perdure.errors import InvalidGraph

Kind = Literal["typeddict", "dataclass", "pydantic", "plain"]

_ABSENT: Any = object()
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly", "Final", "InitVar"})


def kind_of(cls: Any) -> Kind | None:
    """What kind of class with declared fields this is; None if it is no such class."""
    cls = get_origin(cls) or cls
    # pydantic's own base classes stand for any model and declare nothing themselves.
    if not isinstance(cls, type) or cls.__module__.startswith("pydantic."):
        return None
    if typing_extensions.is_typeddict(cls):
        return "typeddict"
    # By its attributes, so that pydantic is not imported for those who do not use it.
    if hasattr(cls, "model_fields") and hasattr(cls, "model_validate"):
        return "pydantic"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    return (
        "plain"
        if any(_own_names(base) for base in cls.__mro__ if base.__module__ not in ("builtins", "enum", "typing"))
        else None
    )


def _own_names(cls: type) -> list[str]:
    annotations = typing_extensions.get_annotations(cls, format=typing_extensions.Format.FORWARDREF)
    return [name for name in annotations if name != "__slots__"]


def field_names(cls: Any) -> tuple[str, ...]:
    """Names of a class's declared fields, without evaluating their types."""
    cls = get_origin(cls) or cls
    match kind_of(cls):
        case "pydantic":
            return tuple(cls.model_fields)
        case "dataclass":
            return tuple(field.name for field in dataclasses.fields(cls))
        case None:
            return ()
        case _:
            return tuple(dict.fromkeys(name for base in reversed(cls.__mro__) for name in _own_names(base)))


def field_types(cls: Any) -> dict[str, Any]:
    """The declared type of each field of a class, with all that `Annotated` holds.

    Raises:
        InvalidGraph: a type cannot be evaluated.
    """
    cls = get_origin(cls) or cls
    if kind_of(cls) == "pydantic":
        return _model_types(cls)
    hints = resolved(
        lambda names: typing_extensions.get_type_hints(cls, localns=names, include_extras=True), cls, _lexical_names(cls)
    )
    names = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else hints.keys() - {"__slots__"}
    return {
        name: hint
        for name, hint in hints.items()
        if name in names and get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def _model_types(cls: Any) -> dict[str, Any]:
    if not getattr(cls, "__pydantic_complete__", True):
        cls.model_rebuild(raise_errors=False, _types_namespace=_running_names())
        if not cls.__pydantic_complete__:
            raise InvalidGraph(_cannot_evaluate(cls, "it has a field whose type is not defined"))
    # Fields rather than hints: they exclude class variables and private attributes, and generic models have their arguments in.
    types = {}
    for name, field in cls.model_fields.items():
        hint = field.annotation
        for item in field.metadata:
            hint = typing.Annotated[hint, item]
        types[name] = hint
    return types


def resolved(evaluate: Callable[[dict[str, Any] | None], dict[str, Any]], owner: Any, names: dict[str, Any]) -> dict[str, Any]:
    """What `evaluate(names)` returns, given the names that it misses one after the other.

    Args:
        evaluate: evaluates annotations, given names that come before those of the module.
        owner: the class or function that has them.
        names: the names to begin with.

    Raises:
        InvalidGraph: a name is defined nowhere in reach, or the annotation is wrong in itself.
    """
    names = dict(names)
    while True:
        try:
            return evaluate(names or None)
        except NameError as error:
            missing = error.name or ""
            found = _ABSENT if missing in names else _found_near(owner, missing)
            if found is _ABSENT:
                raise InvalidGraph(_cannot_evaluate(owner, str(error))) from error
            names[missing] = found
        except (TypeError, AttributeError, SyntaxError) as error:
            raise InvalidGraph(_cannot_evaluate(owner, f"{type(error).__name__}: {error}")) from error


def _cannot_evaluate(owner: Any, problem: str) -> str:
    return (
        f"The annotations of {getattr(owner, '__qualname__', owner)} cannot be evaluated: {problem}. Import what they name for real, not under TYPE_CHECKING, and "
        "define it at the level of a module or in the function that builds the graph; where `from __future__ import annotations` "
        "turns annotations into text, a name of a function that has ended cannot be found any more"
    )


def _found_near(owner: Any, name: str) -> Any:
    """What a name means in the class itself, or else in the functions that are running now, nearest first."""
    if isinstance(owner, type):
        for base in owner.__mro__:
            if name in vars(base):
                return vars(base)[name]
    for frame in _frames():
        if name in frame.f_locals:
            return frame.f_locals[name]
    return _ABSENT


def _running_names() -> dict[str, Any]:
    """All names of the functions that are running now; nearer ones win."""
    merged: dict[str, Any] = {}
    for frame in reversed(list(_frames())):
        merged.update(frame.f_locals)
    return merged


def _lexical_names(owner: Any) -> dict[str, Any]:
    """Names of the functions that a class or function was defined in, as far as they are still running.

    They come before the module's: a local `State` hides a global one, and annotations as text do not know.
    """
    place = getattr(owner, "__qualname__", "")
    names: dict[str, Any] = {}
    if "<locals>" in place:
        for frame in reversed(list(_frames())):
            inside = place.startswith(f"{frame.f_code.co_qualname}.<locals>.")
            if inside and frame.f_globals.get("__name__") == owner.__module__:
                names.update(frame.f_locals)
    return names


def _frames() -> Iterator[FrameType]:
    """The frames that are running now, nearest first, without those of this library's graph room."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith("perdure.graph"):
            yield frame
        frame = frame.f_back


def signature_types(function: Any) -> dict[str, Any]:
    """The annotations of a function's parameters and of its return; each that cannot be evaluated stays as it is written."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    function = getattr(function, "__func__", function)
    names = _lexical_names(function) | _closed_names(function)
    try:
        return typing_extensions.get_type_hints(function, localns=names or None, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation can raise anything; the others are still worth having
        pass
    try:
        written = typing_extensions.get_annotations(function, format=typing_extensions.Format.FORWARDREF)
    except TypeError:
        return {}
    if not isinstance(function, FunctionType):
        return dict(written)
    return {name: _evaluated(function, hint, names) for name, hint in written.items()}


def _evaluated(function: FunctionType, hint: Any, names: dict[str, Any]) -> Any:
    def stand_in() -> None: ...

    stand_in.__annotations__ = {"return": hint}
    try:
        return resolved(
            lambda near: typing_extensions.get_type_hints(stand_in, function.__globals__, near, include_extras=True),
            function,
            names,
        )["return"]
    except Exception:  # noqa: BLE001 - as above
        return hint


def _closed_names(function: Any) -> dict[str, Any]:
    """Names of the closure, which stay when the function around it has ended."""
    if not isinstance(function, FunctionType):
        return {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises if it is empty
    except ValueError:
        return False
    return True


def unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without `Required`, `Annotated`, `type X = …` and the like around it, and what `Annotated` holds, innermost first."""
    metadata: tuple[Any, ...] = ()
    while True:
        origin = get_origin(hint)
        if origin is typing.Annotated:
            metadata = (*hint.__metadata__, *metadata)
            hint = hint.__origin__
        elif getattr(origin, "_name", None) in _WRAPPERS or getattr(origin, "__name__", None) in _WRAPPERS:
            hint = get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif type(origin).__name__ == "TypeAliasType":
            hint = origin.__value__[get_args(hint)]
        elif isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        else:
            return hint, metadata
