"""The story the demo tells: start, kill half way, look at what is stored, go on in a new process, ask, write, count."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from digest.document import REFERENCE, Document, load
from digest.graph import Desk, build
from digest.state import Approval
from digest.terminal import Screen
from digest.worker import CONFIG, Job
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.types import Command

__all__ = ["WorkerFailedError", "tell"]


class WorkerFailedError(RuntimeError):
    """A worker ended by itself before its part was done."""


def tell(job: Job, screen: Screen, *, ask: bool) -> int:
    """Runs the whole demo; 0 when every page was digested exactly once."""
    began = time.perf_counter()
    document = load(job.source)
    total = len(document.pages)
    _clear(job)
    screen.title(f"{document.title}: {total} pages in {len(document.chapters)} chapters")

    stop = total // 2 + 1
    screen.step(1, "A process digests the pages, one checkpoint a page")
    with _worker(job, "start", "--pause-before", str(stop)) as process:
        screen.fact("process", process.pid)
        _follow(process, screen, document, until="waiting")
        screen.fact("it stands at", f"the beginning of page {stop}")
        # See `worker._pause` for why the kill falls here.
        process.kill()
        # A process that was killed but not waited for still looks alive, and its lease on the thread with it.
        process.wait()
    screen.step(2, "It is killed in the middle of its work, with no warning")
    screen.fact("ended by", _ending(process.returncode))
    _show_stored(job, screen, total)

    screen.step(3, "A new process takes the run up where the file says it is")
    with _worker(job, "resume") as process:
        screen.fact("process", process.pid)
        _follow(process, screen, document, until="paused")
        _finish(process)
    resumed = job.ledger.pages_of(process.pid)
    screen.fact("its first page", f"{resumed[0]} (the last one in the file was {stop - 1})" if resumed else "none")

    screen.step(4, "The run waits for a person; no process holds it")
    approved = _approve(job, screen, ask=ask)
    if not approved:
        screen.say("Declined: no report is written.")

    screen.step(5, "The count, from a ledger that Perdure does not know of")
    return _count(job, screen, total, time.perf_counter() - began)


def _clear(job: Job) -> None:
    """Every demo is a new run: what an earlier one left would be resumed."""
    job.folder.mkdir(parents=True, exist_ok=True)
    names = [job.database.name, f"{job.database.name}-wal", f"{job.database.name}-shm", job.ledger.path.name]
    for name in [*names, "report.md", "report.html"]:
        (job.folder / name).unlink(missing_ok=True)


@contextmanager
def _worker(job: Job, mode: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process, which never outlives the demo."""
    source = [] if job.source == REFERENCE else [job.source]
    options = ["--worker", mode, "--out", str(job.folder), *(["--model"] if job.model else []), *more]
    command = [sys.executable, str(Path(__file__).parent), *source, *options]
    # Its own session, so that Ctrl-C reaches the demo alone, which then ends its worker.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="ascii", start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def _follow(process: subprocess.Popen[str], screen: Screen, document: Document, *, until: str) -> None:
    """Shows what a worker reports until it reports `until`."""
    assert process.stdout
    folded = 0
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["event"] == "page":
            screen.bar(event["page"], len(document.pages), event["heading"])
        elif event["event"] == "chapter":
            folded += 1
        elif event["event"] == "note":
            screen.bad(event["text"])
        if event["event"] == until:
            if folded:
                screen.fact("folded at once", f"{folded} chapter{'s' * (folded != 1)}")
            return
    raise WorkerFailedError(f"process {process.pid} ended by itself ({_ending(process.wait())}) before it was {until}")


def _finish(process: subprocess.Popen[str]) -> None:
    if process.wait(timeout=60):
        raise WorkerFailedError(f"process {process.pid} failed: {_ending(process.returncode)}")


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _show_stored(job: Job, screen: Screen, total: int) -> None:
    with SqliteSaver.from_conn_string(str(job.database)) as saver:
        snapshot = build(Desk(job.ledger), saver).get_state(CONFIG)
        checkpoints = len(list(saver.list(CONFIG)))
    done = snapshot.values.get("page", 0)
    identity = snapshot.config["configurable"]["checkpoint_id"]
    screen.fact("the file", f"{_shown(job.database)}, {_size(job.database)}, {checkpoints} checkpoints")
    screen.fact("the newest", f"{identity}, step {(snapshot.metadata or {}).get('step')}")
    screen.fact("digests in it", f"{len(snapshot.values.get('digests', []))} of {total} pages")
    screen.fact("runs next", f"{', '.join(snapshot.next)}, on page {done + 1}")


def _approve(job: Job, screen: Screen, *, ask: bool) -> bool:
    """Shows the stored question, gets an answer and lets the run end with it, here in this process."""
    with SqliteSaver.from_conn_string(str(job.database)) as saver:
        graph = build(Desk(job.ledger), saver)
        snapshot = graph.get_state(CONFIG)
        question = snapshot.interrupts[0].value
        screen.fact("it asks", question["question"])
        screen.fact("about", f"{question['title']}: {question['pages']} pages, {question['chapters']} chapters")
        screen.fact("key terms", " · ".join(question["terms"]))
        for text in question["overview"]:
            screen.say(textwrap.shorten(f"- {text}", 116, placeholder=" …"))
        answer = Approval(approved=screen.ask("Write the report?"), by="by a person at the terminal") if ask else None
        if answer is None:
            answer = Approval(approved=True, by="automatically, without asking anybody")
        command: Command[Any] = Command(resume=answer)
        screen.fact("the answer", f"{'yes' if answer['approved'] else 'no'}, {answer['by']}")
        values = graph.invoke(command, CONFIG)
    for path in values.get("files", []):
        screen.fact("written", f"{_shown(Path(path))}, {_size(Path(path))}")
    return answer["approved"]


def _count(job: Job, screen: Screen, total: int, seconds: float) -> int:
    pids = list(dict.fromkeys(pid for _, pid in job.ledger.entries()))
    screen.fact("the ledger", f"{_shown(job.ledger.path)}, one line for each page that any process digested")
    for pid in pids:
        pages = job.ledger.pages_of(pid)
        screen.fact(f"process {pid}", f"{len(pages)} page{'s' * (len(pages) != 1)}, {pages[0]} to {pages[-1]}")
    repeats = job.ledger.repeats()
    missing = sorted(set(range(1, total + 1)) - {page for page, _ in job.ledger.entries()})
    show = screen.bad if repeats else screen.good
    show(f"pages digested twice: {len(repeats)}" + (f" {sorted(repeats)}" if repeats else ""))
    show = screen.bad if missing else screen.good
    show(f"pages left out: {len(missing)}" + (f" {missing}" if missing else ""))
    screen.say(f"{seconds:.1f} seconds in all")
    return 1 if repeats or missing else 0


def _size(path: Path) -> str:
    """The size of a file, with SQLite's write-ahead log when there is one."""
    log = path.with_name(path.name + "-wal")
    size = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{size / 1_000:.0f} kB"


def _shown(path: Path) -> str:
    """A path as a person would write it: relative when it is below the current directory."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
