"""Copy or repair without a model: what GRPO with and without the bonus would learn from three numbers.

A challenge either copies its draft (right with `copy_right` or `copy_wrong`, by whether the draft is) or works again:
it keeps a right draft with k and mends a wrong one with u. The share that works again (g), k and u are one logit each,
learnt by group-relative policy gradients with Adam; u grows only by practice. Drafts stay as they are: a problem's are
right with a chance drawn from a Beta distribution with mean q. Nothing here is fitted to a run with a bonus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PROBLEMS, GROUP = 8, 8
SPREAD = 2.0
"""Concentration of the Beta distribution of a problem's drafts."""
CEILINGS = (0.97, 0.35)
"""What k and u can grow to: a reader who works again is no better than its own single pass, which ends near 0.35."""


@dataclass(frozen=True)
class Start:
    """What a base does before training, measured at the training temperature."""

    q: float
    """Drafts that are right."""
    g: float
    """Challenges that work again instead of copying."""
    k: float
    """Of those that meet a right draft, how many are right."""
    u: float
    """Of those that meet a wrong draft, how many are right."""
    copy_right: float = 1.0
    """Copies of right drafts that are right: the last step is the reader's own."""
    copy_wrong: float = 0.0
    """Copies of wrong drafts that are right."""


def curve(start: Start, weight: float, rate: float, points: Sequence[int], runs: int = 64) -> list[float]:
    """Accuracy of the challenges after some steps, mean over runs; `rate` is Adam's, constant."""
    rng = np.random.default_rng(0)
    shares = (start.g, start.k / CEILINGS[0], start.u / CEILINGS[1])
    logits = np.log([[p / (1 - p)] for p in shares]) + np.zeros((3, runs))
    first, second = np.zeros_like(logits), np.zeros_like(logits)
    found = []
    for step in range(1, max(points) + 1):
        slope = _slope(rng, start, logits, weight)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        moved = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        logits = logits + rate * moved
        if step in points:
            found.append(float(_accuracy(start, logits).mean()))
    return found


def _slope(rng: np.random.Generator, start: Start, logits: np.ndarray, weight: float) -> np.ndarray:
    """One step's gradient estimate of g, k and u."""
    runs = logits.shape[1]
    chance = rng.beta(start.q * SPREAD, (1 - start.q) * SPREAD, (runs, PROBLEMS, 1))
    draft = rng.random((runs, PROBLEMS, GROUP)) < chance
    g, k, u = (share[:, None, None] for share in _shares(logits))
    again = rng.random(draft.shape) < g
    copied = np.where(draft, start.copy_right, start.copy_wrong)
    right = rng.random(draft.shape) < np.where(again, np.where(draft, k, u), copied)
    rewards = 2.0 * right + weight * (right & ~draft)
    centred = rewards - rewards.mean(-1, keepdims=True)
    spread = rewards.std(-1, ddof=1, keepdims=True)
    advantage = np.where(spread > 1e-9, centred / (spread + 1e-4), 0.0)

    def of(share: np.ndarray, ceiling: float, where: np.ndarray) -> np.ndarray:
        """d log p(outcome) / d logit of a share with a ceiling."""
        inner = 1 - share / ceiling
        score = np.where(right, inner, -share * inner / (1 - share))
        return np.asarray((advantage * where * score).sum((1, 2)))

    learnt = (of(k, CEILINGS[0], again & draft), of(u, CEILINGS[1], again & ~draft))
    slopes = [(advantage * (again - g)).sum((1, 2)), *learnt]
    return np.stack(slopes) / (PROBLEMS * GROUP)


def _accuracy(start: Start, logits: np.ndarray) -> np.ndarray:
    g, k, u = _shares(logits)
    kept = (1 - g) * start.copy_right + g * k
    converted = (1 - g) * start.copy_wrong + g * u
    return np.asarray(start.q * kept + (1 - start.q) * converted)


def _shares(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """g, k and u."""
    g, k, u = 1 / (1 + np.exp(-logits))
    return g, CEILINGS[0] * k, CEILINGS[1] * u
