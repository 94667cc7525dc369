"""Cuts text into headings, entries (a signature above its description), fenced code and paragraphs.

It knows plain text, reStructuredText-like text and Markdown, and nothing of pages, chapters or summaries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

__all__ = ["Block", "cut"]

Kind = Literal["heading", "entry", "code", "text"]

_ATX = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_UNDERLINE = re.compile(r"([=\-~^*\"#+`.:'])\1{2,}\s*$")
_NUMBERED = re.compile(r"(?:chapter|book|part|letter|canto|act)\s+(?:[ivxlc]+|\d+)\b[.:]?(?:\s.{0,80})?$", re.IGNORECASE)
_SIGNATURE = re.compile(r"(?:(?:class|exception|classmethod|async|static)\s+)*[A-Za-z_][\w.]*(?:\(.*\)|\s*=.*)?$")


@dataclass(frozen=True)
class Block:
    """Lines that belong together; `level` counts only for headings, 1 being the highest."""

    kind: Kind
    text: str
    level: int = 0


def cut(text: str) -> list[Block]:
    """All blocks of a text, in order."""
    lines = _without_front_matter(text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)).split("\n")
    markdown = any(_ATX.match(line) for line in lines)
    styles: list[str] = ["=", "-"] if markdown else []
    found: list[Block] = []
    paragraph: list[str] = []

    def close() -> None:
        if paragraph:
            found.append(Block("text", "\n".join(paragraph)))
            paragraph.clear()

    at = 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence:
            close()
            end = _end_of_fence(lines, at, fence.group(1))
            found.append(Block("code", "\n".join(lines[at:end])))
            at = end
            continue
        if not line.strip():
            close()
        elif atx := _ATX.match(line):
            close()
            found.append(Block("heading", _plain(atx.group(2)), len(atx.group(1))))
        elif not paragraph and (style := _underlined(lines, at)):
            if style not in styles:
                styles.append(style)
            found.append(Block("heading", _plain(line), styles.index(style) + 1))
            at += 1
        elif not paragraph and _NUMBERED.match(line.strip()) and _blank(lines, at + 1):
            found.append(Block("heading", line.strip(), 1))
        else:
            paragraph.append(line)
        at += 1
    close()
    return _with_entries(found)


def _without_front_matter(text: str) -> str:
    """Markdown files of site generators open with a block of YAML that no reader sees."""
    match = re.match(r"---\n(?:[\w-]+:.*\n|[ \t-].*\n)+---\n", text)
    return text[match.end() :] if match else text


def _end_of_fence(lines: list[str], start: int, mark: str) -> int:
    """The index after the closing fence, or the end of the text when nobody closed it."""
    for at in range(start + 1, len(lines)):
        if lines[at].strip().startswith(mark) and not lines[at].strip().strip(mark[0]):
            return at + 1
    return len(lines)


def _underlined(lines: list[str], at: int) -> str | None:
    """The underline character, when this line is a heading because of the line below it."""
    title = lines[at].rstrip()
    if at + 1 >= len(lines) or title.startswith(" ") or _UNDERLINE.match(title) or len(title) > 120:
        return None
    match = _UNDERLINE.match(lines[at + 1])
    # An underline much shorter than its title is a rule or a table's border.
    if not match or len(lines[at + 1].rstrip()) < 0.6 * len(title) or not any(map(str.isalnum, title)):
        return None
    return match.group(1)


def _blank(lines: list[str], at: int) -> bool:
    return at >= len(lines) or not lines[at].strip()


def _plain(title: str) -> str:
    """A heading without markup."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[`*]+|(?<!\w)\"|\"(?!\w)", "", title).strip()


def _with_entries(blocks: list[Block]) -> list[Block]:
    """Marks the signatures that stand alone above a deeper description, as in `str.find(sub)`."""
    marked = list(blocks)
    for at, (block, following) in enumerate(pairwise(blocks)):
        deeper = _indent(following.text) > _indent(block.text)
        one_line = "\n" not in block.text
        if block.kind == following.kind == "text" and deeper and one_line and _SIGNATURE.match(block.text.strip()):
            marked[at] = Block("entry", block.text)
    return marked


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))
