"""Ways in which two adapters in one stock trainer silently go wrong, each with a test that catches it.

Numbers follow the list in docs/engines.md. Traps of generation inside TRL (prompt de-duplication in server mode, one
weight sync per step, merged bfloat16 weights, sleep levels, completion logs) have one test together: no generation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from trl import GRPOTrainer

from agon.engine.synthetic import rollout, stream
from agon.engine.trl.learner import TRLLearner
from agon.engine.trl.trainer import PairTrainer
from agon.protocols import Tokens
from agon.types import Policy, Rollout, Stream
from tests.engine.helpers.bases import random_base

from .helpers import both, equal, make_learner, masked, model_config, rows, train, train_config, weights

IDS = torch.arange(2, 22).view(1, -1)


def only(policy: Policy, step: int) -> list[Stream]:
    return [found for found in both(step) if found.policy is policy]


def scaled(group: list[Rollout], factor: float) -> list[Rollout]:
    return [rollout(r.policy, r.index, r.completion.tokens, factor * (r.advantage or 0.0)) for r in group]


def test_trap_1_checkpointing_recomputes_under_the_adapter_that_is_active() -> None:
    """The trap is real (one backward over two forwards is wrong), and the learner does not fall into it."""
    learner = make_learner(gradient_checkpointing=True)
    pair = learner.pair
    model = pair.model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})

    def score(policy: Policy) -> torch.Tensor:
        pair.activate(policy)
        return model(IDS).logits.logsumexp(-1).sum()

    right = torch.autograd.grad(score(Policy.A), pair.parameters(Policy.A))
    wrong = torch.autograd.grad(score(Policy.A) + score(Policy.B), pair.parameters(Policy.A), allow_unused=True)
    assert not equal(list(right), [torch.zeros_like(r) if w is None else w for r, w in zip(right, wrong, strict=True)])

    ends = []
    for checkpointing in (True, False):
        learner = make_learner(total_steps=2, gradient_checkpointing=checkpointing)
        train(learner)
        ends.append([*weights(learner, Policy.A), *weights(learner, Policy.B)])
    assert equal(*ends)


def test_trap_1_the_adapter_of_a_micro_batch_is_active_in_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make_learner(total_steps=1)
    seen: list[tuple[str, list[str], Policy]] = []

    def note(moment: str) -> None:
        micro = learner.trainer._current
        assert micro is not None
        seen.append((moment, list(learner.pair.model.active_adapters), micro.policy))

    forward, backward = PairTrainer._compute_loss, learner.trainer.accelerator.backward
    monkeypatch.setattr(PairTrainer, "_compute_loss", lambda *a: (note("forward"), forward(*a))[1])
    monkeypatch.setattr(learner.trainer.accelerator, "backward", lambda *a: (note("in"), backward(*a), note("out"))[0])
    train(learner)
    assert {policy for _, _, policy in seen} == set(Policy)
    assert all(active == [policy.value] for _, active, policy in seen)


def test_traps_2_6_7_8_11_14_15_trl_neither_generates_nor_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("TRL generated or scored")

    for name in ("_generate_and_score_completions", "_generate_single_turn", "_generate", "_calculate_rewards"):
        assert hasattr(GRPOTrainer, name)
        monkeypatch.setattr(GRPOTrainer, name, refuse)
    learner = make_learner(total_steps=1)
    assert len(train(learner)) == 1
    assert learner.trainer.use_vllm is False


def test_trap_3_both_adapters_reach_the_optimizer_whatever_is_active() -> None:
    learner = make_learner()
    groups = [{id(p) for p in group["params"]} for group in learner.optimizer.param_groups]
    assert groups == [{id(p) for p in learner.pair.parameters(policy)} for policy in Policy]
    single = get_peft_model(random_base(), LoraConfig(target_modules=["q_proj"]), adapter_name="one")
    single.add_adapter("two", LoraConfig(target_modules=["q_proj"]))
    scanned = [name for name, p in single.named_parameters() if p.requires_grad]
    assert not [name for name in scanned if ".two." in name], (
        "PEFT no longer freezes the inactive adapter: drop the guard"
    )


def test_trap_4_both_adapters_are_trainable_after_a_checkpoint_was_loaded(tmp_path: Path) -> None:
    learner = make_learner(total_steps=1, beta=0.1)
    learner.save(tmp_path)
    learner.load(tmp_path)
    train(learner)
    assert all(p.requires_grad for policy in Policy for p in learner.pair.parameters(policy))


def test_traps_5_and_16_adapters_are_named_neither_default_nor_ref(tmp_path: Path) -> None:
    learner = make_learner(total_steps=1, beta=0.1)
    train(learner)
    assert set(learner.pair.model.peft_config) == {"a", "b"}
    learner.save(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"a", "b", "trainer_state"}


def test_trap_8_the_base_never_drifts() -> None:
    learner = make_learner(total_steps=2, beta=0.1)
    train(learner)
    after = {name: p for name, p in learner.pair.model.get_base_model().named_parameters() if "lora_" not in name}
    before = dict(random_base(num_hidden_layers=1).named_parameters())
    assert len(after) == len(before)
    assert all(torch.equal(p, before[name.replace(".base_layer", "")]) for name, p in after.items())
    assert not any(p.requires_grad for p in after.values())


@pytest.mark.parametrize("policy", list(Policy))
def test_trap_9_one_policy_s_gradient_does_not_shrink_the_other_s(policy: Policy) -> None:
    ends, norms = [], []
    for factor in (1.0, 1000.0):
        learner = make_learner(total_steps=1, clip_norm=0.01, optimizer="sgd")
        mine, theirs = rows(policy, 0), scaled(rows(policy.rival, 0), factor)
        (update,) = train(
            learner, lambda step, s=(mine, theirs): [stream(policy, [s[0]]), stream(policy.rival, [s[1]])]
        )
        ends.append(weights(learner, policy))
        norms.append(update.metrics[policy.rival]["grad_norm"])
    assert norms[1] > 100 * norms[0]
    assert equal(*ends)


def test_trap_9_each_adapter_is_clipped_to_its_own_norm() -> None:
    start, learner = make_learner(), make_learner(total_steps=1, clip_norm=0.01, optimizer="sgd", learning_rate=1.0)
    (update,) = train(learner)
    for policy in Policy:
        moved = [a - b for a, b in zip(weights(learner, policy), weights(start, policy), strict=True)]
        assert update.metrics[policy]["grad_norm"] > 0.01
        assert float(torch.cat([m.flatten() for m in moved]).norm()) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_trap_10_a_long_rival_does_not_shrink_the_other_s_step(loss: str) -> None:
    ends = []
    for groups in (1, 6):
        learner = make_learner(total_steps=1, loss=loss, clip_norm=None, optimizer="sgd")
        long = [rows(Policy.B, i) for i in range(groups)]
        train(learner, lambda step, long=long: [stream(Policy.A, [rows(Policy.A, 0)]), stream(Policy.B, long)])
        ends.append(weights(learner, Policy.A))
    assert equal(*ends)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_trap_10_dead_groups_are_in_no_denominator(loss: str) -> None:
    ends = []
    for dead in (0, 3):
        learner = make_learner(total_steps=1, loss=loss, beta=0.1, clip_norm=None, optimizer="sgd")
        groups = [rows(Policy.A, 0), *(masked(rows(Policy.A, "dead", i)) for i in range(dead))]
        train(learner, lambda step, groups=groups: [stream(Policy.A, groups)])
        ends.append(weights(learner, Policy.A))
    assert equal(*ends)


def test_trap_10_importance_is_per_token_so_length_does_not_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token 0.02 off, 24 or 1 of them: the same weight each. A whole-sequence ratio would decay with length."""
    learner = make_learner(total_steps=1)
    seen: list[torch.Tensor] = []
    correct = PairTrainer._correct

    def look(self: PairTrainer, micro: Any, logps: torch.Tensor) -> None:
        micro.inputs["sampling_per_token_logps"] = logps - 0.02
        correct(self, micro, logps)
        seen.append(micro.inputs["advantages"])

    monkeypatch.setattr(PairTrainer, "_correct", look)
    drawn = [
        rollout(Policy.A, i, Tokens((2, 3), (4,) * length, (-1.0,) * length), 1.0) for i, length in enumerate((24, 1))
    ]
    train(learner, lambda step: [stream(Policy.A, [drawn])])
    (advantages,) = seen
    assert advantages[0].tolist() == pytest.approx([1.0202] * 24, abs=1e-4)
    assert advantages[1, 0] == pytest.approx(1.0202, abs=1e-4)


def test_traps_12_and_13_a_resumed_run_asks_for_the_steps_that_are_left(tmp_path: Path) -> None:
    asked: list[int] = []

    def streams(step: int) -> list[Stream]:
        asked.append(step)
        return both(step, groups=1)

    first, second = make_learner(total_steps=5), make_learner(total_steps=5)
    train(first, streams, stop_after=2)
    first.save(tmp_path)
    second.load(tmp_path)
    updates = train(second, streams)
    assert asked == [0, 1, 2, 3, 4]
    assert [update.step for update in updates] == [3, 4]


def test_trap_14_masters_stay_float32_over_a_bfloat16_base() -> None:
    base = random_base(num_hidden_layers=1).to(torch.bfloat16)
    learner = TRLLearner(model_config(dtype="bfloat16"), train_config(), total_steps=1, base=base)
    before = weights(learner, Policy.A)
    train(learner)
    assert {p.dtype for policy in Policy for p in learner.pair.parameters(policy)} == {torch.float32}
    assert {t.dtype for state in learner.optimizer.state.values() for t in state.values()} == {torch.float32}
    assert not equal(before, weights(learner, Policy.A))


def test_trap_15_metrics_are_kept_by_policy() -> None:
    alone = train(make_learner(total_steps=1), lambda step: only(Policy.B, step))[0].metrics
    beside = train(make_learner(total_steps=1))[0].metrics
    assert set(alone) == {Policy.B}
    assert alone[Policy.B] == beside[Policy.B]
    assert beside[Policy.A]["entropy"] != beside[Policy.B]["entropy"]


def test_trap_17_beta_needs_no_adapter_called_default() -> None:
    assert train(make_learner(total_steps=1, beta=0.2))[0].metrics[Policy.B]["kl"] > 0


def test_trap_18_the_run_is_reported_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.trainer import base_trainer

    sent: list[Any] = []
    monkeypatch.setattr(base_trainer, "send_telemetry", lambda *a, **k: sent.append(a))
    monkeypatch.delenv("CI", raising=False)
    make_learner()
    assert not sent


def test_trap_19_a_masked_micro_batch_is_wider_than_one_column() -> None:
    """TRL takes one column to mean one value per sequence and counts its rows, masked or not."""
    learner = make_learner(total_steps=1, tokens_per_pass=1)
    single = [rollout(Policy.A, 0, Tokens((2, 3), (4,)), 1.0)]
    (update,) = train(learner, lambda step: [stream(Policy.A, [single])])
    assert update.metrics[Policy.A]["tokens"] == 1
    assert update.metrics[Policy.A]["entropy"] == pytest.approx(4.15, abs=0.1)
