"""Finds the sub-command that was asked for and runs it.

A sub-command is a module with `HELP` (a line), `add_arguments(parser)` and `run(arguments)`, which prints, and returns the exit code.
To add one, name its module here.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final

from perdure.errors import PerdureError

COMMANDS: Final = {
    "copy": "perdure.cli.copying",
    "export": "perdure.cli.exporting",
    "import": "perdure.cli.importing",
    "prune": "perdure.cli.prune",
    "recover": "perdure.cli.recover",
    "threads": "perdure.cli.threads",
    "verify": "perdure.cli.verify",
}
"""The modules of the sub-commands, by name."""

USAGE_ERROR: Final = 2
"""The exit code of a command that was called wrongly; argparse's own."""
STOPPED: Final = 130
"""The exit code of a command that was stopped with Ctrl-C, as shells have it."""


class CommandError(PerdureError):
    """A command cannot do what it was asked for; the message says why and what to do."""

    code = "COMMAND"


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    made = argparse.ArgumentParser(prog="perdure", description="Durable state graphs: their threads, and what became of them.")
    commands = made.add_subparsers(dest="command", required=True, metavar="command")
    for name, module_name in COMMANDS.items():
        module: Any = importlib.import_module(module_name)
        own = commands.add_parser(name, help=module.HELP, description=module.__doc__, formatter_class=_Formatter)
        module.add_arguments(own)
        own.set_defaults(run=module.run)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; its exit code.

    Args:
        arguments: what follows the name of the program; None: what this process was called with.
    """
    given = parser().parse_args(arguments)
    try:
        code: int = given.run(given)
    except PerdureError as error:
        print(f"perdure {given.command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print(f"perdure {given.command}: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        return 0  # whoever read the list has seen enough of it
    return code


class _Formatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Descriptions as they are written, and defaults behind each option."""
