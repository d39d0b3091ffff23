"""What a pair answers, whole and piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agon.game.parse import parse
from agon.types import Completion, Seat

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
        """The answer alone; None if there is none."""
        return answer_text(self.final)

    @property
    def generated_tokens(self) -> int:
        """Tokens written in both stages."""
        return self.draft.generated_tokens + (self.challenge.generated_tokens if self.challenge else 0)

    def __str__(self) -> str:
        return self.text or ""


def answer_text(completion: Completion) -> str | None:
    """What a completion answers: the last answer block after the reasoning, else the last box, else None."""
    parsed = parse(completion)
    return next(iter([*parsed.answers[::-1], *parsed.boxed[::-1]]), None)


class Growing:
    """Cuts text that grows into pieces: each call passes on what is new."""

    def __init__(self, stage: Stage, seat: Seat, watch: Watch) -> None:
        self._stage, self._seat, self._watch, self._shown = stage, seat, watch, ""

    def __call__(self, text: str) -> None:
        """Pass on what follows the text shown so far. A draw that begins again is shown once it is past that."""
        if text.startswith(self._shown) and len(text) > len(self._shown):
            self._watch(Piece(self._stage, self._seat, text[len(self._shown) :]))
            self._shown = text
