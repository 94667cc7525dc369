"""P9: which leases of others a saver takes over, by what it saw and by its own monotonic clock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.leases import identity
from perdure.checkpoint.leases.lease import is_free
from perdure.checkpoint.leases.watch import KEPT, Watch
from perdure.checkpoint.records import Holder, LeaseRow
from perdure.testing.clock import ManualClock

SECOND = 10**9


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch(clock: ManualClock) -> Watch:
    return Watch(clock, 30.0)


def lease(expires_ns: int = 1, *, lease_ns: int = 0, **fields: Any) -> LeaseRow:
    holder = Holder("run", "far-away", "boot", 7, "1", 0, lease_ns)
    return LeaseRow("token", 5, expires_ns, holder, **fields)


def test_P9_a_lease_that_stood_unchanged_for_as_long_as_it_lasts_is_taken_over(watch: Watch, clock: ManualClock):
    assert watch.over("t", lease()) is None
    clock.advance(29)
    assert watch.over("t", lease()) is None
    clock.advance(1)
    mark = watch.over("t", lease())
    assert mark == lease().mark
    assert is_free(lease(), mark)
    assert not is_free(lease(2), mark)


@pytest.mark.parametrize("skew", [3600, -3600, 10**6])
def test_P9_wall_clocks_do_not_matter(watch: Watch, clock: ManualClock, skew: int):
    assert watch.over("t", lease(clock.now_ns() + 30 * SECOND)) is None
    clock.ns += skew * SECOND
    assert watch.over("t", lease(clock.now_ns() + 30 * SECOND)) is None


def test_P9_each_renewal_begins_the_watch_anew(watch: Watch, clock: ManualClock):
    for renewal in range(5):
        assert watch.over("t", lease(renewal)) is None
        clock.advance(29)
    assert watch.over("t", lease(4)) is None
    clock.advance(1)
    assert watch.over("t", lease(4)) is not None


@pytest.mark.parametrize("change", [{"token": "other"}, {"epoch": 6}, {"expires_ns": 0}])
def test_P9_any_change_is_a_sign_of_life(watch: Watch, clock: ManualClock, change: Any):
    watch.over("t", lease())
    clock.advance(100)
    assert watch.over("t", replace(lease(), **change)) is None


def test_P9_a_holder_that_renews_seldom_is_given_the_time_it_asked_for(watch: Watch, clock: ManualClock):
    long = lease(lease_ns=300 * SECOND)
    watch.over("t", long)
    clock.advance(299)
    assert watch.over("t", long) is None
    clock.advance(1)
    assert watch.over("t", long) is not None


def test_P9_threads_are_watched_each_for_itself_and_forgotten_when_they_are_free(watch: Watch, clock: ManualClock):
    watch.over("a", lease())
    clock.advance(30)
    assert watch.over("b", lease()) is None
    watch.over("a", LeaseRow(None, 5))
    assert watch.over("a", lease()) is None
    assert watch.over("a", lease(expired=True)) is None, "the database says so itself"


def test_what_is_remembered_is_bounded(watch: Watch, clock: ManualClock):
    for n in range(KEPT + 10):
        watch.over(str(n), lease())
        watch.left_behind(str(n), "token", 1)
    assert max(len(watch._seen), len(watch._left)) <= KEPT
    clock.advance(30)
    assert watch.over(str(KEPT + 9), lease()) is not None


def test_P9_a_run_of_this_saver_that_could_not_give_its_lease_back_is_not_waited_for(watch: Watch):
    watch.left_behind("t", "token", 4)
    assert watch.over("t", lease()) is None
    watch.left_behind("t", "token", 5)
    assert watch.over("t", lease()) == lease().mark


# ----------------------------------------------------------------------------------------------------------------- who is dead


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate()


def held_by(pid: int, **changes: Any) -> LeaseRow:
    mine = identity.holder("run", 0)
    started = identity._start_of(pid) or "1"
    return LeaseRow("token", 1, 1, replace(mine, **{"pid": pid, "started": started} | changes))


def test_P9_a_holder_proved_dead_is_taken_over_at_once_and_a_living_one_is_not(watch: Watch, other: Any):
    living = held_by(other.pid)
    assert watch.over("t", living) is None
    other.kill()
    other.wait()
    assert watch.over("t", living) == living.mark


def test_P9_a_pid_that_another_process_has_got_is_no_sign_of_life(watch: Watch, other: Any):
    if not identity._start_of(os.getpid()):
        pytest.skip("this system does not tell when a process started")
    assert watch.over("t", held_by(other.pid, started="1")) is not None


@pytest.mark.parametrize("far", [{"host": "another"}, {"boot": "another"}])
def test_P9_nothing_is_proved_of_other_machines_and_containers(watch: Watch, other: Any, far: Any):
    lease = held_by(other.pid, **far)
    other.kill()
    other.wait()
    assert watch.over("t", lease) is None


def test_P9_without_proc_a_machine_is_told_from_others_and_a_gone_pid_is_proof(
    watch: Watch, other: Any, monkeypatch: pytest.MonkeyPatch
):
    class NoProc(type(Path())):  # type: ignore[misc]
        def read_text(self, *_: Any) -> str:
            raise FileNotFoundError(self)

        readlink = read_text

    monkeypatch.setattr(identity, "Path", NoProc)
    monkeypatch.setattr(identity, "_self", (0, "", "", ""))
    mine = identity.holder("run", 0)
    assert mine.started == ""
    assert mine.boot.startswith(f"{sys.platform}/")
    living = LeaseRow("token", 1, 1, replace(mine, pid=other.pid))
    assert watch.over("t", living) is None
    other.kill()
    other.wait()
    assert watch.over("t", living) is not None
