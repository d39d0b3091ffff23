"""What challenges made of the drafts they met: kept, converted, echoed, empty peeks and leaks, counted in one place.

Training, evaluation points, evaluations and reports all count through here. The draft is a_i, the one that was read or
would have been, also in arms that pay against a different draft. Bouts without both verdicts have no outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agon.game.parse import parse, same_answer
from agon.game.peek import bare_program, leaks
from agon.types import Bout

Outcome = Literal["kept", "converted", "regressed", "lost"]
_OUTCOMES: dict[tuple[bool, bool], Outcome] = {
    (True, True): "kept",
    (False, True): "converted",
    (True, False): "regressed",
    (False, False): "lost",
}
"""By whether the draft is right, and whether the challenge is."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Counts over bouts with a challenge."""

    draft_right: int = 0
    """Challenges of right drafts, both graded."""
    draft_wrong: int = 0
    """Challenges of wrong drafts, both graded."""
    conversions: int = 0
    """Wrong drafts whose challenge is right."""
    regressions: int = 0
    """Right drafts whose challenge is wrong."""
    shown: int = 0
    """Challenges that read a draft."""
    empty_peeks: int = 0
    """Challenges whose draft had no summary."""
    leaks: int = 0
    """Peeks that still state the answer in prose."""
    echoes: int = 0
    """Wrong drafts whose challenge gives the same wrong answer."""

    @property
    def kept(self) -> float | None:
        """P(right | right draft)."""
        return 1 - self.regressions / self.draft_right if self.draft_right else None

    @property
    def converted(self) -> float | None:
        """P(right | wrong draft)."""
        return self.conversions / self.draft_wrong if self.draft_wrong else None

    @property
    def echoed(self) -> float | None:
        """P(the same wrong answer | wrong draft)."""
        return self.echoes / self.draft_wrong if self.draft_wrong else None


def outcome_of(draft_correct: bool, challenge_correct: bool) -> Outcome:
    """How a challenge came out, given both verdicts."""
    return _OUTCOMES[draft_correct, challenge_correct]


def outcome(bout: Bout) -> Outcome | None:
    """How a bout came out; None without a challenge or without both verdicts."""
    if bout.challenge is None or not (bout.draft.verdict.graded and bout.challenge.verdict.graded):
        return None
    return outcome_of(bout.draft.verdict.correct, bout.challenge.verdict.correct)


def echoed(bout: Bout) -> bool:
    """Whether a challenge repeats the draft's wrong answer, letter by letter but for spaces. No answer is no echo."""
    if bout.challenge is None or outcome(bout) != "lost":
        return False
    return same_answer(bout.draft.completion, bout.challenge.completion)


def leaked(bout: Bout) -> bool:
    """Whether what was read still states the gold, or the draft's own answer."""
    withheld = [bare_program(answer) for answer in (bout.problem.answer, *parse(bout.draft.completion).answers)]
    return any(leaks(text, answer) for text in (bout.peek, bout.other_peek) if text for answer in withheld)


def exchange(bouts: Iterable[Bout]) -> Exchange:
    """Count what challenges made of drafts; a bout without a challenge counts nowhere."""
    bouts = list(bouts)
    outcomes = [outcome(bout) for bout in bouts]
    shown = [bout for bout in bouts if bout.peek is not None]
    return Exchange(
        draft_right=outcomes.count("kept") + outcomes.count("regressed"),
        draft_wrong=outcomes.count("converted") + outcomes.count("lost"),
        conversions=outcomes.count("converted"),
        regressions=outcomes.count("regressed"),
        shown=len(shown),
        empty_peeks=sum(not bout.peek for bout in shown),
        leaks=sum(map(leaked, shown)),
        echoes=sum(map(echoed, bouts)),
    )
