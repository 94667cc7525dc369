"""The graph: split, digest page by page, fold the chapters in parallel, ask a person, write.

    START -> split -> digest -+-> fold_chapter (one Send each) -> gather -> approve -+-> write -> END
                       ^      |                                                      |
                       +------+ while pages are left                                 +-> END when declined

Every page is one super-step, and so one checkpoint: what a crash can cost is the page in hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from digest.document import Document, DocumentError, load
from digest.ledger import Ledger
from digest.prose import Sentence, sentences
from digest.report import write_report
from digest.state import Approval, ChapterDigest, FoldWork, PageDigest, Quote, State
from digest.summary import Corpus, key_terms, lead, summarise
from perdure.graph import END, START, StateGraph
from perdure.types import Send, interrupt

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver
    from perdure.graph.state import CompiledStateGraph

__all__ = ["Desk", "build"]

CHAPTER_SENTENCES = 5
CHAPTER_ROOM = 900

Abstracter = Callable[[str, Sequence[str]], str]
"""Writes a chapter's abstract from its title and its sentences."""


def _go_on(page: int) -> None:
    """Before a page: nothing."""


@dataclass(frozen=True)
class Desk:
    """What the nodes touch outside of the state."""

    ledger: Ledger
    before_page: Callable[[int], None] = _go_on
    abstracter: Abstracter | None = None


def build(desk: Desk, checkpointer: BaseCheckpointSaver[Any] | None) -> CompiledStateGraph[State, None, State, State]:
    """The compiled graph."""

    def digest(state: State) -> State:
        number = state["page"] + 1
        desk.before_page(number)
        # First of all, so that even a page which is begun and never finished counts as digested.
        desk.ledger.add(number)
        document = _same(state)
        page = document.pages[number - 1]
        found = sentences(page.text)
        corpus = _corpus(state["source"])
        done = PageDigest(
            number=number,
            chapter=page.chapter,
            heading=page.heading,
            sentences=[sentence.shown for sentence in summarise(found, corpus, topic=page.heading)],
            terms=key_terms(found, corpus),
        )
        return {"digests": [done], "page": number}

    def fold_chapter(state: FoldWork) -> State:
        return _fold(state, desk.abstracter)

    graph = StateGraph(State)
    graph.add_node("split", split)
    graph.add_node("digest", digest)
    graph.add_node("fold_chapter", fold_chapter, input_schema=FoldWork)
    graph.add_node("gather", gather)
    graph.add_node("approve", approve)
    graph.add_node("write", write)
    graph.add_edge(START, "split")
    graph.add_edge("split", "digest")
    graph.add_conditional_edges("digest", next_page_or_folds, ["digest", "fold_chapter"])
    graph.add_edge("fold_chapter", "gather")
    graph.add_edge("gather", "approve")
    graph.add_conditional_edges("approve", write_or_end, ["write", END])
    graph.add_edge("write", END)
    return graph.compile(checkpointer=checkpointer)


def split(state: State) -> State:
    """Reads the document once to learn how many pages and chapters it has."""
    document = load(state["source"])
    return {
        "title": document.title,
        "fingerprint": document.fingerprint,
        "chapter_titles": list(document.chapters),
        "pages": len(document.pages),
        "page": 0,
    }


def next_page_or_folds(state: State) -> str | list[Send]:
    """Back to `digest` while pages are left; then one parallel fold for each chapter."""
    if state["page"] < state["pages"]:
        return "digest"
    return [
        Send(
            "fold_chapter",
            FoldWork(
                fold_source=state["source"],
                fold_index=index,
                fold_title=title,
                fold_pages=[page for page in state["digests"] if page["chapter"] == index],
            ),
        )
        for index, title in enumerate(state["chapter_titles"])
    ]


def gather(state: State) -> State:
    """The whole in short: the leading sentence of each chapter, and the terms that most pages share."""
    chapters = sorted(state["chapters"], key=lambda chapter: chapter["index"])
    overview = [quote for chapter in chapters for quote in chapter["lead"]]
    # A term counts once for each page that it is a key term of: the document's terms are those that keep coming back.
    spread = Counter(term for page in state["digests"] for term in page["terms"])
    best = sorted(spread, key=lambda term: (-spread[term] * (2 if " " in term else 1.0), term))
    return {"overview": overview, "terms": best[:10]}


def approve(state: State) -> State:
    """Pauses until a person has answered."""
    answer: Approval = interrupt(
        {
            "question": "Write the report?",
            "title": state["title"],
            "pages": state["page"],
            "chapters": len(state["chapters"]),
            "terms": state["terms"],
            "overview": [quote["text"] for quote in state["overview"][:3]],
        }
    )
    return {"approval": answer}


def write_or_end(state: State) -> str:
    """Only an approved report is written."""
    return "write" if state["approval"]["approved"] else END


def write(state: State) -> State:
    """Writes the two files; a repeat after a crash writes the same bytes again."""
    return {"files": [str(path) for path in write_report(state, Path(state["out"]))]}


def _fold(work: FoldWork, abstracter: Abstracter | None) -> State:
    pages = work["fold_pages"]
    corpus = _corpus(work["fold_source"])
    quotes = [Quote(page=page["number"], text=text) for page in pages for text in page["sentences"]]
    candidates = [Sentence(quote["text"], at) for at, quote in enumerate(quotes)]
    title = work["fold_title"]
    picked = summarise(candidates, corpus, topic=title, most=CHAPTER_SENTENCES, room=CHAPTER_ROOM)
    first = lead(candidates, corpus, topic=title)
    numbers = [page["number"] for page in pages]
    chapter = ChapterDigest(
        index=work["fold_index"],
        title=title,
        first_page=min(numbers, default=0),
        last_page=max(numbers, default=0),
        lead=[quotes[first.position]] if first else [],
        quotes=[quotes[one.position] for one in picked],
        terms=key_terms(candidates, corpus, most=8),
        abstract="",
    )
    if abstracter is None:
        return {"chapters": [chapter]}
    try:
        chapter["abstract"] = abstracter(title, [quote["text"] for quote in quotes])
    except Exception as error:  # noqa: BLE001 - whatever a vendor's SDK raises, the report can do without it
        return {"chapters": [chapter], "notes": [f"No model's abstract for “{title}”: {type(error).__name__}: {error}"]}
    return {"chapters": [chapter]}


def _same(state: State) -> Document:
    """The document, provided that it is still the one the run began with."""
    document = load(state["source"])
    if document.fingerprint != state["fingerprint"]:
        raise DocumentError(f"{state['source']} has changed since the run began; its pages are no longer the same. Start again")
    return document


@lru_cache(maxsize=4)
def _corpus(source: str) -> Corpus:
    return Corpus.of(sentences(page.text) for page in load(source).pages)
