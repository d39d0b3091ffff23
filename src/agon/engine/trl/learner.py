"""The learner of a run: one frozen base, two adapters, and TRL's GRPO trainer that moves them."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import peft
import torch
import transformers
import trl
from torch.distributed import TCPStore

from agon.config import Model, Train
from agon.engine.dtypes import learner_dtype
from agon.engine.linear_attention import check_kernels
from agon.engine.synthetic import worst_case
from agon.engine.trl.backend import check_backend, check_devices
from agon.engine.trl.batch import FILLER
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
    without_dropout,
)
from agon.engine.trl.shard import Passes, gathered_bytes
from agon.engine.trl.state import load_state, save_state
from agon.engine.trl.trainer import PairTrainer
from agon.errors import ConfigError, EngineError
from agon.protocols import Peers, Phase, Store, Tokens, Update, alone
from agon.types import Policy, Stream

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
        path: str | None = None,
        optimizer: Literal["adamw", "sgd"] = "adamw",
    ) -> None:
        """Over `base`, or the one in `path`, or the one that the config names."""
        check_backend(os.environ, train_config.clip_norm)
        self.model_config, self.train_config, self.total_steps = model_config, train_config, total_steps
        self.step = 0
        self.consistent = True
        self._scratch = tempfile.TemporaryDirectory(prefix="agon-trl-")
        args = trl_arguments(model_config, train_config, total_steps, optimizer, self._scratch.name)
        check_devices(args.n_gpu)
        let_segments_grow(args.device)
        parts = args.world_size if train_config.shard == "base" else None
        base = base if base is not None else load_base(model_config, path, parts)
        # held until engines are told how much of the device is free: they must leave room for a pass that scores
        self._room = None if parts is None else torch.empty(gathered_bytes(base), dtype=torch.uint8, device=args.device)
        without_dropout(base)
        self.attention = attention_of(model_config, base, args.device)
        use_row_attention(base, self.attention)
        self.pair = make_pair(base, model_config, train_config.seed)
        place(self.pair, args)
        self.optimizer = make_optimizer(self.pair, args)
        self.scheduler = make_scheduler(self.optimizer, args)
        self.trainer = PairTrainer(self.pair, train_config, args, (self.optimizer, self.scheduler))
        self._check_processes()
        self._store: TCPStore | None = None
        self._passes: Passes | None = None

    def update(self, streams: Sequence[Stream], phase: Phase = alone) -> Update:
        """One optimizer step for both policies; all processes call it, each with its own rows."""
        step, trainer = self.step, self.trainer
        trainer.accumulate(step, streams, phase)
        for group, policy in zip(self.optimizer.param_groups, Policy, strict=True):
            if policy in trainer.step_metrics:
                trainer.step_metrics[policy].sums["learning_rate"] = group["lr"]
        self.consistent = False
        self.optimizer.step()
        self.scheduler.step()
        self.pair.model.zero_grad(set_to_none=True)
        self.step, self.consistent = step + 1, True
        release_freed_memory(trainer.args.device)  # before an engine on the same device wakes up
        return Update(step, trainer.step_values())

    def export(self, policy: Policy, folder: Path) -> str:
        """Write the policy's adapter as a plain PEFT directory; return a hash of its weights."""
        return self.pair.export(policy, folder)

    def save(self, folder: Path) -> None:
        """Write all that an exact resume needs; every process holds the same state, so one may write."""
        for policy in Policy:
            self.pair.export(policy, folder / policy.value)
        self.save_state(folder / STATE_FOLDER)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote; the next update resumes there."""
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
        if self.trainer.rows_leak():
            raise ConfigError(
                "this base mixes the rows of a pass: it has layers that do not end at the end of a row, such as "
                "convolutions, recurrent layers or attention of its own",
                fix="set train.tokens_per_pass=1, so that every row has a pass of its own, or name a different base",
            )
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

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under a policy's weights as they are; None is the bare base."""
        if self._passes:
            self._passes.claim(self.trainer.passes(rows))
        scores = self.trainer.score(policy, rows)
        release_freed_memory(self.trainer.args.device)
        return scores

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
        if self.processes == 1 or self._store:
            return self._store
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
        self._store = first or TCPStore(host, opened)
        return self._store

    def join(self, peers: Peers) -> None:
        """Where the base is split, compute every pass together with the other processes."""
        self._room = None
        if self.train_config.shard == "base" and self._store:
            self._passes = Passes(self._store, partial(self.trainer.score, Policy.A, [FILLER]))
            self.trainer.together, peers.idle = peers.together, self._passes.join

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
            "base_dtype": learner_dtype(self.model_config.dtype),
            "attention": self.attention,
            "shard": self.train_config.shard,
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
