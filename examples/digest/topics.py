"""The Python language reference as the standard library carries it, in `pydoc_data.topics`, arranged in chapters.

It is the default document: about 250 pages of real prose on every machine that has Python.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

from digest.prose import is_prose

__all__ = ["TITLE", "chapters"]

TITLE = f"The Python language reference, {sys.version_info.major}.{sys.version_info.minor}"

# The order in which the reference itself treats them. A topic that is not named here goes to the last chapter.
_CHAPTERS: dict[str, str] = {
    "Lexical analysis": "identifiers id-classes strings numbers integers floating imaginary",
    "Data model: objects and types": "objects types",
    "Data model: special methods": "specialnames customization attribute-access callable-types sequence-types numeric-types"
    " context-managers",
    "Execution model": "execmodel naming dynamic-features exceptions",
    "Expressions": "conversions atom-identifiers atom-literals exprlists lists dict attribute-references subscriptions slicings"
    " calls await power unary binary shifting bitwise comparisons in booleans lambda yield operator-summary",
    "Simple statements": "assignment augassign assert pass del return raise break continue import global nonlocal",
    "Compound statements": "compound if else while for try with function class async",
    "Built-in types": "truth typesseq typesseq-mutable typesmapping typesmodules typesfunctions typesmethods"
    " bltin-code-objects bltin-type-objects bltin-null-object bltin-ellipsis-object specialattrs",
    "Strings and their formats": "string-methods formatstrings",
    "The debugger": "debugger",
}
_OTHER = "Other topics"
# A literal opens after a gap and closes before one; quotes inside it, as in "m["x"]", touch their neighbours.
_LITERAL = re.compile(r'(?<![^\s(—“/])"{1,2}([^"`]{1,80}?(?:"[^"`\s]*"[^"`]{0,40}?)*)"{1,2}(?![\w\]"])')


def chapters() -> list[tuple[str, str]]:
    """(title, text) of every chapter that has text."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    kept = _without_repeats(topics)
    placed = {name for names in _CHAPTERS.values() for name in names.split()}
    plan = {title: names.split() for title, names in _CHAPTERS.items()}
    plan[_OTHER] = sorted(kept.keys() - placed)
    texts = {
        title: "\n\n".join(_literals(kept[name].strip("\n")) for name in names if name in kept) for title, names in plan.items()
    }
    return [(title, text) for title, text in texts.items() if text.strip()]


def _without_repeats(topics: dict[str, str]) -> dict[str, str]:
    """Leaves out a topic that a larger one contains: `with` is also a section of `compound`, and so on."""
    paragraphs = {name: _long_paragraphs(text) for name, text in topics.items()}
    kept: dict[str, str] = {}
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        own = paragraphs[name]
        if not any(own and len(own & paragraphs[other]) >= 0.85 * len(own) for other in kept):
            kept[name] = topics[name]
    return kept


def _long_paragraphs(text: str) -> set[str]:
    squeezed = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return {part for part in squeezed if len(part) > 60}


def _literals(text: str) -> str:
    """Gives back the backticks: Sphinx's plain-text builder wrote every literal of the reference in straight quotes."""

    def mend(paragraph: str) -> str:
        if paragraph.count('"') % 2 or not is_prose(paragraph):
            return paragraph
        return _LITERAL.sub(r"`\1`", paragraph)

    return re.sub(r"[^\n]+(?:\n[^\n]+)*", lambda match: mend(match.group()), text)
