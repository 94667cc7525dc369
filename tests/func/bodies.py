"""One text of an entrypoint for both colours: its body is a generator that yields the futures it waits for, one or a list of them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Generator
from typing import Any

from perdure.func import entrypoint, task
from perdure.types import interrupt
from tests.promises.ways import Way

Body = Callable[..., Generator[Any, Any, Any]]


def blocking(body: Body) -> Callable[..., Any]:
    """The body as a sync function."""

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        steps = body(*args, **kwargs)
        try:
            wanted = next(steps)
            while True:
                try:
                    got = [one.result() for one in wanted] if isinstance(wanted, list) else wanted.result()
                except BaseException as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(got)
        except StopIteration as stop:
            return stop.value

    return run


def suspending(body: Body) -> Callable[..., Any]:
    """The body as an async function."""

    @functools.wraps(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        steps = body(*args, **kwargs)
        try:
            wanted = next(steps)
            while True:
                try:
                    got = await asyncio.gather(*wanted) if isinstance(wanted, list) else await wanted
                except BaseException as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(got)
        except StopIteration as stop:
            return stop.value

    return run


class Workshop(Way):
    """Makes entrypoints, nodes and steps of one colour, and calls them in it.

    Attributes:
        ran: what the steps that it made have noted, in order.
    """

    def __init__(self, colour: str) -> None:
        super().__init__(colour)
        self.ran: list[Any] = []

    def body(self, body: Body) -> Callable[..., Any]:
        """A body as a function of this colour."""
        return suspending(body) if self.is_async else blocking(body)

    def flow(self, body: Body, saver: Any = None, **options: Any) -> Any:
        """An entrypoint."""
        return entrypoint(saver, **options)(self.body(body))

    def step(self, function: Callable[..., Any], **options: Any) -> Any:
        """A step that does what the function does."""
        return task(**options)(self.node(function))

    def noted(self, name: str = "step", value: Callable[[Any], Any] = lambda given: given, **options: Any) -> Any:
        """A step of one argument that notes `(name, argument)` and returns `value` of the argument."""

        def step(given: Any) -> Any:
            self.ran.append((name, given))
            return value(given)

        return self.step(step, name=name, **options)

    def nested(self, body: Body, **options: Any) -> Any:
        """A step whose code is a body."""
        return task(**options)(self.body(body))


def counting(shop: Workshop, saver: Any) -> Any:
    """Adds its input to what it saved the last time."""

    def count(given: int, *, previous: int | None = None) -> Any:
        return given + (previous or 0)
        yield

    return shop.flow(count, saver)


def asking(shop: Workshop, saver: Any) -> Any:
    """Runs a step, asks, runs another; says what was saved the last time."""
    step = shop.noted()

    def ask(given: Any, *, previous: Any = None) -> Any:
        before = yield step(given)
        answer = interrupt("?")
        after = yield step(f"after {answer}")
        return [before, answer, after, previous]

    return shop.flow(ask, saver)
