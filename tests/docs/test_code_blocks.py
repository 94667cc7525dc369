"""Every piece of code in README.md and docs runs, and prints what the page says it prints.

python              is run; the blocks of a page share one namespace, in order
python file=NAME    is saved as NAME, for later blocks to import and for `$ python NAME`
python no-run       is only compiled
text                right behind a python block: what that block prints, "…" standing for anything
console             right behind a python block: `$ python NAME` is run, and prints the lines below it; where the last of them is
                    `Killed`, it is killed with SIGKILL as soon as it has printed the others
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks_of, name_of

RUNNER = """
import contextlib, io, json, sys
sys.path.insert(0, "")
shared = {"__name__": "page"}
for line in sys.stdin:
    name, at, source = json.loads(line)
    printed = io.StringIO()
    code = compile("\\n" * (at - 1) + source, name, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, shared)
    print(json.dumps(printed.getvalue()), flush=True)
"""
PROGRAM = """
import io, runpy, sys, time
file, patience = sys.argv[1], int(sys.argv[2])
nap, out = time.sleep, sys.stdout

class Counted(io.TextIOBase):
    lines = 0
    def write(self, text):
        self.lines += text.count("\\n")
        out.write(text)
        out.flush()

sys.path[0] = ""
sys.stdout = counted = Counted()
time.sleep = lambda seconds: nap(60) if counted.lines == patience else None
runpy.run_path(file, run_name="__main__")
"""
"""Runs a program without its naps, but for one after so many lines, so that it is still there to be killed, however slow the machine."""
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def matches(printed: str, expected: str) -> bool:
    """Whether `printed` is `expected`, in which "…" stands for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


class Page:
    """One page's code, run in an empty directory."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        command = [sys.executable, "-W", "error", "-c", RUNNER]
        self.child = subprocess.Popen(
            command,
            cwd=directory,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, block: Block) -> str:
        """What a block prints."""
        assert self.child.stdin
        assert self.child.stdout
        assert self.child.stderr
        self.child.stdin.write(json.dumps([self.name, block.line, block.text]) + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        if not answer:
            pytest.fail(f"{self.name}, block at line {block.line}:\n{self.child.stderr.read()}")
        printed: str = json.loads(answer)
        return printed

    def session(self, block: Block) -> None:
        """Run a console session."""
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
            python, file = command.split()
            assert python == "python", f"{self.name}, line {block.line}: only `$ python FILE` can be run, not {command!r}"
            lines = expected.splitlines()
            killed = lines[-1:] == ["Killed"]
            printed = self.process(file, lines[:-1] if killed else None)
            wanted = "\n".join(lines[:-1] if killed else lines)
            assert matches(printed, wanted), (
                f"{self.name}, line {block.line}: {command!r} printed\n{printed}instead of\n{wanted}"
            )

    def process(self, file: str, until: list[str] | None) -> str:
        """What a program prints, to its end or until it has printed some lines."""
        command = [sys.executable, "-W", "error", "-c", PROGRAM, file, str(-1 if until is None else len(until))]
        with subprocess.Popen(command, cwd=self.directory, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout
            if until is None:
                printed = child.stdout.read()
                assert child.wait() == 0
                return printed
            printed = "".join(child.stdout.readline() for _ in until)
            child.send_signal(signal.SIGKILL)
            return printed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        _, complaints = self.child.communicate()
        if error is None:
            assert self.child.returncode == 0, complaints


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_code_of_a_page_runs(path: Path, tmp_path: Path):
    blocks = blocks_of(path.read_text(encoding="utf-8"))
    if not any(block.language == "python" for block in blocks):
        return
    with Page(name_of(path), tmp_path) as page:
        run_in_order(page, blocks)


def run_in_order(page: Page, blocks: list[Block]) -> None:
    """Run all blocks of a page that can be run."""
    printed = None
    for block in blocks:
        if block.language == "python":
            printed = None
            compile(block.text, f"{page.name}:{block.line}", "exec")
            if block.file is not None:
                (page.directory / block.file).write_text(block.text, encoding="utf-8")
            elif "no-run" not in block.info:
                printed = page.run(block)
        elif block.language == "text" and block.follows and printed is not None:
            assert matches(printed, block.text), f"{page.name}, line {block.line}: printed\n{printed}instead of\n{block.text}"
        elif block.language == "console":
            page.session(block)


def test_blocks_are_found_with_their_lines():
    text = "a\n\n```python no-run\nx = 1\n```\n\n```text\n1\n```\nb\n  ```sh\n  ls\n  ```\n"
    blocks = blocks_of(text)
    assert [(block.line, block.info, block.text, block.follows) for block in blocks] == [
        (4, ("python", "no-run"), "x = 1\n", False),
        (8, ("text",), "1\n", True),
        (12, ("sh",), "ls\n", False),
    ]


def test_an_ellipsis_stands_for_anything():
    assert matches("a\nb\nc\n", "a\n…\nc")
    assert matches("id=123 x", "id=… x")
    assert not matches("a\nb\n", "a")
