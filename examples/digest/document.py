"""Loads a document and cuts it into chapters and pages, the same way every time it is read.

A run keeps only the name of its source and reads its pages from here, so a checkpoint never carries the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from digest import topics
from digest.blocks import Block, cut

__all__ = ["REFERENCE", "Document", "DocumentError", "Page", "load", "parse"]

REFERENCE = "pydoc:topics"
"""The source name of the default document."""

LINES_PER_PAGE = 40
COLUMNS = 100
PAGES_PER_PART = 10


class DocumentError(ValueError):
    """The document cannot be read, or is no longer the one the run began with."""


@dataclass(frozen=True)
class Page:
    """One page; `number` counts from 1 through the whole document, `chapter` is an index into the chapters."""

    number: int
    chapter: int
    heading: str
    text: str


@dataclass(frozen=True)
class Document:
    """A title, chapter titles and pages; the fingerprint tells two versions of a file apart."""

    title: str
    chapters: tuple[str, ...]
    pages: tuple[Page, ...]
    fingerprint: str


@lru_cache(maxsize=4)
def load(source: str) -> Document:
    """The document of a source name: `REFERENCE`, or the path of a text or Markdown file."""
    if source == REFERENCE:
        return _assemble(topics.TITLE, [(title, cut(text)) for title, text in topics.chapters()])
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise DocumentError(f"cannot read {source}: {error.strerror or error}") from error
    return parse(text, fallback_title=path.stem.replace("_", " ").replace("-", " "))


def parse(text: str, *, fallback_title: str) -> Document:
    """A document from the text of a file."""
    blocks = cut(text)
    if not any(block.kind != "heading" for block in blocks):
        raise DocumentError("the document has no text to digest")
    level = _chapter_level(blocks)
    before = [block for block in blocks if block.kind == "heading" and block.level < level]
    title = before[0].text if before else fallback_title
    return _assemble(title, _parts(blocks) if level == 0 else list(_chapters(blocks, level, title)))


def _chapter_level(blocks: Iterable[Block]) -> int:
    """The highest heading level that occurs at least twice; 0 when there is none."""
    levels = [block.level for block in blocks if block.kind == "heading"]
    return next((level for level in sorted(set(levels)) if levels.count(level) > 1), 0)


def _chapters(blocks: Iterable[Block], level: int, title: str) -> Iterator[tuple[str, list[Block]]]:
    name, body = title, list[Block]()
    for block in blocks:
        if block.kind == "heading" and block.level <= level:
            if any(one.kind != "heading" for one in body):
                yield name, body
            name, body = block.text, []
        else:
            body.append(block)
    if any(one.kind != "heading" for one in body):
        yield name, body


def _parts(blocks: list[Block]) -> list[tuple[str, list[Block]]]:
    """Chapters for a text that has none: runs of ten pages."""
    body = [block for block in blocks if block.kind != "heading"]
    sheets = list(_sheets(body))
    groups = [sheets[at : at + PAGES_PER_PART] for at in range(0, len(sheets), PAGES_PER_PART)]
    if len(groups) == 1:
        return [("The whole text", body)]
    return [(f"Part {number}", [block for sheet in group for block in sheet]) for number, group in enumerate(groups, 1)]


def _assemble(title: str, chapters: list[tuple[str, list[Block]]]) -> Document:
    pages: list[Page] = []
    for index, (name, blocks) in enumerate(chapters):
        heading = name
        for sheet in _sheets(blocks):
            headings = [block.text for block in sheet if block.kind == "heading"]
            # A page is named after the section it opens with, which may have begun on the page before.
            opens_anew = sheet[0].kind == "heading"
            label = headings[0] if opens_anew else heading
            text = "\n\n".join(_written(block) for block in sheet)
            pages.append(Page(len(pages) + 1, index, label, text))
            heading = headings[-1] if headings else heading
    whole = "\f".join(page.text for page in pages)
    fingerprint = hashlib.sha256(f"{title}\f{whole}".encode()).hexdigest()[:16]
    return Document(title, tuple(name for name, _ in chapters), tuple(pages), fingerprint)


def _written(block: Block) -> str:
    return f"{'#' * min(block.level, 6)} {block.text}" if block.kind == "heading" else block.text


def _sheets(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Fills pages with whole blocks; a heading never stands alone at the foot, and likes the top."""
    sheet: list[Block] = []
    filled = 0
    for block in chain.from_iterable(map(_pieces, blocks)):
        height = _height(block.text) + 1
        late = block.kind == "heading" and filled > 0.6 * LINES_PER_PAGE
        if sheet and (late or filled + height > LINES_PER_PAGE):
            carried: list[Block] = []
            while sheet and sheet[-1].kind in ("heading", "entry"):
                carried.insert(0, sheet.pop())
            if sheet:
                yield sheet
            sheet = carried
            filled = sum(_height(one.text) + 1 for one in sheet)
        sheet.append(block)
        filled += height
    if any(block.kind != "heading" for block in sheet):
        yield sheet


def _height(text: str) -> int:
    """How many lines a text takes when long lines wrap."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.split("\n"))


def _pieces(block: Block) -> Iterator[Block]:
    """Cuts a block that is longer than a page: between lines, or between sentences when the line itself is too long."""
    if _height(block.text) < LINES_PER_PAGE or block.kind == "heading":
        yield block
        return
    fence = block.text.split("\n", 1)[0] if block.kind == "code" else ""
    body = block.text.split("\n")[1:-1] if fence else block.text.split("\n")
    units = [unit for line in body for unit in _short(line)]
    piece: list[str] = []
    for unit in units:
        if piece and _height("\n".join([*piece, unit])) > LINES_PER_PAGE - 3:
            yield Block(block.kind, _fenced(piece, fence))
            piece = []
        piece.append(unit)
    yield Block(block.kind, _fenced(piece, fence))


def _short(line: str) -> list[str]:
    if len(line) <= 10 * COLUMNS:
        return [line]
    sentences = re.split(r"(?<=[.!?])\s+", line)
    width = 20 * COLUMNS
    return [one[at : at + width] for one in sentences for at in range(0, max(1, len(one)), width)]


def _fenced(lines: list[str], fence: str) -> str:
    text = "\n".join(lines)
    return f"{fence}\n{text}\n{re.sub('[^`~].*', '', fence.strip())}" if fence else text
