"""Every promise is tested over every saver, in both colours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.checkpoint.saver import Saver
from tests.promises.ways import COLOURS, SAVERS, Ledger, Way, open_saver


@pytest.fixture(params=COLOURS)
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


@pytest.fixture(params=SAVERS)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    made = open_saver(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def ledger(way: Way) -> Ledger:
    return Ledger(way)
