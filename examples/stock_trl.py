"""The whole method on two stock `trl.GRPOTrainer`s: nothing overridden, no private name, the game by `agon.play`.

    python examples/stock_trl.py CONFIG.yaml [section.key=value ...]        # such as: train.max_steps=2

Each policy has a trainer in a thread of its own. Both meet at a barrier in their `rollout_func`, and the last to come
plays the step for both. Rewards are finished when they reach TRL; adapters go to the sampler under new names.

What `agon train` does beside this: one copy of the base, passes bounded by tokens so that long rows fit, dead groups in
no denominator, a correction of what the sampler's kernels change, checks that the sampler holds the learner's adapters,
evaluation, exact resume, and engines that share the GPU or have others.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from agon import Config, Policy, Version, load_config, load_verifier, play
from agon.data import splits
from agon.engine.base import base_files
from agon.engine.hf.sampler import HFSampler
from agon.types import Rollout


class Match:
    """Where both trainers meet: the rows of a step, by policy."""

    def __init__(self, config: Config, sampler: HFSampler) -> None:
        self.game, self.sampler, self.size = config.rules(), sampler, config.train.problems_per_step
        self.problems, self.verify = splits(config.data).train, load_verifier(config.verifier)
        self.step, self.rows = 0, dict[Policy, list[Rollout]]()
        self.barrier = threading.Barrier(2, self.play)

    def play(self) -> None:
        batch = self.problems[self.step * self.size : (self.step + 1) * self.size]
        played = asyncio.run(play(batch, self.step, self.game, self.sampler, self.verify))
        self.rows = {stream.policy: list(stream.rollouts()) for stream in played.streams}
        self.step += 1

    def rollouts(self, policy: Policy) -> dict[str, Any]:
        self.barrier.wait()
        tokens = [row.completion.tokens for row in self.rows[policy]]
        return {
            "prompt_ids": [list(t.prompt_ids) for t in tokens],
            "completion_ids": [list(t.completion_ids) for t in tokens],
            "logprobs": [[[logprob] for logprob in t.logprobs] for t in tokens],
            "paid": [row.reward.total if row.reward else float("nan") for row in self.rows[policy]],
        }


class Publish(TrainerCallback):
    """Hands the adapter to the sampler before the first step and after each."""

    def __init__(self, policy: Policy, sampler: HFSampler, folder: Path) -> None:
        self.policy, self.sampler, self.folder = policy, sampler, folder

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        name = Version.of(self.policy, state.global_step, "stock")
        model.save_pretrained(self.folder / name)
        self.sampler.publish(name, self.folder / name)

    on_step_end = on_train_begin


def paid(paid: list[float], **columns: Any) -> list[float]:
    return paid


def main(config: Config) -> dict[Policy, list[dict[str, float]]]:
    """Train both policies; what each trainer logged, step by step."""
    scratch, train, lora = Path(tempfile.mkdtemp()), config.train, config.model.lora
    base, sampler = base_files(config.model), HFSampler(base_files(config.model))
    match = Match(config, sampler)
    gpu = torch.cuda.is_available()
    trainers = {}
    for number, policy in enumerate(Policy):
        torch.manual_seed(number)
        settings = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
        trainers[policy] = GRPOTrainer(
            model=get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings),
            reward_funcs=paid,
            args=GRPOConfig(
                output_dir=str(scratch / policy.name),
                per_device_train_batch_size=train.problems_per_step * config.game.group_size,
                num_generations=config.game.group_size,
                max_steps=train.max_steps or len(match.problems) // train.problems_per_step,
                learning_rate=train.learning_rate,
                lr_scheduler_type=train.schedule,
                warmup_steps=train.warmup,
                max_grad_norm=train.clip_norm,
                loss_type=train.loss,
                beta=train.beta,
                temperature=train.temperature,
                max_completion_length=train.max_completion_tokens,
                gradient_checkpointing=train.gradient_checkpointing,
                shuffle_dataset=False,
                logging_steps=1,
                disable_tqdm=True,
                report_to="none",
                save_strategy="no",
                use_cpu=not gpu,
                bf16=gpu,
            ),
            processing_class=AutoTokenizer.from_pretrained(base),
            train_dataset=Dataset.from_dict({"prompt": [problem.question for problem in match.problems]}),
            rollout_func=lambda prompts, trainer, policy=policy: match.rollouts(policy),
            callbacks=[Publish(policy, sampler, scratch)],
        )
    threads = [threading.Thread(target=trainer.train) for trainer in trainers.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sampler.close()
    match.verify.close()
    return {policy: [entry for entry in t.state.log_history if "reward" in entry] for policy, t in trainers.items()}


if __name__ == "__main__":
    for policy, log in main(load_config(Path(sys.argv[1]), sys.argv[2:])).items():
        for entry in log:
            print(policy.name, {name: round(entry[name], 4) for name in ("step", "reward", "grad_norm")})
