"""The door to the cache that keeps results in a SQLite file."""

from perdure.backends.sqlite.cache import SqliteCache

__all__ = ["SqliteCache"]
