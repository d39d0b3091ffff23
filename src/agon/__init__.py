"""Agon: two LoRA policies over one frozen base, trained head to head.

The paper's game is `play` (Algorithm 1) under the rules of a `Game`; everything heavy lives in `agon.engine`. The
names below are imported when they are first used, so that `agon --help` answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {"ARMS": "arms", "AgonError": "errors", "Game": "game.rules", "play": "algorithm"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'agon' has no attribute {name!r}")
    return getattr(import_module(f"agon.{_HOMES.get(name, 'types')}"), name)
