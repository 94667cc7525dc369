"""The colours and savers that streams are tested with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.checkpoint.saver import Saver
from tests.engine.colours import COLOURS, Colour
from tests.promises.ways import SAVERS, open_saver


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.name)
def colour(request: pytest.FixtureRequest) -> Colour:
    """Each of the four colours."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=SAVERS)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """A memory saver, and one on a file."""
    made = open_saver(request.param, tmp_path)
    yield made
    made.close()
