"""Each scenario runs in both colours, over the savers of this library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.checkpoint.saver import Saver
from tests.caches import cache, clock
from tests.func.bodies import Workshop
from tests.promises.ways import COLOURS, SAVERS, open_saver

__all__ = ["cache", "clock"]


@pytest.fixture(params=COLOURS)
def shop(request: pytest.FixtureRequest) -> Workshop:
    return Workshop(request.param)


@pytest.fixture(params=SAVERS)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    made = open_saver(request.param, tmp_path)
    yield made
    made.close()
