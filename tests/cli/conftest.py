"""Calls of the command, as a shell makes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.cli import main

Called = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    """Call it, and give the exit code, the lines it printed and what it said of errors."""

    def call(*arguments: str) -> tuple[int, list[str], str]:
        code = main(arguments)
        told = capsys.readouterr()
        return code, told.out.splitlines(), told.err

    return call
