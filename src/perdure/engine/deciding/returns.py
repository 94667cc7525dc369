"""What a node's return and a branch's choice mean, as writes. Pure.

A write is a pair (channel, value). Besides the state's keys there are two kinds of channels that steer: `branch:to:<node>` (go
there next) and `__pregel_tasks` (a Send). Plain edges write nothing: they are read off the program when results are applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.channels.overwrite import overwrite_of
from perdure.constants import BRANCH_PREFIX, END, PREVIOUS, ROOT, START, TASKS
from perdure.errors import InvalidUpdateError, ParentCommand, UnknownChoice, UnknownKey, UnknownNode
from perdure.hints import meant
from perdure.types import Command, EntrypointFinal, Send

if TYPE_CHECKING:
    from perdure.engine.program import Branch, Program

Write = tuple[str, Any]


def writes_of(program: Program, node: str, value: Any) -> list[Write]:
    """The writes of what node `node` returned.

    Raises:
        UnknownKey: it names a key the state does not have.
        UnknownNode: a Command goes to a node that does not exist.
        InvalidUpdateError: it is nothing a node may return.
        ParentCommand: it is a command for another graph.
    """
    if program.single_output is not None:
        final = isinstance(value, EntrypointFinal)
        return [(END, value.value if final else value), (PREVIOUS, value.save if final else value)]
    if value is None:
        return []
    if type(value) is dict and not program.root:
        return _pairs_of_dict(program, node, value)
    if isinstance(value, Command):
        return _of_command(program, node, value)
    if isinstance(value, Send):
        return goto_writes(program, f"Node {node!r} goes to", value, node=node)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Command) for item in value):
        writes: list[Write] = []
        for item in value:
            writes.extend(writes_of(program, node, item))
        return writes
    return updates_of(program, node, value)


def updates_of(program: Program, node: str, value: Any) -> list[Write]:
    """The writes of a state update: a dict, pairs of an object of a state class, or the whole value of a state without keys.

    Raises:
        UnknownKey: it names a key the state does not have.
        InvalidUpdateError: it is none of these.
    """
    if value is None:
        return []
    if program.root:
        return _prepared(program, [(ROOT, value)])
    if isinstance(value, Mapping):
        return _pairs_of_dict(program, node, value)
    pairs = program.pairs_of(value)
    if pairs is None:
        raise InvalidUpdateError(
            f"Expected dict, got {value!r}. Node {node!r} must return a dict of state keys to update, an object of the state's "
            "class, a Command, a list with Commands, or None",
            node=node,
            code="INVALID_GRAPH_NODE_RETURN_VALUE",
        )
    return _known_pairs(program, node, pairs)


def _pairs_of_dict(program: Program, node: str, value: Mapping[str, Any]) -> list[Write]:
    channels = program.channels
    for key in value:
        if key not in channels:
            return _known_pairs(program, node, value.items())
    return _prepared(program, list(value.items())) if program.prepare else list(value.items())


def _known_pairs(program: Program, node: str, pairs: Iterable[tuple[str, Any]]) -> list[Write]:
    """The pairs whose keys the state has. Managed values, which a node that returns its whole state returns too, are left out.

    Raises:
        UnknownKey: a key is neither, and unknown ones are errors.
    """
    channels = program.channels
    known: list[Write] = []
    for key, value in pairs:
        if key in channels:
            known.append((key, value))
        elif program.unknown_keys == "error" and key not in program.managed:
            raise unknown_key(program, f"Node {node!r} returned", key, channels, node=node)
    return _prepared(program, known)


def _prepared(program: Program, writes: list[Write]) -> list[Write]:
    """The writes as the reducers of their keys want to have them before they are shown, stored and applied."""
    prepare = program.prepare
    if not prepare:
        return writes
    return [(key, prepare[key](value) if key in prepare and overwrite_of(value) is MISSING else value) for key, value in writes]


def unknown_key(program: Program, who: str, key: object, known: Iterable[str], *, node: str | None = None) -> UnknownKey:
    """The error for a key that the state does not have."""
    names = list(known)
    return UnknownKey(
        f"{who} the key {key!r}, which the state of graph {program.name!r} does not have{meant(key, names)}. Its keys are "
        f"{', '.join(map(repr, names)) or '(none)'}. Add it to the schema, or compile(unknown_keys='ignore') to drop unknown keys",
        node=node,
        key=str(key),
    )


def unknown_node(program: Program, who: str, name: object, *, node: str | None = None) -> UnknownNode:
    """The error for a goto, Send or edge to a node that does not exist."""
    names = list(program.nodes)
    return UnknownNode(
        f"{who} {name!r}, but graph {program.name!r} has no such node{meant(name, names)}. Its nodes are "
        f"{', '.join(map(repr, names)) or '(none)'}",
        node=node,
    )


def _of_command(program: Program, node: str, command: Command[Any]) -> list[Write]:
    if command.graph is not None and command.graph != program.name:
        raise ParentCommand(command)
    return [*command_updates(program, node, command), *goto_writes(program, f"Node {node!r} goes to", command.goto, node=node)]


def command_updates(program: Program, node: str, command: Command[Any]) -> list[Write]:
    """The state writes of a command: `update` may also be a list of (key, value) pairs.

    Raises:
        UnknownKey, InvalidUpdateError: as `updates_of`.
    """
    update = command.update
    if isinstance(update, (list, tuple)) and update and all(_is_pair(item) for item in update):
        known = program.channels
        for key, _ in update:
            if key not in known and program.unknown_keys == "error":
                raise unknown_key(program, f"Command.update of node {node!r} names", key, known, node=node)
        return _prepared(program, [(key, value) for key, value in update if key in known])
    return updates_of(program, node, update)


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def goto_writes(program: Program, who: str, goto: Any, *, node: str | None = None) -> list[Write]:
    """The steering writes of a goto: a node name, a Send, or several.

    Raises:
        UnknownNode: a target does not exist.
        InvalidUpdateError: a target is neither name nor Send, or a Send goes to END.
    """
    targets = goto if isinstance(goto, (list, tuple, set, frozenset)) else (goto,)
    writes: list[Write] = []
    for target in targets:
        if isinstance(target, Send):
            _check_send(program, who, target, node)
            writes.append((TASKS, target))
        elif isinstance(target, str):
            if target == END:
                continue
            if target not in program.nodes:
                raise unknown_node(program, who, target, node=node)
            writes.append((BRANCH_PREFIX + target, None))
        else:
            raise InvalidUpdateError(
                f"{who} {target!r}; a goto is a node name, a Send, or a list of these, got {type(target).__name__}", node=node
            )
    return writes


def _check_send(program: Program, who: str, send: Send, node: str | None) -> None:
    if send.node == END:
        raise InvalidUpdateError(
            "Cannot send a packet to the END node: a Send starts a node; return END itself to stop", node=node
        )
    if send.node not in program.nodes:
        raise unknown_node(program, f"{who} (by Send)", send.node, node=node)
    if send.timeout is not None:
        call = program.nodes[send.node].call
        if not call.is_async and call.subgraph is None:
            raise InvalidUpdateError(
                "Node timeouts are only supported for async nodes because sync Python execution cannot be safely cancelled in-process: "
                f"{who} (by Send) {send.node!r} with a timeout, which is sync",
                node=send.node,
            )


def branch_writes(program: Program, node: str, branch: Branch, chosen: Any) -> list[Write]:
    """The steering writes of what the path function of `branch` returned.

    Raises:
        UnknownChoice: it chose nothing, or START, or returned a key that its path map does not have.
        UnknownNode, InvalidUpdateError: as `goto_writes`.
    """
    if chosen.__class__ is str and branch.ends is None and chosen in program.nodes:  # by far the most common choice
        return [(program.triggers[chosen][0], None)]
    choices = chosen if isinstance(chosen, (list, tuple)) else (chosen,)
    targets: list[Any] = []
    for choice in choices:
        target = choice
        if branch.ends is not None and not isinstance(choice, Send):
            try:
                target = branch.ends[choice]
            except (KeyError, TypeError):
                raise UnknownChoice(
                    f"the conditional edge {branch.name!r} of node {node!r} returned {choice!r}, which its path map does not have; "
                    f"it has {', '.join(map(repr, branch.ends))}",
                    node=node,
                ) from None
        if target is None or target == START:
            raise UnknownChoice(
                f"Branch did not return a valid destination: the conditional edge {branch.name!r} of node {node!r} returned "
                f"{choice!r}; return a node name, END, a Send, or a list of these",
                node=node,
            )
        targets.append(target)
    return goto_writes(program, f"The conditional edge {branch.name!r} of node {node!r} goes to", targets, node=node)


def stored_writes(program: Program, writes: Sequence[Write]) -> Sequence[Write]:
    """The writes without what is never stored: values of untracked keys, also those that a Send brings."""
    if not program.untracked:
        return writes
    kept = [write for write in writes if write[0] not in program.untracked]
    return [(key, stored_send(program, value)) if key == TASKS else (key, value) for key, value in kept]


def stored_send(program: Program, send: Send) -> Send:
    """The Send without the values of untracked keys."""
    if not program.untracked or not isinstance(send.arg, dict) or program.untracked.isdisjoint(send.arg):
        return send
    return Send(
        send.node, {key: value for key, value in send.arg.items() if key not in program.untracked}, timeout=send.timeout
    )


def input_writes(program: Program, given: Any) -> list[Write]:
    """The writes of an input.

    Raises:
        UnknownKey: it names a key that the input schema does not have.
        InvalidUpdateError: it is nothing that the state can take.
    """
    if program.root:
        return _prepared(program, [(ROOT, given)])
    known = program.input_keys
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        found = program.pairs_of(given)
        if found is None:
            raise InvalidUpdateError(
                f"Expected dict, got {given!r}: the input of graph {program.name!r} is a dict of its input keys or an object of its "
                "input class",
                code="INVALID_GRAPH_NODE_RETURN_VALUE",
            )
        pairs = found
    if program.unknown_keys == "error":
        for key, _ in pairs:
            if key not in known:
                raise unknown_key(program, "The input has", key, known)
    return _prepared(program, [(key, value) for key, value in pairs if key in known])


def update_of(writes: Sequence[Write], keys: str | Sequence[str], *, root: bool) -> Any:
    """What the `updates` stream and the `writes` of a snapshot show of a task's writes: its update as a dict.

    None if it wrote no shown key; a list of dicts where one key was written more than once. Of a single key, named as text, or of a
    state without keys: the bare value, or a list of several.
    """
    if root or isinstance(keys, str):
        values = [value for channel, value in writes if channel == (ROOT if root else keys)]
        return None if not values else values[0] if len(values) == 1 else values
    shown = [(channel, value) for channel, value in writes if channel in keys]
    if not shown:
        return None
    as_dict = dict(shown)
    return as_dict if len(as_dict) == len(shown) else [{channel: value} for channel, value in shown]


def result_of(writes: Sequence[Write], keys: Sequence[str], *, root: bool) -> Any:
    """What task events and snapshots show as `result`: `{}` for no writes, `{"$writes": [...]}` for several to one key."""
    if root:
        return update_of(writes, keys, root=True)
    result: dict[str, Any] = {}
    for channel, value in writes:
        if channel not in keys:
            continue
        if channel not in result:
            result[channel] = value
        elif isinstance(result[channel], _Several):
            result[channel]["$writes"].append(value)
        else:
            result[channel] = _Several({"$writes": [result[channel], value]})
    return {key: dict(value) if isinstance(value, _Several) else value for key, value in result.items()}


def shown_of(program: Program, writes: Sequence[Write]) -> Any:
    """What snapshots show as the result of a task: of a program with a single output, the bare value."""
    if program.single_output is not None:
        return update_of(writes, program.single_output, root=False)
    return result_of(writes, program.stream_keys, root=program.root)


class _Several(dict[str, Any]):
    """Marks a collection that this module made, so that a user's own value of that shape is not mistaken for one."""
