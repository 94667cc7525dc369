"""P51: the metadata of a subgraph's checkpoint names the checkpoints of the graphs around it, by namespace."""

from __future__ import annotations

from typing import Any, cast

from perdure.checkpoint.saver import Saver
from perdure.types import Command, StateSnapshot, interrupt
from tests.promises.ways import Ledger, Way, chain, on


def nested(way: Way, saver: Saver, ledger: Ledger, **options: Any) -> Any:
    """a, then a graph around a graph that asks."""
    inner = chain(("x", ledger.node("x")), ("ask", ledger.node("ask", lambda: interrupt("?")))).compile(**options)
    middle = chain(("inner", inner)).compile(**options)
    return chain(("a", ledger.node("a")), ("middle", middle)).compile(saver)


def levels(way: Way, graph: Any, config: Any = None) -> list[StateSnapshot]:
    """The snapshots of a thread and of the subgraphs that wait in it, from the root on."""
    found = [way.state(graph, config or on(), subgraphs=True)]
    while isinstance(found[-1].tasks[0].state, StateSnapshot):
        found.append(found[-1].tasks[0].state)
    return found


def place(snapshot: StateSnapshot) -> tuple[str, str]:
    conf = snapshot.config["configurable"]
    return conf["checkpoint_ns"], conf["checkpoint_id"]


def parents(snapshot: Any) -> dict[str, str]:
    return cast("dict[str, str]", snapshot.metadata["parents"])


def test_P51_a_subgraphs_metadata_names_the_checkpoints_around_it(way: Way, saver: Saver, ledger: Ledger):
    graph = nested(way, saver, ledger)
    way.invoke(graph, {"log": []}, on())
    root, middle, inner = levels(way, graph)
    assert parents(root) == {}
    assert parents(middle) == dict([place(root)])
    assert parents(inner) == dict([place(root), place(middle)])
    for each in (middle, inner):
        alone = way.state(graph, {"configurable": {"thread_id": "t", "checkpoint_ns": place(each)[0]}})
        assert parents(alone) == parents(each)
        assert parents(way.state(graph, each.config)) == parents(each)
        history = way.history(graph, {"configurable": {"thread_id": "t", "checkpoint_ns": place(each)[0]}})
        assert [parents(older) for older in history] == [parents(each)] * len(history)


def test_P51_the_saver_and_the_events_say_the_same(way: Way, saver: Saver, ledger: Ledger):
    graph = nested(way, saver, ledger)
    events = way.stream(graph, {"log": []}, on(), stream_mode="checkpoints", subgraphs=True)
    *_, inner = levels(way, graph)
    told = [payload["metadata"]["parents"] for _, payload in events if payload["config"] == inner.config]
    assert told == [parents(inner)]
    found = saver.get_tuple(inner.config)
    assert found is not None
    assert found.metadata["parents"] == parents(inner)


def test_P51_P18_a_branch_names_its_own_and_the_old_one_those_that_it_had(way: Way, saver: Saver, ledger: Ledger):
    graph = nested(way, saver, ledger)
    way.invoke(graph, {"log": []}, on())
    root, middle, inner = before = levels(way, graph)
    way.invoke(graph, Command(resume="first"), on())
    way.invoke(graph, Command(resume="second"), root.config)
    assert [parents(way.state(graph, one.config)) for one in before[1:]] == [parents(middle), parents(inner)]
    way.invoke(graph, None, root.config)
    new_root, new_middle, new_inner = levels(way, graph)
    assert place(new_root) != place(root)
    assert parents(new_middle) == dict([place(new_root)])
    assert parents(new_inner) == dict([place(new_root), place(new_middle)])


def test_P51_P22_an_edit_inside_keeps_them(way: Way, saver: Saver, ledger: Ledger):
    graph = nested(way, saver, ledger)
    way.invoke(graph, {"log": []}, on())
    *_, inner = levels(way, graph)
    edited = way.edit(graph, inner.config, {"log": ["edit"]})
    assert parents(way.state(graph, edited)) == parents(inner)
    assert parents(levels(way, graph)[-1]) == parents(inner)


def test_P51_P21_a_memory_names_the_checkpoints_from_which_it_was_called(way: Way, saver: Saver, ledger: Ledger):
    graph = nested(way, saver, ledger, checkpointer=True)
    way.invoke(graph, {"log": []}, on())
    first = levels(way, graph)
    way.invoke(graph, Command(resume="!"), on())
    way.invoke(graph, {"log": []}, on())
    second = levels(way, graph)
    assert parents(second[1]) == dict([place(second[0])])
    assert parents(way.state(graph, first[2].config)) == dict([place(first[0]), place(first[1])])


def test_P51_P41_a_callers_own_parents_do_not_hide_them(way: Way, saver: Saver, ledger: Ledger):
    graph = nested(way, saver, ledger)
    way.invoke(graph, {"log": []}, {**on(), "metadata": {"parents": "mine"}})
    root, middle, _ = levels(way, graph)
    assert parents(root) == {}
    assert parents(middle) == dict([place(root)])
