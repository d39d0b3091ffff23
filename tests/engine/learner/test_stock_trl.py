"""Two adapters of one learner end where two stock `trl.GRPOTrainer`s end: the same rows, five steps, the same weights.

Each stock trainer has its own model, advantages, batches, clipping, optimizer and schedule; it is given completions by
its `rollout_func` and rewards by a reward function. All groups are live: stock TRL keeps dead groups in its
denominators. Its KL term is taken without the correction that TRL multiplies it with by default.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agon.engine.synthetic import random_tokens, rollout, stream
from agon.game.advantage import advantages
from agon.protocols import Tokens
from agon.types import Policy, Stream
from tests.engine.helpers.bases import random_base

from .helpers import VOCABULARY, PairLearner, model_config, train_config

pytestmark = pytest.mark.contract
STEPS, GROUPS, SIZE, MICRO = 5, 4, 4, 4
CLIP = 0.05
"""Below every norm of these gradients, so that clipping takes part."""
RATE = {"sgd": 0.05, "adamw": 1e-3}
OPTIM = {"adamw": "adamw_torch_fused", "sgd": "sgd"}
GOAL = {"sgd": 1e-6, "adamw": 1e-5}
"""Both sides add up in a different order, and Adam divides small gradients by their own size."""


@dataclass(frozen=True, slots=True)
class Case:
    loss: str
    beta: float
    corrected: bool
    """Whether the sampler's log-probabilities are known, and off by up to two nats."""
    optimizer: str


CASES = [
    Case("grpo", 0.0, False, "sgd"),
    Case("grpo", 0.04, True, "sgd"),
    Case("dr_grpo", 0.0, True, "adamw"),
    Case("dapo", 0.04, True, "sgd"),
    Case("dapo", 0.0, False, "adamw"),
]


def reward(completion: tuple[int, ...] | list[int]) -> float:
    return 2.0 * (sum(completion) % 2 == 0) + 0.5 * (completion[0] % 2 == 0)


def group(case: Case, policy: Policy, step: int, index: int) -> list[Tokens]:
    """One problem's completions, with rewards that differ; with log-probs around those of a random base."""
    rng = random.Random(f"{policy.value}/{step}/{index}")
    while True:
        prompt = random_tokens(rng, VOCABULARY, rng.randrange(3, 9), 0).prompt_ids
        lengths = [rng.randrange(2, 24) for _ in range(SIZE)]
        drawn = [Tokens(prompt, random_tokens(rng, VOCABULARY, 0, length).completion_ids) for length in lengths]
        if advantages([reward(row.completion_ids) for row in drawn])[0] is not None:
            break
    if not case.corrected:
        return drawn
    return [replace(row, logprobs=tuple(rng.uniform(-6, -3) for _ in row.completion_ids)) for row in drawn]


def rows(case: Case, policy: Policy, step: int) -> Stream:
    groups = []
    for index in range(GROUPS):
        drawn = group(case, policy, step, index)
        scores = advantages([reward(row.completion_ids) for row in drawn])
        groups.append([rollout(policy, i, row, scores[i]) for i, row in enumerate(drawn)])
    return stream(policy, groups)


def own(learner: PairLearner, policy: Policy) -> dict[str, torch.Tensor]:
    named = learner.pair.named_parameters(policy)
    return {name.replace(f".{policy.value}.weight", ""): p.detach().clone() for name, p in named.items()}


def stock(case: Case, policy: Policy, start: dict[str, torch.Tensor], folder: str) -> dict[str, torch.Tensor]:
    """The same rows of one policy by a stock trainer whose adapter starts from the same weights."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    seen: dict[str, int] = {}

    def rollouts(prompts: list[str], trainer: Any) -> dict[str, Any]:
        drawn = []
        for prompt in prompts:  # completion i of a group is the i-th time that its prompt is asked for
            place = seen[prompt] = seen.get(prompt, -1) + 1
            drawn.append(group(case, policy, *map(int, prompt.split()))[place])
        return {
            "prompt_ids": [list(row.prompt_ids) for row in drawn],
            "completion_ids": [list(row.completion_ids) for row in drawn],
            "logprobs": [list(row.logprobs or ()) for row in drawn] if case.corrected else None,
        }

    def paid(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        return [reward(ids) for ids in completion_ids]

    from tokenizers import Tokenizer, models

    core = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    trainer = GRPOTrainer(
        model=random_base(),
        args=GRPOConfig(
            output_dir=folder,
            loss_type=case.loss,
            beta=case.beta,
            use_bias_correction_kl=False,
            vllm_importance_sampling_mode="token_truncate",
            learning_rate=RATE[case.optimizer],
            optim=OPTIM[case.optimizer],
            max_grad_norm=CLIP,
            max_completion_length=24,
            num_generations=SIZE,
            per_device_train_batch_size=MICRO,
            gradient_accumulation_steps=GROUPS * SIZE // MICRO,
            num_train_epochs=1,
            shuffle_dataset=False,
            bf16=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": [f"{s} {i}" for s in range(STEPS) for i in range(GROUPS)]}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=core, pad_token="w0", eos_token="w1", unk_token="w0"),
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"),
        reward_funcs=paid,
        rollout_func=rollouts,
    )
    adapter = {n.replace(".default.weight", ""): p for n, p in trainer.model.named_parameters() if "lora_" in n}
    with torch.no_grad():
        for name, parameter in adapter.items():
            parameter.copy_(start[name])
    if case.corrected:  # TRL corrects only what vLLM drew; there is none to send weights to
        trainer.use_vllm, trainer._last_loaded_step = True, -1
        trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)
    trainer.train()
    return {name: parameter.detach().clone() for name, parameter in adapter.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.loss} {case.beta:g} {case.optimizer}")
def test_both_adapters_end_where_stock_trainers_end(case: Case, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.filterwarnings("ignore")
    train = train_config(
        loss=case.loss, tokens_per_pass=80, beta=case.beta, clip_norm=CLIP, learning_rate=RATE[case.optimizer]
    )
    learner = PairLearner(model_config(), train, total_steps=STEPS, base=random_base(), optimizer=case.optimizer)
    before = {policy: own(learner, policy) for policy in Policy}
    for step in range(STEPS):
        learner.update([rows(case, policy, step) for policy in Policy])
    for policy in Policy:
        theirs, ours = stock(case, policy, before[policy], str(tmp_path)), own(learner, policy)
        assert theirs.keys() == ours.keys()
        apart = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
        moved = max(float((ours[name] - before[policy][name]).abs().max()) for name in ours)
        assert apart < GOAL[case.optimizer]
        assert moved > 100 * apart
