"""The text of a completion as it grows, cut into reasoning and content; what may become a marker is held back.

Reasoning ends at the first close marker, whole or streamed. (`game.parse`, which decides what a rival sees and what is
graded, takes the last one; a stream cannot know it.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from agon.types import THINK_CLOSE, THINK_OPEN

Kind = Literal["reasoning", "content"]


class TextPart(NamedTuple):
    """Text that a client may see."""

    kind: Kind
    text: str


class Splitter:
    """Takes text in pieces of any size; the parts it returns add up to the same."""

    def __init__(
        self, opened: bool, markers: tuple[str, str] = (THINK_OPEN, THINK_CLOSE), stops: tuple[str, ...] = ()
    ) -> None:
        """`opened`: the prompt has opened the reasoning; `stops`: strings that end the content."""
        self._open, self._close = markers
        self._stops, self._held = stops, ""
        self._at: Literal["start", "opened", "reasoning", "content"] = "reasoning" if opened else "start"
        self.stopped = False
        """Whether a stop string was met: nothing follows."""

    @property
    def in_content(self) -> bool:
        return self._at == "content"

    def add(self, text: str) -> list[TextPart]:
        """What can be shown now that this text has arrived."""
        self._held += text
        return [part for part in self._cut(final=False) if part.text]

    def end(self) -> list[TextPart]:
        """What was held back, once nothing more comes."""
        return [part for part in self._cut(final=True) if part.text]

    def _cut(self, *, final: bool) -> Iterator[TextPart]:
        if self._at == "start":
            self._begin(final)
        if self._at == "opened" and (self._held or final):
            # families with markers of their own put a newline after theirs
            self._held = self._held if self._open == THINK_OPEN else self._held.removeprefix("\n")
            self._at = "reasoning"
        if self._at == "reasoning":
            head, mark, tail = self._held.partition(self._close)
            if not mark:
                yield TextPart("reasoning", self._release(final, self._close))
                return
            self._held, self._at = tail, "content"
            yield TextPart("reasoning", head)
        if self._at == "content":
            yield TextPart("content", self._content(final))

    def _begin(self, final: bool) -> None:
        """Decide whether the completion begins with reasoning."""
        body = self._held.lstrip()
        if body.startswith(self._open):
            self._held, self._at = body[len(self._open) :], "opened"
        elif final or not self._open.startswith(body):
            self._at = "content"

    def _content(self, final: bool) -> str:
        """Content up to the stop string that ends first."""
        if self.stopped:
            self._held = ""
        places = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if not places:
            return self._release(final, *self._stops)
        text, self._held, self.stopped = self._held[: min(places)[1]], "", True
        return text

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
