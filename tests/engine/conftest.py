"""The colours and savers that scenarios run with."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from tests.engine.colours import COLOURS, Colour


@pytest.fixture(params=COLOURS, ids=lambda colour: colour.name)
def colour(request: pytest.FixtureRequest) -> Colour:
    """Each of the four colours."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[False, True], ids=["no saver", "saver"])
def saver(request: pytest.FixtureRequest) -> Any:
    """A memory saver, or none."""
    return InMemorySaver() if request.param else None


@pytest.fixture
def memory() -> InMemorySaver:
    """A memory saver."""
    return InMemorySaver()
