"""A taskset of verifiers with a tool, for evidence/duel.py, and how the tiny base calls it; verifiers imports it.

The tool notes a number and says so. The tiny base was taught neither tools nor the order of these prompts, and solves
nothing here; so that there are right and wrong rows, an even number is paid: the first that was noted. It knows no
syntax for calls: its first answer block is the call. As a program this file is the tool's server; verifiers starts it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import verifiers.v1 as vf
from renderers.base import ParsedToolCall, RenderedTokens
from renderers.configs import DefaultRendererConfig
from renderers.default import DefaultRenderer

__all__ = ["Problems"]

NUMBER = re.compile(r"-?\d+")
ANSWER = re.compile(r"<answer>\s*(-?\d+)\s*</answer>")


class Book(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "book"

    @vf.tool
    async def note(self, value: str) -> str:
        """Write a number down."""
        return f"Noted {value}."


class Task(vf.Task[vf.TaskData]):
    @vf.reward
    async def even(self, trace: vf.Trace) -> float:
        noted = [NUMBER.search(str(message.content)) for message in trace.tool_messages]
        return float(bool(noted) and noted[0] is not None and int(noted[0].group()) % 2 == 0)

    @vf.reward(weight=0.1)
    async def noted(self, trace: vf.Trace) -> float:
        return float(trace.num_turns > 1)


class Config(vf.TasksetConfig):
    path: str = ""
    """A file with a prompt per line."""
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class Problems(vf.Taskset[Task, Config]):
    def load(self):
        for n, line in enumerate(Path(self.config.path).read_text().splitlines()):
            yield Task(vf.TaskData(idx=n, **json.loads(line)), self.config.task)

    @classmethod
    def toolsets(cls, config: Config):
        return [Book(config.tools)]


class TinyRenderer(DefaultRenderer):
    """The template of the tiny base; turns are continued token by token, so that no history is rendered again."""

    config_class = DefaultRendererConfig
    supports_tools = True

    def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
        parsed = super().parse_response(token_ids, prompt_ids=prompt_ids)
        start = self._tokenizer.convert_tokens_to_ids("<|im_start|>")
        found = ANSWER.search(parsed.content or "")
        if not found or not tools or list(prompt_ids or ()).count(start) > 2:
            return parsed
        call = ParsedToolCall(found.group(), name="book_note", arguments={"value": found.group(1)})
        return replace(parsed, content="", tool_calls=[call])

    def bridge_to_next_turn(self, previous_prompt_ids, previous_completion_ids, new_messages, *, tools=None):
        if self._tokenizer.eos_token_id not in previous_completion_ids:
            return None
        parts = [("\n", -1)]
        parts += [(f"<|im_start|>user\n{message['content']}<|im_end|>\n", n) for n, message in enumerate(new_messages)]
        before = [*previous_prompt_ids, *previous_completion_ids]
        ids, owners = list(before), [-1] * len(before)
        for text, owner in [*parts, ("<|im_start|>assistant\n", -1)]:
            added = self._tokenizer.encode(text, add_special_tokens=False)
            ids, owners = ids + added, owners + [owner] * len(added)
        roles = [message["role"] for message in new_messages]
        return RenderedTokens(token_ids=ids, message_indices=owners, message_roles=roles)


if __name__ == "__main__":
    Book.run()
