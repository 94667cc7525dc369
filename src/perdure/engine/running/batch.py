"""Several calls of one graph at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from typing import Any

from perdure.errors import InvalidConfig, WrongType
from perdure.runtime.config import checked


def _configs(inputs: Sequence[Any], config: Any) -> list[Any]:
    given: Any = inputs
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        raise WrongType(f"batch takes a list of inputs, got {type(inputs).__name__}: batch([first, second])")
    if isinstance(config, Sequence) and not isinstance(config, (str, Mapping)):
        if len(config) != len(inputs):
            raise InvalidConfig(
                f"batch got {len(inputs)} inputs and {len(config)} configs; give one config, or one for each input"
            )
        return list(config)
    return [config] * len(inputs)


def _limit(configs: Sequence[Any]) -> int | None:
    return checked(configs[0]).get("max_concurrency") if configs else None


def run_batch(
    invoke: Callable[..., Any], inputs: Sequence[Any], config: Any, *, return_exceptions: bool, kwargs: Mapping[str, Any]
) -> list[Any]:
    """Call `invoke` for each input, on threads.

    Raises:
        InvalidConfig: the configs do not match the inputs, or the first is none.
        Exception: the first failure, unless they are to be returned.
    """
    from concurrent.futures import ThreadPoolExecutor

    configs = _configs(inputs, config)
    if not configs:
        return []

    def one(given: Any, of: Any) -> Any:
        try:
            return invoke(given, of, **kwargs)
        except Exception as error:
            if return_exceptions:
                return error
            raise

    with ThreadPoolExecutor(_limit(configs) or min(len(configs), 32), thread_name_prefix="perdure-batch") as pool:
        calls = [pool.submit(copy_context().run, one, given, of) for given, of in zip(inputs, configs, strict=True)]
        return [call.result() for call in calls]


async def arun_batch(
    ainvoke: Callable[..., Coroutine[Any, Any, Any]],
    inputs: Sequence[Any],
    config: Any,
    *,
    return_exceptions: bool,
    kwargs: Mapping[str, Any],
) -> list[Any]:
    """Call `ainvoke` for each input, as tasks.

    Raises:
        InvalidConfig: the configs do not match the inputs, or the first is none.
        Exception: the first failure, unless they are to be returned.
    """
    import asyncio

    configs = _configs(inputs, config)
    limit = _limit(configs)
    gate = asyncio.Semaphore(limit) if limit else None

    async def one(given: Any, of: Any) -> Any:
        if gate is None:
            return await ainvoke(given, of, **kwargs)
        async with gate:
            return await ainvoke(given, of, **kwargs)

    calls = (one(given, of) for given, of in zip(inputs, configs, strict=True))
    return list(await asyncio.gather(*calls, return_exceptions=return_exceptions))
