"""What a call of a graph may say besides input and config."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict

from perdure.constants import CONF
from perdure.engine.deciding.returns import unknown_node
from perdure.errors import InvalidConfig, UnknownKey, WrongType
from perdure.hints import meant
from perdure.runtime.config import KNOWN_KEYS

if TYPE_CHECKING:
    from perdure.engine.program import Program
    from perdure.runtime.runtime import RunControl
    from perdure.types import All, Durability, OnBusy


class RunOptions(TypedDict, total=False):
    """Keyword arguments of `invoke`, `ainvoke`, `stream` and `astream`.

    Attributes:
        context: the run's context, coerced to the graph's context schema if it is a dict.
        output_keys: the keys that the output and the events show, in place of the output schema's (`invoke`) or of all (`stream`);
            of one that is given as text, its bare value.
        interrupt_before: pause before these nodes ("*": all), in place of those given to `compile`.
        interrupt_after: pause after these nodes.
        durability: "sync" (default): each super-step is durable before the next begins. "async": one super-step runs ahead.
            "exit": saved only when the run ends, pauses or fails.
        control: a handle with which other code may ask the run to stop after a super-step.
        on_busy: what to do when another run holds the thread: "reject" (default) raises ThreadBusy, "wait" queues behind it.
        busy_timeout: for "wait": for how many seconds, 60 by default.
    """

    context: Any
    output_keys: str | Sequence[str] | None
    interrupt_before: All | Sequence[str] | None
    interrupt_after: All | Sequence[str] | None
    durability: Durability | None
    control: RunControl | None
    on_busy: OnBusy
    busy_timeout: float


@dataclass(slots=True, kw_only=True)
class Options:
    """`RunOptions` with defaults, checked."""

    context: Any = None
    output_keys: str | Sequence[str] | None = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    durability: Durability | None = None
    control: RunControl | None = None
    on_busy: OnBusy = "reject"
    busy_timeout: float = 60.0

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from keyword arguments.

        Raises:
            WrongType: there is no such argument.
            InvalidConfig: there is no such choice.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                hint = _place(name) or meant(name, known)
                raise WrongType(
                    f"a graph cannot be called with {name}={given[name]!r}{hint}; its options are {', '.join(known)}"
                )
        return cls(**given)

    def __post_init__(self) -> None:
        if self.on_busy not in ("reject", "wait"):
            raise InvalidConfig(f"on_busy must be 'reject' or 'wait', got {self.on_busy!r}", key="on_busy")
        limit: Any = self.busy_timeout
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit >= 0:
            raise InvalidConfig(f"busy_timeout must be a number of seconds, not below 0, got {limit!r}", key="busy_timeout")

    @property
    def wait(self) -> float | None:
        """Seconds to wait for a busy thread; None: do not."""
        return self.busy_timeout if self.on_busy == "wait" else None

    def breaks(self, program: Program) -> dict[str, Any]:
        """Where a run of `program` is to pause, as arguments of `Run`.

        Raises:
            UnknownNode: at a node that it does not have.
            InvalidConfig: at what is no list of nodes.
        """
        return {
            "break_before": _named(program, self.interrupt_before, "interrupt_before"),
            "break_after": _named(program, self.interrupt_after, "interrupt_after"),
        }

    def keys(self, program: Program) -> str | Sequence[str] | None:
        """What output and events of a run of `program` are to show.

        Raises:
            UnknownKey: a key that its state does not have.
            InvalidConfig: what is neither a key nor a list of keys.
        """
        keys = self.output_keys
        if keys is None or keys is program.stream_keys or keys is program.output_keys:
            return keys
        given: Any = keys
        if not isinstance(given, Collection) or isinstance(given, bytes):
            raise InvalidConfig(f"output_keys must be a key of the state or a list of keys, got {keys!r}", key="output_keys")
        for key in (given,) if isinstance(given, str) else given:
            if not isinstance(key, str) or key not in program.channels:
                raise UnknownKey(
                    f"output_keys names the key {key!r}, which the state of graph {program.name!r} does not "
                    f"have{meant(key, program.channels)}; its keys are {', '.join(map(repr, program.channels)) or '(none)'}",
                    key=str(key),
                )
        return keys


def _named(program: Program, names: Any, argument: str) -> Any:
    if names is None or names == "*":
        return names
    if isinstance(names, str) or not isinstance(names, Collection):
        meant = f". Did you mean [{names!r}]?" if isinstance(names, str) else ""
        raise InvalidConfig(f"{argument} must be a list of node names or '*', got {names!r}{meant}", key=argument)
    for name in names:
        if not isinstance(name, str) or name not in program.nodes:
            raise unknown_node(program, f"{argument} names", name)
    return tuple(names)


def _place(name: str) -> str:
    """Where what is no option is said, in parentheses with a space in front of it; "" if it is said nowhere."""
    if name in KNOWN_KEYS:
        return f" (it belongs into the config: {{{name!r}: ...}})"
    if name in ("thread_id", "checkpoint_id", "checkpoint_ns", "branch"):
        return f" (it belongs into the config: {{{CONF!r}: {{{name!r}: ...}}}})"
    return " (durability='exit' stands for checkpoint_during=False)" if name == "checkpoint_during" else ""
