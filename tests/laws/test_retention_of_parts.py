"""P28, P30: values that are stored by element, on any branch, pruned at any time: every checkpoint that is kept reads exactly as it was,
whoever goes on from where appends where nobody else has, and no row is left over.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.test_incremental_laws import KINDS, _small_limits, make_saver, run_and_branch

__all__ = ["_small_limits"]


def prune_somehow(saver: Any, data: st.DataObject) -> None:
    """With any number to keep, in batches of any size; sometimes with an older checkpoint pinned before."""
    kept = [one.config for one in saver.list({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})]
    if data.draw(st.booleans()):
        saver.pin(data.draw(st.sampled_from(kept)), f"pin {len(kept)} {saver.verify('t').receipt.digest.hex()}")
    keep_last = data.draw(st.integers(1, len(kept)))
    counted = saver.prune(thread="t", keep_last=keep_last, dry_run=True)
    assert saver.prune(thread="t", keep_last=keep_last, batch=data.draw(st.sampled_from([1, 2, 5, 1000]))) == counted
    found = saver.verify("t")
    assert (found.problems, found.orphans) == ((), ())
    left = [one.config for one in saver.list({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})]
    assert left == [config for config in kept if config in left]
    assert left[:keep_last] == kept[:keep_last]


@pytest.mark.parametrize("where", ["memory", "sqlite"])
@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_P28_every_checkpoint_that_is_kept_reads_as_it_was(kind: str, where: str, data: st.DataObject):
    with make_saver(where) as saver:
        run_and_branch(saver, kind, data, lambda: prune_somehow(saver, data))
