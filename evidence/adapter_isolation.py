"""Two policies in one trainer do not touch each other.

Each stream moves its own adapter only; a wholly dead stream leaves its adapter and its Adam state as they were, to the
bit; what one policy learns does not depend on the other being there; gradient checkpointing changes nothing.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch

from _lib import arguments, verdict
from _rollouts import live_group, model_config, reward, train_config
from agon.engine.synthetic import random_base, rollout, stream
from agon.engine.trl.learner import TRLLearner
from agon.game.advantage import advantages
from agon.types import Policy, Stream

STEPS = 4
Dead = Callable[[int, Policy], bool]
State = dict[Policy, list[torch.Tensor]]


def streams(step: int, policies: Iterable[Policy], dead: Dead) -> list[Stream]:
    return [stream(policy, [_group(step, policy, i, dead(step, policy)) for i in range(3)]) for policy in policies]


def _group(step: int, policy: Policy, index: int, dead: bool) -> list[Any]:
    rows = live_group(step, policy.value, index)
    scores = [None] * len(rows) if dead else advantages([reward(row.completion_ids) for row in rows])
    return [rollout(policy, i, row, score) for i, (row, score) in enumerate(zip(rows, scores, strict=True))]


class Spy:
    """Gradients as the optimizer finds them, and weights and Adam state after every step."""

    def __init__(self, learner: TRLLearner) -> None:
        self.learner = learner
        self.gradients: list[dict[Policy, list[torch.Tensor | None]]] = []
        self.states: list[State] = [self.snapshot()]

        learner.optimizer.register_step_pre_hook(self._before_the_move)

    def _before_the_move(self, *args: Any) -> None:
        pair = self.learner.pair
        self.gradients.append({p: [_copy(x.grad) for x in pair.parameters(p)] for p in Policy})

    def snapshot(self) -> State:
        learner = self.learner
        return {policy: [t for x in learner.pair.parameters(policy) for t in self._all(x)] for policy in Policy}

    def _all(self, parameter: torch.Tensor) -> list[torch.Tensor]:
        moments = self.learner.optimizer.state.get(parameter, {})
        return [parameter.detach().clone(), *(moments[key].clone() for key in sorted(moments))]


def _copy(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.detach().clone()


def run(policies: Iterable[Policy] = Policy, dead: Dead = lambda step, policy: False, **train: Any) -> Spy:
    """Train `STEPS` steps and look on."""
    learner = TRLLearner(
        model_config(), train_config(tokens_per_pass=100, **train), total_steps=STEPS, base=random_base()
    )
    spy = Spy(learner)
    for step in range(STEPS):
        learner.update(streams(step, policies, dead))
        spy.states.append(spy.snapshot())
    return spy


def same(one: State, two: State, policy: Policy) -> bool:
    pairs = zip(one[policy], two[policy], strict=True)
    return len(one[policy]) == len(two[policy]) and all(torch.equal(a, b) for a, b in pairs)


def moved(spy: Spy, step: int, policy: Policy) -> bool:
    before, after = spy.states[step], spy.states[step + 1]
    return len(before[policy]) != len(after[policy]) or not same(before, after, policy)


def alone(policy: Policy, **train: Any) -> list[tuple[str, bool]]:
    """One stream: its own adapter moves at every step, the other's gradients are None and its state is untouched."""
    spy = run([policy], **train)
    rival = policy.rival
    return [
        (f"{policy.value} alone moves {policy.value}", all(moved(spy, i, policy) for i in range(STEPS))),
        (f"{policy.value} alone leaves {rival.value}", same(spy.states[0], spy.states[-1], rival)),
        (f"{rival.value} has no gradient", all(x is None for found in spy.gradients for x in found[rival])),
        (f"{policy.value} has gradients", all(x is not None for found in spy.gradients for x in found[policy])),
    ]


def together(**train: Any) -> list[tuple[str, bool]]:
    """With both streams each policy ends exactly where it ends alone."""
    both = run(**train)
    return [
        (
            f"{policy.value} learns the same beside its rival",
            same(both.states[-1], run([policy], **train).states[-1], policy),
        )
        for policy in Policy
    ]


def dead_stream(policy: Policy, **train: Any) -> list[tuple[str, bool]]:
    """A stream that is dead in steps 1 and 3 freezes its adapter and Adam state there, momentum or not."""
    spy = run(dead=lambda step, who: who is policy and step % 2 == 1, **train)
    found = [moved(spy, step, policy) for step in range(STEPS)]
    others = all(moved(spy, step, policy.rival) for step in range(STEPS))
    return [
        (f"dead {policy.value} is bit-identical", found == [True, False, True, False]),
        (f"the rival of dead {policy.value} goes on", others),
    ]


def checkpointing(**train: Any) -> tuple[float, list[tuple[str, bool]]]:
    """Largest difference between training with and without gradient checkpointing."""
    ends = [run(gradient_checkpointing=on, **train).states[-1] for on in (True, False)]
    gap = max(float((a - b).abs().max()) for p in Policy for a, b in zip(ends[0][p], ends[1][p], strict=True))
    return gap, [("gradient checkpointing on and off agree", gap <= 1e-7)]


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    gc.freeze()  # the HF trainer collects garbage at every start
    variants: list[dict[str, Any]] = [{"loss": "dapo", "beta": 0.05}]
    variants = (
        variants if args.quick else [*variants, {"loss": "grpo"}, {"loss": "dr_grpo"}, {"loss": "grpo", "beta": 0.05}]
    )
    checks: list[tuple[str, bool]] = []
    gaps = []
    for variant in variants:
        gap, agreed = checkpointing(**variant)
        found = [check for p in Policy for check in (*alone(p, **variant), *dead_stream(p, **variant))]
        checks += (found := [*found, *together(**variant), *agreed])
        gaps.append(gap)
        print(f"{variant}: checkpointing gap {gap:.1e}")
        print("\n".join(f"  {'yes' if holds else 'NO '}  {name}" for name, holds in found))
    broken = [name for name, holds in checks if not holds]
    verdict(
        "each stream moves only its own adapter; dead streams change nothing; checkpointing agrees",
        len(broken),
        0,
        not broken,
        checks=len(checks),
        broken=broken,
        checkpointing_gap=max(gaps),
        steps=STEPS,
    )


if __name__ == "__main__":
    main()
