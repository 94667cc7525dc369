"""The colours and savers that scenarios run with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.checkpoint.saver import Saver
from tests.caches import cache, clock
from tests.engine.colours import COLOURS, Colour
from tests.promises.ways import SAVERS, open_saver

__all__ = ["cache", "clock"]


def made(kind: str, folder: Path) -> Saver:
    """A new saver. The one on a file does not wait for the disk, which no test here can tell."""
    return open_saver(kind, folder, **({} if kind == "memory" else {"synchronous": "normal"}))


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.name)
def colour(request: pytest.FixtureRequest) -> Colour:
    """Each of the four colours."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["no saver", *SAVERS])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver | None]:
    """A saver in memory, one on a file, or none."""
    if request.param == "no saver":
        yield None
        return
    with made(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture(params=SAVERS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """A saver in memory, and one on a file."""
    with made(request.param, tmp_path) as opened:
        yield opened
