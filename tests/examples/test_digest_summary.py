"""What the demo picks from a page: whole sentences of prose, without chance, and the terms that tell the page from the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from digest.prose import Sentence, sentences, split_sentences
from digest.summary import Corpus, key_terms, lead, rank, summarise
from digest.words import stem

PAGE = """\
## Lighthouses

A lighthouse is a tower that warns ships of a dangerous coast with a strong lamp.
The lamp of a lighthouse turns, so that each tower shows a rhythm of its own.  See
section Buoys for more. A ship that knows the rhythm of the lamp knows which tower it sees.

    lamp = Lamp(rhythm=[1, 2])
    lamp.turn()

It is not the height of the tower alone that counts.  New keepers like painting.

Changed in version 3.2: Lighthouses were allowed to be red and white.

+-------+--------+
| Tower | Rhythm |
+-------+--------+
"""
OTHER = "Bread is made of flour and water. The baker wakes up at three in the morning. An oven needs two hours to warm up."


def corpus() -> Corpus:
    return Corpus.of([sentences(PAGE), sentences(OTHER)])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It rained. It blew.", ["It rained.", "It blew."]),
        ("He met Dr. Watson at noon. They ate.", ["He met Dr. Watson at noon.", "They ate."]),
        ("Some birds, e.g. Gulls, stay. Others go.", ["Some birds, e.g. Gulls, stay.", "Others go."]),
        ("Call `a.b. C`. Then wait.", ["Call `a.b. C`.", "Then wait."]),
        ("“Is it far?” He nodded.", ["“Is it far?”", "He nodded."]),
        ("Version 3.11 is out. Use it!", ["Version 3.11 is out.", "Use it!"]),
        ("By J. Verne and others. It sold.", ["By J. Verne and others.", "It sold."]),
        ("one sentence only", ["one sentence only"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, parts: list[str]):
    assert split_sentences(text) == parts


def test_code_tables_references_and_version_notes_are_no_prose():
    found = [sentence.text for sentence in sentences(PAGE)]
    assert found[0] == "A lighthouse is a tower that warns ships of a dangerous coast with a strong lamp."
    assert not any(word in " ".join(found) for word in ("Lamp(", "See", "3.2", "Rhythm |"))


def test_a_sentence_below_a_signature_says_what_it_is_about():
    found = sentences("str.lower(locale)\n\n   Return a copy of the string in which all letters are small.\n")
    assert found[0].shown == "`str.lower`: Return a copy of the string in which all letters are small."


def test_markup_is_taken_off_and_code_spans_are_left_alone():
    found = sentences("The **first** argument of [`call(**options)`](x.md) is *always* given by the caller [1].")
    assert found[0].text == "The first argument of `call(**options)` is always given by the caller."


def test_a_summary_is_made_of_the_page_s_own_sentences_in_their_order():
    found = sentences(PAGE)
    chosen = summarise(found, corpus(), most=2)
    assert len(chosen) == 2
    assert [one.position for one in chosen] == sorted(one.position for one in chosen)
    assert all(one in found for one in chosen)
    assert any("lighthouse" in one.text for one in chosen)


def test_a_summary_says_nothing_twice():
    twice = [Sentence("A lighthouse warns the ships of a dangerous coast with a lamp.", at) for at in range(2)]
    other = Sentence("The baker wakes up every day at three in the dark morning.", 2)
    assert other in summarise([*twice, other], corpus(), most=2)


def test_a_sentence_that_leans_on_the_one_before_ranks_lower():
    text = "lamp of the lighthouse turns and shows the rhythm of its tower."
    free, leaning = rank([f"The {text}", f"However, this {text}"], corpus())
    assert free > leaning


def test_ranks_add_up_to_one_and_nothing_has_no_rank():
    assert sum(rank([one.text for one in sentences(PAGE)], corpus())) == pytest.approx(1.0)
    assert rank([], corpus()) == []
    assert summarise([], corpus()) == []
    assert lead([], corpus()) is None
    assert key_terms([], corpus()) == []


def test_key_terms_name_what_only_this_page_is_about():
    terms = [term.lower() for term in key_terms(sentences(PAGE), corpus())]
    assert {"lamp", "tower", "rhythm"} & set(terms)
    assert not {"the", "bread", "oven"} & set(terms)


def test_the_same_page_gives_the_same_digest():
    first, second = ((summarise(sentences(PAGE), corpus()), key_terms(sentences(PAGE), corpus())) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("word", "root"),
    [("Lamps", "lamp"), ("bodies", "body"), ("classes", "classe"), ("class", "class"), ("__slots__", "__slots__")],
)
def test_a_stem_joins_singular_and_plural(word: str, root: str):
    assert stem(word) == root
