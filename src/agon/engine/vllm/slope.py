"""Which of two sets of weights drew these tokens: a direction instead of a distance.

Engine and learner round differently. In bfloat16 that is some hundredths of a nat at every token, ten times what one
optimizer step changes, so that no distance between the two can tell a version from the one before. A direction can. Let
the effect of a token be what the way from the wrong weights to the right ones does to its log-odds. Then

    slope = 1 + sum((engine - learner) * effect) / sum(effect ** 2)

is 1 if the engine holds the right weights and 0 if it holds the wrong ones: rounding adds noise to it but does not move
it, since it does not know the direction. The effect must be known well, and apart from the learner's scores that it is
multiplied with: the learner is scored far beyond the right weights and as far before them, and the difference divided.

Log-odds, because rounding is then about equal at every probability. Both factors are clipped: a few tokens carry most
of either, and without them a slope of the same precision needs half the tokens.
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
CLIP = 1.5
"""Residuals are clipped at this many of their standard deviations, which are taken from their median."""
CAP = 2.0
"""... and effects, where they weigh a residual, at this many times their root mean square."""
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
    tokens: int = 0

    def add(self, residual: Vector, effect: Vector, row: Index) -> None:
        """Take in tokens: engine minus learner, the effect, and the row that the token is in."""
        limit, cap = CLIP * deviation(residual), CAP * size(effect)
        weight = np.clip(effect, -cap, cap)
        products = np.clip(residual, -limit, limit) * weight
        squares = np.where(np.abs(residual) <= limit, effect * weight, 0.0)
        for sums, values in (self.products, products), (self.squares, squares), (self.variances, products**2):
            sums.extend(np.bincount(row, values).tolist())
        self.tokens += len(residual)

    @property
    def value(self) -> float:
        total = sum(self.squares)
        return 1 + sum(self.products) / total if total else 1.0

    @property
    def error(self) -> float:
        """The standard error, from tokens or from whole rows, whichever is larger; infinite from too few rows."""
        total, count = sum(self.squares), len(self.products)
        if count < ROWS or not total:
            return math.inf
        shift = self.value - 1
        rows = sum((p - shift * s) ** 2 for p, s in zip(self.products, self.squares, strict=True)) * count / (count - 1)
        return math.sqrt(max(rows, sum(self.variances))) / total

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
