"""The door to the saver that keeps threads in a SQLite file."""

from perdure.backends.sqlite.saver import SqliteSaver

__all__ = ["SqliteSaver"]
