"""Our learner against plain `trl.GRPOTrainer`s: same completions, rewards and log-probs, so the same adapters.

Ours trains two adapters in one run, each on rows of its own, as the standalone streams of a game. For each adapter a
plain trainer learns from the same rows alone: stock, with its own model wrapping, advantages, shuffling, batching,
clipping, optimizer and schedule. It is given completions through its `rollout_func` and rewards through a reward
function. Compared with and without a KL term, and with and without sampler log-probs that are off by up to two nats:
the stock correction is TRL's own for vLLM, mode `token_truncate`. All groups are live: stock TRL keeps dead groups in
its denominators, we do not. One process, float32, a base of two layers.

AdamW first ran alone here, with a goal of 1e-6, and missed it when the second adapter and the correction came in: 2e-6
of weights that moved by 3e-3. Both sides add up in a different order, and Adam divides small gradients by their own
size. SGD does not, and shows 1.5e-8; so both run, and AdamW has a goal of 1e-5.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from transformers import PrinterCallback

from _lib import arguments, verdict
from _rollouts import VOCABULARY, live_group, model_config, reward, train_config
from agon.engine.synthetic import random_base, rollout, stream
from agon.engine.trl.learner import TRLLearner
from agon.game.advantage import advantages
from agon.protocols import Tokens
from agon.types import Policy, Stream

STEPS, GROUPS, SIZE, MICRO, TOKENS = 5, 4, 4, 4, 80
CLIP = 0.05  # below every gradient norm of this run, so that clipping takes part in the comparison
RATES = {"sgd": 0.05, "adamw": 1e-3}
GOALS = {"sgd": 1e-6, "adamw": 1e-5}
"""The most that losses and weights may differ, by optimizer."""
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Case:
    """A loss, the weight of its KL term, and whether the sampler's log-probs are known and corrected for."""

    loss: str
    beta: float
    corrected: bool
    optimizer: Literal["sgd", "adamw"]

    def __str__(self) -> str:
        return f"{self.loss}, beta {self.beta:g}, {'corrected, ' if self.corrected else ''}{self.optimizer}"

    def group(self, policy: Policy, step: int, index: int) -> list[Tokens]:
        """One problem's completions; where it is corrected, with log-probs around those of a random base."""
        group = live_group(policy.value, step, index, size=SIZE)
        if not self.corrected:
            return group
        rng = random.Random(f"{policy.value}/{step}/{index}")
        return [replace(row, logprobs=tuple(rng.uniform(-6, -3) for _ in row.completion_ids)) for row in group]


LOSSES = [("grpo", 0.0, False), ("dapo", 0.0, False), ("dr_grpo", 0.0, False), ("grpo", 0.04, False),
          ("grpo", 0.0, True), ("dr_grpo", 0.0, True), ("dapo", 0.04, True)]  # fmt: skip
CASES = [Case(*settings, optimizer) for settings in LOSSES for optimizer in ("sgd", "adamw")]
QUICK = CASES[1], CASES[-2]


def ours(case: Case) -> tuple[dict[Policy, list[float]], dict[Policy, Weights], dict[Policy, Weights]]:
    """By policy: losses by step, the adapter before, the adapter after."""
    rate = RATES[case.optimizer]
    train = train_config(loss=case.loss, tokens_per_pass=TOKENS, beta=case.beta, clip_norm=CLIP, learning_rate=rate)
    learner = TRLLearner(model_config(), train, total_steps=STEPS, base=random_base(), optimizer=case.optimizer)
    before = {policy: weights(learner, policy) for policy in Policy}
    losses: dict[Policy, list[float]] = {policy: [] for policy in Policy}
    for step in range(STEPS):
        update = learner.update([rows(case, policy, step) for policy in Policy])
        for policy in Policy:
            losses[policy].append(update.metrics[policy]["loss"])
    return losses, before, {policy: weights(learner, policy) for policy in Policy}


def weights(learner: TRLLearner, policy: Policy) -> Weights:
    named = learner.pair.named_parameters(policy)
    return {name.replace(f".{policy.value}.weight", ""): p.detach().clone() for name, p in named.items()}


def rows(case: Case, policy: Policy, step: int) -> Stream:
    groups = []
    for index in range(GROUPS):
        group = case.group(policy, step, index)
        scores = advantages([reward(row.completion_ids) for row in group])
        groups.append(
            [rollout(policy, i, row, score) for i, (row, score) in enumerate(zip(group, scores, strict=True))]
        )
    return stream(policy, groups)


def stock(case: Case, policy: Policy, start: Weights) -> tuple[list[float], Weights]:
    """The same rows of one policy by a plain GRPOTrainer whose adapter starts from the same weights."""
    trainer = plain_trainer(case, policy)
    adapter = {n.replace(".default.weight", ""): p for n, p in trainer.model.named_parameters() if "lora_" in n}
    with torch.no_grad():
        for name, parameter in adapter.items():
            parameter.copy_(start[name])
    if case.corrected:  # TRL corrects only what vLLM drew; there is none to send weights to
        trainer.use_vllm, trainer._last_loaded_step = True, -1
        trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, {name: parameter.detach().clone() for name, parameter in adapter.items()}


def plain_trainer(case: Case, policy: Policy) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOConfig, GRPOTrainer

    prompts = [f"{step} {index}" for step in range(STEPS) for index in range(GROUPS)]
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="agon-parity-"),
        loss_type=case.loss,
        beta=case.beta,
        vllm_importance_sampling_mode="token_truncate",
        learning_rate=RATES[case.optimizer],
        optim={"adamw": "adamw_torch_fused", "sgd": "sgd"}[case.optimizer],
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
        rollout_func=lambda prompts, trainer: roll_out(case, policy, prompts),
    )


def roll_out(case: Case, policy: Policy, prompts: list[str]) -> dict[str, Any]:
    """Completion i of a group is the i-th time that its prompt is asked for."""
    seen: dict[str, int] = {}
    drawn = []
    for prompt in prompts:
        index = seen.get(prompt, 0)
        seen[prompt] = index + 1
        drawn.append(case.group(policy, *map(int, prompt.split()))[index])
    return {
        "prompt_ids": [list(row.prompt_ids) for row in drawn],
        "completion_ids": [list(row.completion_ids) for row in drawn],
        "logprobs": [list(row.logprobs or ()) for row in drawn] if case.corrected else None,
    }


def score(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [reward(ids) for ids in completion_ids]


def word_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {f"w{i}": i for i in range(VOCABULARY)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="w0", eos_token="w1", unk_token="w0")


def compare(case: Case) -> dict[str, float]:
    """Largest differences of losses and weights over both adapters, and how far the weights moved."""
    mine, before, after = ours(case)
    result = {"loss": 0.0, "weights": 0.0, "moved": 0.0}
    for policy in Policy:
        theirs, reference = stock(case, policy, before[policy])
        names = after[policy].keys()
        differences = {
            "loss": max(abs(a - b) for a, b in zip(mine[policy], theirs, strict=True)),
            "weights": max(float((after[policy][n] - reference[n]).abs().max()) for n in names),
            "moved": max(float((after[policy][n] - before[policy][n]).abs().max()) for n in names),
        }
        result = {name: max(result[name], value) for name, value in differences.items()}
    return result


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    gc.freeze()  # the HF trainer collects garbage at every start
    cases = QUICK if args.quick else CASES
    results = {str(case): compare(case) for case in cases}
    print(f"{STEPS} steps of {GROUPS} live groups of {SIZE} for each of two adapters, rates {RATES}, clip {CLIP}\n")
    print(f"{'':36}{'loss differs':>14}{'weights differ':>16}{'weights moved':>15}")
    for name, row in results.items():
        print(f"{name:36}{row['loss']:14.1e}{row['weights']:16.1e}{row['moved']:15.1e}")
    worst = dict.fromkeys(GOALS, 0.0)
    for case in cases:
        row = results[str(case)]
        worst[case.optimizer] = max(worst[case.optimizer], row["loss"], row["weights"])
    verdict(
        "two adapters equal two plain trl.GRPOTrainers after 5 steps: 3 losses, with and without KL and correction",
        worst,
        GOALS,
        holds=all(worst[optimizer] <= goal for optimizer, goal in GOALS.items()),
        cases=results,
        steps=STEPS,
    )


if __name__ == "__main__":
    main()
