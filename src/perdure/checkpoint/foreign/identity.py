"""Values on their way to a saver that turns them into bytes itself, if it does at all."""

from __future__ import annotations

from typing import Any, cast

from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.records import Packed
from perdure.checkpoint.serde.base import SerializerProtocol

TAG = "object"


class AsItIs(SerializerProtocol):
    """The serializer that leaves a value alone. It hands out a tuple with the value in it, which nothing mistakes for bytes."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value, wrapped."""
        return TAG, cast(bytes, (obj,))

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value again; None for the engine's own empty markers."""
        tag, wrapped = data
        return cast("tuple[Any]", wrapped)[0] if tag == TAG else None


AS_IT_IS = AsItIs()


class Identity(BaseCheckpointSaver[Any]):
    """Stands before a saver of other people, so that nothing becomes bytes twice."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=AS_IT_IS)
        self.saver = saver


def wrapped(value: Any) -> Packed:
    """A value as the rows carry it here."""
    return Packed(*AS_IT_IS.dumps_typed(value))


def unwrapped(packed: Packed | None) -> Any:
    """The value of what `wrapped` made."""
    return None if packed is None else AS_IT_IS.loads_typed(packed)
