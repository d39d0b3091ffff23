"""The learner of a run: one frozen base, two adapters, and TRL's GRPO trainer that moves them."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import peft
import torch
import transformers
import trl
from torch.distributed import TCPStore
from transformers import TrainerCallback

from agon.config import Model, Train
from agon.engine.linear_attention import check_kernels
from agon.engine.synthetic import worst_case
from agon.engine.trl.backend import check_backend, check_devices
from agon.engine.trl.collectives import gather_objects
from agon.engine.trl.memory import explain_out_of_memory, let_segments_grow, release_freed_memory
from agon.engine.trl.row_attention import use_row_attention
from agon.engine.trl.setup import (
    attention_of,
    load_base,
    make_optimizer,
    make_pair,
    make_scheduler,
    place,
    trl_arguments,
)
from agon.engine.trl.state import load_state, save_state
from agon.engine.trl.trainer import PairTrainer, StreamsForStep
from agon.errors import EngineError
from agon.protocols import Phase, Store, Stretch, Tokens, Update, alone
from agon.types import Policy

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
        self.consistent = True
        self._scratch = tempfile.TemporaryDirectory(prefix="agon-trl-")
        args = trl_arguments(model_config, train_config, total_steps, optimizer, self._scratch.name)
        check_devices(args.n_gpu)
        let_segments_grow(args.device)
        base = base if base is not None else load_base(model_config)
        self.attention = attention_of(model_config, base, args.device)
        use_row_attention(base, self.attention)
        self.pair = make_pair(base, model_config, train_config.seed)
        place(self.pair, args)
        self.optimizer = make_optimizer(self.pair, args)
        self.scheduler = make_scheduler(self.optimizer, args)
        self.trainer = PairTrainer(self.pair, train_config, args, (self.optimizer, self.scheduler))
        self._check_processes()

    def fit(self, streams_for_step: StreamsForStep, after_step: Callable[[Update], bool], phase: Phase = alone) -> None:
        """Run steps until the schedule ends or `after_step` returns False, which it must do on all processes."""
        if self.step >= self.total_steps:
            return
        hooks = _Hooks(self, after_step)
        self.trainer.streams_for_step, self.trainer.phase = streams_for_step, phase
        self.trainer.add_callback(hooks)
        try:
            self.trainer.train()
        finally:
            self.trainer.remove_callback(hooks)

    def export(self, policy: Policy, folder: Path) -> str:
        """Write the policy's adapter as a plain PEFT directory; return a hash of its weights."""
        return self.pair.export(policy, folder)

    def save(self, folder: Path) -> None:
        """Write all that an exact resume needs; every process holds the same state, so one may write."""
        for policy in Policy:
            self.pair.export(policy, folder / policy.value)
        self.save_state(folder / STATE_FOLDER)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; the next `fit` resumes there."""
        for policy in Policy:
            self.pair.load(policy, folder / policy.value)
        self.load_state(folder / STATE_FOLDER)

    def save_state(self, folder: Path) -> None:
        """Write what a resume needs besides the adapters."""
        save_state(folder, self.pair, self.optimizer, self.scheduler, self.step)

    def load_state(self, folder: Path) -> None:
        """Restore what `save_state` wrote."""
        self.step = load_state(folder, self.pair, self.optimizer, self.scheduler)

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Run forward and backward of the largest micro-batch a run can meet, without learning from it."""
        sizes = prompt_tokens, completion_tokens
        check_kernels(self.pair.model.config, sum(sizes))
        rows = max(self.train_config.tokens_per_pass // sum(sizes), 1)
        vocabulary = self.pair.model.config.get_text_config().vocab_size
        try:
            with explain_out_of_memory(f"with {rows} rows of {sizes[0]} prompt and {sizes[1]} completion tokens"):
                self.trainer.rehearse(worst_case(Policy.A, rows, vocabulary, *sizes))
        finally:
            release_freed_memory(self.trainer.args.device)

    def hash(self, policy: Policy) -> str:
        """The hash of the policy's weights as they are now."""
        return self.pair.hash(policy)

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        """Log-probs of completions under a policy's weights, stretched or as they are; None is the bare base."""
        if policy is None or stretch is None:
            return self.trainer.score(policy, rows)
        with self.pair.stretched(policy, stretch):
            return self.trainer.score(policy, rows)

    @property
    def rank(self) -> int:
        """Which process this is."""
        return int(self.trainer.accelerator.process_index)

    @property
    def processes(self) -> int:
        return int(self.trainer.accelerator.num_processes)

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks; all must call it."""
        return gather_objects(self.trainer.accelerator, value)

    def store(self) -> Store | None:
        """A store in the first process; None for one process alone. All must call it."""
        if self.processes == 1:
            return None
        host, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), store_port(os.environ)
        first, failure = None, None
        if self.rank == 0:
            try:
                first = TCPStore(host, port, is_master=True, wait_for_workers=False)
            except RuntimeError as error:
                failure = str(error)
        opened, failure = self.gather((first.port if first else port, failure))[0]
        if failure:
            raise EngineError(
                f"processes cannot meet at port {port} of {host}: {failure}",
                fix="choose a different one with torchrun --master-port: that port and the one after it must be free",
            )
        return first or TCPStore(host, opened)

    def memory(self) -> Mapping[str, int]:
        """Peak bytes: of the process, and of the device since the last call."""
        unit = 1 if sys.platform == "darwin" else 1024
        used = {"process_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
        if torch.cuda.is_available():
            used["device_peak"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        return used

    def describe(self) -> Mapping[str, Any]:
        """The learner's entry in the manifest."""
        return {
            "engine": "trl",
            "versions": {name: module.__version__ for name, module in LIBRARIES.items()},
            "processes": self.processes,
            "device": str(self.trainer.args.device),
            "base_dtype": self.model_config.dtype,
            "attention": self.attention,
            "adapter_parameters": sum(p.numel() for p in self.pair.parameters(Policy.A)),
            "adapted_modules": len(self.pair.targets()),
        }

    def _check_processes(self) -> None:
        """Refuse processes that do not see each other: they would train copies that silently drift apart."""
        launched = int(os.environ.get("WORLD_SIZE", "1"))
        if launched != self.processes:
            raise EngineError(
                f"{launched} processes were launched, but the trainer sees {self.processes}",
                fix="launch with torchrun or accelerate launch, and do not mix CPU and GPU settings",
            )


def store_port(environ: Mapping[str, str]) -> int:
    """Where processes meet: on one machine any free port, between machines the one after MASTER_PORT, as a firewall
    must let it through."""
    one_machine = environ.get("LOCAL_WORLD_SIZE") == environ.get("WORLD_SIZE")
    return 0 if one_machine else int(environ["MASTER_PORT"]) + 1


class _Hooks(TrainerCallback):
    """Where our state and the trainer's meet: the start of training, the optimizer's move, the end of a step."""

    def __init__(self, learner: TRLLearner, after_step: Callable[[Update], bool]) -> None:
        self.learner, self.after_step = learner, after_step

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        state.global_step = self.learner.step

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.learner.consistent = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        learner = self.learner
        update = Update(state.global_step - 1, learner.trainer.step_values())
        learner.step, learner.consistent = state.global_step, True
        release_freed_memory(args.device)  # before an engine on the same device wakes up
        if not self.after_step(update):
            control.should_training_stop = True
        release_freed_memory(args.device)  # what scoring left
