"""Agon: two LoRA policies over one frozen base, trained head to head.

`train` a pair, `evaluate` it, `compare` results, ask a `Pair`; or play the paper's game yourself with `play` (Algorithm
1) under the rules of a `Game`. The names below are imported when they are first used, so that `agon --help` answers at
once, and everything heavy lives in `agon.engine`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon.algorithm import play
    from agon.config import Config, load_config
    from agon.config.arms import ARMS
    from agon.deploy.ask import Pair
    from agon.deploy.pieces import Answer
    from agon.engine.scripted import ScriptedSampler
    from agon.errors import AgonError
    from agon.eval.compare import Comparison, compare
    from agon.eval.results import Results
    from agon.eval.run import evaluate
    from agon.game.rules import Game
    from agon.protocols import Verifier
    from agon.rundir import RunDir
    from agon.training.run import train
    from agon.training.trainer import AgonTrainer
    from agon.types import Bout, Completion, Direction, Policy, Problem, Reason, Request, Verdict, Version
    from agon.verify import load_verifier

__version__ = "0.1.0"

__all__ = [
    "ARMS",
    "AgonError",
    "AgonTrainer",
    "Answer",
    "Bout",
    "Comparison",
    "Completion",
    "Config",
    "Direction",
    "Game",
    "Pair",
    "Policy",
    "Problem",
    "Reason",
    "Request",
    "Results",
    "RunDir",
    "ScriptedSampler",
    "Verdict",
    "Verifier",
    "Version",
    "compare",
    "evaluate",
    "load_config",
    "load_verifier",
    "play",
    "train",
]

_HOMES = {
    "ARMS": "config.arms",
    "AgonError": "errors",
    "AgonTrainer": "training.trainer",
    "Answer": "deploy.pieces",
    "Comparison": "eval.compare",
    "Config": "config",
    "Game": "game.rules",
    "Pair": "deploy.ask",
    "Results": "eval.results",
    "RunDir": "rundir",
    "ScriptedSampler": "engine.scripted",
    "Verifier": "protocols",
    "compare": "eval.compare",
    "evaluate": "eval.run",
    "load_config": "config",
    "load_verifier": "verify",
    "play": "algorithm",
    "train": "training.run",
}


def __getattr__(name: str) -> Any:
    if name == "sandbox":  # a distribution of its own, for those who only grade programs
        return import_module("agon_judge.sandbox")
    if name not in __all__:
        raise AttributeError(f"module 'agon' has no attribute {name!r}")
    return getattr(import_module(f"agon.{_HOMES.get(name, 'types')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "sandbox"]
