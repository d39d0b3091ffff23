"""What two policies cost the learner: seconds of a step that moves both, divided by a stock TRL GRPO step.

The same rows in both: stock trains one adapter on all of them, ours trains A on half and B on half. Each is timed
from the begin to the end of an optimizer step, ours with what it does after it; the two alternate. Completions are
given, so neither generates; stock pads, scores and shuffles as it does, ours cuts and corrects as it does.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import random

import torch
from transformers import PrinterCallback, TrainerCallback

from _lib import arguments, ratio_interval, verdict
from _rollouts import model_config, train_config
from agon.config import Lora
from agon.engine.synthetic import random_base, random_tokens, rollout, stream
from agon.engine.trl.learner import TRLLearner
from agon.game.advantage import advantages
from agon.protocols import Tokens
from agon.types import Policy, Stream

AIM = 1.05
VOCABULARY, GROUPS, SIZE, MICRO = 2048, 4, 4, 8
PROMPT, COMPLETION = 32, 64
SIZES: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 48, "max_position_embeddings": 512},
}


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    pairs = 3 if args.quick else 120
    ours, stock = Ours(pairs + 1), Stock(pairs + 1)
    rows = [alternate(ours, stock, n) for n in range(pairs + 1)][1:]  # the first warms up
    ratio, low, high = ratio_interval([a for a, _ in rows], [b for _, b in rows])
    print(f"{pairs} pairs of steps on {GROUPS * SIZE} rows of {PROMPT} + {COMPLETION} tokens: ", end="")
    print(f"both policies {sum(a for a, _ in rows) / pairs:.2f} s, stock {sum(b for _, b in rows) / pairs:.2f} s")
    print(f"ratio {ratio:.3f} (95% interval {low:.3f} to {high:.3f})")
    verdict(
        "learner seconds for both streams against a stock TRL GRPO step on the same rows of equal length, float32, CPU",
        round(ratio, 4),
        f"upper end of the interval at most {AIM}",
        holds=high <= AIM,
        interval=[round(low, 4), round(high, 4)],
        n=pairs,
        rows=f"{GROUPS * SIZE} of {PROMPT} + {COMPLETION} tokens",
        base=f"random, {SIZES['num_hidden_layers']} layers of {SIZES['hidden_size']}, float32",
    )


def alternate(ours: Ours, stock: Stock, n: int) -> tuple[float, float]:
    if n % 2:
        second = stock.step(n)
        return ours.step(n), second
    return ours.step(n), stock.step(n)


def group(step: int, index: int) -> list[Tokens]:
    """One problem's completions: equal prompts, full lengths."""
    rng = random.Random(f"{step}/{index}")
    prompt = random_tokens(rng, VOCABULARY, PROMPT, 0).prompt_ids
    return [Tokens(prompt, random_tokens(rng, VOCABULARY, 0, COMPLETION).completion_ids) for _ in range(SIZE)]


def reward(index: int) -> float:
    return float(index % 2)


class Ours:
    """Both policies, half of the groups each."""

    def __init__(self, total: int) -> None:
        train = train_config(micro_batch=MICRO, max_completion_tokens=COMPLETION, gradient_checkpointing=True)
        model = model_config(lora=Lora(rank=16, alpha=32))
        self.learner = TRLLearner(model, train, total_steps=total, base=random_base(**SIZES))
        self.clock = Clock()
        self.learner.trainer.add_callback(self.clock)

    def step(self, n: int) -> float:
        self.learner.fit(lambda _: streams(n), self.clock.stopped)
        return self.clock.seconds


def streams(step: int) -> list[Stream]:
    halves = {Policy.A: range(GROUPS // 2), Policy.B: range(GROUPS // 2, GROUPS)}
    found = []
    for policy, indices in halves.items():
        scores = advantages([reward(i) for i in range(SIZE)])
        rows = [[rollout(policy, i, row, scores[i]) for i, row in enumerate(group(step, g))] for g in indices]
        found.append(stream(policy, rows))
    return found


class Stock:
    """A plain GRPOTrainer with one adapter; every call of `train` is stopped after one step."""

    def __init__(self, total: int) -> None:
        self.trainer = plain_trainer(total)
        self.clock = Clock(stop=True)
        self.trainer.remove_callback(PrinterCallback)
        self.trainer.add_callback(self.clock)
        self.trainer.rows = None

    def step(self, n: int) -> float:
        ROUND[0] = n
        self.trainer._step, self.trainer._buffered_inputs = 0, None
        self.trainer.train()
        return self.clock.seconds


ROUND = [0]


class Clock(TrainerCallback):
    """Times one optimizer step."""

    def __init__(self, stop: bool = False) -> None:
        self.stop, self.began, self.seconds = stop, 0.0, 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.began = time.perf_counter()

    def stopped(self, update: Any) -> bool:
        """After all that our learner does in a step, memory given back and metrics gathered."""
        self.seconds = time.perf_counter() - self.began
        return False

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.seconds = time.perf_counter() - self.began
        control.should_training_stop = control.should_training_stop or self.stop


def plain_trainer(total: int) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="agon-step-"),
        loss_type="grpo",
        beta=0.0,
        max_completion_length=COMPLETION,
        num_generations=SIZE,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=GROUPS * SIZE // MICRO,
        max_steps=total,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return GRPOTrainer(
        model=random_base(**SIZES),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": [str(index) for index in range(GROUPS)] * total}),
        processing_class=word_tokenizer(),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=targets, task_type="CAUSAL_LM"),
        reward_funcs=score,
        rollout_func=roll_out,
    )


def roll_out(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """The rows of this round: prompts only say how many."""
    rows = [row for index in range(len(prompts) // SIZE) for row in group(ROUND[0], index)]
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "logprobs": None,
    }


def score(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [reward(index) for index in range(len(completion_ids))]


def word_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="w0", eos_token="w1", unk_token="w0")


if __name__ == "__main__":
    main()
