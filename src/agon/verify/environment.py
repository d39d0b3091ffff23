"""The verifier of an environment's problems: the environment's own score, in processes that can be killed.

An environment is a task of reasoning-gym or a taskset of verifiers (`agon_judge.auditing.environment`). It is given
the content of the answer block, written as the source's `template` says, and nothing else: a completion without one
answer is wrong before it is asked. A score of at least `reward.right` is right, less is wrong, since c(y) is binary.
What the score is beyond 0 or 1 is paid as a further term: R = s + c + bonus. A scorer
that raises, hangs or gives no number has no verdict (`infra`), and neither has a problem that the environment does not
give again: a worker takes the row by its index and compares the question.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from agon.game.parse import parse, well_formed
from agon.protocols import Verifier
from agon.types import Completion, Problem, Verdict
from agon.verify.judged import errors_of_the_judge
from agon_judge import verdict as judge
from agon_judge.answers import one_answer
from agon_judge.auditing.environment import Target
from agon_judge.auditing.probes import wrap
from agon_judge.auditing.worker import question_hash
from agon_judge.pooled import PooledJudge, Steps
from agon_judge.verdict import Reason

DEADLINE = 5.0
"""CPU seconds of one score."""
PATIENCE = 60.0
"""Seconds of a clock of one score, for one that sleeps or waits for a network."""
LONGEST = 4_000
"""Characters of an answer; a longer one is wrong."""
MEMORY = 16 << 30
"""Bytes of address space of a worker: what an environment imports may reserve much."""


@dataclass(frozen=True, slots=True)
class Scored(judge.Verdict):
    """A verdict with the score that it comes from."""

    score: float = 0.0


class EnvironmentJudge(PooledJudge):
    """The rows of one environment. A row is its index, the hash of its question, and a text."""

    def __init__(self, target: Target, *, right: float, workers: int | None, deadline: float, patience: float) -> None:
        self._target, self._right = target, right
        super().__init__(
            "agon_judge.auditing.worker:call",
            workers,
            deadline,
            MEMORY,
            stall=2 * patience / deadline,
            setup=json.dumps({"target": asdict(target), "split": "train", "patience": patience}),
            environ={**os.environ, "PYTHONHASHSEED": "0"},
        )

    def steps(self, index: int, asked: str, text: str) -> Steps:
        outcome = yield "score", str(index), text, "", asked
        name = self._target.name
        if outcome.name == "timeout":
            return _none(f"{name} gave no score in time: {outcome.detail}")
        if outcome.name == "changed":
            return _none(f"{name} gives a different problem now: is {outcome.detail} a different version?")
        if outcome.name == "refused":
            return _none(f"{name} cannot be opened: {json.loads(outcome.detail)['message']}")
        if outcome.name != "scored":
            return _none(f"{name} failed: {outcome.detail}")
        score = json.loads(outcome.detail)
        reward = score.get("reward")
        if score.get("crash") or reward is None or not math.isfinite(reward):
            return _none(f"{name}: {score.get('crash') or score.get('error') or f'its score is {reward}'}")
        if reward >= self._right:
            return Scored(Reason.CORRECT, score=float(reward))
        return Scored(Reason.WRONG, f"partial credit {reward:.3g}" if reward > 0 else "", score=float(reward))

    def self_test(self) -> list[str]:
        """Always empty: what an environment pays is not known in advance."""
        return []


def _none(why: str) -> judge.Verdict:
    return judge.Verdict(Reason.INFRA, why[:300])


class EnvironmentVerifier(Verifier):
    """Asks the environment that a problem was drawn from. Each is opened when its first problem is judged."""

    def __init__(
        self,
        *,
        workers: int | None = None,
        right: float = 1.0,
        deadline: float = DEADLINE,
        patience: float = PATIENCE,
    ) -> None:
        self._limits: dict[str, Any] = {"workers": workers, "deadline": deadline, "patience": patience}
        self._right = right
        self._judges: dict[str, EnvironmentJudge] = {}
        self._lock = threading.Lock()

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        draw = problem.meta.get("draw")
        answer = one_answer(completion.text, opened=completion.opened, truncated=completion.finish == "length")
        if isinstance(answer, judge.Verdict):
            judged = answer
        elif not isinstance(draw, Mapping):
            judged = judge.Verdict(Reason.BAD_GOLD, "not a problem of an environment")
        else:
            answer = parse(completion).answers[-1]  # with line ends, which a board needs
            text = wrap(draw.get("template", "{}"), answer)
            if len(text) > LONGEST:
                judged = judge.Verdict(Reason.UNPARSABLE, f"over {LONGEST} characters")
            else:
                with errors_of_the_judge():
                    asking = self._judge(draw).judge_async(draw["index"], question_hash(problem.question), text)
                    judged = await asking
        verdict = Verdict.of(judged, well_formed(completion))
        return replace(verdict, extra=judged.score - judged.correct) if isinstance(judged, Scored) else verdict

    def self_test(self) -> list[str]:
        """Whether reasoning-gym, where it is installed, scores one of its own problems."""
        if not importlib.util.find_spec("reasoning_gym"):
            return []
        import reasoning_gym

        draw = {"task": "chain_sum", "options": {}, "seed": 0, "size": 1, "index": 0}
        entry = reasoning_gym.create_dataset("chain_sum", size=1, seed=0)[0]
        asked = question_hash(entry["question"])
        right, wrong = self._judge(draw).judge_many([(0, asked, answer) for answer in (entry["answer"], "no")])
        return [] if right.correct and wrong.reason is Reason.WRONG else [f"chain_sum: {right.reason}, {wrong.reason}"]

    @property
    def counters(self) -> dict[str, int]:
        counted = Counter[str]()
        for each in self._judges.values():
            counted.update(each.counters)
        return dict(counted)

    def close(self) -> None:
        for each in self._judges.values():
            each.close()

    def _judge(self, draw: Mapping[str, Any]) -> EnvironmentJudge:
        """The judge of the environment that a problem was drawn from."""
        target = Target(
            draw.get("env") or f"reasoning-gym:{draw['task']}",
            take=draw["size"],
            seed=draw.get("seed", 0),
            options=draw["options"],
        )
        key = json.dumps(asdict(target), sort_keys=True)
        with self._lock:
            if key not in self._judges:
                self._judges[key] = EnvironmentJudge(target, right=self._right, **self._limits)
            return self._judges[key]


def open_environment(*, workers: int | None = None, right: float = 1.0, **_: Any) -> EnvironmentVerifier:
    """The verifier `environment`, which is also called `reasoning-gym`."""
    return EnvironmentVerifier(workers=workers, right=right)
