"""LangChain's chat models inside nodes: what they write is streamed, whether or not the node hands its config on.

Loaded by the engine, and only in programs that have imported langchain_core themselves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from perdure.constants import TAG_NOSTREAM
from perdure.engine.tasks import messaging

if TYPE_CHECKING:
    from perdure.engine.running.run import Run
    from perdure.engine.tasks.task import Task
    from perdure.types import RunnableConfig

NAMES_THE_RUN = ("run_name", "run_id")
"""Keys of a config that are about one run, and not about those inside it."""


def seam_for(run: Run) -> Ambient | None:
    """What surrounds the tasks of a run that LangChain's models may have to know of."""
    above = run.parent
    around = above is not None and above.run.seam is not None
    return Ambient() if around or messaging.MODE in run.modes or run.config.get("callbacks") else None


class Ambient:
    """Makes a task's config the one that LangChain's code finds around itself, with a handler in it that streams tokens."""

    __slots__ = ()

    @contextmanager
    def around(self, task: Task) -> Iterator[None]:
        """See `perdure.engine.tasks.seam.Seam`."""
        listening = messaging.MODE in task.run.modes
        task.config = config = _with_handler(task.config, TokenHandler(task) if listening else None)
        ambient: Any = {key: value for key, value in config.items() if key not in NAMES_THE_RUN}
        token = var_child_runnable_config.set(ambient)
        try:
            yield
        finally:
            var_child_runnable_config.reset(token)


def _with_handler(config: RunnableConfig, handler: TokenHandler | None) -> RunnableConfig:
    """The config with this handler of tokens in place of any other."""
    given = config.get("callbacks")
    there = given.handlers if isinstance(given, BaseCallbackManager) else given or ()
    if handler is None and not any(isinstance(one, TokenHandler) for one in there):
        return config
    callbacks: Any
    if isinstance(given, BaseCallbackManager):
        callbacks = given.copy()
        for other in [one for one in callbacks.handlers if isinstance(one, TokenHandler)]:
            callbacks.remove_handler(other)
        if handler is not None:
            callbacks.add_handler(handler, inherit=True)
    else:
        callbacks = [one for one in given or () if not isinstance(one, TokenHandler)]
        if handler is not None:
            callbacks.append(handler)
    return {**config, "callbacks": callbacks or None}


class TokenHandler(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Tells a task's listeners what chat models write. As a streaming handler it has `invoke` of a model stream as well.

    Args:
        task: the task whose code calls the models.
    """

    run_inline = True

    def __init__(self, task: Task) -> None:
        self._task = task
        self._models: dict[UUID, dict[str, Any]] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A chat model begins; one tagged `nostream` is not listened to."""
        if TAG_NOSTREAM not in (tags or ()):
            own = messaging.metadata_of(self._task, tags or ())
            self._models[run_id] = {**own, **_known(metadata)}

    def on_llm_new_token(
        self,
        token: Any,
        *,
        chunk: Any = None,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """A piece of its message."""
        metadata = self._models.get(run_id)
        if metadata is not None and isinstance(chunk, ChatGenerationChunk):
            self._tell(chunk.message, metadata)

    def on_llm_end(
        self,
        response: LLMResult,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """It is done: told whole, if it did not come in pieces."""
        metadata = self._models.pop(run_id, None)
        seen = self._task.run.seen
        if metadata is None or seen is None:
            return
        for generation in response.generations[0] if response.generations else ():
            if isinstance(generation, ChatGeneration) and generation.message.id not in seen:
                self._tell(generation.message, metadata)

    def on_llm_error(
        self,
        error: BaseException,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """It failed."""
        self._models.pop(run_id, None)

    def _tell(self, message: Any, metadata: Mapping[str, Any]) -> None:
        self._task.sign_of_life()
        messaging.tell_piece(self._task, message, metadata)

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Nothing is taken from what runnables give."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Nothing is taken from what runnables give."""
        return output


def _known(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return metadata or {}
