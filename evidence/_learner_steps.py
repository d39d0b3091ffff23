"""One optimizer step of our learner and of a stock TRL GRPO trainer on the same rows, timed.

Stock trains one adapter on all of the rows, ours trains A on half of the groups and B on the others. Each is timed from
the begin to the end of an optimizer step, ours with what it does after it. Completions are given, so neither generates;
stock pads, scores and shuffles as it does, ours cuts, packs and corrects as it does.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import _lib  # noqa: F401 - finds `tests`

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

from transformers import PrinterCallback, TrainerCallback

from _rollouts import model_config, train_config
from agon.config import Lora
from agon.engine.learner.learner import PairLearner
from agon.engine.synthetic import rollout, stream
from agon.game.advantage import advantages
from agon.protocols import Tokens
from agon.types import Policy, Stream
from tests.engine.helpers.bases import random_base

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True, slots=True)
class Work:
    """What a step learns from: groups of rows, the same in every trainer, and the base."""

    groups: int
    size: int
    completion: int
    base: dict[str, Any]
    group: Callable[[int, int], list[Tokens]]
    """The completions of a step and a group."""

    def streams(self, step: int) -> list[Stream]:
        halves = {Policy.A: range(self.groups // 2), Policy.B: range(self.groups // 2, self.groups)}
        scores = advantages([reward(index) for index in range(self.size)])
        return [
            stream(
                policy,
                [[rollout(policy, i, row, scores[i]) for i, row in enumerate(self.group(step, g))] for g in indices],
            )
            for policy, indices in halves.items()
        ]


def reward(index: int) -> float:
    return float(index % 2)


class Ours:
    """Both policies, half of the groups each."""

    def __init__(self, work: Work, tokens: int, total: int) -> None:
        self.work = work
        train = train_config(tokens_per_pass=tokens, max_completion_tokens=work.completion, gradient_checkpointing=True)
        model = model_config(lora=Lora(rank=16, alpha=32))
        self.learner = PairLearner(model, train, total_steps=total, base=random_base(**work.base))

    def step(self, n: int) -> float:
        """Seconds of all that our learner does in a step, memory given back and metrics gathered."""
        streams = self.work.streams(n)
        began = time.perf_counter()
        self.learner.update(streams)
        return time.perf_counter() - began


class Stock:
    """A plain GRPOTrainer with one adapter; every call of `train` is stopped after one step."""

    def __init__(self, work: Work, batch: int, total: int) -> None:
        from datasets import Dataset
        from peft import LoraConfig
        from trl import GRPOConfig, GRPOTrainer

        self.work, self.clock, self.round = work, Clock(stop=True), 0
        config = GRPOConfig(
            output_dir=tempfile.mkdtemp(prefix="agon-step-"),
            loss_type="grpo",
            beta=0.0,
            max_completion_length=work.completion,
            num_generations=work.size,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=work.groups * work.size // batch,
            max_steps=total,
            bf16=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        self.trainer = GRPOTrainer(
            model=random_base(**work.base),
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [str(index) for index in range(work.groups)] * total}),
            processing_class=word_tokenizer(work.base["vocab_size"]),
            peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=TARGETS, task_type="CAUSAL_LM"),
            reward_funcs=score,
            rollout_func=self._roll_out,
        )
        self.trainer.remove_callback(PrinterCallback)
        self.trainer.add_callback(self.clock)

    def step(self, n: int) -> float:
        self.round = n
        self.trainer._step, self.trainer._buffered_inputs = 0, None
        self.trainer.train()
        return self.clock.seconds

    def _roll_out(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """The rows of this round: prompts only say how many."""
        rows = [row for index in range(len(prompts) // self.work.size) for row in self.work.group(self.round, index)]
        return {
            "prompt_ids": [list(row.prompt_ids) for row in rows],
            "completion_ids": [list(row.completion_ids) for row in rows],
            "logprobs": None,
        }


class Clock(TrainerCallback):
    """Times one optimizer step."""

    def __init__(self, stop: bool = False) -> None:
        self.stop, self.began, self.seconds = stop, 0.0, 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.seconds = time.perf_counter() - self.began
        control.should_training_stop = control.should_training_stop or self.stop


def score(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [reward(index) for index in range(len(completion_ids))]


def word_tokenizer(vocabulary: int) -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({f"w{i}": i for i in range(vocabulary)}, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="w0", eos_token="w1", unk_token="w0")
