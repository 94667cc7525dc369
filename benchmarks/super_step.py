"""What a super-step costs, beside the peer and beside the limits of this machine.

    make bench
    python benchmarks/super_step.py --peer-python .venv-peers/bin/python --json bench.json

Each contestant is a process of its own, kept warm. They take turns, in an order that changes from round to round, so that a busy
moment of the machine hits all alike; shown are medians. What counts is the ratio inside one run: times of two machines, or of two
runs, do not compare. The limit of a SQLite row is a bare transaction (BEGIN IMMEDIATE, WAL, synchronous=FULL) that inserts as
many rows and bytes as we store.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

WORKLOADS = [
    f"{kind}-{colour}-{saver}"
    for kind in ("step", "invoke")
    for colour in ("sync", "async")
    for saver in ("none", "memory", "sqlite")
]
OURS, PEER, BARE = "perdure", "langgraph", "bare"
MEMORY_BACKED = 20e-6
"""A faster fsync than this (in seconds) reached no disk."""


@dataclass
class Contestant:
    """A warm process that measures one package."""

    package: str
    process: subprocess.Popen[str]
    versions: dict[str, str] = field(default_factory=dict)
    failure: str | None = None

    @classmethod
    def start(cls, package: str, python: str, directory: str | None) -> Contestant:
        """Start the process and wait until it is ready; `failure` says why it is not."""
        script = Path(__file__).with_name("workloads.py")
        command = [python, str(script), "--package", package, "--serve"]
        if directory is not None:
            command += ["--directory", directory]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        contestant = cls(package, process)
        assert process.stdout is not None
        assert process.stderr is not None
        if hello := process.stdout.readline():
            contestant.versions = json.loads(hello)
        else:
            contestant.failure = (process.stderr.read().strip() or "it ended").splitlines()[-1]
        return contestant

    def measure(self, name: str, operations: int, **extra: float) -> dict[str, Any]:
        """Ask for one measurement."""
        if self.failure is not None:
            return {"error": self.failure}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"name": name, "operations": operations, **extra}), file=self.process.stdin, flush=True)
        if answer := self.process.stdout.readline():
            return dict(json.loads(answer))
        self.failure = f"{self.package} died while measuring {name}"
        return {"error": self.failure}

    def stop(self) -> None:
        """End the process."""
        self.process.communicate()


@dataclass
class Cell:
    """All measurements of one workload by one contestant."""

    seconds: list[float] = field(default_factory=list)
    rows: float = 0.0
    bytes: float = 0.0
    error: str | None = None

    def take(self, answer: dict[str, Any]) -> None:
        """Add a measurement."""
        self.error = self.error or answer.get("error")
        if "seconds" in answer:
            self.seconds.append(answer["seconds"])
            self.rows, self.bytes = answer["rows"], answer["bytes"]

    @property
    def median(self) -> float | None:
        """The median in seconds, if every measurement succeeded."""
        return median(self.seconds) if self.seconds and self.error is None else None


Table = dict[str, dict[str, Cell]]


def run(contestants: list[Contestant], workloads: list[str], rounds: int, operations: int) -> Table:
    """Let the contestants take turns: a short first round, which is not counted, then `rounds` rounds."""
    table: Table = {name: {contestant.package: Cell() for contestant in contestants} for name in workloads}
    sizes: dict[str, dict[str, float]] = {}
    for number in range(rounds + 1):
        shift = number % len(contestants)
        for name in workloads:
            for contestant in contestants if number == 0 else contestants[shift:] + contestants[:shift]:
                if name == "fsync" and contestant.package != BARE:
                    continue
                extra = sizes.get(name, {}) if contestant.package == BARE else {}
                answer = contestant.measure(name, max(20, operations // 10) if number == 0 else operations, **extra)
                cell = table[name][contestant.package]
                if number > 0 or "error" in answer:
                    cell.take(answer)
                elif answer["rows"] and name not in sizes:
                    sizes[name] = {"rows": answer["rows"], "bytes": answer["bytes"]}
        print(f"\rround {number} of {rounds}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 30 + "\r", end="", file=sys.stderr, flush=True)
    return table


def show(table: Table) -> str:
    """The table as text."""
    lines = [
        f"{'us an operation':22}{OURS:>12}{PEER:>12}{'limit':>12}{'ours/limit':>12}{'peer/ours':>12}{'rows':>7}{'bytes':>8}"
    ]
    for name, cells in table.items():
        ours, peer, limit = (cells.get(package, Cell()) for package in (OURS, PEER, BARE))
        line = f"{name:22}{in_us(ours)}{in_us(peer)}{in_us(limit)}{ratio(ours, limit)}{ratio(peer, ours)}"
        if ours.rows:
            line += f"{ours.rows:7.1f}{ours.bytes:8.0f}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def in_us(cell: Cell) -> str:
    """A median in microseconds."""
    if cell.error is not None:
        return f"{'failed':>12}"
    return f"{'-':>12}" if cell.median is None else f"{cell.median * 1e6:12.1f}"


def ratio(above: Cell, below: Cell) -> str:
    """How many times `below` fits into `above`."""
    if above.median is None or below.median is None:
        return f"{'-':>12}"
    return f"{above.median / below.median:12.1f}"


def report(table: Table, contestants: list[Contestant]) -> dict[str, Any]:
    """All that was measured, for a file."""
    return {
        "machine": {"python": sys.version, "platform": platform.platform(), "processors": os.cpu_count()},
        "versions": {contestant.package: contestant.versions for contestant in contestants},
        "seconds": {
            name: {
                package: {
                    "median": cell.median,
                    "all": cell.seconds,
                    "rows": cell.rows,
                    "bytes": cell.bytes,
                    "error": cell.error,
                }
                for package, cell in cells.items()
                if cell.seconds or cell.error
            }
            for name, cells in table.items()
        },
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare a super-step with the peer and with the limits of this machine.")
    parser.add_argument(
        "--peer-python", help="a Python that has langgraph and langgraph-checkpoint-sqlite; no peer if not given"
    )
    parser.add_argument("--peer-only", action="store_true", help="leave perdure out")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=200, help="operations in a measurement")
    parser.add_argument("--only", default="", help="measure the workloads whose name contains this")
    parser.add_argument("--directory", help="where database files are made; the system's temporary directory if not given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements there")
    options = parser.parse_args()
    workloads = [name for name in [*WORKLOADS, "fsync"] if options.only in name]
    if not workloads:
        parser.error(f"no workload has {options.only!r} in its name; there are: {', '.join([*WORKLOADS, 'fsync'])}")

    pythons = {OURS: sys.executable, PEER: options.peer_python, BARE: sys.executable}
    wanted = [package for package, python in pythons.items() if python and not (options.peer_only and package == OURS)]
    contestants = [Contestant.start(package, pythons[package], options.directory) for package in wanted]
    try:
        table = run(contestants, workloads, options.rounds, options.count)
    finally:
        for contestant in contestants:
            contestant.stop()

    print(", ".join(f"{name} {number}" for contestant in contestants for name, number in contestant.versions.items()))
    print(show(table))
    sync = table.get("fsync", {}).get(BARE, Cell()).median
    if sync is not None and sync < MEMORY_BACKED:
        print("The directory is held in memory: the SQLite rows say nothing about a disk. Give --directory one on a disk.")
    if options.json is not None:
        options.json.write_text(json.dumps(report(table, contestants), indent=2) + "\n", encoding="utf-8")
    failures = {f"{package}: {cell.error}" for cells in table.values() for package, cell in cells.items() if cell.error}
    for failure in sorted(failures):
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
