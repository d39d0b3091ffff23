"""A data set of reasoning-gym, scored by its own `score_answer`.

An answer is stripped before it is scored, as `reasoning_gym.utils.extract_answer` does. Less than 1.0 is partial
credit, which many tasks give by design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any

from agon_judge.auditing.environment import Row, Score, Target
from agon_judge.errors import InputError


def open_dataset(
    task: str, size: int, seed: int, options: Mapping[str, Any], *, made: int | None = None
) -> tuple[Any, list[dict[str, Any]]]:
    """A data set of reasoning-gym and its entries, or the first `made` of them; InputError for an unknown task or
    options that it rejects."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise InputError("reasoning-gym is not installed", fix="pip install reasoning-gym") from error
    if task not in DATASETS:
        near = get_close_matches(task, DATASETS, n=3) or sorted(DATASETS)
        raise InputError(f"reasoning-gym has no task {task!r}", fix=f"use one of: {', '.join(near)}")
    try:
        dataset = reasoning_gym.create_dataset(task, size=size, seed=seed, **options)
        return dataset, [dataset[index] for index in range(size if made is None else made)]
    except (AssertionError, TypeError, ValueError) as error:
        fields = sorted(DATASETS[task][1].__dataclass_fields__.keys() - {"size", "seed"})
        fix = f"its options are {', '.join(fields)}" if fields else "it has no options"
        raise InputError(f"reasoning-gym:{task} rejects these options: {error}", fix=fix) from error


class GymRows(Sequence[Row]):
    """The rows of a data set, each made when it is asked for: a worker that scores needs few of them."""

    def __init__(self, dataset: Any, size: int) -> None:
        self._dataset, self._size = dataset, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Row:  # type: ignore[override]
        if index >= self._size:
            raise IndexError(index)
        entry = self._dataset[index]
        return Row(entry["question"], None if entry["answer"] is None else str(entry["answer"]), entry)


class GymDataset:
    full = 1.0

    def __init__(self, target: Target, task: str) -> None:
        self._dataset, _ = open_dataset(task, target.take, target.seed, target.options, made=1)
        self._size = target.take
        self.version = f"reasoning-gym {version('reasoning-gym')}"

    def rows(self, split: str) -> GymRows:
        return GymRows(self._dataset, self._size)

    def score(self, row: Row, text: str) -> Score:
        reward = self._dataset.score_answer(text.strip(), row.payload)
        if reward is None:
            return Score(None)
        if not math.isfinite(reward):
            raise ValueError(f"it returns {reward}")
        return Score(float(reward))
