"""Finds the sentences of a page: what is prose, where a sentence ends, and which sentences can stand alone.

Code, tables, grammar, references and version notes are left out; markup is taken off; nothing is scored here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from digest.blocks import cut

__all__ = ["Sentence", "is_prose", "leans", "sentences", "split_sentences"]

_ITEM = re.compile(r"^\s*(?:[*+•–-]|\(?\d{1,3}[.)]|\(?[a-z]\)|>)\s+")
_WORD = re.compile(r"^[\"'“‘(\[*_`]*[^\W\d_]+(?:[-'’/][^\W\d_]+)*[\"'”’)\]*_`]*[.,;:!?…]*[\"'”’)\]*_`]*$")
_CODE_LINE = re.compile(
    r">>>|::=|^\s*(?:\.\.\. |#|\$ |@\w|[|+]|(?:def|class|return|import|from|try|except|finally|else|elif)\b.*[:)]?$.*)"
    r"|^\s*[\w.\[\], ]+ [-+*/|&]?= \S|^\s*[-=+|~^:*_ ]{4,}$|\s{4,}\S.*\s{4,}|[|].*[|].*[|]"
)
_NOTES = re.compile(
    r"(?:see also\b|new in version|added in version|changed in version|deprecated since|-\[ ?footnotes|\[\d+\]|\.\. |:\w+:"
    r"|source code:|raises an auditing event|<!--|\[!\[|!\[)",
    re.IGNORECASE,
)
_SEE_ALSO = re.compile(r"\s*see also\b", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:note|warning|caution|tip|important|hint|cpython implementation detail)\s*:\s*", re.IGNORECASE)
_END = re.compile(r"[.!?…][\"”’)\]*_]*\s+")
_OPENS = re.compile(r"[\"“‘'(\[*_`]*[^\W_a-z]|[\"“‘(\[*_]*`")
_NEVER_LAST = frozenset(
    "e.g i.e cf vs mr mrs ms dr st prof sr jr fig sec no vol pp ed approx resp incl eg ie gen col capt".split()
)
_LEANS = re.compile(
    r"(?:this|these|that|those|it|its|they|their|he|she|such|but|and|or|so|yet|however|therefore|thus|hence|otherwise|then|also"
    r"|moreover|furthermore|instead|likewise|similarly|consequently|accordingly|conversely|both|neither|if not|if so|in particular"
    r"|in (?:this|that|these|those|the (?:former|latter|first|second)) cases?|for example|for instance|in other words|as a (?:result|consequence)|the (?:former|latter)"
    r"|(?:the|this|these) (?:above|following|last|first|second|next|other)|there is a single|you can then|another|any other|one of these)\b",
    re.IGNORECASE,
)
_SPAN = re.compile(r"`[^`]*`")
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])"), r"\1"),
    (re.compile(r"</?[a-zA-Z][^<>]{0,200}>"), ""),
    (re.compile(r"(?<!\w)\*\*(?=\S)(.+?)(?<=\S)\*\*(?!\w)"), r"\1"),
    (re.compile(r"(?<![\w*])\*([^*\s][^*]*?)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<![\w_])_([^_\s][^_]*?)_(?!\w)"), r"\1"),
    (re.compile(r"\s*\[\d+\](?=[\s.,;:)]|$)"), ""),
    # References to other places, in brackets or at the end of a sentence.
    (re.compile(r"\s*\((?:see|cf\.?)\b[^()]*\)|[;,]\s+see (?:also )?(?:(?:PEP|[Ss]ection|the)\b|[A-Z])[^.;()]*(?=\.)"), ""),
)


@dataclass(frozen=True)
class Sentence:
    """A sentence, its place on the page, and the entry it explains when it opens the description of one."""

    text: str
    position: int
    about: str = ""

    @property
    def shown(self) -> str:
        """The sentence as a reader needs it, with the name of what it is about."""
        if not self.about:
            return self.text
        name = f"`{self.about}`" if re.search(r"[._()*]", self.about) and " " not in self.about else self.about
        return f"{name}: {self.text}"


def sentences(page_text: str) -> list[Sentence]:
    """The sentences of a page that a reader could meet without their neighbours."""
    found: list[Sentence] = []
    entry = heading = ""
    aside: int | None = None
    for block in cut(page_text):
        indent = len(block.text) - len(block.text.lstrip(" "))
        if aside is not None and (block.kind != "text" or indent <= aside):
            aside = None
        # What is indented under "See also:" points elsewhere, like its heading.
        if aside is not None:
            continue
        if block.kind == "text" and _SEE_ALSO.match(block.text):
            aside = indent
            continue
        if block.kind == "entry":
            entry = _entry_name(block.text)
        if block.kind == "heading":
            entry, heading = "", block.text
        if block.kind != "text":
            continue
        for item in _items(block.text):
            term, paragraph = _definition(item)
            entry = term or entry
            if not is_prose(paragraph):
                continue
            for text in map(_opened, split_sentences(_clean(paragraph))):
                if _stands_alone(text):
                    about = entry or (heading if leans(text) else "")
                    found.append(Sentence(text, len(found), about))
                entry = heading = ""
    return found


def is_prose(paragraph: str) -> bool:
    """Whether a paragraph is running text rather than code, a table, grammar or a note about versions."""
    lines = [line for line in paragraph.split("\n") if line.strip()]
    if not lines or _NOTES.match(_LABEL.sub("", lines[0].strip().lstrip("*"))):
        return False
    if sum(1 for line in lines if _CODE_LINE.search(line)) * 3 >= len(lines):
        return False
    tokens = paragraph.split()
    plain = sum(1 for token in tokens if _WORD.match(token))
    return len(tokens) >= 5 and plain >= 0.55 * len(tokens)


def leans(text: str) -> bool:
    """Whether a sentence opens by pointing at the one before it, as "This ..." and "However, ..." do."""
    return bool(_LEANS.match(text))


def split_sentences(text: str) -> list[str]:
    """Cuts running text at sentence ends; a dot in `e.g.`, in an initial or in a code span is none."""
    # A code span is masked with letters of the same length, so that positions in both texts agree.
    masked = _SPAN.sub(lambda match: "`" + "x" * (len(match.group()) - 2) + "`", text)
    parts: list[str] = []
    start = 0
    for end in _END.finditer(masked):
        before = masked[start : end.start()].rsplit(None, 1)[-1].lstrip("(\"“'[") if masked[start : end.start()].strip() else ""
        initial = len(before) == 1 and before.isupper() and masked[end.start()] == "." and before != "I"
        if before.lower() in _NEVER_LAST or initial or not _OPENS.match(masked, end.end()):
            continue
        parts.append(text[start : end.end()].strip())
        start = end.end()
    return [part for part in [*parts, text[start:].strip()] if part]


def _items(block: str) -> Iterator[str]:
    """The paragraphs of a block: each list item is one."""
    item: list[str] = []
    for line in block.split("\n"):
        if _ITEM.match(line) and item:
            yield "\n".join(item)
            item = []
        item.append(_ITEM.sub("", line))
    yield "\n".join(item)


def _definition(item: str) -> tuple[str, str]:
    """(term, description) of a definition list's item; no term when the item is a plain paragraph."""
    first, _, rest = item.partition("\n")
    indent = len(first) - len(first.lstrip(" "))
    hanging = bool(rest) and all(len(line) - len(line.lstrip(" ")) > indent for line in rest.split("\n"))
    if hanging and len(first.split()) <= 6 and not re.search(r"[.,:;!?]$", first.rstrip()):
        return first.strip().replace("*", "").strip("` :-"), rest
    return "", item


def _clean(paragraph: str) -> str:
    """Joins the lines and takes off Markdown and reStructuredText markup; what stands in a code span is left alone."""
    # A line that ends in a hyphen was wrapped inside a compound word.
    text = re.sub(r"(?<=[a-z])-\n\s*(?=[a-z])", "-", paragraph)
    text = " ".join(text.split())
    text = re.sub(r":[\w:]+:`~?([^`<]+?)(?:\s*<[^>]*>)?`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    spans = _SPAN.findall(text)
    # A code span stands as one private character while markup is taken off, for markup may also surround it.
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, _SPAN.sub("\ue000", text))
    text = re.sub("\ue000", lambda _: spans.pop(0), text)
    return _LABEL.sub("", text).strip()


def _opened(sentence: str) -> str:
    """A sentence without the throat-clearing before its first word."""
    match = re.match(
        r"(?:note(?:,? however,?| also)? that|in plain English:|however,|moreover,|furthermore,|also,)\s+(?=\S)",
        sentence,
        re.IGNORECASE,
    )
    rest = sentence[match.end() :] if match else sentence
    return rest[:1].upper() + rest[1:] if match else sentence


def _stands_alone(text: str) -> bool:
    """A finished sentence of a readable length that does not merely point somewhere else."""
    words = text.split()
    if not 6 <= len(words) <= 48 or not re.search(r"[.!?…][\"”’)]*$", text):
        return False
    # Words in brackets are an aside to the sentence before, an ellipsis goes on with it, and a PEP's number opens a reference.
    if text.startswith(("(", "…", "...")) or re.match(r"PEP \d+ - ", text):
        return False
    # A leading lower-case letter is the tail of something; an unpaired bracket or span was cut in two.
    if text[0].islower() or text.count("`") % 2 or text.count("(") != text.count(")") or text.count("“") != text.count("”"):
        return False
    if re.match(r"\(?(?:see|refer to|for (?:more|full|further) (?:details|information))\b", text, re.IGNORECASE):
        return False
    return sum(1 for word in words if _WORD.match(word)) >= 0.5 * len(words)


def _entry_name(line: str) -> str:
    """`str.find` from `str.find(sub[, start[, end]])`."""
    name = re.sub(r"^(?:(?:class|exception|classmethod|async|static)\s+)*", "", line.strip())
    return re.split(r"[(\s=]", name, maxsplit=1)[0]
