"""Logged texts to read: strings, chat messages, and anything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Turns = list[list[str]]
"""The messages of a rollout of several turns: [role, text] each."""


def turns(value: object) -> str | Turns:
    """A completion as its turns, where it has several; else as plain text."""
    if _is_chat(value) and isinstance(value, list) and len(value) > 1:
        return [[str(message.get("role") or ""), _message(message, named=False)] for message in value]
    return plain_text(value)


def plain_text(value: object) -> str:
    """A logged text: chat messages one after the other, anything else that is not a text as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if _is_chat(value) and isinstance(value, list):
        alone = len(value) == 1
        return "\n\n".join(_message(message, named=not alone) for message in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_chat(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, dict) and ("content" in part or "tool_calls" in part) for part in value)
    )


def _message(message: Mapping[str, Any], named: bool) -> str:
    """One message, under its role if it is named; with its reasoning and its calls of tools."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, list):  # parts, some of which may be images
        texts = [part.get("text") or f"[{part.get('type')}]" for part in content if isinstance(part, dict)]
        content = "\n".join(map(str, texts))
    parts = [f"[{message.get('role')}]"] if named else []
    if thought := message.get("reasoning_content"):
        parts.append(f"<think>\n{plain_text(thought)}\n</think>")
    parts += [plain_text(content)] if content else []
    return "\n".join([*parts, *([plain_text(calls)] if calls else [])])
