"""What the run keeps: the graph's state and the shapes in it.

The text of the pages is not here. A checkpoint holds the name of the source, and every process reads its pages again.
"""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

__all__ = ["Approval", "ChapterDigest", "FoldWork", "PageDigest", "Quote", "State"]


class PageDigest(TypedDict):
    """One page, digested."""

    number: int
    chapter: int
    heading: str
    sentences: list[str]
    terms: list[str]


class Quote(TypedDict):
    """A sentence and the page it stands on."""

    page: int
    text: str


class ChapterDigest(TypedDict):
    """One chapter, folded from the digests of its pages: at most one leading sentence, and a handful; `abstract` is a model's, if any."""

    index: int
    title: str
    first_page: int
    last_page: int
    lead: list[Quote]
    quotes: list[Quote]
    terms: list[str]
    abstract: str


class Approval(TypedDict):
    """A person's answer."""

    approved: bool
    by: str


class FoldWork(TypedDict):
    """What one parallel fold gets from its `Send`."""

    fold_source: str
    fold_index: int
    fold_title: str
    fold_pages: list[PageDigest]


class State(TypedDict, total=False):
    """The run. `page` counts the pages done, so it is also the index of the next one."""

    source: str
    out: str
    title: str
    fingerprint: str
    chapter_titles: list[str]
    pages: int
    page: int
    digests: Annotated[list[PageDigest], operator.add]
    chapters: Annotated[list[ChapterDigest], operator.add]
    notes: Annotated[list[str], operator.add]
    overview: list[Quote]
    terms: list[str]
    approval: Approval
    files: list[str]
