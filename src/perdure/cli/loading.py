"""From what a command line names to the objects: `module:graph`, and the saver of a URL."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from perdure.bridge import run_blocking
from perdure.checkpoint.opening import open_saver
from perdure.cli.commands import CommandError
from perdure.engine.compiled import CompiledGraph
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.checkpoint.saver import Saver


def object_at(place: str) -> Any:
    """What `module:name` names; the module is looked for in the working directory too, as `python -m` does.

    Raises:
        CommandError: there is no such module, or it has no such name.
    """
    module_name, colon, name = place.partition(":")
    if not (module_name and colon and name):
        raise CommandError(f"{place!r} is not of the form module:name, such as app.graphs:graph")
    if module_name.endswith(".py"):
        dotted = ".".join(Path(module_name).with_suffix("").parts)
        raise CommandError(f"{module_name!r} is a file; name the module that it is, such as {dotted}:{name}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; one that it imports is not
        raise CommandError(
            f"there is no module {error.name!r}; it is looked for in {Path.cwd()} and on the Python path"
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{module_name} has no {name!r}")
        found = getattr(found, part)
    return found


def graph_at(place: str) -> CompiledGraph:
    """The compiled graph that `module:name` names, or that the function of that name makes.

    Raises:
        CommandError: there is none.
    """
    found = object_at(place)
    if callable(found) and not isinstance(found, CompiledGraph):
        lacking = _wants(found)
        if lacking:
            raise CommandError(
                f"{place} cannot be called without {lacking}: name a graph, or a function without arguments that makes one"
            )
        found = found()
    if not isinstance(found, CompiledGraph):
        raise CommandError(f"{place} is no compiled graph but {type(found).__name__}; compile(checkpointer=...) makes one")
    return found


def _wants(function: Callable[..., Any]) -> str:
    """The arguments that a function cannot be called without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it was written in C, and does not tell
        return ""
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return ", ".join(one.name for one in parameters if one.default is one.empty and one.kind not in free)


def saver_at(url: str, *, create: bool = False, **options: Any) -> Saver:
    """The saver of a URL or of the path of a SQLite file, opened. It must be there: nothing is made by looking.

    Args:
        url: which saver.
        create: make the database if it is not there.
        options: of the saver.

    Raises:
        CommandError: there is no such database, or it cannot be opened.
    """
    try:
        saver = open_saver(url, **options)
    except ValueError as error:
        raise CommandError(str(error)) from error
    name = getattr(getattr(saver, "_database", None), "name", None)
    if name is not None and not create and not _file(name).is_file():
        raise CommandError(f"there is no database {name}")
    try:
        run_blocking(saver.blocking().threads(after=None, limit=1))
    except PerdureError:
        raise
    except Exception as error:  # of any driver: which there are is known to backends only
        raise CommandError("; ".join([str(error), *getattr(error, "__notes__", ())])) from error
    return saver


def _file(name: str) -> Path:
    """The file that SQLite takes a path or a `file:` URI for."""
    return Path(unquote(urlsplit(name).path)) if name.startswith("file:") else Path(name)


def known_threads(saver: Saver, ids: Iterable[str]) -> list[str]:
    """The ids that were given. A mistyped one must not look like a thread with nothing to do.

    Raises:
        CommandError: there is no such thread.
    """
    known = list(ids)
    for thread in known:
        if saver.get_thread(thread) is None:
            raise CommandError(f"there is no thread {thread!r}; perdure threads lists those that there are")
    return known
