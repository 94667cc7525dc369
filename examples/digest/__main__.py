"""Runs the demo: `python examples/digest [FILE]`, from any directory."""

from __future__ import annotations

import sys
from pathlib import Path


def start() -> int:
    """Make `digest` importable as a package, which a directory run as a script is not, and run it."""
    folder = Path(__file__).resolve().parent
    # Replaced rather than added: with the folder itself on the path, `graph` and `model` would be top-level names.
    sys.path[:] = [str(folder.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() != folder)]
    try:
        import perdure  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "perdure":
            raise
        print("The demo needs perdure: run `pip install -e .` in the repository first.", file=sys.stderr)
        return 2
    from digest.command import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
