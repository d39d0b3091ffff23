"""From streams to rows that a service learns from: what each token weighs, and what the pass said about it.

A service has one loss per token, importance ratio x weight, and averages it in its own way. Every average of ours
(`train.loss`) is folded into the weights, divided by the service's own (`Averaging`, which is measured).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agon.config import Train
from agon.engine.tinker.client import WeightedRow
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy, Stream


@dataclass(frozen=True, slots=True)
class Averaging:
    """Whether a service divides a row's loss by its positions, prompt included, and the whole by its rows."""

    over_positions: bool
    over_rows: bool

    def undone(self, row: Tokens, rows: int) -> float:
        """What a weight is multiplied with so that the service's average changes nothing."""
        return (row.size - 1 if self.over_positions else 1) * (rows if self.over_rows else 1)


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """What one policy learns from in a step; rows without an advantage are counted and not sent."""

    rows: tuple[WeightedRow, ...]
    advantages: tuple[float, ...]
    masked: int

    @property
    def tokens(self) -> int:
        """Completion tokens that the loss counts."""
        return sum(len(row.tokens.completion_ids) for row in self.rows)


def rows_by_policy(streams: Iterable[Stream], train: Train, averaging: Averaging) -> dict[Policy, PolicyRows]:
    """The rows of every policy that played, with the weights that make the service's loss the config's."""
    rollouts = [(stream.policy, row) for stream in streams for row in stream.rollouts()]
    batches: dict[Policy, PolicyRows] = {}
    for policy in sorted({policy for policy, _ in rollouts}):
        mine = [row for owner, row in rollouts if owner == policy]
        live = [(_tokens(row.completion.tokens), row.advantage) for row in mine if row.advantage is not None]
        lengths = [len(tokens.completion_ids) for tokens, _ in live]
        rows = [
            WeightedRow(tokens, (advantage * share * averaging.undone(tokens, len(live)),) * length)
            for (tokens, advantage), length in zip(live, lengths, strict=True)
            for share in [_share(train, length, lengths)]
        ]
        batches[policy] = PolicyRows(tuple(rows), tuple(a for _, a in live), len(mine) - len(live))
    return batches


def _share(train: Train, length: int, lengths: Sequence[int]) -> float:
    """A token's share in the policy's loss: the table of denominators in docs/engines.md."""
    if train.loss == "grpo":
        return 1 / (length * len(lengths))
    if train.loss == "dapo":
        return 1 / sum(lengths)
    return 1 / (len(lengths) * train.max_completion_tokens)


def _tokens(tokens: object) -> Tokens:
    if not isinstance(tokens, Tokens) or tokens.logprobs is None or not tokens.prompt_ids:
        raise EngineError("a completion carries no log-probs", fix="train with sampler.engine=tinker")
    if tokens.sampled is not None:
        raise EngineError(
            "a completion of several turns cannot be trained on Tinker: its tool results would be learnt too",
            fix="train it with agon.engine.learner.learner.PairLearner",
        )
    return tokens


@dataclass(frozen=True, slots=True)
class PassMetrics:
    """Sampler against learner over the tokens of one policy's pass."""

    gaps: tuple[float, ...]
    loss: float

    @classmethod
    def of(cls, batch: PolicyRows, scores: Sequence[Sequence[float]]) -> PassMetrics:
        gaps, loss = [], 0.0
        for row, advantage, score in zip(batch.rows, batch.advantages, scores, strict=True):
            own = [now - then for now, then in zip(score, row.tokens.logprobs or (), strict=True)]
            loss -= advantage * fmean(map(_ratio, own)) / len(batch.rows)
            gaps += own
        return cls(tuple(gaps), loss)

    def values(self) -> Mapping[str, float]:
        """By the names of docs/metrics.md."""
        return {
            "loss": self.loss,
            "logp_diff_mean": fmean(map(abs, self.gaps)),
            "logp_diff_max": max(map(abs, self.gaps)),
            "importance_mean": fmean(map(_ratio, self.gaps)),
        }


def _ratio(gap: float) -> float:
    return math.exp(min(gap, 20.0))
