"""Chat messages as plain data, and the shapes that model providers take. Needs nothing installed."""

from __future__ import annotations

from perdure.messages.anthropic import AnthropicInput, to_anthropic
from perdure.messages.calls import ToolCall
from perdure.messages.chunk import MessageChunk
from perdure.messages.message import REMOVE_ALL_MESSAGES, Message, RemoveMessage
from perdure.messages.openai import to_openai
from perdure.messages.reading import to_message, tool_calls_of

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AnthropicInput",
    "Message",
    "MessageChunk",
    "RemoveMessage",
    "ToolCall",
    "to_anthropic",
    "to_message",
    "to_openai",
    "tool_calls_of",
]
