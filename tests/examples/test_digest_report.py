"""The demo's report shows a document's text and never obeys it."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from digest.report import html_text, markdown_text, render_html, render_markdown, write_report
from digest.state import ChapterDigest, PageDigest, Quote, State

EVIL = "<script>alert('x')</script> & \"quotes\" <img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """Collects the elements, the attributes' values and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def state(text: str) -> State:
    quote = Quote(page=1, text=text)
    chapters = [
        ChapterDigest(
            index=index, title=text, first_page=1, last_page=1, lead=[quote], quotes=[quote], terms=[text], abstract=text
        )
        for index in range(2)
    ]
    return State(
        title=text,
        pages=1,
        page=1,
        chapter_titles=[text, text],
        digests=[PageDigest(number=1, chapter=0, heading=text, sentences=[text], terms=[text])],
        chapters=chapters,
        notes=[text],
        overview=[quote],
        terms=[text],
        approval={"approved": True, "by": text},
    )


def test_html_in_titles_and_sentences_stays_text():
    page = render_html(state(EVIL))
    tags = Tags(page)
    assert not {"script", "img"} & set(tags.names)
    assert "onerror" not in tags.attributes
    assert EVIL in tags.text


def test_html_in_a_code_span_stays_text():
    assert html_text("Use `<b>&`.") == "Use <code>&lt;b&gt;&amp;</code>."


@pytest.mark.parametrize("text", [EVIL, "[click](javascript:alert(1))", "# no heading", "**no bold** and __no bold__", "a | b"])
def test_markdown_in_titles_and_sentences_stays_text(text: str):
    report = render_markdown(state(text))
    assert "<script" not in report.replace("\\<", "")
    assert "](" not in report.replace("\\](", "")
    assert "# no" not in report.replace("\\#", "")
    assert "__no" not in report


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("snake_case and `snake_case`", "snake\\_case and `snake_case`"),
        ("- no item", "\\- no item"),
        ("1. no item", "1\\. no item"),
        ("two\nlines", "two lines"),
        ("a lone ` tick", "a lone \\` tick"),
    ],
)
def test_markdown_text(text: str, shown: str):
    assert markdown_text(text) == shown


def test_the_page_needs_nothing_from_elsewhere():
    page = render_html(state("plain"))
    assert "http" not in page
    assert not {"link", "script", "iframe"} & set(Tags(page).names)


def test_both_files_are_written_whole(tmp_path: Path):
    written = write_report(state("Täst"), tmp_path / "new")
    assert [path.name for path in written] == ["report.md", "report.html"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["report.html", "report.md"]
    assert all("Täst" in path.read_text(encoding="utf-8") for path in written)
