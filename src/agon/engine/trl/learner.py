"""The stock TRL GRPO trainer, fed with finished micro-batches of one adapter each.

TRL gives the loss (`GRPOTrainer._compute_loss`, unmodified), the HF loop, the optimizer, the schedule and DDP. It
generates and scores nothing: the game hands over finished rollouts, and they enter as micro-batches through
`_prepare_inputs`. One HF step is one optimizer step for both policies; inside it every micro-batch belongs to one
policy, whose adapter stays active from the forward to the end of the backward pass (gradient checkpointing runs the
forward again inside backward).

Departures from stock, each with its test: gradients are clipped per adapter; masked rows are in no denominator; a
policy without a live row keeps its weights and Adam state to the bit; importance correction is per token and needs no
second forward pass; no telemetry.

Private names of TRL 1.16 and transformers 5.19 touched here (tests/engine/test_contract.py fails when one moves):
`_prepare_inputs`, `_get_per_token_logps_and_entropies`, `_metrics`, `_clip_grad_norm`, `_send_telemetry`,
`current_gradient_accumulation_steps`, and `Dataset` where `trl.trainer.grpo_trainer` imports it.
"""

from __future__ import annotations

import math
import os
import resource
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import peft
import torch
import transformers
import trl
from accelerate.utils import gather_object
from torch.utils.data import DataLoader
from transformers import PrinterCallback, TrainerCallback, set_seed

from agon.config import Model, Train
from agon.engine.adapters import Pair
from agon.engine.synthetic import worst_case
from agon.engine.trl.backend import check_backend, check_devices
from agon.engine.trl.batch import MULTIPLE, Share, shares, tensors
from agon.engine.trl.memory import give_back
from agon.engine.trl.metrics import Tally
from agon.engine.trl.setup import (
    load_base,
    make_optimizer,
    make_pair,
    make_scheduler,
    place,
    stub_tokenizer,
    trl_arguments,
)
from agon.engine.trl.state import load_state, save_state
from agon.engine.trl.stock import GRPOConfig, GRPOTrainer, grpo_trainer
from agon.errors import EngineError
from agon.protocols import Update
from agon.types import Policy, Stream, seed_for

StreamsForStep = Callable[[int], Sequence[Stream]]

STATE_FOLDER = "trainer_state"
LIBRARIES = {"trl": trl, "transformers": transformers, "peft": peft, "torch": torch}


class TRLLearner:
    """Moves both adapters with TRL's GRPO loss; implements `agon.protocols.Learner`."""

    def __init__(
        self,
        model_config: Model,
        train_config: Train,
        *,
        total_steps: int,
        base: Any = None,
        optimizer: Literal["adamw", "sgd"] = "adamw",
    ) -> None:
        check_backend(os.environ, train_config.clip_norm)
        self.model_config, self.train_config, self.total_steps = model_config, train_config, total_steps
        self.step = 0
        self._scratch = tempfile.TemporaryDirectory(prefix="agon-trl-")
        args = trl_arguments(model_config, train_config, total_steps, optimizer, self._scratch.name)
        check_devices(args.n_gpu)
        self.pair = make_pair(base if base is not None else load_base(model_config), model_config, train_config.seed)
        place(self.pair, args)
        self.optimizer = make_optimizer(self.pair, args)
        self.scheduler = make_scheduler(self.optimizer, args)
        self.trainer = PairTrainer(self.pair, train_config, args, (self.optimizer, self.scheduler))
        self._check_processes()

    def fit(self, streams_for_step: Callable[[int], Sequence[Stream]], after_step: Callable[[Update], bool]) -> None:
        """Run steps until the schedule ends or `after_step` returns False on any process."""
        if self.step >= self.total_steps:
            return
        hooks = _Hooks(self, after_step)
        self.trainer.streams_for_step = streams_for_step
        self.trainer.add_callback(hooks)
        try:
            self.trainer.train()
        finally:
            self.trainer.remove_callback(hooks)

    def export(self, policy: Policy, folder: Path) -> str:
        """Write the policy's adapter as a plain PEFT directory; return a hash of its weights."""
        return self.pair.export(policy, folder)

    def save(self, folder: Path) -> None:
        """Write both adapters and all that an exact resume needs; every process holds the same, so one may write."""
        for policy in Policy:
            self.pair.export(policy, folder / policy.value)
        save_state(folder / STATE_FOLDER, self.pair, self.optimizer, self.scheduler, self.step)

    def load(self, folder: Path) -> None:
        """Put back what `save` wrote; the next `fit` goes on from there."""
        for policy in Policy:
            self.pair.load(policy, folder / policy.value)
        self.step = load_state(folder / STATE_FOLDER, self.pair, self.optimizer, self.scheduler)

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Forward and backward of the largest micro-batch a run can meet, before step 1; nothing is learnt from it."""
        sizes = prompt_tokens, completion_tokens
        rows, vocabulary = self.train_config.micro_batch, self.pair.model.config.get_text_config().vocab_size
        try:
            self.trainer.rehearse(worst_case(Policy.A, rows, vocabulary, *sizes))
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise EngineError(
                f"{rows} rows of {sizes[0]} prompt and {sizes[1]} completion tokens do not fit in memory: {error}",
                fix="lower train.micro_batch, train.max_completion_tokens or sampler.gpu_memory_utilization",
            ) from error
        finally:
            give_back(self.trainer.args.device)

    def hash(self, policy: Policy) -> str:
        """The hash of the policy's weights as they are now."""
        return self.pair.hash(policy)

    @property
    def rank(self) -> int:
        """This process among all that train together; each plays its own problems."""
        return int(self.trainer.accelerator.process_index)

    @property
    def processes(self) -> int:
        return int(self.trainer.accelerator.num_processes)

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks; every process must call it."""
        return list(gather_object([value]))

    def memory(self) -> Mapping[str, int]:
        """Bytes in use: the process's peak, and the device's since the last call."""
        used = {"process_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        if torch.cuda.is_available():
            used["device_peak"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        return used

    def describe(self) -> Mapping[str, Any]:
        """What the manifest says about this learner."""
        return {
            "engine": "trl",
            "versions": {name: module.__version__ for name, module in LIBRARIES.items()},
            "processes": self.processes,
            "device": str(self.trainer.args.device),
            "base_dtype": self.model_config.dtype,
            "adapter_parameters": sum(p.numel() for p in self.pair.parameters(Policy.A)),
            "adapted_modules": len(self.pair.targets()),
        }

    def _check_processes(self) -> None:
        """A launcher's processes that do not find each other would train copies that drift apart in silence."""
        launched = int(os.environ.get("WORLD_SIZE", "1"))
        if launched != self.processes:
            raise EngineError(
                f"{launched} processes were launched, but the trainer sees {self.processes}",
                fix="launch with torchrun or accelerate launch, and do not mix CPU and GPU settings",
            )

    def _agree(self, go_on: bool) -> bool:
        """Every process stops when one wants to."""
        return bool(self.trainer.gather(torch.tensor([int(go_on)])).min())


class _Hooks(TrainerCallback):
    """The two moments at which our state meets the trainer's."""

    def __init__(self, learner: TRLLearner, after_step: Callable[[Update], bool]) -> None:
        self.learner, self.after_step = learner, after_step

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        state.global_step = self.learner.step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        learner = self.learner
        update = Update(state.global_step - 1, learner.trainer.finish())
        learner.step = state.global_step
        give_back(args.device)  # before the engine beside it wakes up
        if not learner._agree(self.after_step(update)):
            control.should_training_stop = True
        give_back(args.device)  # what scoring for the canary left


@dataclass(slots=True)
class Micro:
    """One micro-batch: its policy, TRL's inputs, the window TRL divides by, and its live tokens over all processes."""

    policy: Policy
    inputs: dict[str, torch.Tensor]
    window: float
    tokens: int


class PairTrainer(GRPOTrainer):
    """A GRPOTrainer whose batches come from outside and belong to one adapter each."""

    current_gradient_accumulation_steps: float  # set by the HF loop for each optimizer step

    def __init__(self, pair: Pair, train: Train, args: GRPOConfig, optimizers: tuple[Any, Any]) -> None:
        super().__init__(
            model=pair.model,
            reward_funcs=_no_reward,
            args=args,
            train_dataset=grpo_trainer.Dataset.from_dict({"prompt": [""]}),
            processing_class=stub_tokenizer(pair),
            optimizers=optimizers,
        )
        # TRL 1.16 looks for an adapter called "default" when beta > 0: it is told 0, and the truth once it has looked
        self.beta = self.args.beta = train.beta
        self.pair, self.train_config = pair, train
        self.multiple = 1 if pair.model.get_base_model().dtype == torch.float32 else MULTIPLE
        self.streams_for_step: StreamsForStep = _no_streams
        self.tally: dict[Policy, Tally] = {}
        self._micro: Micro | None = None
        self.remove_callback(PrinterCallback)
        pair.restore_flags()

    def _send_telemetry(self) -> None:
        """Stock reports the run to its vendor; we do not."""

    def get_train_dataloader(self) -> DataLoader:
        """One empty item per optimizer step, the same on every process: the data are the streams."""
        return DataLoader([{}] * self.args.max_steps, batch_size=None)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """All micro-batches of one optimizer step, synchronised over processes in the last one only."""
        step = self.state.global_step
        self._share(self.streams_for_step(step))
        # what draws random numbers in a step draws them from its name: a resumed run needs no memory of them
        set_seed(seed_for(self.args.seed, "step", step, self.accelerator.process_index))
        micros = [micro for tally in self.tally.values() for micro in self._micros(tally.share)]
        losses = [self._micro_step(model, micro, last=micro is micros[-1]) for micro in micros]
        return torch.stack(losses).sum() if losses else torch.zeros((), device=self.args.device)

    def rehearse(self, stream: Stream) -> None:
        """One micro-batch like any other, whose gradients are thrown away."""
        self.model.train()
        self.current_gradient_accumulation_steps = 1.0
        self._share([stream])
        for micro in [micro for tally in self.tally.values() for micro in self._micros(tally.share)]:
            self._micro_step(self.model, micro, last=True)
        self.model.zero_grad(set_to_none=True)

    def _share(self, streams: Sequence[Stream]) -> None:
        found = shares(streams, self.train_config.micro_batch, self.gather)
        self.tally = {share.policy: Tally(share) for share in found}

    def _micros(self, share: Share) -> Iterator[Micro]:
        """TRL's inputs for each portion, normalised over the policy's live rows (grpo, dr_grpo) or tokens (dapo)."""
        counts = torch.tensor(
            [sum(len(row.completion) for row in part if row.advantage is not None) for part in share.portions]
        )
        tokens = self.gather(counts).view(-1, len(share.portions)).sum(0).tolist() if share.portions else []
        window = share.live / (self.accelerator.num_processes * share.size) if share.portions else 0.0
        for part, count in zip(share.portions, tokens, strict=True):
            batch = tensors(part, self._pad(), self.multiple)
            inputs = {key: value.to(self.args.device) for key, value in batch.items()}
            inputs["num_items_in_batch"] = torch.tensor(float(share.tokens), device=self.args.device)
            yield Micro(share.policy, inputs, 1.0 if self.loss_type == "dapo" else window, count)

    def _micro_step(self, model: Any, micro: Micro, last: bool) -> torch.Tensor:
        """Forward and backward of one micro-batch under its own adapter."""
        self._micro, whole = micro, self.current_gradient_accumulation_steps
        self.pair.activate(micro.policy)
        self.current_gradient_accumulation_steps = micro.window
        with self._sync(model, last), self._metrics_of(micro):
            loss = super().training_step(model, micro.inputs, None)
        self.current_gradient_accumulation_steps = whole
        self.tally[micro.policy].sums["loss"] += float(loss)
        return loss

    def _prepare_inputs(self, inputs: Any) -> dict[str, torch.Tensor]:
        """The micro-batch is finished: only the reference of the KL term is missing."""
        assert self._micro is not None
        if self.beta:
            self._micro.inputs["ref_per_token_logps"] = self._reference(self._micro.inputs)
        return self._micro.inputs

    def _reference(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Log-probabilities under the frozen base: adapters off."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        width = inputs["completion_ids"].size(1)
        with torch.no_grad(), self.pair.base_only():
            return super()._get_per_token_logps_and_entropies(self.model, ids, mask, width)[0]

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """The loss's own forward: its log-probabilities are the old ones, so the correction needs no second pass."""
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        assert self._micro is not None
        self._correct(self._micro, result[0].detach())
        return result

    def _correct(self, micro: Micro, logps: torch.Tensor) -> None:
        """Weigh each token by the truncated ratio learner / sampler; TRL reads `advantages` only after this."""
        inputs = micro.inputs
        gap = logps - inputs["sampling_per_token_logps"]
        known = inputs["completion_mask"].bool() & ~torch.isnan(gap)
        gap = torch.where(known, gap, torch.zeros_like(gap))
        ratio = torch.exp(gap).clamp(max=self.args.vllm_importance_sampling_clip_max)
        self.tally[micro.policy].add_gap(gap, ratio, known)
        if self.train_config.importance == "token_truncate":
            inputs["advantages"] = inputs["advantages"].unsqueeze(1) * ratio

    def _clip_grad_norm(self, model: Any) -> torch.Tensor:
        """Clip each adapter by its own norm: a joint norm would let one policy's gradient shrink the other's."""
        for group, policy in zip(self.optimizer.param_groups, Policy, strict=True):
            if policy in self.tally:
                self.tally[policy].sums["learning_rate"] = group["lr"]
        norms = [self._clip(policy) for policy, tally in self.tally.items() if tally.share.live]
        return torch.stack(norms).norm() if norms else torch.zeros((), device=self.args.device)

    def _clip(self, policy: Policy) -> torch.Tensor:
        norm = torch.nn.utils.clip_grad_norm_(self.pair.parameters(policy), self.args.max_grad_norm)
        self.tally[policy].sums["grad_norm"] = float(norm)
        if not math.isfinite(float(norm)):
            raise EngineError(
                f"the gradient of policy {policy.value.upper()} is not finite at step {self.state.global_step}",
                fix="resume from the last checkpoint with a lower train.learning_rate, or with model.dtype=float32",
            )
        return norm

    def finish(self) -> dict[Policy, dict[str, float]]:
        """The step's metrics by policy, reduced over all processes."""
        return {policy: tally.finish(self.gather) for policy, tally in self.tally.items()}

    @contextmanager
    def _metrics_of(self, micro: Micro) -> Iterator[None]:
        """Catch what TRL logs during one micro-batch, weighed by its live tokens."""
        outer, self._metrics["train"] = self._metrics["train"], defaultdict(list)
        yield
        caught, self._metrics["train"] = self._metrics["train"], outer
        self.tally[micro.policy].add_trl(caught, micro.tokens)

    def _sync(self, model: Any, last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last else self.accelerator.no_sync(model)

    def gather(self, vector: torch.Tensor) -> torch.Tensor:
        return self.accelerator.gather(vector.to(self.args.device)).cpu()

    def _pad(self) -> int:
        return int(self.processing_class.pad_token_id)


def _no_reward(**columns: Any) -> list[float]:
    """TRL insists on a reward function; ours were paid before the rollouts came here."""
    raise EngineError(
        "TRL asked for a reward; it must never score here", fix="report this: TRL's trainer loop has changed"
    )


def _no_streams(step: int) -> Sequence[Stream]:
    raise EngineError("the trainer was started without streams", fix="call TRLLearner.fit")
