"""Arm `grpo` against a plain `trl.GRPOTrainer`: same completions, same rewards, so the same loss and the same adapter.

The plain trainer is stock: its own model wrapping, advantages, shuffling, batching, clipping, optimizer and schedule.
It is given completions through its `rollout_func` and rewards through a reward function. Ours gets the same rollouts as
one stream of policy A. All groups are live: stock TRL keeps dead groups in its denominators, we do not.
"""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from transformers import PrinterCallback

from _lib import arguments, verdict
from _rollouts import VOCABULARY, live_group, model_config, reward, train_config
from agon.engine.synthetic import random_base, rollout, stream
from agon.engine.trl.learner import TRLLearner
from agon.game.advantage import advantages
from agon.types import Policy, Stream

STEPS, GROUPS, SIZE, MICRO = 5, 4, 4, 4
CLIP = 0.05  # below every gradient norm of this run, so that clipping takes part in the comparison
TOLERANCE = 1e-6


def ours(loss: str, beta: float) -> tuple[list[float], dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Losses by step, adapter A before, adapter A after."""
    train = train_config(loss=loss, micro_batch=MICRO, beta=beta, clip_norm=CLIP)
    learner = TRLLearner(model_config(), train, total_steps=STEPS, base=random_base())
    before = weights(learner)
    losses: list[float] = []

    def note(update: Any) -> bool:
        losses.append(update.metrics[Policy.A]["loss"])
        return True

    learner.fit(streams_for_step, note)
    return losses, before, weights(learner)


def weights(learner: TRLLearner) -> dict[str, torch.Tensor]:
    named = learner.pair.named_parameters(Policy.A)
    return {name.replace(".a.weight", ""): p.detach().clone() for name, p in named.items()}


def streams_for_step(step: int) -> list[Stream]:
    groups = []
    for index in range(GROUPS):
        group = live_group(step, index, size=SIZE)
        scores = advantages([reward(row.completion_ids) for row in group])
        groups.append(
            [rollout(Policy.A, i, row, score) for i, (row, score) in enumerate(zip(group, scores, strict=True))]
        )
    return [stream(Policy.A, groups)]


def stock(loss: str, beta: float, start: dict[str, torch.Tensor]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The same run by a plain GRPOTrainer whose adapter starts from the same weights."""
    trainer = plain_trainer(loss, beta)
    adapter = {n.replace(".default.weight", ""): p for n, p in trainer.model.named_parameters() if "lora_" in n}
    with torch.no_grad():
        for name, parameter in adapter.items():
            parameter.copy_(start[name])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, {name: parameter.detach().clone() for name, parameter in adapter.items()}


def plain_trainer(loss: str, beta: float) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    prompts = [f"{step} {index}" for step in range(STEPS) for index in range(GROUPS)]
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="agon-parity-"),
        loss_type=loss,
        beta=beta,
        learning_rate=1e-3,
        max_grad_norm=CLIP,
        max_completion_length=24,
        num_generations=SIZE,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=GROUPS * SIZE // MICRO,
        num_train_epochs=1,
        shuffle_dataset=False,
        logging_steps=1,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    return GRPOTrainer(
        model=random_base(),
        args=config,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=word_tokenizer(),
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM"),
        reward_funcs=score,
        rollout_func=roll_out,
    )


def roll_out(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Completion i of a group is the i-th time that its prompt is asked for."""
    seen: dict[str, int] = {}
    rows = []
    for prompt in prompts:
        index = seen.get(prompt, 0)
        seen[prompt] = index + 1
        rows.append(live_group(*map(int, prompt.split()), size=SIZE)[index])
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "logprobs": None,
    }


def score(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [reward(ids) for ids in completion_ids]


def word_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {f"w{i}": i for i in range(VOCABULARY)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="w0", eos_token="w1", unk_token="w0")


def compare(loss: str, beta: float) -> dict[str, float]:
    """Largest differences of losses and weights, and how far the weights moved."""
    mine, before, after = ours(loss, beta)
    theirs, reference = stock(loss, beta, before)
    return {
        "loss": max(abs(a - b) for a, b in zip(mine, theirs, strict=True)),
        "weights": max(float((after[name] - reference[name]).abs().max()) for name in after),
        "moved": max(float((after[name] - before[name]).abs().max()) for name in after),
    }


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    gc.freeze()  # the HF trainer collects garbage at every start
    cases = [(loss, 0.0) for loss in ("grpo", "dapo", "dr_grpo")] + ([] if args.quick else [("grpo", 0.04)])
    results = {f"{loss}, beta {beta:g}": compare(loss, beta) for loss, beta in cases}
    print(f"{STEPS} steps of {GROUPS} live groups of {SIZE}, AdamW 1e-3, clip {CLIP}, micro-batches of {MICRO}\n")
    print(f"{'':18}{'loss differs':>14}{'weights differ':>16}{'weights moved':>15}")
    for name, row in results.items():
        print(f"{name:18}{row['loss']:14.1e}{row['weights']:16.1e}{row['moved']:15.1e}")
    worst = max(max(row["loss"], row["weights"]) for row in results.values())
    verdict(
        "arm grpo equals a plain trl.GRPOTrainer on the same completions and rewards: loss and adapter after 5 steps",
        worst,
        TOLERANCE,
        holds=worst <= TOLERANCE,
        cases=results,
        steps=STEPS,
    )


if __name__ == "__main__":
    main()
