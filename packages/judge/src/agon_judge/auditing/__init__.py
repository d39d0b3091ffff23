"""What does a reward pay for? Runs it on answers whose worth is known (docs/audit.md).

One file per framework, imported when it is named:

    FILE.py:function, package.module:function    a reward in TRL's signature, with rows        trl.py
    a function, a lambda, a callable object      the same, from Python                         trl.py
    math, math-verify, code                      our rewards, with rows                        trl.py
    reasoning-gym:TASK                           a data set of reasoning-gym                   gym.py
    verifiers:MODULE                             a v1 taskset of verifiers                     tasksets.py

A name may also be that of an Environment, or of a class whose instances are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agon_judge.auditing.environment import Environment, Target
from agon_judge.errors import InputError

OURS = {"math": "math_reward", "math-verify": "math_verify_reward", "code": "code_reward"}
"""Our rewards, and where `agon_judge` has them."""


def open_environment(target: Target) -> Environment:
    """The environment that a target names; InputError where there is none."""
    kind, _, rest = target.name.partition(":")
    if kind == "reasoning-gym" and rest:
        from agon_judge.auditing.gym import GymDataset

        return GymDataset(target, rest)
    if kind == "verifiers" and rest:
        from agon_judge.auditing.tasksets import VerifiersTaskset

        return VerifiersTaskset(target, rest)
    from agon_judge.auditing.trl import RewardFunction, named

    given = _given(target)
    if "function" in given:
        thing = given["function"]
    elif target.name in OURS:
        thing = named(f"agon_judge:{OURS[target.name]}")
    elif rest:
        thing = named(target.name)
    elif target.name.endswith(".py"):
        raise InputError(f"{target.name} names no function", fix=f"add it: {target.name}:FUNCTION")
    else:
        raise InputError(
            f"{target.name} names nothing that can be audited",
            fix=f"FILE.py:function, reasoning-gym:TASK, verifiers:MODULE, or one of: {', '.join(OURS)}",
        )
    if isinstance(thing, type):
        thing = thing()
    if callable(getattr(thing, "rows", None)) and callable(getattr(thing, "score", None)):
        environment: Environment = thing
        return environment
    return RewardFunction(target, thing, given.get("rows"))


def _given(target: Target) -> dict[str, Any]:
    """What was pickled for us beside the target's name: `function`, `rows`, both or none."""
    if target.given is None:
        return {}
    import cloudpickle

    with Path(target.given).open("rb") as file:
        given: dict[str, Any] = cloudpickle.load(file)
    return given
