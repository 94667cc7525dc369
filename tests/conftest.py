"""Settings of the whole test suite."""

from __future__ import annotations

import os
import time

from hypothesis import HealthCheck, settings

# Examples are the same in every run, so that a red test is the change's doing; `make nightly` looks for new ones.
settings.register_profile("default", derandomize=True, deadline=None, print_blob=True)
settings.register_profile(
    "nightly",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nightly" if os.environ.get("PERDURE_NIGHTLY") == "1" else "default")

if os.environ.get("PERDURE_NIGHTLY") == "1":
    # Random graphs that no night has seen before. Workers inherit the seeds, so that all of them mean the same tests.
    _first = int(time.time()) // 86_400 * 2_000
    os.environ.setdefault("PERDURE_GRAPH_NIGHT", f"{_first}-{_first + 1_999}")


def pytest_report_header() -> str:
    """The seeds of the random graphs, so that a log tells what was run."""
    night = os.environ.get("PERDURE_GRAPH_NIGHT")
    return f"random graphs: seeds {os.environ.get('PERDURE_GRAPH_SEEDS') or '0-199'}" + (f", nightly {night}" if night else "")
