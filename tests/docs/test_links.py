"""Links between pages lead somewhere: to a file that exists, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import LINKED, PAGES, ROOT, anchors_of, name_of, prose_of, text_without_blocks

LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("path", LINKED, ids=name_of)
def test_relative_links_lead_somewhere(path: Path):
    broken = []
    for number, line in enumerate(prose_of(path.read_text(encoding="utf-8")).splitlines(), 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = unquote(target).partition("#")
            found = (path.parent / file).resolve() if file else path
            if not found.exists() or not found.is_relative_to(ROOT):
                broken.append(f"line {number}: {target}: no such file")
            elif anchor and anchor not in anchors_of(found.read_text(encoding="utf-8")):
                broken.append(f"line {number}: {target}: no such heading")
    assert broken == []


@pytest.mark.parametrize("path", LINKED, ids=name_of)
def test_files_that_a_page_names_exist(path: Path):
    named = re.findall(
        r"`((?:[\w.]+/)+[\w.]+\.(?:py|sql|toml|md|json))`", text_without_blocks(path.read_text(encoding="utf-8"))
    )
    homes = (ROOT, ROOT / "src", ROOT / "src" / "perdure")
    assert [name for name in named if "NAME" not in name and not any((home / name).is_file() for home in homes)] == []


def test_every_page_can_be_reached_from_the_index():
    index = ROOT / "docs" / "index.md"
    reached = {index}
    waiting = [index]
    while waiting:
        page = waiting.pop()
        for target in LINK.findall(prose_of(page.read_text(encoding="utf-8"))):
            found = (page.parent / unquote(target).partition("#")[0]).resolve()
            if found.suffix == ".md" and found.is_file() and found not in reached:
                reached.add(found)
                waiting.append(found)
    assert [name_of(page) for page in PAGES if page not in reached] == []


def test_anchors_are_those_that_github_makes():
    assert anchors_of("# A `b` — c?\n## Who may write: leases\n## A `b` — c?\n") == {
        "a-b--c",
        "who-may-write-leases",
        "a-b--c-1",
    }


def test_the_index_lists_every_decision_in_order():
    listed = re.findall(r"\(decisions/(\S+\.md)\)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
