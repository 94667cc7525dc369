"""`SqliteSaver` under the name that async code knows: it is the same class, for both."""

from perdure.backends.sqlite.saver import SqliteSaver

AsyncSqliteSaver = SqliteSaver

__all__ = ["AsyncSqliteSaver"]
