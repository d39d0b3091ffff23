"""The verifier of reasoning-gym's problems: the task's own `score_answer`, in processes that can be killed.

A worker makes the entry of a problem again from its task, options, seed and index, because a scorer may need metadata
that JSON cannot hold. Right is the full score of 1.0; partial credit is wrong, since c(y) is binary, and its detail
says how much it was. A scorer that raises, and an entry that cannot be made again, give no verdict (`infra`).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from agon.errors import InputError, install
from agon.types import Completion, Problem
from agon.verify.judged import JudgedVerifier
from agon_judge.answers import one_answer, parse
from agon_judge.pooled import PooledJudge, Steps
from agon_judge.verdict import Reason, Verdict

DEADLINE = 5.0
"""CPU seconds of one score."""
LONGEST = 4_000
"""Characters of an answer; a longer one is wrong."""


def score(draw: str, question: str, answer: str) -> tuple[str, str]:
    """In a worker: what the task pays for an answer."""
    drawn = json.loads(draw)
    dataset = _dataset(drawn["task"], json.dumps(drawn["options"], sort_keys=True), drawn["seed"], drawn["size"])
    try:
        entry = dataset[drawn["index"]]
        if entry["question"].strip() != question:
            return "infra", "reasoning-gym makes a different problem now: is it another version?"
        reward = float(dataset.score_answer(answer, entry))
    except Exception as error:
        return "infra", f"the scorer of {drawn['task']} raises {type(error).__name__}: {error}"[:200]
    return ("correct", "") if reward >= 1.0 else ("wrong", f"partial credit {reward:.3g}" if reward > 0 else "")


def warm_up() -> None:
    """Import it once, before workers are forked."""
    import reasoning_gym.factory  # noqa: F401


@lru_cache(maxsize=16)
def _dataset(task: str, options: str, seed: int, size: int) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(task, size=size, seed=seed, **json.loads(options))


class GymJudge(PooledJudge):
    """A row is how a problem was drawn, its question, and the answer or why there is none."""

    def __init__(self, *, workers: int | None = None) -> None:
        super().__init__("agon.verify.gym:score", workers, DEADLINE, 4 << 30)

    def steps(self, draw: str, question: str, answer: str | Verdict) -> Steps:
        if isinstance(answer, Verdict):
            return answer
        if not draw:
            return Verdict(Reason.BAD_GOLD, "not a problem of reasoning-gym")
        if len(answer) > LONGEST:
            return Verdict(Reason.UNPARSABLE, f"over {LONGEST} characters")
        outcome = yield draw, question, answer
        if outcome.name in ("crashed", "unparsable"):
            return Verdict(Reason.INFRA, f"the scorer failed: {outcome.detail}")
        return Verdict(Reason(outcome.name), outcome.detail)

    def self_test(self) -> list[str]:
        """Whether reasoning-gym scores one of its own problems."""
        draw: dict[str, Any] = {"task": "chain_sum", "options": {}, "seed": 0, "size": 1, "index": 0}
        entry = _dataset("chain_sum", "{}", 0, 1)[0]
        rows = [(json.dumps(draw), entry["question"].strip(), answer) for answer in (entry["answer"], "no")]
        right, wrong = self.judge_many(rows)
        return [] if right.correct and wrong.reason is Reason.WRONG else [f"chain_sum: {right.reason}, {wrong.reason}"]


class GymVerifier(JudgedVerifier):
    """Takes the answer out of a completion and asks the task's scorer."""

    def row(self, problem: Problem, completion: Completion) -> tuple[Any, ...]:
        truncated = completion.finish == "length"
        draw = problem.meta.get("draw")
        answer = one_answer(completion.text, opened=completion.opened, truncated=truncated)
        if isinstance(answer, str):  # with its line ends, which a board needs
            answer = parse(completion.text, opened=completion.opened).answers[-1]
        return json.dumps(draw) if draw else "", problem.question, answer


def open_gym(*, workers: int | None = None, **_: Any) -> GymVerifier:
    """The verifier `reasoning-gym`."""
    try:
        import reasoning_gym  # noqa: F401
    except ImportError as error:
        raise InputError("reasoning-gym is not installed", fix=install("data")) from error
    return GymVerifier(GymJudge(workers=workers))
