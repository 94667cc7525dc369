"""The command `perdure`: what can be done with graphs and savers from a shell.

Each sub-command is a module of this room, named in `commands.COMMANDS`. It may use everything below, and nothing of another one.
"""

from perdure.cli.commands import main

__all__ = ["main"]
