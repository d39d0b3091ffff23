"""The learner of a run: one optimizer step for both adapters at a time, exact to resume.

Gradients are clipped adapter by adapter: by one joint norm, one policy's gradient would shrink the other's. A policy
without a live row gets no gradient, so that AdamW leaves its weights and moments to the bit. Masters, moments and
gradients are float32 whatever the base is.
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import peft
import torch
import transformers
import trl

from agon.config import Model, Train
from agon.engine.dtypes import learner_dtype
from agon.engine.learner.batch import policy_batches
from agon.engine.learner.constants import ADAM, learning_rate, loss_in_full
from agon.engine.learner.passes import Passes
from agon.engine.learner.setup import explain_out_of_memory, release_freed_memory
from agon.engine.learner.state import load_state, save_state
from agon.engine.learner.workers import GradientWorkers
from agon.engine.linear_attention import check_kernels
from agon.engine.synthetic import worst_case
from agon.errors import ConfigError, EngineError
from agon.protocols import Gap, Tokens, Update, accept_all, nothing_stops
from agon.types import Policy, Stream, seed_for

STATE_FOLDER = "trainer_state"
LIBRARIES = {"trl": trl, "transformers": transformers, "peft": peft, "torch": torch}


class PairLearner:
    """Moves both adapters; implements `agon.protocols.Learner`."""

    def __init__(
        self,
        model_config: Model,
        train_config: Train,
        *,
        total_steps: int,
        base: Any = None,
        path: str | None = None,
        optimizer: Literal["adamw", "sgd"] = "adamw",
        device: torch.device | None = None,
    ) -> None:
        """Over `base`, or the one in `path`, or the one that the config names; `sgd` is for tests."""
        self.model_config, self.train_config, self.total_steps = model_config, train_config, total_steps
        self.step, self.consistent = 0, True
        self.passes = Passes(model_config, train_config, base=base, path=path, device=device)
        self.pair, self.device = self.passes.pair, self.passes.device
        helpers = train_config.gpus - 1
        self.workers = GradientWorkers(model_config, train_config, path, helpers) if helpers else None
        groups = [{"params": self.pair.parameters(policy)} for policy in Policy]
        rate = train_config.learning_rate
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.AdamW(groups, lr=rate, fused=True, **ADAM)
            if optimizer == "adamw"
            else torch.optim.SGD(groups, lr=rate)
        )

    def update(
        self,
        streams: Sequence[Stream],
        check: Callable[[], None] = nothing_stops,
        accept: Callable[[Sequence[Gap]], None] = accept_all,
    ) -> Update:
        """One optimizer step for both policies. `accept` sees how far the rows are from the learner before it moves."""
        step = self.step
        torch.manual_seed(seed_for(self.train_config.seed, "step", step))  # a resume needs no generator's state
        self.pair.model.zero_grad(set_to_none=True)
        with explain_out_of_memory(f"in the update of step {step}"):
            batches = policy_batches(streams, self.train_config.tokens_per_pass)
            if self.workers:
                meters = self.workers.accumulate(self.passes, batches, check)
            else:
                meters = self.passes.accumulate(batches, check)
        accept([gap for meter in meters.values() for gap in meter.found()])
        rate = learning_rate(self.train_config, step, self.total_steps)
        metrics = {policy: meter.metrics(kl=bool(self.train_config.beta)) for policy, meter in meters.items()}
        for policy, meter in meters.items():
            metrics[policy]["learning_rate"] = rate
            if meter.live.rows:
                metrics[policy]["grad_norm"] = self._clip(policy)
        self.consistent = False
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.pair.model.zero_grad(set_to_none=True)
        self.step, self.consistent = step + 1, True
        release_freed_memory(self.device)  # before an engine on the same device wakes up
        return Update(step, metrics)

    def _clip(self, policy: Policy) -> float:
        """Clip an adapter by its own norm, and return that."""
        limit = self.train_config.clip_norm or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.pair.parameters(policy), limit))
        if not math.isfinite(norm):
            raise EngineError(
                f"the gradient of policy {policy.value.upper()} is not finite at step {self.step}",
                fix="start a new run with a lower train.learning_rate",
            )
        return norm

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Run forward and backward of the largest pass that a run can meet, without learning from it."""
        size, limit = prompt_tokens + completion_tokens, self.train_config.tokens_per_pass
        check_kernels(self.pair.model.config, size)
        if self.passes.rows_leak():
            raise ConfigError(
                "this base mixes the rows of a pass: it has layers that do not end at the end of a row, such as "
                "convolutions, recurrent layers or attention of its own",
                fix="set train.tokens_per_pass=1, so that every row has a pass of its own, or name a different base",
            )
        rows, vocabulary = max(limit // size, 1), self.pair.model.config.get_text_config().vocab_size
        stream = worst_case(Policy.A, rows, vocabulary, prompt_tokens, completion_tokens)
        try:
            with explain_out_of_memory(
                f"with {rows} rows of {prompt_tokens} prompt and {completion_tokens} completion tokens"
            ):
                batches = policy_batches([stream], limit)
                self.passes.accumulate(batches)
                if self.workers:
                    self.workers.rehearse(self.passes, batches)
        finally:
            self.pair.model.zero_grad(set_to_none=True)
            release_freed_memory(self.device)

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under a policy's weights as they are; None is the bare base."""
        scores = self.passes.score(policy, rows)
        release_freed_memory(self.device)
        return scores

    def export(self, policy: Policy, folder: Path) -> str:
        """Write the policy's adapter as a plain PEFT directory; return a hash of its weights."""
        return self.pair.export(policy, folder)

    def hash(self, policy: Policy) -> str:
        """The hash of the policy's weights as they are now."""
        return self.pair.hash(policy)

    def save(self, folder: Path) -> None:
        """Write all that an exact resume needs: both adapters, Adam's moments and the step."""
        for policy in Policy:
            self.pair.export(policy, folder / policy.value)
        save_state(folder / STATE_FOLDER, self.pair, self.optimizer, self.step)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; the next update resumes there."""
        for policy in Policy:
            self.pair.load(policy, folder / policy.value)
        self.step = load_state(folder / STATE_FOLDER, self.pair, self.optimizer)

    def memory(self) -> Mapping[str, int]:
        """Peak bytes: of the process, and of the device since the last call."""
        unit = 1 if sys.platform == "darwin" else 1024
        used = {"process_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
        if torch.cuda.is_available():
            used["device_peak"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        return used

    def describe(self) -> Mapping[str, Any]:
        """The learner in the words of a manifest."""
        return {
            "versions": {name: module.__version__ for name, module in LIBRARIES.items()},
            "device": str(self.device),
            "base_dtype": learner_dtype(self.model_config.dtype),
            "attention": self.passes.attention,
            "adapter_parameters": sum(p.numel() for p in self.pair.parameters(Policy.A)),
            "adapted_modules": len(self.pair.targets()),
            "loss": loss_in_full(self.train_config),
        }
