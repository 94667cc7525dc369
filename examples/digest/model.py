"""Optional: a language model writes the abstracts of the chapters.

It is used only when asked for, since it spends money and sends the document to somebody else; then it needs a key in the
environment and the vendor's SDK. Whatever goes wrong becomes a note in the report, and the extractive summary stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

__all__ = ["Vendor", "abstracter", "available"]

MOST_CHARACTERS = 24_000
SECONDS = 30.0


class Vendor(NamedTuple):
    """Who can write abstracts here."""

    package: str
    key: str
    default_model: str


_VENDORS = (Vendor("anthropic", "ANTHROPIC_API_KEY", "claude-haiku-4-5"), Vendor("openai", "OPENAI_API_KEY", "gpt-4.1-mini"))


def available() -> Vendor | None:
    """The first vendor whose key is set and whose SDK is installed."""
    return next((vendor for vendor in _VENDORS if os.environ.get(vendor.key) and find_spec(vendor.package)), None)


def abstracter(vendor: Vendor) -> Callable[[str, Sequence[str]], str]:
    """A function that asks the vendor's model; `DIGEST_MODEL` names another model than the default."""
    model = os.environ.get("DIGEST_MODEL") or vendor.default_model
    ask = _ask_anthropic if vendor.package == "anthropic" else _ask_openai

    def write(title: str, sentences: Sequence[str]) -> str:
        text = ask(model, _prompt(title, sentences)).strip()
        if not text:
            raise ValueError("the model gave an empty answer")
        return text

    return write


def _prompt(title: str, sentences: Sequence[str]) -> str:
    body = "\n".join(f"- {sentence}" for sentence in sentences)[:MOST_CHARACTERS]
    return (
        f"These sentences were taken, in order, from the chapter “{title}” of a document. Write one paragraph of 60 to 90 words "
        "that tells a reader what the chapter says. Use nothing but these sentences; no heading, no list, no Markdown.\n\n"
        + body
    )


def _ask_anthropic(model: str, prompt: str) -> str:
    sdk: Any = import_module("anthropic")
    client = sdk.Anthropic(timeout=SECONDS, max_retries=1)
    answer = client.messages.create(model=model, max_tokens=400, messages=[{"role": "user", "content": prompt}])
    return "".join(part.text for part in answer.content if part.type == "text")


def _ask_openai(model: str, prompt: str) -> str:
    sdk: Any = import_module("openai")
    client = sdk.OpenAI(timeout=SECONDS, max_retries=1)
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}])
    return answer.choices[0].message.content or ""
