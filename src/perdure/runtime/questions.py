"""What a question says about the answer it expects: which shape, until when, and what counts if nobody answers."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from perdure.clock import time_of
from perdure.errors import InvalidAnswer, InvalidArgument, MissingExtra, WrongType
from perdure.runtime.schema_check import check_schema, mismatches
from perdure.types import NO_ANSWER, Interrupt, seconds_of

SIMPLE: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
}
"""Types that need no pydantic."""


def answer_schema(schema: Any) -> dict[str, Any] | None:
    """The JSON schema of an answer: of a type, as pydantic sees it; a JSON schema is one already.

    Raises:
        MissingExtra: it is a type, and pydantic is not installed.
        InvalidArgument: it says what cannot be checked here.
    """
    if schema is None:
        return None
    if isinstance(schema, dict):
        check_schema(schema)
        return schema
    simple = SIMPLE.get(schema) if isinstance(schema, type) else None
    if simple is not None:
        return dict(simple)
    made: dict[str, Any] = _adapter(schema).json_schema()
    check_schema(made)
    return made


def fitted(schema: Any, answer: Any, *, pause: str, node: str) -> Any:
    """An answer as the code that asked wants to have it: checked, and for a type as an object of it.

    Raises:
        InvalidAnswer: it does not fit.
    """
    if schema is None:
        return answer
    simple = SIMPLE.get(schema) if isinstance(schema, type) else None
    plain = schema if isinstance(schema, dict) else simple
    if plain is not None:
        problems = mismatches(plain, answer)
        if problems:
            raise _refusal(pause, node, problems)
        return float(answer) if schema is float else answer
    from pydantic import ValidationError

    try:
        return _adapter(schema).validate_python(answer)
    except ValidationError as error:
        raise _refusal(pause, node, [_told(one) for one in error.errors(include_url=False)]) from error


def refuse_misfits(questions: dict[str, Interrupt], answers: dict[str, Any], *, thread: str) -> None:
    """Check answers against the stored schemas of their questions, before anything of them is stored.

    Raises:
        InvalidAnswer: one does not fit; it names all that do not.
    """
    problems: list[str] = []
    refused: list[str] = []
    for pause, answer in answers.items():
        question = questions.get(pause)
        if question is None or question.response_schema is None:
            continue
        found = mismatches(question.response_schema, answer)
        if found:
            refused.append(pause)
            problems += [f"{pause!r} ({str(question.value)[:60]!r}): {problem}" for problem in found]
    if problems:
        raise InvalidAnswer(
            f"an answer to thread {thread!r} does not fit what its question asks for: {'; '.join(problems)}. Nothing was stored",
            problems=problems,
            interrupt_ids=refused,
            thread=thread,
        )


def deadline_of(deadline: datetime | timedelta | float | None, now_ns: int) -> datetime | None:
    """The moment of a deadline.

    Args:
        deadline: seconds or a timedelta from now, or a moment with a time zone.
        now_ns: now.

    Raises:
        WrongType: it is none of these.
        InvalidArgument: it lies not in the future of now, or has no time zone.
    """
    if deadline is None:
        return None
    if isinstance(deadline, datetime):
        if deadline.utcoffset() is None:
            raise InvalidArgument(
                f"a deadline needs a time zone, got {deadline!r}; datetime.now(timezone.utc) + timedelta(...) has one, and a plain "
                "timedelta counts from now"
            )
        return deadline
    if isinstance(deadline, bool) or not isinstance(deadline, (timedelta, int, float)):
        raise WrongType(f"a deadline is seconds, a timedelta or a datetime, got {type(deadline).__name__}")
    return time_of(now_ns + round((seconds_of(deadline) or 0.0) * 1e9))


def check_default(default: Any, deadline: object, schema: dict[str, Any] | None) -> None:
    """Refuse a default answer that could never count.

    Raises:
        InvalidArgument: there is no deadline.
        InvalidAnswer: it does not fit the schema.
    """
    if default is NO_ANSWER:
        return
    if deadline is None:
        raise InvalidArgument(f"interrupt(default={default!r}) needs a deadline: without one, the default would never count")
    problems = [] if schema is None else mismatches(schema, default)
    if problems:
        raise InvalidAnswer(
            f"the default answer does not fit the schema of its question: {'; '.join(problems)}", problems=problems
        )


def _refusal(pause: str, node: str, problems: list[str]) -> InvalidAnswer:
    return InvalidAnswer(
        f"node {node!r} refuses the answer to its question {pause!r}: {'; '.join(problems)}. The question is open again",
        problems=problems,
        interrupt_ids=(pause,),
        node=node,
    )


def _told(error: Any) -> str:
    place = "".join(f"[{part!r}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    return f"${place}: {error['msg']}"


def _adapter(schema: Any) -> Any:
    try:
        return _known_adapter(schema)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _made_adapter(schema)


def _made_adapter(schema: Any) -> Any:
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise MissingExtra("interrupt(response_schema=<a type>)", "pydantic") from None
    return TypeAdapter(schema)


_known_adapter = lru_cache(maxsize=128)(_made_adapter)
