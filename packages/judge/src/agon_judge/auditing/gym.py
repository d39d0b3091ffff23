"""A data set of reasoning-gym, scored by its own `score_answer`.

An answer is stripped before it is scored, as `reasoning_gym.utils.extract_answer` does. Less than 1.0 is partial
credit, which many tasks give by design.
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from importlib.metadata import version

from agon_judge.auditing.environment import Row, Score, Target
from agon_judge.errors import InputError


class GymDataset:
    full = 1.0

    def __init__(self, target: Target, task: str) -> None:
        try:
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
        except ImportError as error:
            raise InputError("reasoning-gym is not installed", fix="pip install reasoning-gym") from error
        if task not in DATASETS:
            near = get_close_matches(task, DATASETS, n=3) or sorted(DATASETS)[:5]
            raise InputError(f"reasoning-gym has no task {task!r}", fix=f"such as: {', '.join(near)}")
        self.version = f"reasoning-gym {version('reasoning-gym')}"
        try:
            self._dataset = reasoning_gym.create_dataset(task, size=target.take, seed=target.seed, **target.options)
        except (AssertionError, TypeError, ValueError) as error:
            raise InputError(f"reasoning-gym:{task} rejects these options: {error}", fix="correct --option") from error

    def rows(self, split: str) -> list[Row]:
        entries = [self._dataset[index] for index in range(len(self._dataset))]
        return [Row(e["question"], None if e["answer"] is None else str(e["answer"]), e) for e in entries]

    def score(self, row: Row, text: str) -> Score:
        reward = self._dataset.score_answer(text.strip(), row.payload)
        if reward is None:
            return Score(None)
        if not math.isfinite(reward):
            raise ValueError(f"it returns {reward}")
        return Score(float(reward))
