"""The loss of one policy, in full. Its advantages are Equation 1's, of rewards by Equations 2 and 3 (`agon.game`).

    mean over live rows of the mean over their tokens of   - min(rho A, clip(rho, 1 - CLIP, 1 + CLIP) A) + beta KL

A fresh sample was drawn by the weights that learn from it, so that rho is 1 and its gradient is that of log pi. What is
left between learner and sampler, rounding and kernels, is corrected by a truncated weight. A sample that was played
ahead (`train.staleness`) is older: there rho is learner now over sampler then, which the clip bounds.

KL is the estimator k3 towards the frozen base, without a further factor. Rows without an advantage do not come here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agon.config import Train
from agon.engine.learner.constants import CLIP, TRUNCATE


@dataclass(frozen=True, slots=True)
class Scored:
    """The scored tokens of a pass, one value each."""

    rows: int
    """How many rows they come from."""
    row: torch.Tensor
    """Which of them each token belongs to."""
    advantage: torch.Tensor
    then: torch.Tensor
    """The sampler's log-probability; NaN where it gave none."""
    counts: torch.Tensor
    """1, or 0 for what the policy read and did not draw, such as the result of a tool."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The live rows and tokens of a whole step, by which a sum is divided however the step is cut into passes."""

    rows: int
    tokens: int


def policy_loss(
    now: torch.Tensor, base: torch.Tensor | None, scored: Scored, shares: Shares, train: Train
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """A pass's part of the loss, and what is logged of each token. `now` and `base` are log-probabilities."""
    known = ~torch.isnan(scored.then)
    gap = torch.where(known, now.detach() - scored.then, torch.zeros_like(now))
    advantage, weight = scored.advantage, torch.exp(gap).clamp(max=TRUNCATE)
    fresh = torch.exp(now - now.detach())  # 1, with the gradient of log pi
    if train.staleness:
        ratio = fresh * torch.exp(gap)
        each = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
    else:
        ratio = fresh
        each = -ratio * advantage * (weight if train.importance == "token_truncate" else 1.0)
    kl = torch.zeros_like(now) if base is None else torch.exp(base - now) - (base - now) - 1
    each = (each + train.beta * kl) * scored.counts

    if train.loss == "grpo":  # the mean over the tokens of a row, then over rows
        lengths = now.new_zeros(scored.rows).index_add(0, scored.row, scored.counts)
        loss = (each / lengths.clamp(min=1)[scored.row]).sum() / shares.rows
    elif train.loss == "dapo":  # the mean over all tokens
        loss = each.sum() / shares.tokens
    else:  # dr_grpo: a constant takes the place of a row's length
        loss = each.sum() / (shares.rows * train.max_completion_tokens)

    measured = {
        "kl": kl,
        "clip_low": (ratio < 1 - CLIP) & (advantage < 0),
        "clip_high": (ratio > 1 + CLIP) & (advantage > 0),
        "gap": gap.abs(),
        "importance": weight,
    }
    return loss, {name: value.detach() * scored.counts for name, value in measured.items()}
