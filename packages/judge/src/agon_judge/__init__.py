"""Is this answer right? Mathematics and programs, judged with a reason, a deadline and a sandbox.

    with agon_judge.MathJudge() as judge:
        verdict = judge.judge(gold="x+1", answer="1+x")

    verdict = agon_judge.sandbox.run("print(2 * int(input()))", [("1", "2"), ("21", "42")])

    trainer = GRPOTrainer(reward_funcs=agon_judge.math_reward, ...)
    agon_judge.audit("my_rewards.py:reward", "rows.jsonl").passed

The names below are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon_judge.answers import one_answer
    from agon_judge.auditing.environment import Environment, Row, Score
    from agon_judge.auditing.report import Audit
    from agon_judge.auditing.run import audit
    from agon_judge.code.extract import one_program
    from agon_judge.code.judge import CodeJudge
    from agon_judge.errors import InputError, JudgeError, SandboxDown
    from agon_judge.judge import Judge
    from agon_judge.math.judge import MathJudge
    from agon_judge.rewards import (
        NoVerdict,
        code_reward,
        code_score,
        compute_score,
        math_reward,
        math_score,
        math_verify_reward,
    )
    from agon_judge.unit_tests import UnitTests
    from agon_judge.verdict import Reason, Verdict

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "CodeJudge",
    "Environment",
    "InputError",
    "Judge",
    "JudgeError",
    "MathJudge",
    "NoVerdict",
    "Reason",
    "Row",
    "SandboxDown",
    "Score",
    "UnitTests",
    "Verdict",
    "audit",
    "code_reward",
    "code_score",
    "compute_score",
    "math_reward",
    "math_score",
    "math_verify_reward",
    "one_answer",
    "one_program",
]

_HOMES = {
    "Audit": "auditing.report",
    "CodeJudge": "code.judge",
    "Environment": "auditing.environment",
    "Judge": "judge",
    "MathJudge": "math.judge",
    "NoVerdict": "rewards",
    "Reason": "verdict",
    "Row": "auditing.environment",
    "Score": "auditing.environment",
    "UnitTests": "unit_tests",
    "Verdict": "verdict",
    "audit": "auditing.run",
    "code_reward": "rewards",
    "code_score": "rewards",
    "compute_score": "rewards",
    "math_reward": "rewards",
    "math_score": "rewards",
    "math_verify_reward": "rewards",
    "one_answer": "answers",
    "one_program": "code.extract",
}


def __getattr__(name: str) -> Any:
    if name == "sandbox":
        return import_module("agon_judge.sandbox")
    if name not in __all__:
        raise AttributeError(f"module 'agon_judge' has no attribute {name!r}")
    return getattr(import_module(f"agon_judge.{_HOMES.get(name, 'errors')}"), name)
