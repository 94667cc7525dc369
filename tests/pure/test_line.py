"""P8: who waits for a thread gets it in order of arrival, and looks seldom."""

from __future__ import annotations

from perdure.checkpoint.leases.line import FIRST_WAIT, LONGEST_WAIT, PATIENCE, Line


def test_P8_first_come_first_served():
    line = Line()
    first, second, third = (line.join("t", 0.0) for _ in range(3))
    assert [place.is_next(0.0) for place in (first, second, third)] == [True, False, False]
    with second:
        pass  # gave up
    assert [place.is_next(0.0) for place in (first, third)] == [True, False]
    with first:
        assert first.is_next(0.0)
    assert third.is_next(0.0)


def test_P8_threads_have_lines_of_their_own_and_leave_nothing_behind():
    line = Line()
    with line.join("a", 0.0) as a, line.join("b", 0.0) as b:
        assert a.is_next(0.0)
        assert b.is_next(0.0)
    assert line._places == {}


def test_P8_one_that_stands_still_loses_its_turn_until_it_looks_again():
    line = Line()
    stuck, next_one = line.join("t", 0.0), line.join("t", 0.0)
    assert not next_one.is_next(PATIENCE * 0.9)
    assert next_one.is_next(PATIENCE * 1.1)
    assert stuck.is_next(PATIENCE * 1.2)
    assert not next_one.is_next(PATIENCE * 1.3)


def test_the_longer_nothing_moves_the_less_often_is_looked():
    place = Line().join("t", 0.0)
    assert place.pause("holder", 0.0) == FIRST_WAIT
    assert place.pause("holder", 1.0) == 0.125
    assert place.pause("holder", 60.0) == LONGEST_WAIT
    assert place.pause("another holder", 60.0) == FIRST_WAIT, (
        "one that has waited long looks as often as one that has just come"
    )
    assert place.pause(None, 61.0) == 0.125


def test_whose_turn_comes_looks_at_once():
    line = Line()
    first, second = line.join("t", 0.0), line.join("t", 0.0)
    assert not second.is_next(0.0)
    first.is_next(9.9)
    assert not second.is_next(10.0)
    assert second.pause(None, 10.0) == LONGEST_WAIT
    with first:
        pass
    assert second.is_next(10.2)
    assert second.pause(None, 10.2) == FIRST_WAIT
