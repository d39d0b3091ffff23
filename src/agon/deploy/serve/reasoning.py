"""What a client sees of a completion as it grows: reasoning and recap, without markers and without answer blocks.

What may become a marker or a tag is held back. Which block is the answer is known at the end only (`game.parse` takes
the last one after the last close marker): it is sent then, as the content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from agon.types import THINK_CLOSE, THINK_OPEN

ANSWER_OPEN, ANSWER_CLOSE = "<answer>", "</answer>"
_TAG = re.compile(f"{ANSWER_OPEN}|{ANSWER_CLOSE}")


class ReasoningText:
    """Takes text in pieces of any size; what it returns adds up to the same, however the text was cut."""

    def __init__(
        self, opened: bool, markers: tuple[str, str] = (THINK_OPEN, THINK_CLOSE), *, answers: bool = False
    ) -> None:
        """`opened`: the prompt has opened the reasoning; `answers`: answer blocks are shown too, as in a draft."""
        self._open, self._close = markers
        self._answers, self._held = answers, ""
        self._block, self._depth = "", 0
        """The answer block that is being written, and how many blocks are open."""
        self._at: Literal["start", "opened", "reasoning", "recap"] = "reasoning" if opened else "start"

    @property
    def in_answer(self) -> bool:
        return self._depth > 0

    def add(self, text: str) -> str:
        """What can be shown now that this text has arrived."""
        self._held += text
        return "".join(self._cut(final=False))

    def end(self) -> str:
        """What was held back, once nothing more comes; a block that was never closed is no answer, and is shown."""
        return "".join(self._cut(final=True)) + self._block

    def _cut(self, *, final: bool) -> Iterator[str]:
        if self._at == "start":
            self._begin(final)
        if self._at == "opened" and (self._held or final):
            # families with markers of their own put a newline after theirs
            self._held = self._held if self._open == THINK_OPEN else self._held.removeprefix("\n")
            self._at = "reasoning"
        if self._at == "reasoning":
            head, mark, tail = self._held.partition(self._close)
            if not mark:
                yield self._release(final, self._close)
                return
            self._held, self._at = tail, "recap"
            yield head + "\n"
        if self._at == "recap":
            yield from self._recap(final)

    def _begin(self, final: bool) -> None:
        """Decide whether the completion begins with reasoning."""
        body = self._held.lstrip()
        if body.startswith(self._open):
            self._held, self._at = body[len(self._open) :], "opened"
        elif final or not self._open.startswith(body):
            self._at = "recap"

    def _recap(self, final: bool) -> Iterator[str]:
        """Text outside answer blocks, which may be nested."""
        while not self._answers and (tag := _TAG.search(self._held)):
            before, self._held = self._held[: tag.start()], self._held[tag.end() :]
            opens = tag.group() == ANSWER_OPEN
            if not self._depth:
                yield before if opens else before + tag.group()
                self._block, self._depth = (ANSWER_OPEN, 1) if opens else ("", 0)
                continue
            self._block += before + tag.group()
            self._depth += 1 if opens else -1
            if not self._depth:
                self._block = ""
        rest = self._release(final, *(() if self._answers else (ANSWER_OPEN, ANSWER_CLOSE)))
        if self._depth:
            self._block += rest
        else:
            yield rest

    def _release(self, final: bool, *marks: str) -> str:
        """The held text without an end that may be the beginning of a mark."""
        keep = 0 if final else max((_overlap(self._held, mark) for mark in marks), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of `text` begin `mark`, without completing it."""
    longest = min(len(text), len(mark) - 1)
    return next((size for size in range(longest, 0, -1) if mark.startswith(text[-size:])), 0)
