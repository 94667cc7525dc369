"""P36: questions that were stored before they had deadlines, times and nodes."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from perdure.checkpoint.pauses import Asked, asked_again, stored
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import CorruptRecord
from perdure.types import NO_ANSWER, Interrupt, PregelTask

BEFORE = (
    "92c7323192b1706572647572653a496e7465727275707483a576616c7565a171a26964a169af726573706f6e73655f736368656d61c0c75f3292b2706572647572"
    "653a50726567656c5461736b88a26964a169a46e616d65a16ea470617468c7030191a161a56572726f72c0aa696e7465727275707473d40190a57374617465c0a6"
    "726573756c74c0a6737461747573a770656e64696e67"
)


def test_P36_values_written_before_are_read_with_what_they_lack() -> None:
    found = JsonPlusSerializer().loads_typed(("msgpack", bytes.fromhex(BEFORE)))
    assert found == [Interrupt("q", id="i"), PregelTask("i", "n", ("a",))]
    assert (found[0].deadline, found[0].default, found[0].asked_at, found[0].node) == (None, NO_ANSWER, None, "")
    assert found[1].entries == 0


def test_P36_questions_recorded_before_are_read() -> None:
    assert asked_again("i", ["q", {"type": "string"}, "0", "digest", 2, True, None]) == Asked(
        Interrupt("q", "i", response_schema={"type": "string"}), "0", "digest", 2, True
    )
    assert asked_again("i", ["q", None, None, "", 1, False, [3, 4]]).child == (3, 4)


def test_P36_questions_come_back_as_they_were() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
    for question in (
        Interrupt("q", "i"),
        Interrupt(None, "i", response_schema={}, deadline=now, default=None, asked_at=now, node="n"),
        Interrupt({"a": 1}, "i", deadline=now),
    ):
        for asked in (Asked(question, "0"), Asked(question, None, "", 3, True, (1, 2), 4, 5)):
            again = asked_again("i", stored(asked))
            assert again == asked
            assert (again.question.asked_at, again.question.node) == (question.asked_at, question.node)


@pytest.mark.parametrize(
    "content", [None, [], ["q"], ["q"] * 7, ["q", None, "0", "", 1, False, None, {"due": "soon"}]], ids=repr
)
def test_P37_a_damaged_question_is_told(content: object) -> None:
    with pytest.raises(CorruptRecord, match="question 'i'"):
        asked_again("i", content)
