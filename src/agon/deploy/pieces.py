"""What a pair answers, whole and piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agon.formatting import html_lines, html_table
from agon.game.parse import parse, same_answer
from agon.types import Completion, Seat

SHOWN = 500
"""Characters at either end of a completion that a notebook's table shows."""
Stage = Literal["draft", "peek", "challenge"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that was just written, or, of a peek, what the second policy reads; `seat` wrote it or reads it."""

    stage: Stage
    seat: Seat
    text: str


Watch = Callable[[Piece], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with both stages behind it. `peek` and `challenge` are None where one pass answers."""

    draft: Completion
    peek: str | None = None
    challenge: Completion | None = None

    @property
    def final(self) -> Completion:
        """The completion that answers."""
        return self.challenge or self.draft

    @property
    def text(self) -> str | None:
        """The answer alone: the last answer block after the reasoning, else the last box; None if there is neither."""
        return parse(self.final).answer

    @property
    def agreed(self) -> bool | None:
        """Whether the draft gives the same answer: such answers are right more often. None where one pass answers."""
        return None if self.challenge is None else same_answer(self.draft, self.challenge)

    @property
    def generated_tokens(self) -> int:
        """Tokens written in both stages."""
        return self.draft.generated_tokens + (self.challenge.generated_tokens if self.challenge else 0)

    def __str__(self) -> str:
        return self.text or ""

    def _repr_html_(self) -> str:
        def row(stage: Stage, written: Completion) -> tuple[str, ...]:
            return stage, written.version, str(written.generated_tokens), _short(written.text)

        rows = [row("draft", self.draft)]
        if self.challenge is not None:
            rows += [("peek", "", "", _short(self.peek or "")), row("challenge", self.challenge)]
        answer = "no answer" if self.text is None else f"<b>{html_lines(self.text)}</b>"
        return f"<p>{answer}</p>{html_table(('', 'by', 'tokens', 'text'), rows)}"


def _short(text: str) -> str:
    """The beginning and the end of a long text, for a table."""
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}\n...\n{text[-SHOWN:]}"


class Growing:
    """Cuts text that grows into pieces: each call passes on what is new.

    An engine calls it while it draws for others too: an error of the watcher is kept in `failed`, and `stop` is called.
    """

    def __init__(self, stage: Stage, seat: Seat, watch: Watch, stop: Callable[[], object] = lambda: None) -> None:
        self._stage, self._seat, self._watch, self._stop, self._shown = stage, seat, watch, stop, ""
        self.failed: Exception | None = None

    def __call__(self, text: str) -> None:
        """Pass on what follows the text shown so far. A draw that begins again is shown once it is past that."""
        if self.failed is None and text.startswith(self._shown) and len(text) > len(self._shown):
            try:
                self._watch(Piece(self._stage, self._seat, text[len(self._shown) :]))
            except Exception as error:
                self.failed = error
                self._stop()
            self._shown = text
