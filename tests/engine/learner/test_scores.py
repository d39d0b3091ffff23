"""The learner's scores against a forward pass with PEFT alone, from the files that the learner wrote."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from peft import PeftModel

from agon.engine.learner.learner import PairLearner
from agon.engine.synthetic import random_tokens
from agon.protocols import Tokens
from agon.types import Policy
from tests.engine.helpers.bases import random_base

from .helpers import VOCABULARY, equal, make_learner, moments, train, weights

SEATS = [Policy.A, Policy.B, None]


def drawn(count: int = 7) -> list[Tokens]:
    """Rows of different lengths: more than a micro-batch, the shortest a single token."""
    rng = random.Random("scored")
    lengths = [1, *(rng.randrange(2, 24) for _ in range(count - 1))]
    return [random_tokens(rng, VOCABULARY, rng.randrange(2, 8), length) for length in lengths]


def expected(learner: PairLearner, policy: Policy | None, folder: Path, temperature: float = 1.0) -> list[torch.Tensor]:
    """Each row alone through transformers and PEFT, unpadded."""
    model = random_base(num_hidden_layers=1)
    if policy is not None:
        learner.export(policy, folder / policy.value)
        model = PeftModel.from_pretrained(model, folder / policy.value)
    return [row_logps(model.eval(), row, temperature) for row in drawn()]


def row_logps(model: torch.nn.Module, row: Tokens, temperature: float) -> torch.Tensor:
    ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
    with torch.no_grad():
        logps = (model(ids).logits[0, :-1] / temperature).log_softmax(-1)
    return logps.gather(1, ids[0, 1:, None])[len(row.prompt_ids) - 1 :, 0]


def gap(scores: list[list[float]], reference: list[torch.Tensor]) -> float:
    return max(float((torch.tensor(s) - r).abs().max()) for s, r in zip(scores, reference, strict=True))


@pytest.mark.parametrize("policy", SEATS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_scores_are_those_of_peft_alone(tmp_path: Path, policy: Policy | None, temperature: float) -> None:
    learner = make_learner(tokens_per_pass=60, temperature=temperature)
    scores = learner.score(policy, drawn())
    assert [len(row) for row in scores] == [len(row.completion_ids) for row in drawn()]
    assert gap(scores, expected(learner, policy, tmp_path, temperature)) < 1e-5


def test_scores_follow_the_weights_of_their_policy_and_the_base_stays(tmp_path: Path) -> None:
    learner = make_learner(total_steps=2, learning_rate=0.05)
    before = {seat: learner.score(seat, drawn()) for seat in SEATS}
    train(learner)
    after = {seat: learner.score(seat, drawn()) for seat in SEATS}
    assert after[None] == before[None]
    for policy in Policy:
        reference = expected(learner, policy, tmp_path)
        assert gap(before[policy], reference) > 1e-2
        assert gap(after[policy], reference) < 1e-5


def test_scoring_between_steps_changes_nothing_that_is_learnt() -> None:
    quiet, scored = make_learner(total_steps=3, beta=0.1), make_learner(total_steps=3, beta=0.1)
    train(quiet)
    for step in range(3):
        for seat in SEATS:
            scored.score(seat, drawn())
        train(scored, stop_after=step)
    for policy in Policy:
        assert equal(weights(quiet, policy), weights(scored, policy))
        assert equal(moments(quiet, policy), moments(scored, policy))
        assert all(p.requires_grad and p.grad is None for p in scored.pair.parameters(policy))


def test_no_rows_have_no_scores() -> None:
    assert make_learner().score(Policy.A, []) == []
