"""Small graphs with a story each, told in both colours by `test_p49_colours`.

A story gets `nodes` (which makes a function a node of some colour), a saver and a way to call, and returns what it saw.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from perdure.checkpoint.saver import Saver
from perdure.graph import END, START, StateGraph
from perdure.types import Command, RetryPolicy, Send, StateSnapshot, interrupt
from tests.promises.ways import Log, Way, abreast, chain, on

TIMESTAMP = re.compile(r"'timestamp': '[^']*', ")
"""When a debug event was told, by the machine's own clock."""
MODES = ["values", "updates", "tasks", "checkpoints", "debug", "custom"]
Nodes = Callable[[Callable[..., Any]], Callable[..., Any]]


class Told:
    """Runs a graph and keeps all that can be seen: events, outcome, state and history after each call."""

    def __init__(self, nodes: Nodes, saver: Saver, way: Way) -> None:
        self.nodes = nodes
        self.saver = saver
        self.way = way
        self.seen: list[Any] = []

    def says(self, name: str, body: Callable[[], Any] | None = None) -> Callable[..., Any]:
        """A node that appends its name."""

        def node(state: Any) -> Any:
            result = None if body is None else body()
            return {"log": [name if result is None else result]}

        node.__name__ = name
        return self.nodes(node)

    def compiled(self, builder: StateGraph[Any, Any, Any, Any], **options: Any) -> Any:
        return builder.compile(checkpointer=self.saver, **options)

    def run(self, graph: Any, given: Any, config: Any = None, **options: Any) -> None:
        events: list[Any] = []

        def stream() -> None:
            self.way.stream(graph, given, config or on(), stream_mode=MODES, into=events, **options)

        self._note(stream)
        self.seen.append(sorted(TIMESTAMP.sub("", _text(event)) for event in events))
        self.look(graph)

    def call(self, graph: Any, given: Any, config: Any = None, **options: Any) -> None:
        self._note(lambda: self.way.invoke(graph, given, config or on(), **options))
        self.look(graph)

    def edit(self, graph: Any, values: Any, **options: Any) -> None:
        self._note(lambda: self.way.edit(graph, on(), values, **options))
        self.look(graph)

    def look(self, graph: Any) -> None:
        self.seen.append(_text(self.way.state(graph, on(), subgraphs=True)))
        self.seen.append([_text(snapshot) for snapshot in self.way.history(graph, on())])

    def pauses(self, graph: Any) -> dict[Any, str]:
        """The ids of the open questions, by value."""
        return {pause.value: pause.id for pause in self.way.state(graph, on()).interrupts}

    def _note(self, call: Callable[[], Any]) -> None:
        try:
            result = call()
        except Exception as error:
            notes = list(getattr(error, "__notes__", ()))
            self.seen.append(
                (type(error).__name__, str(error), getattr(error, "code", None), getattr(error, "node", None), notes)
            )
        else:
            self.seen.append(_text(result))


def _text(value: Any) -> str:
    if isinstance(value, StateSnapshot):
        value = value._asdict()
    return repr(value)


def in_a_row(told: Told) -> None:
    graph = told.compiled(chain(*((name, told.says(name)) for name in "abc")))
    told.run(graph, {"log": ["in"]}, {**on(), "metadata": {"user": "u"}})
    told.call(graph, {"log": ["again"]})


def in_a_row_async_durability(told: Told) -> None:
    graph = told.compiled(chain(*((name, told.says(name)) for name in "abc")))
    told.call(graph, {"log": ["in"]}, durability="async")


def in_a_row_exit_durability(told: Told) -> None:
    graph = told.compiled(chain(*((name, told.says(name)) for name in "abc")))
    told.call(graph, {"log": ["in"]}, durability="exit")


def side_by_side_and_a_join(told: Told) -> None:
    builder = abreast(*((name, told.says(name)) for name in "abc"))
    builder.add_node("z", told.says("z"))
    builder.add_edge(["a", "b", "c"], "z")
    told.call(told.compiled(builder), {"log": []})


def sends(told: Told) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("work", told.nodes(lambda n: {"log": [f"w{n}"]}))
    builder.add_node("end", told.says("end"))
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(12)], ["work"])
    builder.add_edge("work", "end")
    told.call(told.compiled(builder), {"log": []})


def a_loop_on_a_root_value(told: Told) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(int)
    builder.add_node("step", told.nodes(lambda n: n + 1))
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda n: "step" if n < 5 else END, ["step", END])
    graph = told.compiled(builder)
    told.run(graph, 0)
    told.call(graph, 9)


def a_recursion_limit(told: Told) -> None:
    builder = chain(("a", told.says("a")))
    builder.edges.discard(("a", END))
    builder.add_edge("a", "a")
    graph = told.compiled(builder)
    told.run(graph, {"log": []}, {**on(), "recursion_limit": 3})
    told.run(graph, None, {**on(), "recursion_limit": 2})


def two_questions_of_one_node(told: Told) -> None:
    graph = told.compiled(chain(("ask", told.says("ask", lambda: interrupt("one") + interrupt("two")))))
    told.run(graph, {"log": []})
    told.run(graph, Command(resume="1"))
    told.run(graph, Command(resume="2"))
    told.run(graph, Command(resume="3"))


def questions_side_by_side(told: Told) -> None:
    nodes = {"a": told.says("a", lambda: interrupt("a")), "b": told.says("b", lambda: interrupt("b"))}
    graph = told.compiled(abreast(*nodes.items(), ("c", told.says("c"))))
    told.call(graph, {"log": []})
    told.call(graph, Command(resume="which?"))
    told.call(graph, Command(resume={told.pauses(graph)["b"]: "B"}))
    told.call(graph, Command(resume={told.pauses(graph)["a"]: "A"}))


def static_breakpoints(told: Told) -> None:
    graph = told.compiled(chain(*((name, told.says(name)) for name in "abc")), interrupt_before=["b"], interrupt_after=["b"])
    told.run(graph, {"log": []})
    told.run(graph, None)
    told.run(graph, Command(resume="go"))


def a_failure(told: Told) -> None:
    down = [True]

    def body() -> None:
        if down[0]:
            raise ConnectionError("down")

    graph = told.compiled(chain(("a", told.says("a")), ("b", told.says("b", body)), ("c", told.says("c"))))
    told.run(graph, {"log": []})
    down[0] = False
    told.run(graph, None)


def a_failure_beside_a_result(told: Told) -> None:
    import asyncio
    import inspect

    done = threading.Event()
    down = [True]
    good = told.says("good", done.set)

    def fails(state: Any) -> Any:
        done.wait(10)
        if down[0]:
            raise ConnectionError("down")
        return {"log": ["bad"]}

    async def afails(state: Any) -> Any:
        while not done.is_set():  # noqa: ASYNC110 - what is waited for is no event of this loop
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        return fails(state)

    bad = afails if inspect.iscoroutinefunction(good) else fails
    graph = told.compiled(abreast(("good", good), ("bad", bad)))
    told.call(graph, {"log": []})
    down[0] = False
    told.call(graph, None)


def retries(told: Told) -> None:
    left = [2]

    def body() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("down")

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", told.says("a", body), retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_edge(START, "a")
    told.run(told.compiled(builder), {"log": []})


def an_error_handler(told: Told) -> None:
    def body() -> None:
        raise ConnectionError("down")

    def handler(state: Any, error: Any) -> Any:
        return {"log": [f"handled {error.node}: {error.error}"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", told.says("a", body), error_handler=handler)
    builder.add_edge(START, "a")
    told.call(told.compiled(builder), {"log": []})


def a_subgraph_that_asks(told: Told) -> None:
    child = chain(("x", told.says("x")), ("ask", told.says("ask", lambda: interrupt("?"))), ("y", told.says("y"))).compile()
    graph = told.compiled(chain(("a", told.says("a")), ("child", child), ("b", told.says("b"))))
    told.run(graph, {"log": []}, subgraphs=True)
    told.run(graph, Command(resume="!"), subgraphs=True)


def a_subgraph_that_fails(told: Told) -> None:
    def body() -> None:
        raise ConnectionError("down")

    child = chain(("x", told.says("x")), ("bad", told.says("bad", body))).compile()
    graph = told.compiled(chain(("a", told.says("a")), ("child", child)))
    told.run(graph, {"log": []})
    told.run(graph, None)


def a_subgraph_called_by_a_node(told: Told) -> None:
    child = chain(("x", told.says("x")), ("ask", told.says("ask", lambda: interrupt("?")))).compile()

    def call(state: Any) -> Any:
        return {"log": child.invoke({"log": []})["log"]}

    async def acall(state: Any) -> Any:
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    graph = told.compiled(chain(("a", acall if told.way.is_async else call), ("b", told.says("b"))))
    told.call(graph, {"log": []})
    told.call(graph, Command(resume="!"))


def commands(told: Told) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", told.nodes(lambda state: Command(update={"log": ["a"]}, goto=["b", Send("c", {"log": ["sent"]})])))
    builder.add_node("b", told.says("b"))
    builder.add_node("c", told.nodes(lambda state: {"log": [f"c {state['log']}"]}))
    builder.add_edge(START, "a")
    graph = told.compiled(builder)
    told.call(graph, {"log": []})
    told.call(graph, Command(update={"log": ["by the caller"]}, goto="c"))


def a_command_for_the_parent(told: Told) -> None:
    child = chain(("x", told.nodes(lambda state: Command(graph=Command.PARENT, update={"log": ["up"]}, goto="b")))).compile()
    builder = chain(("child", child))
    builder.add_node("b", told.says("b"))
    told.call(told.compiled(builder), {"log": []})


def edits(told: Told) -> None:
    graph = told.compiled(chain(*((name, told.says(name)) for name in "abc")))
    told.edit(graph, {"log": ["first"]}, as_node="a")
    told.run(graph, None)
    told.edit(graph, {"log": ["after c"]})
    told.edit(graph, {"log": ["as a"]}, as_node="a")
    told.edit(graph, {"lug": 1})
    told.edit(graph, {"log": []}, as_node="nobody")
    told.run(graph, None)


def a_fork_and_a_replay(told: Told) -> None:
    graph = told.compiled(chain(*((name, told.says(name)) for name in "abc")))
    told.call(graph, {"log": []})
    old = next(snapshot for snapshot in told.way.history(graph, on()) if snapshot.next == ("b",))
    told.run(graph, None, old.config)
    told.call(graph, {"log": ["new"]}, old.config)


def a_deferred_node(told: Told) -> None:
    builder = chain(*((name, told.says(name)) for name in "abc"))
    builder.add_node("last", told.says("last"), defer=True)
    builder.add_edge("a", "last")
    told.call(told.compiled(builder), {"log": []})


def wrong_values(told: Told) -> None:
    for number, value in enumerate(({"lag": []}, "text", Command(goto="nowhere"), {"log": [object()]}, {"log": 1})):
        graph = told.compiled(chain(("a", told.nodes(lambda state, value=value: value))))
        told.call(graph, {"log": []}, on(f"t{number}"))
        told.call(graph, {"lag": []}, on(f"t{number}"))
    told.call(graph, None, on("nobody"))
    told.call(graph, None, {"configurable": {}})
    told.call(graph, None, on("nobody", checkpoint_id="1f000000-0000-6000-8000-000000000000"))
    told.call(graph, Command(resume=1), {**on(), "nonsense": 1})


def without_a_saver(told: Told) -> None:
    graph = chain(*((name, told.says(name)) for name in "ab")).compile()
    told._note(lambda: told.way.invoke(graph, {"log": []}))
    told._note(lambda: told.way.invoke(graph, None))
    told._note(lambda: told.way.stream(graph, {"log": []}, stream_mode=["values", "updates", "custom"]))


STORIES = [
    in_a_row,
    in_a_row_async_durability,
    in_a_row_exit_durability,
    side_by_side_and_a_join,
    sends,
    a_loop_on_a_root_value,
    a_recursion_limit,
    two_questions_of_one_node,
    questions_side_by_side,
    static_breakpoints,
    a_failure,
    a_failure_beside_a_result,
    retries,
    an_error_handler,
    a_subgraph_that_asks,
    a_subgraph_that_fails,
    a_subgraph_called_by_a_node,
    commands,
    a_command_for_the_parent,
    edits,
    a_fork_and_a_replay,
    a_deferred_node,
    wrong_values,
    without_a_saver,
]
