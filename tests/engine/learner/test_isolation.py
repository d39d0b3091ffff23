"""Two policies in one learner do not touch each other, to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from agon.engine.synthetic import stream
from agon.types import Policy

from .helpers import equal, make_learner, masked, moments, rows, weights

pytestmark = pytest.mark.contract
STEPS = 4
VARIANTS: list[dict[str, Any]] = [{"loss": "grpo"}, {"loss": "dapo", "beta": 0.05}]
Dead = Callable[[int, Policy], bool]


def trained(
    policies: list[Policy], dead: Dead = lambda step, policy: False, **train: Any
) -> list[dict[Policy, list[torch.Tensor]]]:
    """Weights and Adam's state of both policies, before the first step and after each."""
    learner = make_learner(STEPS, **train)

    def state() -> dict[Policy, list[torch.Tensor]]:
        return {policy: [*weights(learner, policy), *moments(learner, policy)] for policy in Policy}

    states = [state()]
    for step in range(STEPS):
        groups = {policy: [rows(policy, step, i) for i in range(3)] for policy in policies}
        learner.update(
            [
                stream(policy, [masked(group) if dead(step, policy) else group for group in groups[policy]])
                for policy in policies
            ]
        )
        states.append(state())
    return states


@pytest.mark.parametrize("train", VARIANTS, ids=str)
@pytest.mark.parametrize("policy", Policy)
def test_a_stream_moves_its_own_policy_alone(policy: Policy, train: dict[str, Any]) -> None:
    states = trained([policy], **train)
    assert all(not equal(a[policy], b[policy]) for a, b in itertools.pairwise(states))
    assert equal(states[0][policy.rival], states[-1][policy.rival])


@pytest.mark.parametrize("train", VARIANTS, ids=str)
def test_what_a_policy_learns_does_not_depend_on_the_other_being_there(train: dict[str, Any]) -> None:
    both = trained(list(Policy), **train)[-1]
    assert all(equal(both[policy], trained([policy], **train)[-1][policy]) for policy in Policy)


@pytest.mark.parametrize("policy", Policy)
def test_without_a_live_row_weights_and_adams_state_stay(policy: Policy) -> None:
    states = trained(list(Policy), dead=lambda step, who: who is policy and step % 2 == 1)
    moved = [not equal(a[policy], b[policy]) for a, b in itertools.pairwise(states)]
    assert moved == [True, False, True, False]
    assert all(not equal(a[policy.rival], b[policy.rival]) for a, b in itertools.pairwise(states))


def test_checkpointing_of_activations_changes_nothing() -> None:
    on, off = (trained(list(Policy), gradient_checkpointing=on)[-1] for on in (True, False))
    assert max(float((a - b).abs().max()) for p in Policy for a, b in zip(on[p], off[p], strict=True)) < 1e-7
