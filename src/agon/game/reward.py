"""The reward stacks of section 4.4. Ladder of the adv stack, before the format term:

    wrong                     0
    right, rival also right   2
    right, rival wrong        3      2 + conversion bonus

Equation numbers are the paper's: 2 is coop, 3 is adv. The margin stack is R = 2c(b) + (c(b) - c(a)). A run may pay
further functions of a completion (`reward.terms`); they know no rival, so that they are added to every stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agon.types import Reward, Verdict

Stack = Callable[[Verdict, Verdict, float], Reward]


def correctness(mine: Verdict) -> float:
    """2 c(y)."""
    return 2.0 * mine.correct


def conversion(mine: Verdict, rival: Verdict) -> float:
    """1 exactly when I solve what the rival could not (Eq. 3)."""
    return float(mine.correct and not rival.correct)


def tiebreak(mine: Verdict, rival: Verdict, my_tokens: int, rival_tokens: int) -> float:
    """1 when both are right and I am strictly shorter (section 4.4, the density lever)."""
    return float(mine.correct and rival.correct and my_tokens < rival_tokens)


def solo(mine: Verdict, format_weight: float) -> Reward:
    """R(a_i): correctness and format, no opponent term (Eq. 2 as it applies to the drafter)."""
    return Reward(correctness(mine), format_weight * mine.well_formed, extra=mine.extra)


def coop(mine: Verdict, rival: Verdict, format_weight: float) -> Reward:
    """The rival appears in the context only (Eq. 2)."""
    return solo(mine, format_weight)


def adv(mine: Verdict, rival: Verdict, format_weight: float) -> Reward:
    """Correctness, plus the conversion bonus, plus format (Eq. 3)."""
    return replace(solo(mine, format_weight), conversion=conversion(mine, rival))


def margin(mine: Verdict, rival: Verdict, format_weight: float) -> Reward:
    """The naive margin: c(b) - c(a) on top of correctness. Its rival term is action-independent."""
    return replace(solo(mine, format_weight), margin=float(mine.correct) - float(rival.correct))


STACKS: dict[str, Stack] = {"coop": coop, "adv": adv, "margin": margin}
