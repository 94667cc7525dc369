"""Writes the report as Markdown and as one HTML page without scripts or outside resources.

Everything in it comes from somebody's document, so all of it is escaped; only code spans keep their look.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

from digest.state import ChapterDigest, PageDigest, State

__all__ = ["html_text", "markdown_text", "render_html", "render_markdown", "write_report"]

NO_PROSE = "No running text on this page: code, grammar or a table."
_SPAN = re.compile(r"`([^`]+)`")
# What would start markup anywhere in a line, and what would only at its beginning. Among letters a dot is no list.
_MARKDOWN = re.compile(r"([\\`*_\[\]<>&|~#$])")
_AT_START = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))")


def write_report(state: State, folder: Path) -> list[Path]:
    """Writes `report.md` and `report.html`; each appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, text in (("report.md", render_markdown(state)), ("report.html", render_html(state))):
        path = folder / name
        draft = path.with_suffix(path.suffix + ".part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
        written.append(path)
    return written


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is; code spans stay code."""
    escaped = _spans(_one_line(text), lambda plain: _MARKDOWN.sub(r"\\\1", plain), lambda code: f"`{code}`")
    return _AT_START.sub(lambda match: f"{match[1]}\\{match[2]}" if not match[2].isdigit() else _numbered(match), escaped)


def html_text(text: str) -> str:
    """Text that HTML shows as it is; code spans become code."""
    return _spans(_one_line(text), html.escape, lambda code: f"<code>{html.escape(code)}</code>")


def render_markdown(state: State) -> str:
    """The report as Markdown."""
    return "\n".join(_markdown_lines(state)) + "\n"


def render_html(state: State) -> str:
    """The report as one HTML page."""
    style = files("digest").joinpath("report.css").read_text(encoding="utf-8")
    chapters = _in_order(state)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Digest: {html.escape(_one_line(state['title']))}</title>",
            f"<style>\n{style}</style>",
            "<header>",
            '<p class="kind">A digest</p>',
            f"<h1>{html_text(state['title'])}</h1>",
            f'<p class="facts">{html.escape(_facts(state))}</p>',
            _chips(state["terms"]),
            "</header>",
            "<main>",
            *_html_overview(state),
            *(line for chapter in chapters for line in _html_chapter(chapter, state)),
            "</main>",
            "<footer>",
            *(f"<p>{html_text(note)}</p>" for note in [*state.get("notes", []), _colophon(state)]),
            "</footer>",
            "</html>",
            "",
        ]
    )


def _markdown_lines(state: State) -> Iterator[str]:
    yield from (f"# {markdown_text(state['title'])}", "", f"*A digest: {markdown_text(_facts(state))}*", "")
    yield from (f"**Key terms:** {_joined(state['terms'])}", "")
    if len(state["chapters"]) > 1:
        yield from ("## In short", "")
        titles = {page["number"]: state["chapter_titles"][page["chapter"]] for page in state["digests"]}
        for quote in state["overview"]:
            yield f"- **{markdown_text(titles[quote['page']])}:** {markdown_text(quote['text'])} (p. {quote['page']})"
        yield ""
    for chapter in _in_order(state):
        yield from (
            f"## {markdown_text(chapter['title'])}",
            "",
            f"*{_range(chapter)}.* **Key terms:** {_joined(chapter['terms'])}",
            "",
        )
        if chapter["abstract"]:
            yield from (markdown_text(chapter["abstract"]), "")
        for quote in chapter["quotes"]:
            yield f"- {markdown_text(quote['text'])} (p. {quote['page']})"
        yield from ("", "### Page by page", "")
        for page in _pages(chapter, state):
            # The backslash breaks the line, so that the terms stand below the sentences.
            said = f"**{page['number']} · {markdown_text(page['heading'])}.** {markdown_text(_said(page))}"
            yield from ([f"{said}\\", f"*{_joined(page['terms'])}*", ""] if page["terms"] else [said, ""])
    yield "---"
    for note in [*state.get("notes", []), _colophon(state)]:
        yield from ("", markdown_text(note))


def _html_overview(state: State) -> Iterator[str]:
    if len(state["chapters"]) < 2:
        return
    by_page = {page["number"]: page["chapter"] for page in state["digests"]}
    yield '<section class="overview"><h2>In short</h2><dl>'
    for quote in state["overview"]:
        index = by_page[quote["page"]]
        yield (
            f'<dt><a href="#chapter-{index + 1}">{html_text(state["chapter_titles"][index])}</a></dt>'
            f"<dd>{html_text(quote['text'])} {_page_link(quote['page'])}</dd>"
        )
    yield "</dl></section>"


def _html_chapter(chapter: ChapterDigest, state: State) -> Iterator[str]:
    yield f'<section id="chapter-{chapter["index"] + 1}"><h2>{html_text(chapter["title"])}</h2>'
    yield f'<p class="facts">{_range(chapter)}</p>'
    if chapter["abstract"]:
        yield f'<p class="abstract">{html_text(chapter["abstract"])}</p>'
    items = "\n".join(f"<li>{html_text(quote['text'])} {_page_link(quote['page'])}</li>" for quote in chapter["quotes"])
    yield f"<ul>{items}</ul>" if items else ""
    yield _chips(chapter["terms"])
    yield "<details><summary>Page by page</summary>"
    for page in _pages(chapter, state):
        kind = "" if page["sentences"] else ' class="empty"'
        yield f'<article id="page-{page["number"]}"><h3><span>{page["number"]}</span> {html_text(page["heading"])}</h3>'
        yield f"<p{kind}>{html_text(_said(page))}</p>{_chips(page['terms'])}</article>"
    yield "</details></section>"


def _spans(text: str, plain: Callable[[str], str], code: Callable[[str], str]) -> str:
    """Applies one function between the code spans and another to what is in them."""
    parts = _SPAN.split(text)
    return "".join(code(part) if at % 2 else plain(part) for at, part in enumerate(parts))


def _numbered(match: re.Match[str]) -> str:
    """`1.` at the start of a line begins a list unless its dot is escaped; that is one place further on."""
    return f"{match[1]}{match[2]}\\"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _in_order(state: State) -> list[ChapterDigest]:
    return sorted(state["chapters"], key=lambda chapter: chapter["index"])


def _pages(chapter: ChapterDigest, state: State) -> list[PageDigest]:
    return [page for page in state["digests"] if page["chapter"] == chapter["index"]]


def _said(page: PageDigest) -> str:
    return " ".join(page["sentences"]) or NO_PROSE


def _range(chapter: ChapterDigest) -> str:
    first, last = chapter["first_page"], chapter["last_page"]
    return f"Page {first}" if first == last else f"Pages {first}–{last}"


def _facts(state: State) -> str:
    pages, chapters = state["pages"], len(state["chapters"])
    return f"{pages} page{'s' * (pages != 1)} in {chapters} chapter{'s' * (chapters != 1)}"


def _colophon(state: State) -> str:
    return (
        "Every sentence is the document's own, chosen by LexRank and Maximal Marginal Relevance; key terms by tf-idf. "
        f"Approved {state['approval']['by']}. Made by a Perdure graph, one checkpoint a page."
    )


def _joined(terms: list[str]) -> str:
    return " · ".join(markdown_text(term) for term in terms) or "none"


def _chips(terms: list[str]) -> str:
    return '<p class="terms">' + " ".join(f"<span>{html_text(term)}</span>" for term in terms) + "</p>" if terms else ""


def _page_link(page: int) -> str:
    return f'<a class="page" href="#page-{page}">p. {page}</a>'
