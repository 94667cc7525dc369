"""Content blocks of OpenAI, Anthropic and LangChain, read into one form that says what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Block = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    """Words. `refusal`: a model says them in place of an answer."""

    text: str
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class Media:
    """A picture, a sound or a document: by address, by its bytes in base64, by the id of an uploaded file, or as plain text."""

    kind: Literal["image", "audio", "file"]
    url: str | None = None
    data: str | None = None
    mime: str | None = None
    file_id: str | None = None
    text: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call among the content."""

    id: Any
    name: str
    args: Any


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's answer among the content."""

    call_id: str
    content: Any
    error: bool = False


@dataclass(frozen=True, slots=True)
class Thought:
    """What a model thought; only its provider can take it back, and only signed."""

    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class Other:
    """A block that only its own provider knows."""

    kind: str


Part = Text | Media | Call | Result | Thought | Other


def part_of(block: Block | str) -> Part:
    """What a content block means."""
    if isinstance(block, str):
        return Text(block)
    kind = str(block.get("type"))
    reader = _READERS.get(kind)
    part = None if reader is None else reader(block)
    return Other(kind) if part is None else part


def parts_of(content: Any) -> list[tuple[Part, Block]]:
    """The parts of a content, each with the block as it was (a text as a text block)."""
    if content is None:
        return []
    blocks = [content] if isinstance(content, str) else content
    return [(part_of(block), {"type": "text", "text": block} if isinstance(block, str) else block) for block in blocks]


def _text(block: Block) -> Part:
    return Text(str(block.get("text") or ""))


def _of_data_url(kind: Literal["image", "audio", "file"], url: str, name: str | None = None) -> Media:
    """A medium whose address may hold its bytes: `data:<mime>;base64,<bytes>`."""
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma and head.endswith(";base64"):
        return Media(kind, data=data, mime=head[len("data:") : -len(";base64")], name=name)
    return Media(kind, url=url, name=name)


def _image_url(block: Block) -> Part | None:
    given = block.get("image_url")
    url = given.get("url") if isinstance(given, Mapping) else given
    if isinstance(url, str):
        return _of_data_url("image", url)
    return Media("image", file_id=block["file_id"]) if block.get("file_id") else None


def _input_audio(block: Block) -> Part:
    given = block["input_audio"]
    return Media("audio", data=given["data"], mime=f"audio/{given['format']}")


def _file(block: Block) -> Part | None:
    """OpenAI's file, bare as the Responses API has it or wrapped as chat completions have it, or LangChain's."""
    given = block.get("file", block)
    name = given.get("filename")
    if given.get("file_data"):
        return _of_data_url("file", given["file_data"], name)
    if given.get("file_url"):
        return Media("file", url=given["file_url"], name=name)
    return Media("file", file_id=given["file_id"], name=name) if given.get("file_id") else _standard("file")(block)


def _standard(kind: Literal["image", "audio", "file"]) -> Callable[[Block], Part | None]:
    """LangChain's blocks of both of its generations, or a block of Anthropic's with a source."""

    def reader(block: Block) -> Part | None:
        source = block.get("source")
        if isinstance(source, Mapping):
            return _of_source(kind, source, block.get("title"))
        if block.get("source_type") == "text":
            return Media(kind, text=block.get("text"), mime=block.get("mime_type"))
        name = block.get("filename") or (block.get("metadata") or {}).get("filename")
        data = block.get("base64") or block.get("data")
        if data:
            return Media(kind, data=data, mime=block.get("mime_type"), name=name)
        if block.get("url"):
            return _of_data_url(kind, block["url"], name)
        file_id = block.get("file_id") or (block.get("id") if block.get("source_type") == "id" else None)
        return Media(kind, file_id=file_id, name=name) if file_id else None

    return reader


def _of_source(kind: Literal["image", "audio", "file"], source: Block, name: str | None) -> Part | None:
    match source.get("type"):
        case "base64":
            return Media(kind, data=source.get("data"), mime=source.get("media_type"), name=name)
        case "url":
            return Media(kind, url=source.get("url"), name=name)
        case "file":
            return Media(kind, file_id=source.get("file_id"), name=name)
        case "text":
            return Media(kind, text=source.get("data"), mime=source.get("media_type"), name=name)
        case _:
            return None


def _plain_text(block: Block) -> Part:
    return Media("file", text=str(block.get("text") or ""), mime="text/plain", name=block.get("title"))


def _tool_result(block: Block) -> Part:
    return Result(block["tool_use_id"], block.get("content") or "", bool(block.get("is_error")))


def _reasoning(block: Block) -> Part:
    extras = block.get("extras") or {}
    text = block.get("thinking") or block.get("reasoning") or ""
    return Thought(str(text), block.get("signature") or extras.get("signature"))


_READERS: Final[Mapping[str, Callable[[Block], Part | None]]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "text-plain": _plain_text,
    "refusal": lambda block: Text(block["refusal"], refusal=True),
    "image_url": _image_url,
    "input_image": _image_url,
    "image": _standard("image"),
    "input_audio": _input_audio,
    "audio": _standard("audio"),
    "file": _file,
    "input_file": _file,
    "document": _standard("file"),
    "tool_use": lambda block: Call(block.get("id"), block["name"], block.get("input")),
    "tool_call": lambda block: Call(block.get("id"), block["name"], block.get("args")),
    "tool_result": _tool_result,
    "thinking": _reasoning,
    "redacted_thinking": _reasoning,
    "reasoning": _reasoning,
}
