"""The pages of the documentation, their code blocks and their links, as the tests see them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
"""Pages whose code is run."""
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]
"""Pages whose links are followed."""

FENCE = re.compile(r"^( *)(`{3,}|~{3,}) *(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        line: number of its first line of text, from 1.
        info: the words behind the fence; the first is the language.
        text: what is inside, without the indentation of the fence.
        follows: only blank lines lie between it and the block before.
    """

    line: int
    info: tuple[str, ...]
    text: str
    follows: bool

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""

    @property
    def file(self) -> str | None:
        """The name under which the block is saved: `python file=story.py`."""
        return next((word.removeprefix("file=") for word in self.info if word.startswith("file=")), None)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks: list[Block] = []
    opened: tuple[str, str, tuple[str, ...], int] | None = None
    inside: list[str] = []
    near = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened = (fence[1], fence[2], tuple(fence[3].split()), number + 1)
                inside = []
            elif line.strip():
                near = False
        elif fence and fence[2].startswith(opened[1]) and not fence[3]:
            blocks.append(Block(opened[3], opened[2], "\n".join(inside) + "\n", near))
            opened = None
            near = True
        else:
            inside.append(line.removeprefix(opened[0]))
    assert opened is None, "a block is never closed"
    return blocks


def prose_of(text: str) -> str:
    """A page without its fenced blocks and inline code; lines keep their numbers."""
    kept: list[str] = []
    fence_open = ""
    for line in text.splitlines():
        fence = FENCE.match(line)
        if fence and not fence_open:
            fence_open = fence[2]
        elif fence and fence[2].startswith(fence_open) and not fence[3]:
            fence_open = ""
        elif not fence_open:
            kept.append(re.sub(r"`[^`]*`", "", line))
            continue
        kept.append("")
    return "\n".join(kept)


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for line in text_without_blocks(text).splitlines():
        heading = re.match(r"#{1,6} +(.*?) *#*$", line)
        if heading is None:
            continue
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchor, count = slug, 0
        while anchor in found:
            count += 1
            anchor = f"{slug}-{count}"
        found.add(anchor)
    return found


def text_without_blocks(text: str) -> str:
    """A page without its fenced blocks."""
    lines = text.splitlines()
    for block in blocks_of(text):
        for number in range(block.line - 1, block.line + block.text.count("\n")):
            lines[number - 1] = ""
    return "\n".join(lines)
