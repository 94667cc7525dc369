"""Servers of this folder's tests: each is started once by a test process, when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server's own database."""
    with servers.postgres() as url:
        yield url
