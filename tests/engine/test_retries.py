"""Retry policies."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.runtime import Runtime
from perdure.types import Command, RetryPolicy, interrupt
from tests.engine.colours import Colour, Log, thread

NO_WAIT = {"initial_interval": 0.0, "jitter": False}


class Shaky:
    """Fails as often as told, then returns the number of its attempt."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts: list[int] = []

    def __call__(self, state: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.execution_info is not None
        self.attempts.append(runtime.execution_info.node_attempt)
        if self.errors:
            raise self.errors.pop(0)
        return {"log": [self.attempts[-1]]}


def retried(colour: Colour, node: Any, policy: Any) -> StateGraph[Any, Any, Any, Any]:
    def run(state: Log, runtime: Runtime[Any]) -> Any:
        return node(state, runtime)

    return StateGraph(Log).add_node("a", colour.node(run), retry_policy=policy).add_edge(START, "a")


def test_a_node_is_tried_again_and_told_which_attempt_it_is(colour: Colour, saver: Any) -> None:
    shaky = Shaky(ConnectionError("1"), ConnectionError("2"))
    graph = retried(colour, shaky, RetryPolicy(max_attempts=3, **NO_WAIT)).compile(saver)  # type: ignore[arg-type]
    assert colour.invoke(graph, {"log": []}, thread())["log"] == [3]
    assert shaky.attempts == [1, 2, 3]


def test_the_last_error_is_raised_after_max_attempts(colour: Colour, saver: Any) -> None:
    shaky = Shaky(ConnectionError("1"), ConnectionError("2"), ConnectionError("3"))
    graph = retried(colour, shaky, RetryPolicy(max_attempts=2, **NO_WAIT)).compile(saver)  # type: ignore[arg-type]
    with pytest.raises(ConnectionError, match="2"):
        colour.invoke(graph, {"log": []}, thread())
    assert shaky.attempts == [1, 2]


def test_without_a_policy_nothing_is_tried_again(colour: Colour) -> None:
    shaky = Shaky(ConnectionError("1"))
    with pytest.raises(ConnectionError):
        colour.invoke(retried(colour, shaky, None).compile(), {"log": []})
    assert shaky.attempts == [1]


@pytest.mark.parametrize(
    ("retry_on", "error", "again"),
    [
        (LookupError, KeyError("k"), True),
        (LookupError, ValueError("v"), False),
        ((KeyError, ValueError), ValueError("v"), True),
        ([KeyError, ValueError], IndexError("i"), False),
        (lambda error: "again" in str(error), RuntimeError("try again"), True),
        (lambda error: "again" in str(error), RuntimeError("no"), False),
    ],
    ids=["class", "other class", "tuple", "list", "function", "function says no"],
)
def test_what_is_tried_again(colour: Colour, retry_on: Any, error: Exception, again: bool) -> None:
    shaky = Shaky(error)
    graph = retried(colour, shaky, RetryPolicy(retry_on=retry_on, **NO_WAIT)).compile()  # type: ignore[arg-type]
    if again:
        assert colour.invoke(graph, {"log": []})["log"] == [2]
    else:
        with pytest.raises(type(error)):
            colour.invoke(graph, {"log": []})
        assert shaky.attempts == [1]


def test_the_first_policy_that_fits_the_error_decides(colour: Colour) -> None:
    policies = [
        RetryPolicy(retry_on=KeyError, max_attempts=1, initial_interval=0.0, jitter=False),
        RetryPolicy(retry_on=LookupError, max_attempts=5, initial_interval=0.0, jitter=False),
    ]
    shaky = Shaky(IndexError("1"), IndexError("2"), KeyError("3"))
    with pytest.raises(KeyError):
        colour.invoke(retried(colour, shaky, policies).compile(), {"log": []})
    assert shaky.attempts == [1, 2, 3]


def test_a_mistake_in_the_code_is_not_tried_again_by_default(colour: Colour) -> None:
    shaky = Shaky(TypeError("mine"))
    with pytest.raises(TypeError):
        colour.invoke(retried(colour, shaky, RetryPolicy(**NO_WAIT)).compile(), {"log": []})  # type: ignore[arg-type]
    assert shaky.attempts == [1]


def test_each_attempt_starts_from_the_state_as_it_was(colour: Colour) -> None:
    seen: list[Any] = []
    errors = [ConnectionError("1")]

    def node(state: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        seen.append(dict(state))
        state["log"] = ["spoilt"]
        if errors:
            raise errors.pop()
        return {"log": ["ok"]}

    graph = retried(colour, node, RetryPolicy(**NO_WAIT)).compile()  # type: ignore[arg-type]
    assert colour.invoke(graph, {"log": ["in"]})["log"] == ["in", "ok"]
    assert seen == [{"log": ["in"]}, {"log": ["in"]}]


def test_a_retry_asks_its_questions_from_the_first_again(colour: Colour, kept: Saver) -> None:
    errors = [ConnectionError("1")]

    def node(_: Log, __: Any) -> dict[str, Any]:
        one = interrupt("one")
        two = interrupt("two")
        if errors:
            raise errors.pop()
        return {"log": [one, two]}

    graph = retried(colour, node, RetryPolicy(**NO_WAIT)).compile(kept)  # type: ignore[arg-type]
    colour.invoke(graph, {"log": []}, thread())
    colour.invoke(graph, Command(resume=1), thread())
    assert colour.invoke(graph, Command(resume=2), thread())["log"] == [1, 2]


def test_a_pause_is_not_a_failure(colour: Colour, kept: Saver) -> None:
    entered: list[int] = []

    def node(_: Log, runtime: Any) -> dict[str, Any]:
        entered.append(runtime.execution_info.node_attempt)
        return {"log": [interrupt("q")]}

    policy = RetryPolicy(retry_on=lambda _: True, **NO_WAIT)  # type: ignore[arg-type]
    graph = retried(colour, node, policy).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    assert entered == [1]


def test_the_key_for_side_effects_stays_over_retries_and_resumes(colour: Colour, kept: Saver) -> None:
    keys: list[str] = []
    errors: list[Exception] = [ConnectionError("1"), ValueError("fatal")]

    def node(_: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        keys.append(runtime.idempotency_key)
        if errors:
            raise errors.pop(0)
        return {"log": ["ok"]}

    graph = retried(colour, node, RetryPolicy(**NO_WAIT)).compile(kept)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="fatal"):
        colour.invoke(graph, {"log": []}, thread())
    colour.invoke(graph, None, thread())
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]
    colour.invoke(graph, {"log": []}, thread())
    assert keys[3] != keys[0], "another run of the node is another effect"


def test_defaults_reach_nodes_without_a_policy_of_their_own(colour: Colour) -> None:
    shaky, strict = Shaky(ConnectionError("1")), Shaky(ConnectionError("1"))
    graph = StateGraph(Log).add_node("a", colour.node(lambda s, runtime: shaky(s, runtime)))
    graph.add_node("b", colour.node(lambda s, runtime: strict(s, runtime)), retry_policy=RetryPolicy(max_attempts=1))
    graph.add_edge(START, "a").add_edge("a", "b").set_node_defaults(retry_policy=RetryPolicy(**NO_WAIT))  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        colour.invoke(graph.compile(), {"log": []})
    assert (shaky.attempts, strict.attempts) == ([1, 2], [1])


def test_events_of_all_attempts_are_streamed_and_one_result(colour: Colour) -> None:
    errors = [ConnectionError("1")]

    def node(_: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("try")
        if errors:
            raise errors.pop()
        return {"log": ["ok"]}

    graph = retried(colour, node, RetryPolicy(**NO_WAIT)).compile()  # type: ignore[arg-type]
    events = colour.stream(graph, {"log": []}, stream_mode=["custom", "updates"])
    assert events == [("custom", "try"), ("custom", "try"), ("updates", {"a": {"log": ["ok"]}})]
