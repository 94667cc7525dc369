"""Settings of the whole test suite."""

from __future__ import annotations

import os

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
