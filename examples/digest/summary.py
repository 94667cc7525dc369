"""Extractive summaries and key terms: pure functions of the text, no model, no network, no randomness.

Sentences are ranked by LexRank (Erkan and Radev 2004, "LexRank: Graph-based Lexical Centrality as Salience in Text
Summarization", eq. 2 and the continuous variant of section 3.3): a sentence matters when sentences that matter resemble it.
The jump of the random walk favours early and self-contained sentences and those that take up the heading (Otterbacher, Erkan and
Radev 2005, "Using Random Walks for Question-focused Sentence Retrieval").
What is picked next is what adds most, by Maximal Marginal Relevance (Carbonell and Goldstein 1998).
Key terms are candidate phrases between stop words (RAKE; Rose, Engel, Cramer and Cowley 2010), weighed by tf-idf over the pages
(Sparck Jones 1972).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from digest.prose import Sentence, leans
from digest.words import PALE_WORDS, STOP_WORDS, stem, words

__all__ = ["Corpus", "key_terms", "lead", "rank", "summarise"]

DAMPING = 0.85
ROUNDS = 40
FEWEST_TERMS = 3
NOVELTY = 0.65
SAME = 0.85
_BREAK = re.compile(r"[.,;:!?()\[\]{}\"“”«»—–…]+(?:\s+|$)|\s[(\[{\"“«—–-]+|^[(\"“«]")
_POINTS_AWAY = re.compile(
    r"\b(?:as follows|the following [\w ]{0,20}(?:examples?|tables?|code|sections?|figures?|definitions?|rules?|list)|(?:described|see|listed|shown|given) (?:below|above|later)|below"
    r"|above|next section|previous section|this (?:section|chapter|manual|page|document))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Corpus:
    """How many pages there are, and on how many of them each term occurs."""

    pages: int
    frequency: Mapping[str, int]

    @classmethod
    def of(cls, pages: Iterable[Sequence[Sentence]]) -> Corpus:
        """Counts the terms of a whole document."""
        frequency: Counter[str] = Counter()
        count = 0
        for page in pages:
            count += 1
            frequency.update({term for sentence in page for term, _ in _candidates(sentence.text)})
        return cls(count, frequency)

    def idf(self, term: str) -> float:
        """The smoothed inverse document frequency; a term on every page still weighs a little."""
        return math.log((1 + self.pages) / (1 + self.frequency.get(term, 0))) + 0.1


def summarise(
    sentences: Sequence[Sentence], corpus: Corpus, *, topic: str = "", most: int = 3, room: int = 420
) -> list[Sentence]:
    """The sentences that say most about a text together, in its order: at most `most`, of about `room` characters in all."""
    scores = rank([sentence.shown for sentence in sentences], corpus, topic)
    vectors = [_vector(sentence.shown, corpus) for sentence in sentences]
    top = max(scores, default=1.0)
    left = list(range(len(sentences)))
    chosen: list[int] = []

    def gain(at: int) -> float:
        repeats = max((_cosine(vectors[at], vectors[other]) for other in chosen), default=0.0)
        return NOVELTY * scores[at] / top - (1 - NOVELTY) * repeats

    while left and len(chosen) < most:
        # Ties go to the earlier sentence, so that the same page always gives the same summary.
        best = max(left, key=lambda at: (gain(at), -at))
        left.remove(best)
        same = any(_cosine(vectors[best], vectors[other]) > SAME for other in chosen)
        if same or (chosen and len(sentences[best].shown) > room):
            continue
        chosen.append(best)
        room -= len(sentences[best].shown)
    return [sentences[at] for at in sorted(chosen)]


def lead(sentences: Sequence[Sentence], corpus: Corpus, *, topic: str = "") -> Sentence | None:
    """The one sentence that opens a long text best: the highest ranked of its first quarter that needs no neighbour."""
    scores = rank([sentence.shown for sentence in sentences], corpus, topic)
    early = range(min(len(sentences), max(9, len(sentences) // 4)))
    alone = [at for at in early if _general(sentences[at].text)]
    best = max(alone or early, key=lambda at: (scores[at], -at), default=None)
    return None if best is None else sentences[best]


def rank(texts: Sequence[str], corpus: Corpus, topic: str = "") -> list[float]:
    """The LexRank of every sentence, biased towards the topic, which is usually a heading; they add up to 1."""
    count = len(texts)
    if count == 0:
        return []
    vectors = [_vector(text, corpus) for text in texts]
    about = _vector(topic, corpus)
    worth = [_worth(text) * (1 + 1.5 * _cosine(vector, about)) for text, vector in zip(texts, vectors, strict=True)]
    jump = _normal([own / (1 + 1.5 * at / count) for at, own in enumerate(worth)])
    similar = [[_cosine(one, other) if one is not other else 0.0 for other in vectors] for one in vectors]
    rows = [_normal(row) if any(row) else jump for row in similar]
    scores = jump
    for _ in range(ROUNDS):
        flow = [0.0] * count
        for score, row in zip(scores, rows, strict=True):
            for at, share in enumerate(row):
                flow[at] += score * share
        scores = [(1 - DAMPING) * start + DAMPING * inflow for start, inflow in zip(jump, flow, strict=True)]
    # The walk alone would let a central but dangling sentence win; its worth decides once more at the end.
    return _normal([score * own for score, own in zip(scores, worth, strict=True)])


def key_terms(sentences: Sequence[Sentence], corpus: Corpus, *, most: int = 5) -> list[str]:
    """The terms that tell this text from the rest of its document, best first, as the text spells them."""
    count: Counter[str] = Counter()
    spelled: dict[str, Counter[str]] = {}
    for sentence in sentences:
        for term, surface in _candidates(sentence.shown):
            count[term] += 1
            spelled.setdefault(term, Counter())[surface] += 1

    def score(term: str) -> float:
        size = term.count(" ") + 1
        weight = (1 + math.log(count[term])) * corpus.idf(term)
        if count[term] == 1:
            # Met once, a phrase is chance, and a word that no other page uses is an accident of the writing.
            return weight * (0.4 if size > 1 else 1.0) * (0.4 if corpus.frequency.get(term, 0) < 2 else 1.0)
        return weight * (1.3 + 0.4 * (size - 1))

    chosen: list[str] = []
    for term in sorted(count, key=lambda term: (-score(term), term)):
        if len(chosen) >= FEWEST_TERMS and count[term] == 1:
            break
        parts = set(term.split())
        if any(parts & set(other.split()) for other in chosen):
            continue
        chosen.append(term)
        if len(chosen) == most:
            break
    return [max(spelled[term].items(), key=lambda pair: (pair[1], pair[0]))[0] for term in chosen]


def _general(text: str) -> bool:
    """Whether a sentence needs neither its neighbours nor an entry's name in front of it."""
    return not leans(text) and not _POINTS_AWAY.search(text) and not re.match(r"`[^`]+`: |[\w ]{1,40}: ", text)


def _worth(text: str) -> float:
    """A prior: how well a sentence reads alone. Dangling openings, very short and very long sentences lose."""
    size = len(text.split())
    length = 0.6 if size < 9 else 1.0 if size <= 30 else 0.75 if size <= 38 else 0.5
    return length * (0.35 if leans(text) else 1.0) * (0.3 if _POINTS_AWAY.search(text) else 1.0)


def _vector(text: str, corpus: Corpus) -> dict[str, float]:
    terms = Counter(stem(word) for word in words(text) if word.lower() not in STOP_WORDS)
    return {term: count * corpus.idf(term) for term, count in terms.items()}


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    if len(other) < len(one):
        one, other = other, one
    dot = sum(weight * other[term] for term, weight in one.items() if term in other)
    if not dot:
        return 0.0
    return dot / math.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))


def _normal(row: Sequence[float]) -> list[float]:
    total = sum(row)
    return [value / total for value in row] if total else [1 / len(row)] * len(row)


def _candidates(text: str) -> Iterable[tuple[str, str]]:
    """(normal form, spelling) of the words and of the phrases of two or three words between stop words and punctuation."""
    for part in _BREAK.split(text):
        run: list[str] = []
        for word in [*words(part), ""]:
            name = "_" in word or "." in word
            if word and not name and word.lower() not in STOP_WORDS and len(word) > 1:
                run.append(word)
                continue
            yield from _phrases(run)
            run = []
            # An identifier is a term of its own; glued to its neighbours it makes no phrase anybody would say.
            if name and word.strip("._") and word.lower() not in STOP_WORDS:
                yield word.lower(), word


def _phrases(run: Sequence[str]) -> Iterable[tuple[str, str]]:
    for size in (1, 2, 3):
        for at in range(len(run) - size + 1):
            piece = run[at : at + size]
            normal = [stem(one) for one in piece]
            pale = normal[0] in PALE_WORDS or normal[-1] in PALE_WORDS
            if not pale and (size > 1 or len(piece[0]) > 2):
                yield " ".join(normal), re.sub(r"['’]s$", "", " ".join(piece))
