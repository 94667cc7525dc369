"""The samples as printed: text that is run after its root package has been renamed, and nothing else."""

from __future__ import annotations

from typing import Any

SIMPLE_GRAPH = """
from langgraph.graph import StateGraph, START, END
from langgraph.checkpoint.memory import InMemorySaver
from langchain_core.runnables import RunnableConfig
from typing import Annotated
from typing_extensions import TypedDict
from operator import add

class State(TypedDict):
    foo: str
    bar: Annotated[list[str], add]

def node_a(state: State):
    return {"foo": "a", "bar": ["a"]}

def node_b(state: State):
    return {"foo": "b", "bar": ["b"]}


workflow = StateGraph(State)
workflow.add_node(node_a)
workflow.add_node(node_b)
workflow.add_edge(START, "node_a")
workflow.add_edge("node_a", "node_b")
workflow.add_edge("node_b", END)

checkpointer = InMemorySaver()
graph = workflow.compile(checkpointer=checkpointer)

config: RunnableConfig = {"configurable": {"thread_id": "1"}}
graph.invoke({"foo": "", "bar":[]}, config)
"""

NAMESPACE_IN_A_NODE = """
from langchain_core.runnables import RunnableConfig

def my_node(state: State, config: RunnableConfig):
    checkpoint_ns = config["configurable"]["checkpoint_ns"]
"""

FIND_CHECKPOINTS = """
history = list(graph.get_state_history(config))

before_node_b = next(s for s in history if s.next == ("node_b",))

step_2 = next(s for s in history if s.metadata["step"] == 2)

forks = [s for s in history if s.metadata["source"] == "update"]

interrupted = next(
    s for s in history
    if s.tasks and any(t.interrupts for t in s.tasks)
)
"""

PICKLE_FALLBACK = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

graph.compile(
    checkpointer=InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True))
)
"""

COUNTER_IMPORTS = """
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph, START, END
"""
"""The page says that these were imported before."""

COUNTER = """
class StateInt(TypedDict):
    count: int
def add_one(state: StateInt) -> dict:
    return {"count": state["count"] + 1}
builder = StateGraph(StateInt)
builder.add_node("add_one", add_one)
builder.add_edge(START, "add_one")
builder.add_edge("add_one", END)
memory = InMemorySaver()
graph = builder.compile(checkpointer=memory)
config = {"configurable": {"thread_id": "thread-1"}}
result = graph.invoke({"count": 1}, config)
print(result)
"""

MINIMAL_COUNTER = """
import asyncio
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
builder = StateGraph(int)
builder.add_node("add_one", lambda x: x + 1)
builder.set_entry_point("add_one")
builder.set_finish_point("add_one")
memory = InMemorySaver()
graph = builder.compile(checkpointer=memory)
config = {"configurable": {"thread_id": "thread-1"}}
result = asyncio.run(graph.ainvoke(1, config))
print(result)
"""
"""With the line breaks that the page lost."""


def run(*samples: str, **names: Any) -> dict[str, Any]:
    """Run samples one after another in one namespace, with the root package renamed; return the namespace."""
    namespace: dict[str, Any] = {"__name__": "sample", **names}
    for sample in samples:
        exec(sample.replace("langgraph", "perdure"), namespace)
    return namespace
