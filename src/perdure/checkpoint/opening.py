"""A saver from a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.errors import InvalidArgument, WrongType

if TYPE_CHECKING:
    from perdure.checkpoint.saver import Saver


def open_saver(url: str, **options: Any) -> Saver:
    """The saver for a database.

    Args:
        url: `memory://`, `sqlite:///relative/path.db`, `sqlite:////absolute/path.db`, or the path of a SQLite file.
        options: passed on to the saver's class, such as `serde=` and `lease_seconds=`.

    Raises:
        InvalidArgument: there is no saver for URLs of this kind.
        WrongType: the URL is no text.
    """
    if not isinstance(url, str):
        raise WrongType(f"open_saver takes a URL or a path as text, got {type(url).__name__}; for example 'sqlite:///app.db'")
    scheme = url.partition(":")[0] if "://" in url or url.startswith(("sqlite:", "memory:")) else "file"
    if scheme == "memory":
        from perdure.checkpoint.memory import InMemorySaver

        return InMemorySaver(**options)
    if scheme in ("sqlite", "file"):
        from perdure.checkpoint.sqlite import SqliteSaver

        return SqliteSaver.from_conn_string(url, **options)
    raise InvalidArgument(f"there is no saver for {scheme!r} URLs; known are memory:// and sqlite:///path.db")
