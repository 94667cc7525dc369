"""Who this process is, and whether another one still lives: what a lease needs to know of the operating system."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from perdure.checkpoint.records import Holder, LeaseRow

_self: tuple[int, str, str, str] = (0, "", "", "")


def _me() -> tuple[int, str, str, str]:
    # Asked again after a fork, for the child is another process.
    global _self
    pid = os.getpid()
    if _self[0] != pid:
        _self = (pid, socket.gethostname(), _boot(), _start_of(pid))
    return _self


def holder(run_id: str, since_ns: int, lease_ns: int = 0) -> Holder:
    """This process as the holder of a lease that lasts `lease_ns`."""
    pid, host, boot, started = _me()
    return Holder(run_id, host, boot, pid, started, since_ns, lease_ns)


def is_this_process(holder: Holder) -> bool:
    """Whether a holder made here is still this process, and not the one that this was forked from."""
    return holder.pid == os.getpid()


def is_dead(lease: LeaseRow) -> bool:
    """Whether the holder is proved dead: it ran on this machine since its last boot, and its process is gone or another one.

    False where nothing can be proved: another host, another container, a system without /proc (macOS, Windows) whose pid is in use.
    """
    return lives(lease) is False


def lives(lease: LeaseRow) -> bool | None:
    """Whether the process of a lease's holder is proved alive (True) or dead (False); None where nothing can be proved."""
    other = lease.holder
    if lease.token is None or other is None:
        return None
    _, host, boot, _ = _me()
    if other.host != host or other.boot != boot or not boot:
        return None
    started = _start_of(other.pid)
    if started:
        return started == other.started
    return None if _exists(other.pid) else False


def _boot() -> str:
    # The boot id alone would be shared by containers, where the same pid means another process: the pid namespace joins it.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        # Elsewhere the machine is told by its network card. Where there is none, this number is made up anew by each process, and
        # then nothing is proved of any other.
        import uuid

        return f"{sys.platform}/{uuid.getnode():012x}"


def _start_of(pid: int) -> str:
    """When a process started, in clock ticks since boot; "" if unknown. Tells a process from a later one with its pid."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    after_name = text[text.rfind(")") + 2 :].split()  # the name, in parentheses, may hold spaces and parentheses itself
    state, start = after_name[0], after_name[19]
    return "" if state in "ZX" else start


def _exists(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        return text[text.rfind(")") + 2] not in "ZX"  # a zombie runs nothing any more
    except OSError:
        pass
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
