"""What else may have drawn a step's samples: the version before, the rival or the base, each tested by its direction.

A step spends a small share of its tokens on this. What it leaves open is pooled with the next steps: an engine that is
late stays late. Every engine of a fleet is tested with its own rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from agon.engine.vllm.slope import CERTAIN, Index, Slope, Vector, deviation, flat, log_odds, size
from agon.protocols import Learner, Stretch, Tokens
from agon.types import Policy, Stream, seed_for


class Suspect(StrEnum):
    """Whose weights may have been served by mistake: the policy's version before, the rival's, or the base's."""

    BEFORE = "before"
    RIVAL = "rival"
    BASE = "base"


SHARE, FEWEST, MOST = 0.02, 256, 10_000
"""Of a policy's completion tokens, the share that a step tests, and the fewest and most tokens."""
PARTS = 4
"""Tokens are scored in so many parts. The rival and the base are tested with the first alone: they differ by more."""
PREFIX = 1024
"""Tokens of a completion that are scored; its prompt is scored along, so that shorter prefixes would waste work."""
REACH = 2.5
"""Weights are stretched until log-odds change by this many times the noise: less, and the effect would be noise itself;
much more, and it would no longer be proportional."""
NOISE = 4e-4
"""The least noise assumed, in log-odds: in float32 there is next to none."""
FAINT = 4.0
"""A way that must be stretched this far to be seen is well inside the noise: learner and effect are then measured with
two more scores, at its origin and as far beyond. Their mean is the learner once more, rounded anew."""
TRIES = 4
"""Stretches tried in search of that reach; the one found is where the next search starts."""


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Rows of a policy, their tokens' log-probs by engine and learner, and the row that each token is in."""

    policy: Policy
    rows: Sequence[Tokens]
    engine: Vector
    learner: Vector
    row: Index


@dataclass(frozen=True, slots=True)
class AsOf:
    """Scores by policies as they were: with weights of earlier versions from their folders. Other policies are as they
    are now."""

    learner: Learner
    folders: Mapping[Policy, Path]

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        own = self.folders.get(policy) if policy else None
        if own is None:
            return self.learner.score(policy, rows, stretch)
        return self.learner.score(policy, rows, replace(stretch or Stretch(own, 1.0), own=own))


@dataclass(frozen=True, slots=True)
class Effect:
    """What the way from an origin to a policy's weights does to log-odds, as measured far out and nearby."""

    far: Vector
    near: Vector
    middle: Vector
    """The learner's log-odds, as the mean of what was scored nearby; of the rows' own policy only."""


@dataclass(slots=True)
class Suspects:
    """Tests samples of a policy against the weights that an engine may have served instead."""

    learner: Learner | AsOf
    tokens: int | None = None
    """Completion tokens to test per policy and step; None takes a share of the step's."""
    slopes: dict[tuple[Policy, Suspect], Slope] = field(default_factory=dict)
    _factors: dict[tuple[Policy, Policy, bool], float] = field(default_factory=dict)

    def check(self, policy: Policy, rows: Sequence[Tokens], before: Path | None) -> Vector:
        """Test rows; `before` has the weights of the policy's version before. Return engine minus learner, in nats."""
        self.slopes = {key: slope for key, slope in self.slopes.items() if key[0] is not policy or not slope.resolved}
        differences = list[Vector]()
        for number, chosen in enumerate(parts(rows, self._budget(rows) // PARTS)):
            late = before if not self._slope(policy, Suspect.BEFORE).resolved else None
            if number == PARTS or (number and not late):
                break
            part = self._score(policy, chosen)
            self._add(part, late, others=number == 0)
            differences.append(part.engine - part.learner)
        return np.concatenate(differences)

    def _budget(self, rows: Iterable[Tokens]) -> int:
        step = sum(len(row.completion_ids) for row in rows)
        return self.tokens or int(min(max(SHARE * step, FEWEST), MOST))

    def _slope(self, policy: Policy, suspect: Suspect) -> Slope:
        return self.slopes.setdefault((policy, suspect), Slope())

    def _score(self, policy: Policy, rows: Sequence[Tokens]) -> ScoredRows:
        engine, learner = flat(row.logprobs or () for row in rows), flat(self.learner.score(policy, rows))
        index = np.repeat(np.arange(len(rows)), [len(row.completion_ids) for row in rows])
        return ScoredRows(policy, rows, engine, learner, index)

    def _add(self, part: ScoredRows, before: Path | None, others: bool) -> None:
        """Take one part into the slopes: that of the version before, and those of the others."""
        engine, learner = log_odds(part.engine), log_odds(part.learner)
        reach = REACH * max(deviation((engine - learner)[part.learner < CERTAIN]), NOISE)
        if before:
            step = self._effect(part, part.policy, before, reach)
            self._take(part, Suspect.BEFORE, engine - step.middle, step.far, step.near)
        if others:
            own, rival = (self._effect(part, policy, None, reach) for policy in (part.policy, part.policy.rival))
            self._take(part, Suspect.BASE, engine - own.middle, own.far, own.near)
            self._take(part, Suspect.RIVAL, engine - own.middle, own.far - rival.far, own.near - rival.near)

    def _take(self, part: ScoredRows, suspect: Suspect, residual: Vector, far: Vector, near: Vector) -> None:
        kept = part.learner < CERTAIN
        self._slope(part.policy, suspect).add(residual[kept], far[kept], part.row[kept], near[kept])

    def _effect(self, part: ScoredRows, policy: Policy, origin: Path | None, reach: float) -> Effect:
        """What the way from `origin` to the policy's weights does, with two more scores where that is faint."""
        learner, (far, factor) = log_odds(part.learner), self._far(part, policy, origin, reach)
        if factor < FAINT:
            return Effect(far, far, learner)
        ahead, behind = self._ends(part, policy, origin, 1.0)
        return Effect(far, (ahead - behind) / 2, (ahead + behind + learner) / 3)

    def _ends(self, part: ScoredRows, policy: Policy, origin: Path | None, factor: float) -> tuple[Vector, Vector]:
        """Log-odds as far beyond the policy's weights, seen from `origin`, and as far before them."""
        ahead, behind = (self.learner.score(policy, part.rows, Stretch(origin, 1 + n * factor)) for n in (1, -1))
        return log_odds(flat(ahead)), log_odds(flat(behind))

    def _far(self, part: ScoredRows, policy: Policy, origin: Path | None, reach: float) -> tuple[Vector, float]:
        """What the way from `origin` to the policy's weights does, by scores far on both sides of them; how far."""
        key = part.policy, policy, origin is None
        factor = self._factors.get(key, 1.0 if origin is None else 16.0)
        for _ in range(TRIES):
            ahead, behind = self._ends(part, policy, origin, factor)
            change, used = (ahead - behind) / 2, factor
            found = size(change)
            if not found or reach / 2 <= found <= reach * 2:
                break
            factor *= min(max(reach / found, 1 / 16), 16.0)
            self._factors[key] = factor
        return change / used, used


def samples_of(streams: Iterable[Stream], policy: Policy, member: int = 0) -> list[Tokens]:
    """A policy's rows by one engine that have log-probs, in an order that mixes problems and is always the same."""
    rollouts = [row for stream in streams if stream.policy is policy for row in stream.rollouts()]
    ordered = sorted(rollouts, key=lambda row: seed_for("samples", row.problem.id, row.index))
    drawn = [row.completion.tokens for row in ordered if row.completion.tokens]
    return [tokens for tokens in drawn if tokens.logprobs and tokens.member == member]


def parts(rows: Iterable[Tokens], tokens: int) -> Iterator[list[Tokens]]:
    """Prefixes of rows with at least so many completion tokens together; a rest that is smaller comes last."""
    part, count = list[Tokens](), 0
    for row in rows:
        part.append(Tokens(row.prompt_ids, row.completion_ids[:PREFIX], (row.logprobs or ())[:PREFIX]))
        count += len(part[-1].completion_ids)
        if count >= tokens:
            yield part
            part, count = [], 0
    if part:
        yield part
