"""Which of two sets of weights drew these tokens: a direction instead of a distance.

Engine and learner round differently. In bfloat16 that is some hundredths of a nat at every token, ten times what one
optimizer step changes, so that no distance between the two can tell a version from the one before. A direction can. Let
the effect of a token be what the way from the wrong weights to the right ones does to its log-odds. Then

    slope = 1 + sum((engine - learner) * weight) / sum(effect * weight)

is 1 if the engine holds the right weights and 0 if it holds the wrong ones: rounding adds noise to it but does not move
it, since it does not know the direction. The weight of a token is its effect, measured where it is larger than the
noise: the learner is scored far beyond the right weights and as far before them, and the difference divided. Rounding
swallows a part of a small move, so that the effect of the way itself may be smaller: `near`, where it is known.

Log-odds, because rounding is then about equal at every probability. Weights are capped: a few tokens have most of the
effect, and most of the noise. Differences are clipped only where they are larger than any rounding. A clip among the
usual ones would move the slope of wrong weights towards 1: logits are rounded to steps of 1/16 or 1/8, and a move shows
as more of these steps in one direction, which are the very differences that it would cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

CERTAIN = -1e-3
"""Log-probs above this say nothing: neither rounding nor an adapter moves such a token."""
OUTLIER = 1.0
"""Differences in log-odds that are clipped: larger than any rounding, unless effects are as large."""
CAP = 2.0
"""Weights are capped at this many times their root mean square."""
ROWS = 8
"""Rows without which a standard error is not known."""
RESOLVED = 1 / 8
"""A slope with this standard error is decided: 0 and 1 are eight errors apart."""
SIGNIFICANT = 5.0
"""Errors below 1 that a slope must be, besides nearer to 0 than to 1, to stop a run. With `RESOLVED`, the wrong weights
are then seen in 998 checks of 1,000, and the right ones are taken for wrong in one of some millions."""


@dataclass(slots=True)
class Slope:
    """Where the engine stands between wrong weights (0) and right ones (1), from sums over rows."""

    products: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)
    moved: float = 0.0
    """The sum that the slope is divided by: of effects times weights."""
    tokens: int = 0

    def add(self, residual: Vector, effect: Vector, row: Index, near: Vector | None = None) -> None:
        """Take in tokens: engine minus learner, the effect as measured far out, their rows, and the effect nearby."""
        cap = CAP * size(effect)
        limit = max(OUTLIER, 2 * cap)
        weight = np.clip(effect, -cap, cap)
        products = np.clip(residual, -limit, limit) * weight
        for sums, values in (self.products, products), (self.squares, effect * weight), (self.variances, products**2):
            sums.extend(np.bincount(row, values).tolist())
        self.moved += float((effect if near is None else near) @ weight)
        self.tokens += len(residual)

    @property
    def value(self) -> float:
        return 1 + sum(self.products) / self.moved if self.moved > 0 else 1.0

    @property
    def error(self) -> float:
        """The standard error, from tokens or from whole rows, whichever is larger; infinite from too few rows."""
        total, count = sum(self.squares), len(self.products)
        if count < ROWS or not total or self.moved <= 0:
            return math.inf
        shift = sum(self.products) / total
        rows = sum((p - shift * s) ** 2 for p, s in zip(self.products, self.squares, strict=True)) * count / (count - 1)
        return math.sqrt(max(rows, sum(self.variances))) / self.moved

    @property
    def resolved(self) -> bool:
        """Whether right and wrong weights can be distinguished."""
        return self.error <= RESOLVED

    @property
    def wrong(self) -> bool:
        """Whether the engine holds the wrong weights."""
        return self.value < 0.5 and 1 - self.value > SIGNIFICANT * self.error


def log_odds(logprobs: Vector) -> Vector:
    """The log-odds of tokens; those that are certain all get the same."""
    clipped = np.minimum(logprobs, CERTAIN)
    return np.asarray(clipped - np.log(-np.expm1(clipped)))


def flat(rows: Iterable[Iterable[float]]) -> Vector:
    """Values by row as one vector."""
    return np.fromiter((value for row in rows for value in row), float)


def size(values: Vector) -> float:
    """The root mean square."""
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def deviation(values: Vector) -> float:
    """The standard deviation of normal values with this median size: outliers do not change it."""
    return 1.4826 * float(np.median(np.abs(values))) if len(values) else 0.0
