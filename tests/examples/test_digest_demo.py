"""The demo as a person runs it: killed half way, resumed at the very next page, approved, counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "digest"
PARAGRAPH = """\
The keeper of lighthouse {number} wrote down the weather every evening before the lamp was lit.
A storm in the year {number} broke the windows of the tower, and the lamp went out for an hour.
The ships that passed in that night had to trust the old charts of the coast.
"""
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DIGEST_MODEL")


def document(folder: Path) -> Path:
    """A document of two chapters and eight pages, with markup in its title."""
    chapters = [
        f"## Volume {volume} <b>\n\n" + "\n".join(PARAGRAPH.format(number=10 * volume + number) for number in range(40))
        for volume in (1, 2)
    ]
    path = folder / "log book.md"
    path.write_text("# The log of <i>lights</i>\n\n" + "\n".join(chapters), encoding="utf-8")
    return path


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in KEYS}
    return subprocess.run(
        [sys.executable, str(DEMO), *arguments],
        env={**clean, "PYTHONIOENCODING": "utf-8", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def test_no_page_is_digested_twice(tmp_path: Path):
    out = tmp_path / "out"
    done = run(str(document(tmp_path)), "--out", str(out), "--yes")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "pages digested twice: 0" in done.stdout
    assert "pages left out: 0" in done.stdout
    assert "signal SIGKILL" in done.stdout

    ledger = [line.split() for line in (out / "ledger.txt").read_text(encoding="ascii").splitlines()]
    total = len(ledger)
    half = total // 2
    assert [int(page) for page, _ in ledger] == list(range(1, total + 1))
    killed, resumed = dict.fromkeys(pid for _, pid in ledger)
    assert [pid for _, pid in ledger] == [killed] * half + [resumed] * (total - half)
    assert f"{half} of {total} pages" in done.stdout
    assert f"{half + 1} (the last one in the file was {half})" in done.stdout

    markdown = (out / "report.md").read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert markdown.startswith("# The log of \\<i\\>lights\\</i\\>\n")
    assert "<h1>The log of &lt;i&gt;lights&lt;/i&gt;</h1>" in page
    assert "keeper of lighthouse" in markdown
    assert f"{total} pages in 2 chapters" in page


def test_a_model_is_asked_only_on_request_and_its_failure_is_told(tmp_path: Path):
    """A stand-in for a vendor's SDK that always fails: the run goes on and says so."""
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / "anthropic.py").write_text(
        "def Anthropic(**options):\n    raise ConnectionError('no network here')\n", encoding="utf-8"
    )
    path = os.pathsep.join(filter(None, [str(sdk), os.environ.get("PYTHONPATH")]))
    source, out = str(document(tmp_path)), str(tmp_path / "out")

    unasked = run(source, "--out", out, "--yes", ANTHROPIC_API_KEY="key", PYTHONPATH=path)
    assert unasked.returncode == 0, unasked.stdout + unasked.stderr
    assert "no network here" not in unasked.stdout

    asked = run(source, "--out", out, "--yes", "--model", ANTHROPIC_API_KEY="key", PYTHONPATH=path)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert "ConnectionError: no network here" in asked.stdout
    assert "no network here" in Path(out, "report.md").read_text(encoding="utf-8")


def test_a_file_that_is_not_there_ends_the_demo_with_a_plain_message(tmp_path: Path):
    done = run(str(tmp_path / "nowhere.txt"), "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "cannot read" in done.stderr
    assert "Traceback" not in done.stderr
