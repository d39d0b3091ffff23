"""The learner's gradient and first step against float64: plain transformers and PEFT, and the formulas written out.

The reference shares no code with the learner but the base's classes: rows one by one, no packing, no fused head, no
autocast. The learner's gradient is what one step of plain gradient descent moves.
"""

from __future__ import annotations

import copy
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel

from agon.engine.synthetic import rollout, stream
from agon.protocols import Tokens
from agon.types import Policy, Stream
from tests.engine.helpers.bases import random_base

from .helpers import PairLearner, model_config, train_config

pytestmark = pytest.mark.contract
CLIP, TRUNCATE, CAP, RATE = 0.2, 3.0, 64, 1e-2
LENGTHS = [(5, 3), (9, 17), (4, 1), (12, 40), (7, 2), (6, 25), (8, 11)]
DEAD = 4
"""The row without an advantage."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one gradient depends on."""

    loss: str = "grpo"
    beta: float = 0.0
    staleness: int = 0
    importance: str = "token_truncate"
    tokens_per_pass: int = 10_000
    temperature: float = 1.0
    tools: bool = False
    layers: int | None = None
    family: str = "qwen3"


CASES = {
    "grpo": Case(),
    "dapo": Case(loss="dapo"),
    "dr_grpo": Case(loss="dr_grpo"),
    "KL": Case(beta=0.05),
    "stale": Case(staleness=1),
    "no importance": Case(importance="none"),
    "a row per pass": Case(tokens_per_pass=1),
    "60 tokens per pass": Case(tokens_per_pass=60),
    "temperature": Case(temperature=0.7),
    "tools": Case(tools=True),
    "tools, dapo, KL": Case(tools=True, loss="dapo", beta=0.1, tokens_per_pass=60),
    "two layers": Case(layers=2),
    "llama": Case(family="llama"),
    "gemma4": Case(family="gemma4", tokens_per_pass=60),
    "qwen3_5": Case(family="qwen3_5", tokens_per_pass=60),
    "all at once": Case(loss="dapo", staleness=1, beta=0.05, tokens_per_pass=60, temperature=1.3),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout; `noise` is how far the sampler's log-probabilities are from the policy's."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    noise: tuple[float, ...]
    advantage: float | None
    sampled: tuple[bool, ...]


def rows(policy: Policy) -> list[Row]:
    rng, made = random.Random(policy.value), list[Row]()
    for i, (prompt, completion) in enumerate(LENGTHS):
        ids = [rng.randrange(2, 64) for _ in range(prompt + completion)]
        advantage = None if i == DEAD else rng.gauss(0, 1)
        noise = tuple(rng.gauss(0, 0.5) for _ in range(completion))
        sampled = tuple(rng.random() < 0.7 for _ in range(completion))
        made.append(Row(tuple(ids[:prompt]), tuple(ids[prompt:]), noise, advantage, sampled))
    return made


def base_of(case: Case) -> Any:
    kinds = {"layer_types": ["sliding_attention", "full_attention"] * 2} if case.family == "gemma4" else {}
    return random_base(case.family, num_hidden_layers=4, **kinds)


def learner_of(case: Case, optimizer: str = "sgd", **train: Any) -> PairLearner:
    lora = {"rank": 4, "alpha": 8, **({"layers": case.layers} if case.layers else {})}
    settings = train_config(
        loss=case.loss,
        beta=case.beta,
        staleness=case.staleness,
        importance=case.importance,
        tokens_per_pass=case.tokens_per_pass,
        temperature=case.temperature,
        max_completion_tokens=CAP,
        **{"learning_rate": 1.0, "clip_norm": None, "schedule": "constant"} | train,
    )
    model = model_config(lora=lora, init={"b_noise_std": 0.05})
    learner = PairLearner(model, settings, total_steps=4, base=base_of(case), optimizer=optimizer)
    torch.manual_seed(1)
    with torch.no_grad():  # A starts as the base: half of its gradient would be zero
        for name, parameter in learner.pair.named_parameters(Policy.A).items():
            if ".lora_B." in name:
                parameter.copy_(torch.randn_like(parameter) * 0.05)
    return learner


class Reference:
    """One policy in float64, as PEFT loads it from the learner's files."""

    def __init__(self, case: Case, policy: Policy, folder: Path) -> None:
        base = base_of(case).double().eval()
        self.model = PeftModel.from_pretrained(base, str(folder), is_trainable=True, autocast_adapter_dtype=False)
        self.model = self.model.double().eval()
        self.case, self.rows = case, rows(policy)
        with torch.no_grad():
            exact = [self.log_probs(row) for row in self.rows]
        self.sampled = [
            (values + torch.tensor(row.noise)).float() for values, row in zip(exact, self.rows, strict=True)
        ]
        """The sampler's log-probabilities, in the precision in which they are handed over."""

    def log_probs(self, row: Row) -> torch.Tensor:
        ids = torch.tensor([[*row.prompt, *row.completion]])
        logits = self.model(ids).logits[0, len(row.prompt) - 1 : -1] / self.case.temperature
        return logits.log_softmax(-1).gather(1, torch.tensor(row.completion)[:, None]).squeeze(1)

    def loss(self) -> torch.Tensor:
        """Equation 1's surrogate, clipped, with what the config adds."""
        case, total = self.case, torch.zeros((), dtype=torch.float64)
        live = [n for n, row in enumerate(self.rows) if row.advantage is not None]
        masks = {n: self.mask(self.rows[n]) for n in live}
        tokens = sum(float(mask.sum()) for mask in masks.values())
        for n in live:
            row, mask, now, then = self.rows[n], masks[n], self.log_probs(self.rows[n]), self.sampled[n].double()
            assert row.advantage is not None
            if case.staleness:
                ratio = torch.exp(now - then)
                each = -torch.min(ratio * row.advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * row.advantage)
            else:
                weight = torch.exp(now.detach() - then).clamp(max=TRUNCATE)
                each = -torch.exp(now - now.detach()) * row.advantage
                each = each * weight if case.importance == "token_truncate" else each
            if case.beta:
                with self.model.disable_adapter(), torch.no_grad():
                    base = self.log_probs(row)
                each = each + case.beta * (torch.exp(base - now) - (base - now) - 1)
            if case.loss == "grpo":
                total = total + (each * mask).sum() / mask.sum().clamp(min=1) / len(live)
            else:
                total = total + (each * mask).sum() / (tokens if case.loss == "dapo" else len(live) * CAP)
        return total

    def mask(self, row: Row) -> torch.Tensor:
        return torch.tensor(row.sampled if self.case.tools else [True] * len(row.completion), dtype=torch.float64)

    def gradient(self) -> tuple[float, dict[str, torch.Tensor]]:
        """The loss, and its gradient by the names of a PEFT file."""
        loss = self.loss()
        loss.backward()
        named = {name.replace(".default.", "."): p for name, p in self.model.named_parameters() if ".lora_" in name}
        return float(loss.detach()), {name: p.grad for name, p in named.items()}

    def stream(self, policy: Policy) -> Stream:
        """The rows as the game hands them over."""
        group = [
            rollout(
                policy,
                n,
                Tokens(row.prompt, row.completion, tuple(logps.tolist()), row.sampled if self.case.tools else None),
                row.advantage,
            )
            for n, (row, logps) in enumerate(zip(self.rows, self.sampled, strict=True))
        ]
        return stream(policy, [group])


def own(learner: PairLearner, policy: Policy) -> dict[str, torch.Tensor]:
    """The policy's weights by the names of a PEFT file."""
    named = learner.pair.named_parameters(policy)
    return {name.replace(f".{policy.value}.", "."): p.detach().double().clone() for name, p in named.items()}


def references(case: Case, learner: PairLearner, folder: Path) -> dict[Policy, Reference]:
    for policy in Policy:
        learner.export(policy, folder / policy.value)
    return {policy: Reference(case, policy, folder / policy.value) for policy in Policy}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_gradient_of_both_policies_is_that_of_the_formulas(case: Case, tmp_path: Path) -> None:
    learner = learner_of(case)
    reference = references(case, learner, tmp_path)
    before = {policy: own(learner, policy) for policy in Policy}
    frozen = {name: p for name, p in learner.pair.model.named_parameters() if ".lora_" not in name}
    update = learner.update([reference[policy].stream(policy) for policy in Policy])
    for policy in Policy:
        loss, gradient = reference[policy].gradient()
        after, off, size = own(learner, policy), 0.0, 0.0
        assert gradient.keys() == after.keys()
        for name, exact in gradient.items():
            off += float((before[policy][name] - after[name] - exact).pow(2).sum())
            size += float(exact.pow(2).sum())
        assert math.sqrt(off / size) < 1e-4, policy
        assert update.metrics[policy]["grad_norm"] == pytest.approx(math.sqrt(size), rel=1e-4)
        assert update.metrics[policy]["loss"] == pytest.approx(loss, abs=1e-4)
    assert all(p.grad is None for p in frozen.values())


@pytest.mark.parametrize("case", [Case(), CASES["all at once"]], ids=["grpo", "all at once"])
def test_one_step_is_adamw_after_a_clip_of_each_policy_by_itself(case: Case, tmp_path: Path) -> None:
    clip = 0.1
    learner = learner_of(case, "adamw", learning_rate=RATE, clip_norm=clip)
    reference = references(case, learner, tmp_path)
    learner.update([reference[policy].stream(policy) for policy in Policy])
    for policy in Policy:
        exact = copy.copy(reference[policy])
        exact.gradient()
        named = {n.replace(".default.", "."): p for n, p in exact.model.named_parameters() if ".lora_" in n}
        optimizer = torch.optim.AdamW(named.values(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
        norm = torch.nn.utils.clip_grad_norm_(named.values(), clip)
        assert norm > clip, "clipping takes part"
        optimizer.step()
        # Adam divides each gradient by its own size: where that is near eps, the last bits decide
        apart = [float((own(learner, policy)[name] - p.detach()).abs().max()) for name, p in named.items()]
        assert max(apart) < 0.05 * RATE
