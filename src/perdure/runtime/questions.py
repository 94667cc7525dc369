"""What a question says about the answer it expects, as plain data that can be stored and shown."""

from __future__ import annotations

from typing import Any

from perdure.errors import MissingExtra


def answer_schema(schema: Any) -> dict[str, Any] | None:
    """The JSON schema of an answer: of a type, as pydantic sees it; a JSON schema is one already.

    Raises:
        MissingExtra: it is a type, and pydantic is not installed.
    """
    if schema is None or isinstance(schema, dict):
        return schema
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise MissingExtra("interrupt(response_schema=<a type>)", "pydantic") from None
    return TypeAdapter(schema).json_schema()
