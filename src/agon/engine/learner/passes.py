"""Forward and backward: gradients of both adapters over one frozen base, and log-probabilities of rows.

Inside a step every pass belongs to one policy, whose adapter stays active from the forward to the end of the backward:
checkpointing of activations runs the forward again inside backward. Nothing here moves a weight.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from agon.config import Model, Train
from agon.engine.adapters import build_pair, keep_input_dtype
from agon.engine.learner.attention import use_row_attention
from agon.engine.learner.batch import Pack, PolicyBatch, Row, cut_by_tokens
from agon.engine.learner.fused_head import fuse_head
from agon.engine.learner.loss import Scored, Shares, policy_loss
from agon.engine.learner.setup import (
    attention_of,
    device_here,
    let_segments_grow,
    load_base,
    without_dropout,
)
from agon.protocols import Gap, Tokens, nothing_stops
from agon.types import Policy

MULTIPLE = 32
"""Packs in half precision on a CPU have a multiple of so many tokens: oneDNN compiles kernels for every length that it
meets and keeps them, so that memory would grow with every new one."""
MEANS = ("entropy", "kl", "clip_low", "clip_high")
"""What is logged as a mean over the live tokens of a step."""


@dataclass(slots=True)
class Meter:
    """What the passes of one policy in one step add up to."""

    policy: Policy
    rows: int
    live: Shares
    passes: int = 0
    loss: float = 0.0
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    gaps: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """By engine: tokens, and the sum and the largest of |learner - sampler| in nats."""
    importance: float = 0.0

    def add(self, loss: torch.Tensor, measured: dict[str, torch.Tensor], rows: Sequence[Row], scored: Scored) -> None:
        """Add one pass."""
        self.passes, self.loss = self.passes + 1, self.loss + float(loss)
        for name in MEANS:
            self.sums[name] += float(measured[name].sum())
        known = scored.counts * ~torch.isnan(scored.then)
        self.importance += float((measured["importance"] * known).sum())
        sizes = [len(row.completion) for row in rows]
        parts = zip(known.split(sizes), (measured["gap"] * known).split(sizes), strict=True)
        sums = torch.stack([torch.stack([own.sum(), gap.sum(), gap.max()]) for own, gap in parts]).tolist()
        for row, found in zip(rows, sums, strict=True):
            if found[0]:
                self._add_gap(row.engine, *found)

    def merge(self, other: Meter) -> None:
        """Add what another process computed of the same step."""
        self.passes, self.loss = self.passes + other.passes, self.loss + other.loss
        self.importance += other.importance
        for name, value in other.sums.items():
            self.sums[name] += value
        for engine, found in other.gaps.items():
            self._add_gap(engine, *found)

    def _add_gap(self, engine: str, tokens: float, total: float, most: float) -> None:
        known = self.gaps.get(engine, (0.0, 0.0, 0.0))
        self.gaps[engine] = known[0] + tokens, known[1] + total, max(known[2], most)

    def found(self) -> list[Gap]:
        """How far the learner is from each engine that drew these rows."""
        return [
            Gap(self.policy, engine, total / tokens, int(tokens))
            for engine, (tokens, total, _) in sorted(self.gaps.items())
        ]

    def metrics(self, *, kl: bool) -> dict[str, float]:
        """The step's line under `update`, but for the norm and the rate."""
        live = self.live
        metrics = {
            "rows": float(self.rows),
            "masked_rows": float(self.rows - live.rows),
            "tokens": float(live.tokens),
            "micro_batches": float(self.passes),
            "updated": float(live.rows > 0),
        }
        if live.rows:
            metrics["loss"] = self.loss
            names = [name for name in MEANS if kl or name != "kl"]
            metrics |= {name: self.sums[name] / max(live.tokens, 1) for name in names}
        if known := sum(tokens for tokens, _, _ in self.gaps.values()):
            metrics["logp_diff_mean"] = sum(total for _, total, _ in self.gaps.values()) / known
            metrics["logp_diff_max"] = max(most for _, _, most in self.gaps.values())
            metrics["importance_mean"] = self.importance / known
        return metrics


class Passes:
    """The base with both adapters on one device, and what is computed with it."""

    def __init__(
        self,
        model: Model,
        train: Train,
        *,
        base: Any = None,
        path: str | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Over `base`, or the one in `path`, or the one that the config names."""
        self.train, self.device = train, device or device_here()
        let_segments_grow(self.device)
        base = base if base is not None else load_base(model, path)
        without_dropout(base)
        self.attention = attention_of(model, base, self.device)
        use_row_attention(base, self.attention)
        fuse_head(base, train.temperature)
        self.pair = build_pair(base, model.lora, model.init, train.seed)
        for config in self.pair.model.peft_config.values():  # files name the base as the config does, not a cache
            config.base_model_name_or_path, config.revision = model.name, model.revision
        self.pair.model.to(self.device)
        if train.gradient_checkpointing:
            self.pair.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            # it lets the embeddings require gradients, which only reentrant checkpoints need: every pass would compute
            # gradients below the first adapter
            self.pair.model.disable_input_require_grads()
        self.autocast = model.dtype == "bfloat16" and self.device.type != "cpu"
        if self.autocast:
            keep_input_dtype(self.pair.model)
        half = base.dtype != torch.float32
        self.multiple = MULTIPLE if half and self.device.type == "cpu" else 1
        self.pair.model.train()

    def accumulate(
        self, batches: Iterable[PolicyBatch], check: Callable[[], None] = nothing_stops
    ) -> dict[Policy, Meter]:
        """Add the gradients of these passes to both adapters; `check` is called before each."""
        meters = dict[Policy, Meter]()
        for batch in batches:
            policy = batch.policy
            meter = meters[policy] = Meter(policy, batch.rows, batch.live)
            for rows in batch.passes:
                check()
                pack = Pack.of(rows, self.device, self.multiple)
                reference = self._reference(pack) if self.train.beta else None
                self.pair.activate(policy)
                now, entropy = self.forward(pack)
                loss, measured = policy_loss(now, reference, pack.scored, batch.live, self.train)
                loss.backward()
                measured["entropy"] = entropy.detach() * pack.scored.counts
                meter.add(loss.detach(), measured, rows, pack.scored)
        return meters

    def forward(self, pack: Pack) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of a pack's scored tokens under whatever is active."""
        backbone = self.pair.model.get_base_model().base_model
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast), pack.only_scored(backbone):
            output = self.pair.model(**pack.arguments(), fused_lm_head=True)
        scored = len(pack.scored.row)
        return output.log_probs[0, :scored], output.entropy[0, :scored]

    def _reference(self, pack: Pack) -> torch.Tensor:
        """Log-probabilities under the frozen base: adapters off."""
        with self.pair.base_only(), torch.no_grad():
            return self.forward(pack)[0]

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under a policy as it is now; None is the bare base."""
        scores = list[list[float]]()
        for part in cut_by_tokens([Row.of(tokens, 0.0) for tokens in rows], self.train.tokens_per_pass):
            pack = Pack.of(part, self.device, self.multiple)
            if policy is None:
                values = self._reference(pack)
            else:
                self.pair.activate(policy)
                with torch.no_grad():
                    values = self.forward(pack)[0]
            scores += pack.by_row(values)
        return scores

    def rows_leak(self) -> bool:
        """Whether a row of a pack is computed from the row before it: log-probs of the second then have a gradient with
        respect to the first. Rows that never share a pass cannot leak."""
        rows = [Row.of(Tokens(tuple(range(1, 9)), (1, 2)), 0.0), Row.of(Tokens((1,), (2, 3)), 0.0)]
        if len(cut_by_tokens(rows, self.train.tokens_per_pass)) > 1:
            return False
        pack, read = Pack.of(rows, self.device, self.multiple), list[torch.Tensor]()

        def watch(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
            read.append(output.detach().requires_grad_(True))
            return read[0]

        self.pair.activate(Policy.A)
        hook = self.pair.model.get_input_embeddings().register_forward_hook(watch)
        try:
            self.forward(pack)[0][pack.scored.row == 1].sum().backward()
        finally:
            hook.remove()
            self.pair.model.zero_grad(set_to_none=True)
        gradient = read[0].grad
        return gradient is not None and bool(gradient[0, : rows[0].size].any())
