"""The demo cuts a document the same way each time, into pages that a process can find again by their number."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from digest.blocks import cut
from digest.document import LINES_PER_PAGE, REFERENCE, DocumentError, load, parse

PARAGRAPH = "The keeper of the lighthouse wrote down the weather every evening.\nNobody ever read what he wrote."


def markdown(chapters: int, paragraphs: int) -> str:
    body = "\n\n".join([PARAGRAPH] * paragraphs)
    return "# The log\n\n" + "\n\n".join(f"## Year {year}\n\n{body}" for year in range(1, chapters + 1))


def test_markdown_headings_are_chapters_and_the_first_is_the_title():
    document = parse(markdown(3, 20), fallback_title="log")
    assert document.title == "The log"
    assert document.chapters == ("Year 1", "Year 2", "Year 3")
    assert [page.number for page in document.pages] == list(range(1, len(document.pages) + 1))
    assert {page.chapter for page in document.pages} == {0, 1, 2}


def test_underlined_headings_are_chapters():
    text = f"The log\n*******\n\nYear 1\n======\n\n{PARAGRAPH}\n\nYear 2\n======\n\n{PARAGRAPH}\n"
    document = parse(text, fallback_title="log")
    assert (document.title, document.chapters) == ("The log", ("Year 1", "Year 2"))


def test_numbered_chapters_of_a_plain_text_are_chapters_and_its_table_of_contents_is_none():
    contents = "CHAPTER I. Rain\n\nCHAPTER II. Fog\n\n"
    text = f"{contents}CHAPTER I. Rain\n\n{PARAGRAPH}\n\nCHAPTER II. Fog\n\n{PARAGRAPH}\n"
    document = parse(text, fallback_title="The log")
    assert (document.title, document.chapters) == ("The log", ("CHAPTER I. Rain", "CHAPTER II. Fog"))


def test_a_text_without_headings_falls_into_parts():
    document = parse("\n\n".join([PARAGRAPH] * 200), fallback_title="The log")
    assert document.chapters[:2] == ("Part 1", "Part 2")
    assert document.title == "The log"


def test_nothing_is_lost_and_no_page_is_longer_than_a_page():
    paragraphs = [f"Paragraph {number} of the log.\nIt rained." for number in range(300)]
    document = parse("\n\n".join(paragraphs), fallback_title="log")
    assert "\n\n".join(page.text for page in document.pages) == "\n\n".join(paragraphs)
    assert max(page.text.count("\n") for page in document.pages) <= LINES_PER_PAGE


def test_a_paragraph_longer_than_a_page_is_cut_between_sentences():
    document = parse(" ".join(["It rained all day and the lamp stayed lit."] * 800), fallback_title="log")
    assert len(document.pages) > 1
    assert all(page.text.endswith("lit.") for page in document.pages)


def test_a_heading_does_not_stand_alone_at_the_foot_of_a_page():
    document = parse(markdown(1, 9) + "\n\n### Autumn\n\n" + "\n".join(["It rained and it blew."] * 20), fallback_title="log")
    assert not any(page.text.rstrip().endswith("Autumn") for page in document.pages)


def test_code_is_kept_together_and_its_comments_are_no_headings():
    blocks = cut("# Title\n\n```python\n# not a heading\n\nx = 1\n```\n\nText.\n")
    assert [block.kind for block in blocks] == ["heading", "code", "text"]


def test_the_same_text_gives_the_same_document_and_another_text_another_fingerprint():
    one, again, other = (parse(markdown(2, count), fallback_title="log") for count in (5, 5, 6))
    assert one == again
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("text", ["", "\n\n \n", "# Only a heading\n"])
def test_a_document_without_text_is_refused(text: str):
    with pytest.raises(DocumentError, match="no text"):
        parse(text, fallback_title="empty")


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path):
    with pytest.raises(DocumentError, match="nowhere"):
        load(str(tmp_path / "nowhere.md"))


def test_the_language_reference_is_about_250_pages_without_repeated_topics():
    document = load(REFERENCE)
    assert 200 <= len(document.pages) <= 350
    assert {"Lexical analysis", "Expressions", "The debugger"} <= set(document.chapters)
    # `with` is a topic of its own and a section of `compound`.
    assert sum("used to wrap the execution of a block" in " ".join(page.text.split()) for page in document.pages) == 1
