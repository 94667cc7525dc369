"""The colours and savers that scenarios run with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from tests.caches import cache, clock
from tests.engine.colours import COLOURS, Colour
from tests.promises.ways import SAVERS, open_saver

__all__ = ["cache", "clock"]


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.name)
def colour(request: pytest.FixtureRequest) -> Colour:
    """Each of the four colours."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["no saver", *SAVERS])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver | None]:
    """A saver in memory, one on a file, or none."""
    made = None if request.param == "no saver" else open_saver(request.param, tmp_path)
    yield made
    if made is not None:
        made.close()


@pytest.fixture(params=SAVERS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """A saver in memory, and one on a file."""
    made = open_saver(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def memory() -> InMemorySaver:
    """A memory saver."""
    return InMemorySaver()
