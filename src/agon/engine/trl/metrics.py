"""What a step did to one policy: sums of this process while it runs, metrics over all processes when it ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import torch

from agon.engine.trl.batch import PolicyBatch

Gather = Callable[[torch.Tensor], torch.Tensor]
"""Takes a vector, returns the vectors of all processes one after the other."""

TRL_METRICS = {
    "entropy": "entropy",
    "kl": "kl",
    "clip_low": "clip_ratio/low_mean",
    "clip_high": "clip_ratio/high_mean",
}
"""What TRL measures in a micro-batch, by our name: means over its live tokens."""

SUMS = ("loss", "micro_batches", *TRL_METRICS, "gap_tokens", "gap_sum", "ratio_sum", "gap_max")
"""What this process adds up over a step; `combine` adds up all processes."""


class StepMetrics:
    """One policy's numbers in one step."""

    def __init__(self, batch: PolicyBatch, *, kl: bool) -> None:
        self.batch = batch
        self.sums = defaultdict[str, float](float, micro_batches=len(batch.micro_batches))
        self._measured = [name for name in TRL_METRICS if kl or name != "kl"]

    def add_trl(self, logged: Mapping[str, list[float]], tokens: int) -> None:
        """Add what TRL logged for a micro-batch, weighted by its live tokens."""
        for name, key in TRL_METRICS.items():
            if values := logged.get(key):
                self.sums[name] += values[-1] * tokens

    def add_gap(self, gap: torch.Tensor, ratio: torch.Tensor, known: torch.Tensor) -> None:
        """Add how far the learner's log-probabilities are from the sampler's: a stale or swapped adapter shows here."""
        self.sums["gap_tokens"] += float(known.sum())
        self.sums["gap_sum"] += float((gap.abs() * known).sum())
        self.sums["ratio_sum"] += float((ratio * known).sum())
        self.sums["gap_max"] = max(self.sums["gap_max"], float((gap.abs() * known).max()))

    def combine(self, gather: Gather) -> None:
        """Add up the sums of all processes; every process must call it."""
        world = gather(torch.tensor([self.sums[name] for name in SUMS], dtype=torch.float64)).view(-1, len(SUMS))
        self.sums |= dict(zip(SUMS, world.sum(0).tolist(), strict=True))
        self.sums |= {"loss": self.sums["loss"] / len(world), "gap_max": float(world[:, -1].max())}

    def values(self) -> dict[str, float]:
        """The metrics, after `combine`."""
        sums, metrics = self.sums, self._counts()
        if self.batch.live:
            metrics |= {"loss": sums["loss"], "grad_norm": sums["grad_norm"]}
            metrics |= {name: sums[name] / max(self.batch.tokens, 1) for name in self._measured}
        if known := sums["gap_tokens"]:
            metrics |= {"logp_diff_mean": sums["gap_sum"] / known, "logp_diff_max": sums["gap_max"]}
            metrics |= {"importance_mean": sums["ratio_sum"] / known}
        return {name: float(value) for name, value in metrics.items()}

    def _counts(self) -> dict[str, float]:
        return {
            "rows": self.batch.rows,
            "masked_rows": self.batch.rows - self.batch.live,
            "tokens": self.batch.tokens,
            "micro_batches": self.sums["micro_batches"],
            "updated": self.batch.live > 0,
            "learning_rate": self.sums["learning_rate"],
        }
