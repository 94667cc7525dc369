"""Named points where a test can kill the process.

Every place where a crash could lose or repeat something calls `failpoint("room.moment")`. Nothing happens there unless the
environment variable PERDURE_FAILPOINT names it, as `name` or `name:k` (the k-th time it is reached, counted from 1): then the
process gets SIGKILL, so that no cleanup runs. It is read once, at import.
"""

from __future__ import annotations

import os
import signal

ENVIRONMENT_VARIABLE = "PERDURE_FAILPOINT"


def _parse(setting: str) -> tuple[str, int]:
    name, _, count = setting.partition(":")
    return name, int(count or 1)


_armed, _remaining = _parse(os.environ.get(ENVIRONMENT_VARIABLE, ""))


def failpoint(name: str) -> None:
    """Die here, by SIGKILL, if the environment says so."""
    if _armed and name == _armed:
        _count_down()


def _count_down() -> None:
    global _remaining
    _remaining -= 1
    if _remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)
