"""The stock TRL GRPO trainer, fed with finished micro-batches of one adapter each.

TRL gives the loss (`GRPOTrainer._compute_loss`, unmodified), the optimizer and the schedule. It generates and scores
nothing, and its loop is not used: the game hands over finished rollouts, which enter as micro-batches through
`_prepare_inputs`. One step of ours is one optimizer step for both policies; inside it every micro-batch belongs to one
policy, whose adapter stays active from the forward to the end of the backward pass (gradient checkpointing runs the
forward again inside backward). The forward pass itself is packed (`pack.py`). Processes compute their micro-batches
without a message to each other and average the gradients once, when all of them are done: one that fails in between
leaves no other waiting. With a base in parts (`shard.py`) each micro-batch is computed by all of them together.

Departures from stock, each with its test: gradients are clipped per adapter; masked rows are in no denominator; a
policy without a live row keeps its weights and Adam state to the bit; importance correction is per token and needs no
second forward pass; with `train.staleness` it is the loss's own clipped ratio; no telemetry.

Private names of TRL that are used here are in `compat.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from transformers import PrinterCallback, set_seed

from agon.config import Train
from agon.engine.adapters import AdapterPair, keep_input_dtype
from agon.engine.trl.batch import FILLER, BatchRow, GatherRows, PolicyBatch, alone_here, policy_batches, tensors
from agon.engine.trl.collectives import (
    average_gradients,
    collective,
    gather_objects,
    no_collectives,
)
from agon.engine.trl.compat import GRPOConfig, GRPOTrainer, abort_collectives, no_dataset
from agon.engine.trl.memory import explain_out_of_memory
from agon.engine.trl.metrics import StepMetrics
from agon.engine.trl.pack import Pack, cut_by_tokens
from agon.engine.trl.setup import stub_tokenizer
from agon.errors import EngineError
from agon.protocols import Phase, Tokens, alone
from agon.types import Policy, Stream, seed_for

T = TypeVar("T")
MULTIPLE = 32
"""Packs in half precision on a CPU have a multiple of so many tokens: oneDNN compiles kernels for every length that it
meets and keeps them, so that memory would grow with every new one."""


@dataclass(slots=True)
class MicroBatch:
    """A micro-batch as TRL's inputs, its policy, the window TRL divides by, and its live tokens."""

    policy: Policy
    inputs: dict[str, torch.Tensor]
    window: float
    tokens: int


class PairTrainer(GRPOTrainer):
    """A GRPOTrainer whose batches come from outside and belong to one adapter each."""

    current_gradient_accumulation_steps = 1.0

    def __init__(self, pair: AdapterPair, train: Train, args: GRPOConfig, optimizers: tuple[Any, Any]) -> None:
        super().__init__(
            model=pair.model,
            reward_funcs=_no_reward,
            args=args,
            train_dataset=no_dataset(),
            processing_class=stub_tokenizer(pair),
            optimizers=optimizers,
        )
        # TRL 1.16 looks for an adapter called "default" when beta > 0: `args` say 0 until it has looked
        self.beta = self.args.beta = train.beta
        self.pair, self.train_config = pair, train
        self.together: Callable[[Callable[[], Any]], Any] = _call
        """Runs a pass in which all processes take part, where the base is split."""
        half = pair.model.get_base_model().dtype != torch.float32
        self.multiple = MULTIPLE if half and self.args.device.type == "cpu" else 1
        self.step_metrics: dict[Policy, StepMetrics] = {}
        self._current: MicroBatch | None = None
        self.remove_callback(PrinterCallback)
        pair.model.disable_input_require_grads()  # as in `place`
        self.accelerator.prepare_model(self.model, evaluation_mode=True)  # autocast, and no DDP
        if self.args.bf16:
            keep_input_dtype(pair.model)
        pair.restore_flags()

    def _send_telemetry(self) -> None:
        """Stock reports the run to its vendor; we do not."""

    def accumulate(self, step: int, streams: Sequence[Stream], phase: Phase = alone) -> None:
        """Gradients and metrics of one step, over all processes; the norm of each adapter's gradient is clipped."""
        gather, rank = partial(gather_objects, self.accelerator), self.accelerator.process_index
        micros = self._start_step(streams, gather, rank)
        # random numbers of a step are seeded by its name: a resumed run needs no generator state
        set_seed(seed_for(self.args.seed, "step", step, rank))
        self.model.train()
        what = f"in the update of step {step}"
        if self.sharded:
            for micro in micros:
                with phase("update") as proceed, explain_out_of_memory(what):
                    self._pass(partial(self._micro_step, micro))
                    proceed()  # after it: nobody may stop alone before a pass of all
        else:
            with phase("update") as proceed, explain_out_of_memory(what):
                for micro in micros:
                    proceed()
                    self._micro_step(micro)
        for policy, metrics in self.step_metrics.items():
            if metrics.batch.live:  # a policy that nobody learnt from gets no gradient
                average_gradients(self.accelerator, self.pair.parameters(policy))
            metrics.combine(self.gather)
            if metrics.batch.live:
                self._clip(policy, step)

    def rehearse(self, stream: Stream) -> None:
        """Run micro-batches like any other, in this process alone, and discard their gradients."""
        self.model.train()
        for micro in self._start_step([stream]):
            self._pass(partial(self._micro_step, micro))
        self.model.zero_grad(set_to_none=True)

    def rows_leak(self) -> bool:
        """Whether a row of a pack is computed from the row before it: log-probs of the second then have a gradient with
        respect to the first. Rows that never share a pass cannot leak."""
        rows = [Tokens(tuple(range(1, 9)), (1, 2)), Tokens((1,), (2, 3))]
        if len(self._parts(rows)) > 1:
            return False
        inputs, read = self._to_device([BatchRow.of(row, advantage=0.0) for row in rows]), list[torch.Tensor]()

        def watch(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
            read.append(output.detach().requires_grad_(True))
            return read[0]

        def learn() -> None:
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            with self.compute_loss_context_manager():
                logps = self._packed(self.model, ids, mask, inputs["completion_ids"].size(1))[0]
            logps[1].sum().backward()

        self.model.train()
        self.pair.activate(Policy.A)
        hook = self.pair.model.get_input_embeddings().register_forward_hook(watch)
        try:
            self._pass(learn)
        finally:
            hook.remove()
            self.model.zero_grad(set_to_none=True)
        gradient = read[0].grad
        return gradient is not None and bool(gradient[0, : rows[0].size].any())

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under a policy as it is now, in micro-batches; None is the bare base."""
        return [values for part in self._parts(rows) for values in self._pass(partial(self._score, policy, part))]

    def passes(self, rows: Sequence[Tokens]) -> int:
        """How many passes it takes to score these rows."""
        return len(self._parts(rows))

    def _parts(self, rows: Sequence[Tokens]) -> list[list[Tokens]]:
        return cut_by_tokens(rows, [row.size for row in rows], self.train_config.tokens_per_pass)

    def _score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        inputs = self._to_device([BatchRow.of(row, advantage=0.0) for row in rows])
        if policy is None:
            logps = self._reference(inputs)
        else:
            self.pair.activate(policy)
            logps = self._logps(inputs)
        return [values[: len(row.completion_ids)] for values, row in zip(logps.tolist(), rows, strict=True)]

    @property
    def sharded(self) -> bool:
        """Whether a pass needs all processes, as each holds a part of the base."""
        return self.train_config.shard == "base"

    def _pass(self, work: Callable[[], T]) -> T:
        """Run a pass; where it needs all processes and one of them fails, it ends here too."""
        if not self.sharded:
            return work()

        def run() -> T:
            if self.args.device.type == "cuda":
                torch.cuda.set_device(self.args.device)  # `together` has its own thread
            with collective("a pass of all processes failed, or one of them is gone"):
                return work()

        try:
            return self.together(run)
        except Exception:
            abort_collectives(self.args.device)
            raise

    def _start_step(
        self, streams: Sequence[Stream], gather: GatherRows = alone_here, rank: int = 0
    ) -> list[MicroBatch]:
        """This process's micro-batches of a step, policy by policy; its metrics begin at zero."""
        batches = policy_batches(streams, self.train_config.tokens_per_pass, gather, rank, even=self.sharded)
        self.step_metrics = {batch.policy: StepMetrics(batch, kl=bool(self.beta)) for batch in batches}
        return [micro for batch in batches for micro in self._micro_batches(batch)]

    def _micro_batches(self, batch: PolicyBatch) -> Iterator[MicroBatch]:
        """TRL's inputs, normalised over the policy's live rows (grpo, dr_grpo) or tokens (dapo) of all processes."""
        items = torch.tensor(float(batch.tokens), device=self.args.device)
        for rows in batch.micro_batches:
            inputs = self._to_device(rows)
            inputs["num_items_in_batch"] = items
            window = batch.live / (self.accelerator.num_processes * len(rows))
            live = sum(row.live_tokens for row in rows)
            yield MicroBatch(batch.policy, inputs, 1.0 if self.loss_type == "dapo" else window, live)
        for _ in range(batch.fillers):
            inputs = self._to_device([BatchRow.of(FILLER, advantage=0.0)])
            inputs["num_items_in_batch"] = items
            yield MicroBatch(batch.policy, inputs, math.inf, 0)  # the loss divides by it: exactly zero

    def _micro_step(self, micro: MicroBatch) -> None:
        """Forward and backward of one micro-batch under its own adapter."""
        self._current, self.current_gradient_accumulation_steps = micro, micro.window
        self.pair.activate(micro.policy)
        with no_collectives(self.accelerator), self._metrics_of(micro):
            loss = self.training_step(self.model, micro.inputs, None)
        self.step_metrics[micro.policy].sums["loss"] += float(loss)

    def _prepare_inputs(self, inputs: Any) -> dict[str, torch.Tensor]:
        """The micro-batch is finished: only the reference of the KL term is missing."""
        assert self._current is not None
        if self.beta:
            self._current.inputs["ref_per_token_logps"] = self._reference(self._current.inputs)
        return self._current.inputs

    def _reference(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Log-probabilities under the frozen base: adapters off."""
        with self.pair.base_only():
            return self._logps(inputs)

    def _logps(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Log-probabilities of the completions under whatever is active, as in the loss, without gradients."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        with torch.no_grad(), self.compute_loss_context_manager():
            return self._packed(self.model, ids, mask, inputs["completion_ids"].size(1))[0]

    def _packed(self, model: Any, ids: torch.Tensor, mask: torch.Tensor, columns: int) -> tuple[torch.Tensor, ...]:
        """Log-probabilities and entropies of the completions, by TRL's fused head, from one packed forward pass."""
        pack = Pack.of(ids, mask, columns, self.multiple)
        log_probs, entropy = self.run_pack(model, pack)
        return pack.unpack(log_probs), pack.unpack(entropy)

    def run_pack(self, model: Any, pack: Pack) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies of a pack's scored tokens."""
        base = self.pair.model.get_base_model().base_model
        with self.accelerator.autocast(), pack.only_scored(base):
            output = model(**pack.arguments(), fused_lm_head=True)
        return output.log_probs, output.entropy

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **more: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """The loss's own forward: its log-probabilities are the old ones, so the correction needs no second pass."""
        logps, entropies = self._packed(model, input_ids, attention_mask, logits_to_keep)
        assert self._current is not None
        self._correct(self._current, logps.detach())
        return logps, entropies, None

    def _correct(self, micro: MicroBatch, logps: torch.Tensor) -> None:
        """Correct each token for learner / sampler; TRL reads what is set here only after this.

        Played ahead: that is the one ratio of the loss, which TRL clips. Else: a truncated weight, as the ratio is 1.
        """
        inputs = micro.inputs
        gap = logps - inputs["sampling_per_token_logps"]
        known = inputs["completion_mask"].bool() & ~torch.isnan(gap)
        gap = torch.where(known, gap, torch.zeros_like(gap))
        ratio = torch.exp(gap).clamp(max=self.args.vllm_importance_sampling_clip_max)
        self.step_metrics[micro.policy].add_gap(gap, ratio, known)
        if self.train_config.staleness:
            inputs["old_per_token_logps"] = logps - gap
        elif self.train_config.importance == "token_truncate":
            inputs["advantages"] = inputs["advantages"].unsqueeze(1) * ratio

    def _clip(self, policy: Policy, step: int) -> None:
        """Clip an adapter by its own norm: a joint norm would let one policy's gradient shrink the other's."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.pair.parameters(policy), self.args.max_grad_norm))
        self.step_metrics[policy].sums["grad_norm"] = norm
        if not math.isfinite(norm):
            raise EngineError(
                f"the gradient of policy {policy.value.upper()} is not finite at step {step}",
                fix="start a new run with a lower train.learning_rate",
            )

    def step_values(self) -> dict[Policy, dict[str, float]]:
        """The step's metrics by policy, over all processes."""
        return {policy: metrics.values() for policy, metrics in self.step_metrics.items()}

    @contextmanager
    def _metrics_of(self, micro: MicroBatch) -> Iterator[None]:
        """Catch what TRL logs during one micro-batch, weighted by its live tokens."""
        outer, self._metrics["train"] = self._metrics["train"], defaultdict(list)
        yield
        caught, self._metrics["train"] = self._metrics["train"], outer
        self.step_metrics[micro.policy].add_trl(caught, micro.tokens)

    def gather(self, vector: torch.Tensor) -> torch.Tensor:
        with collective():
            return self.accelerator.gather(vector.to(self.args.device)).cpu()

    def _to_device(self, rows: Sequence[BatchRow]) -> dict[str, torch.Tensor]:
        batch = tensors(rows, int(self.processing_class.pad_token_id))
        return {name: values.to(self.args.device) for name, values in batch.items()}


def _call(work: Callable[[], T]) -> T:
    return work()


def _no_reward(**columns: Any) -> list[float]:
    """TRL requires a reward function; rewards were computed before the rollouts came here."""
    raise EngineError(
        "TRL asked for a reward; the learner never computes one", fix="report this: TRL's trainer loop has changed"
    )
