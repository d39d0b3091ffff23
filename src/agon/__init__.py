"""Agon: two LoRA policies over one frozen base, trained head to head.

The paper's game is `play` (Algorithm 1) under the rules of a `Game`; everything heavy lives in `agon.engine` and is imported
when it is used.
"""

from agon.algorithm import play
from agon.arms import ARMS
from agon.errors import AgonError
from agon.game.rules import Game
from agon.types import Bout, Completion, Direction, Policy, Problem, Reason, Request, Verdict

__version__ = "0.1.0"

__all__ = [
    "ARMS",
    "AgonError",
    "Bout",
    "Completion",
    "Direction",
    "Game",
    "Policy",
    "Problem",
    "Reason",
    "Request",
    "Verdict",
    "play",
]
