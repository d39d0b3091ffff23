"""What the learner promises beside the formulas: masking, clipping, schedule, exact resume, refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, get_scheduler

from agon.config import Lora
from agon.engine import linear_attention
from agon.engine.learner.constants import learning_rate
from agon.engine.learner.learner import PairLearner
from agon.engine.synthetic import rollout, stream, worst_case
from agon.errors import CheckpointError, ConfigError, EngineError
from agon.protocols import Gap, Tokens
from agon.types import Policy, Rollout, Stream
from tests.engine.helpers.bases import TINY, random_base

from .helpers import (
    both,
    distance,
    equal,
    make_learner,
    masked,
    model_config,
    moments,
    rows,
    train,
    train_config,
    weights,
)


def token_logps(model: Any, tokens: Tokens) -> torch.Tensor:
    ids = torch.tensor([[*tokens.prompt_ids, *tokens.completion_ids]])
    scores = model(ids).logits[0, :-1].log_softmax(-1)
    picked = scores.gather(1, ids[0, 1:, None])[:, 0]
    return picked[len(tokens.prompt_ids) - 1 :]


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_the_size_of_micro_batches_does_not_change_the_result(loss: str) -> None:
    ends = []
    for tokens in (1, 60, 1000):
        learner = make_learner(total_steps=1, loss=loss, tokens_per_pass=tokens, optimizer="sgd", learning_rate=1.0)
        train(learner)
        ends.append(weights(learner, Policy.A) + weights(learner, Policy.B))
    assert distance(ends[0], ends[1]) < 1e-6
    assert distance(ends[0], ends[2]) < 1e-6


def test_both_streams_of_self_refine_train_one_policy_as_one_batch() -> None:
    groups = [rows(Policy.A, i) for i in range(4)]
    split = [stream(Policy.A, groups[:2], "standalone"), stream(Policy.A, groups[2:], "competitive")]
    whole = [stream(Policy.A, groups)]
    learners = [make_learner(total_steps=1) for _ in range(2)]
    for learner, streams in zip(learners, (split, whole), strict=True):
        (update,) = train(learner, lambda step, streams=streams: streams)
        assert set(update.metrics) == {Policy.A}
    assert equal(weights(learners[0], Policy.A), weights(learners[1], Policy.A))
    assert equal(weights(learners[0], Policy.B), weights(make_learner(), Policy.B))


def test_a_step_in_which_everything_is_dead_changes_nothing_but_the_schedule() -> None:
    learner = make_learner(total_steps=3)
    train(learner, stop_after=0)
    before = [weights(learner, p) + moments(learner, p) for p in Policy]
    (update,) = train(learner, lambda step: [stream(p, [masked(rows(p, step))]) for p in Policy], stop_after=1)
    assert all(equal(b, weights(learner, p) + moments(learner, p)) for b, p in zip(before, Policy, strict=True))
    assert all(m["learning_rate"] < learner.train_config.learning_rate for m in update.metrics.values())
    assert learner.step == 2
    assert [m["updated"] for m in update.metrics.values()] == [0.0, 0.0]
    assert all("loss" not in m and m["masked_rows"] == 4 for m in update.metrics.values())


def test_a_step_without_streams_is_a_step() -> None:
    learner = make_learner(total_steps=1)
    (update,) = train(learner, lambda step: [])
    assert update.metrics == {}
    assert learner.step == 1


def test_a_learner_continues_where_it_stopped() -> None:
    whole, parts = make_learner(total_steps=4), make_learner(total_steps=4)
    train(whole)
    assert [u.step for u in train(parts, stop_after=1)] == [0, 1]
    assert [u.step for u in train(parts)] == [2, 3]
    assert train(parts) == []
    assert all(equal(weights(whole, p), weights(parts, p)) for p in Policy)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_resume_is_exact_to_the_bit(tmp_path: Path, schedule: str) -> None:
    options: dict[str, Any] = {"total_steps": 4, "schedule": schedule, "warmup": 0.3, "beta": 0.1}

    def streams(step: int) -> list[Stream]:
        return both(step) if step != 1 else [both(step)[0], stream(Policy.B, [masked(rows(Policy.B, step))])]

    whole, first, second = (make_learner(**options) for _ in range(3))
    expected = train(whole, streams)
    train(first, streams, stop_after=1)
    first.save(tmp_path)
    second.load(tmp_path)
    assert second.step == 2
    assert train(second, streams) == expected[2:]
    for policy in Policy:
        assert equal(weights(whole, policy), weights(second, policy))
        assert equal(moments(whole, policy), moments(second, policy))


def test_a_run_that_starts_from_adapters_resumes_exactly_as_well(tmp_path: Path) -> None:
    taught = make_learner(total_steps=2)
    train(taught)
    for policy in Policy:
        taught.pair.export(policy, tmp_path / policy.value)
    swapped = model_config(init={"a": str(tmp_path / "b"), "b": str(tmp_path / "a")})
    whole, first, second = (make_learner(total_steps=4, model=swapped) for _ in range(3))
    assert equal(weights(whole, Policy.A), weights(taught, Policy.B))
    expected = train(whole)
    train(first, stop_after=1)
    first.save(tmp_path / "saved")
    second.load(tmp_path / "saved")
    assert train(second) == expected[2:]
    assert all(equal(weights(whole, policy), weights(second, policy)) for policy in Policy)


def test_a_checkpoint_holds_nothing_that_could_run_code(tmp_path: Path) -> None:
    learner = make_learner(total_steps=2)
    train(learner)
    learner.save(tmp_path)
    files = sorted(str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file())
    adapters = [f"{p}/{name}" for p in "ab" for name in ("adapter_config.json", "adapter_model.safetensors")]
    state = [f"trainer_state/{name}" for name in ("optimizer.safetensors", "state.json")]
    assert files == [*adapters, *state]
    assert json.loads((tmp_path / "trainer_state" / "state.json").read_text())["step"] == 2


def test_a_fresh_learner_can_be_saved_and_loaded(tmp_path: Path) -> None:
    make_learner().save(tmp_path)
    learner = make_learner()
    learner.load(tmp_path)
    assert learner.step == 0
    assert [u.step for u in train(learner, stop_after=0)] == [0]


def test_an_optimizer_state_of_another_model_is_refused(tmp_path: Path) -> None:
    deep = make_learner(total_steps=1, base=random_base(num_hidden_layers=2))
    train(deep)
    deep.save(tmp_path / "deep")
    learner = make_learner()
    learner.save(tmp_path / "mine")
    (tmp_path / "deep" / "trainer_state").rename(tmp_path / "mine" / "wrong")
    for file in (tmp_path / "mine" / "wrong").iterdir():
        file.rename(tmp_path / "mine" / "trainer_state" / file.name)
    with pytest.raises(CheckpointError, match="which this model does not have"):
        learner.load(tmp_path / "mine")


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.25])
def test_rates_are_those_of_transformers(schedule: str, warmup: float) -> None:
    total, peak = 10, 0.5
    settings = train_config(schedule=schedule, warmup=warmup, learning_rate=peak)
    name = {"constant": "constant_with_warmup"}.get(schedule, schedule)
    stock = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
    scheduler, rates = get_scheduler(name, stock, math.ceil(warmup * total), total), list[float]()
    for _ in range(total):
        rates.append(stock.param_groups[0]["lr"])
        stock.step()
        scheduler.step()
    assert [learning_rate(settings, step, total) for step in range(total)] == pytest.approx(rates)


def test_metrics_tell_the_gap_between_sampler_and_learner() -> None:
    learner = make_learner(total_steps=1, importance="none")
    group = rows(Policy.A, 0, logprobs=True)
    learner.pair.activate(Policy.A)
    with torch.no_grad():
        learned = [token_logps(learner.pair.model, r.completion.tokens) for r in group]
    gaps = torch.cat([x - torch.tensor(r.completion.tokens.logprobs) for x, r in zip(learned, group, strict=True)])
    (update,) = train(learner, lambda step: [stream(Policy.A, [group])])
    found = update.metrics[Policy.A]
    assert found["logp_diff_mean"] == pytest.approx(float(gaps.abs().mean()), abs=1e-5)
    assert found["logp_diff_max"] == pytest.approx(float(gaps.abs().max()), abs=1e-5)
    assert found["importance_mean"] == pytest.approx(float(gaps.exp().clamp(max=3).mean()), abs=1e-5)
    assert found["tokens"] == len(gaps)
    assert "logp_diff_mean" not in train(make_learner(total_steps=1))[0].metrics[Policy.A]


def test_without_importance_log_probs_are_measured_and_correct_nothing() -> None:
    def streams(known: bool) -> list[Stream]:
        group = [rows(Policy.A, n, logprobs=True) for n in range(2)]
        plain = [
            [rollout(r.policy, r.index, replace(r.completion.tokens, logprobs=None), r.advantage) for r in some]
            for some in group
        ]
        return [stream(Policy.A, group if known else plain)]

    measured, blind = (make_learner(total_steps=1, importance="none") for _ in range(2))
    (update,) = train(measured, lambda step: streams(known=True))
    train(blind, lambda step: streams(known=False))
    assert equal(weights(measured, Policy.A), weights(blind, Policy.A))
    assert abs(update.metrics[Policy.A]["importance_mean"] - 1) > 0.05


def test_kl_is_measured_against_the_base_and_left_out_when_beta_is_zero() -> None:
    with_kl = train(make_learner(total_steps=1, beta=0.1))[0].metrics
    assert with_kl[Policy.A]["kl"] == pytest.approx(0.0, abs=1e-7)
    assert with_kl[Policy.B]["kl"] > 1e-5
    assert "kl" not in train(make_learner(total_steps=1))[0].metrics[Policy.A]


def test_a_gradient_that_is_not_finite_stops_before_the_step() -> None:
    learner = make_learner(total_steps=2)
    before = weights(learner, Policy.A)
    bad = [rollout(Policy.A, i, Tokens((2, 3), (4, 5)), math.inf) for i in range(2)]
    with pytest.raises(EngineError, match="policy A is not finite at step 0"):
        train(learner, lambda step: [stream(Policy.A, [bad])])
    assert equal(before, weights(learner, Policy.A))
    assert learner.step == 0


@pytest.mark.parametrize("checkpointing", [True, False])
def test_no_gradient_is_computed_below_the_layers_that_learn(checkpointing: bool) -> None:
    base, model = random_base(num_hidden_layers=2), model_config(lora=Lora(rank=2, alpha=4, layers=1))
    learner = make_learner(1, base, model=model, gradient_checkpointing=checkpointing)
    below: list[torch.Tensor] = []
    base.model.layers[0].register_forward_hook(lambda module, given, output: below.append(output))
    train(learner)
    assert below
    assert not any(output.requires_grad for output in below)


@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_rehearsal_costs_what_a_step_costs_and_teaches_nothing(checkpointing: bool) -> None:
    learner = make_learner(total_steps=1, gradient_checkpointing=checkpointing)
    assert learner.pair.model.get_base_model().is_gradient_checkpointing is checkpointing
    before = [weights(learner, p) for p in Policy]
    learner.rehearse(prompt_tokens=8, completion_tokens=24)
    assert [equal(b, weights(learner, p)) for b, p in zip(before, Policy, strict=True)] == [True, True]
    assert not learner.optimizer.state
    assert all(p.grad is None for policy in Policy for p in learner.pair.parameters(policy))


def test_a_rehearsal_refuses_long_sequences_through_slow_linear_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_attention, "has_kernels", lambda: False)
    with pytest.raises(ConfigError, match="sequences of 2,001 tokens"):
        make_learner(base=random_base("qwen3_5")).rehearse(prompt_tokens=1001, completion_tokens=1000)


@pytest.mark.parametrize(
    "kind",
    [
        {"model_type": "lfm2", "layer_types": ["conv", "full_attention"]},  # a convolution reads the tokens before
        {"model_type": "stablelm"},  # attention is not told where rows end
        {"model_type": "bloom", "n_layer": 1, "n_head": 4},  # attention that knows no rows
    ],
)
def test_a_base_that_mixes_the_rows_of_a_pass_is_refused_unless_rows_go_alone(kind: dict[str, Any]) -> None:
    settings = {**TINY, **kind}
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with pytest.raises(ConfigError, match="mixes the rows of a pass") as refused:
        make_learner(base=AutoModelForCausalLM.from_config(config)).rehearse(8, 8)
    assert "train.tokens_per_pass=1," in str(refused.value.fix)
    make_learner(base=AutoModelForCausalLM.from_config(config), tokens_per_pass=1).rehearse(8, 8)


@pytest.mark.parametrize(
    "kind",
    [
        {"model_type": "granite", "attention_dropout": 0.1},
        {"model_type": "starcoder2", "residual_dropout": 0.1, "embedding_dropout": 0.1},
        {"model_type": "opt", "ffn_dim": 64, "word_embed_proj_dim": 32},  # 0.1 by default
        {"model_type": "phi", "resid_pdrop": 0.1},
    ],
)
def test_the_dropout_of_a_base_is_off(kind: dict[str, Any]) -> None:
    """The sampler draws without it: with it, the learner would score a different policy in every pass."""
    settings = {**TINY, "initializer_range": 0.2, **kind}
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    learner = make_learner(base=AutoModelForCausalLM.from_config(config), total_steps=1, beta=0.1)
    learner.rehearse(8, 8)
    drawn = Tokens((7, 8, 9), tuple(range(10, 30)))
    learner.pair.model.eval()
    sampled = learner.score(Policy.A, [drawn])[0]
    learner.pair.model.train()
    assert learner.score(Policy.A, [drawn])[0] == sampled
    row = replace(drawn, logprobs=tuple(sampled))
    metrics = learner.update([stream(Policy.A, [[rollout(Policy.A, i, row, 1.0 - 2 * i) for i in range(2)]])]).metrics
    assert metrics[Policy.A]["kl"] == pytest.approx(0, abs=1e-6)  # A starts as the base
    assert metrics[Policy.A]["logp_diff_max"] < 1e-4


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gemma4", "llama"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_a_pass_do_not_leak(family: str, dtype: torch.dtype) -> None:
    assert not make_learner(base=random_base(family).to(dtype)).passes.rows_leak()


def test_the_worst_case_of_a_config_is_a_stream_like_any_other() -> None:
    learner = make_learner(total_steps=1)
    (update,) = train(learner, lambda step: [worst_case(Policy.B, 2, 64, prompt=8, completion=24)])
    assert update.metrics[Policy.B]["tokens"] == 48


@pytest.mark.parametrize("family", ["qwen3", "qwen3_5", "gemma4"])
def test_a_tiny_model_of_each_family_trains_two_steps(family: str) -> None:
    learner = make_learner(total_steps=2, base=random_base(family), beta=0.05)
    before = {p: weights(learner, p) for p in Policy}
    updates = train(learner)
    assert len(updates) == 2
    for policy in Policy:
        assert all(p in learner.optimizer.state for p in learner.pair.parameters(policy)), "a module without gradient"
        assert not equal(before[policy], weights(learner, policy))


def test_the_description_names_what_a_manifest_needs() -> None:
    found = PairLearner(model_config(), train_config(), total_steps=1, base=random_base()).describe()
    assert found["adapted_modules"] == 14
    assert found["adapter_parameters"] == 4096
    assert set(found["versions"]) == {"trl", "transformers", "peft", "torch"}
    assert (found["loss"]["clip"], found["loss"]["kl"], found["loss"]["betas"]) == (0.2, "k3", (0.9, 0.999))
    json.dumps(found)


def shifted(group: list[Rollout], learner: PairLearner, by: float) -> list[Rollout]:
    """The same rows, as if drawn by weights that gave every token `by` nats less."""
    scores = learner.score(Policy.A, [row.completion.tokens for row in group])
    return [
        rollout(row.policy, row.index, replace(row.completion.tokens, logprobs=tuple(s - by for s in score)), advantage)
        for row, score, advantage in zip(group, scores, (1.0, -1.0, 0.5, -0.5), strict=True)
    ]


def gradient(learner: PairLearner, group: list[Rollout]) -> torch.Tensor:
    """What one plain step of gradient descent moves, over the learning rate."""
    before = torch.cat([w.flatten() for w in weights(learner, Policy.A)])
    train(learner, lambda step: [stream(Policy.A, [group])])
    return (torch.cat([w.flatten() for w in weights(learner, Policy.A)]) - before) / learner.train_config.learning_rate


@pytest.mark.parametrize(("by", "kept"), [(0.1, (1.0, -1.0, 0.5, -0.5)), (0.5, (0.0, -1.0, 0.0, -0.5))])
def test_played_ahead_the_one_ratio_is_learner_over_sampler_and_is_clipped(by: float, kept: Sequence[float]) -> None:
    """Above the clip, at 1.2, rows with a positive advantage teach nothing; the others are weighted by the ratio."""

    def make(**fields: Any) -> PairLearner:
        return make_learner(total_steps=1, optimizer="sgd", schedule="constant", clip_norm=None, **fields)

    group = rows(Policy.A, 0)
    ahead = make(staleness=1)
    moved = gradient(ahead, shifted(group, ahead, by))
    plain = make(importance="none")
    paid = [rollout(row.policy, row.index, row.completion.tokens, a) for row, a in zip(group, kept, strict=True)]
    expected = gradient(plain, paid) * math.exp(by)
    assert torch.allclose(moved, expected, atol=1e-5 * float(expected.abs().max()))
    assert float(expected.abs().max()) > 0


def only(policy: Policy, step: int) -> list[Stream]:
    return [found for found in both(step) if found.policy is policy]


def scaled(group: list[Rollout], factor: float) -> list[Rollout]:
    return [rollout(r.policy, r.index, r.completion.tokens, factor * (r.advantage or 0.0)) for r in group]


def test_both_adapters_reach_the_optimizer_whatever_is_active() -> None:
    learner = make_learner()
    groups = [{id(p) for p in group["params"]} for group in learner.optimizer.param_groups]
    assert groups == [{id(p) for p in learner.pair.parameters(policy)} for policy in Policy]
    single = get_peft_model(random_base(), LoraConfig(target_modules=["q_proj"]), adapter_name="one")
    single.add_adapter("two", LoraConfig(target_modules=["q_proj"]))
    scanned = [name for name, p in single.named_parameters() if p.requires_grad]
    assert not [name for name in scanned if ".two." in name], (
        "PEFT no longer freezes the inactive adapter: drop the guard"
    )


def test_both_adapters_are_trainable_after_a_checkpoint_was_loaded(tmp_path: Path) -> None:
    learner = make_learner(total_steps=1, beta=0.1)
    learner.save(tmp_path)
    learner.load(tmp_path)
    train(learner)
    assert all(p.requires_grad for policy in Policy for p in learner.pair.parameters(policy))


def test_the_base_never_drifts() -> None:
    learner = make_learner(total_steps=2, beta=0.1)
    train(learner)
    after = {name: p for name, p in learner.pair.model.get_base_model().named_parameters() if "lora_" not in name}
    before = dict(random_base(num_hidden_layers=1).named_parameters())
    assert len(after) == len(before)
    assert all(torch.equal(p, before[name.replace(".base_layer", "")]) for name, p in after.items())
    assert not any(p.requires_grad for p in after.values())


@pytest.mark.parametrize("policy", list(Policy))
def test_one_policy_s_gradient_does_not_shrink_the_other_s(policy: Policy) -> None:
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


def test_each_adapter_is_clipped_to_its_own_norm() -> None:
    start, learner = make_learner(), make_learner(total_steps=1, clip_norm=0.01, optimizer="sgd", learning_rate=1.0)
    (update,) = train(learner)
    for policy in Policy:
        moved = [a - b for a, b in zip(weights(learner, policy), weights(start, policy), strict=True)]
        assert update.metrics[policy]["grad_norm"] > 0.01
        assert float(torch.cat([m.flatten() for m in moved]).norm()) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_a_long_rival_does_not_shrink_the_other_s_step(loss: str) -> None:
    ends = []
    for groups in (1, 6):
        learner = make_learner(total_steps=1, loss=loss, clip_norm=None, optimizer="sgd")
        long = [rows(Policy.B, i) for i in range(groups)]
        train(learner, lambda step, long=long: [stream(Policy.A, [rows(Policy.A, 0)]), stream(Policy.B, long)])
        ends.append(weights(learner, Policy.A))
    assert equal(*ends)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
def test_dead_groups_are_in_no_denominator(loss: str) -> None:
    ends = []
    for dead in (0, 3):
        learner = make_learner(total_steps=1, loss=loss, beta=0.1, clip_norm=None, optimizer="sgd")
        groups = [rows(Policy.A, 0), *(masked(rows(Policy.A, "dead", i)) for i in range(dead))]
        train(learner, lambda step, groups=groups: [stream(Policy.A, groups)])
        ends.append(weights(learner, Policy.A))
    assert equal(*ends)


def test_masters_stay_float32_over_a_bfloat16_base() -> None:
    base = random_base(num_hidden_layers=1).to(torch.bfloat16)
    learner = PairLearner(model_config(dtype="bfloat16"), train_config(), total_steps=1, base=base)
    before = weights(learner, Policy.A)
    train(learner)
    assert {p.dtype for policy in Policy for p in learner.pair.parameters(policy)} == {torch.float32}
    assert {t.dtype for state in learner.optimizer.state.values() for t in state.values()} == {torch.float32}
    assert not equal(before, weights(learner, Policy.A))


def test_metrics_are_kept_by_policy() -> None:
    alone = train(make_learner(total_steps=1), lambda step: only(Policy.B, step))[0].metrics
    beside = train(make_learner(total_steps=1))[0].metrics
    assert set(alone) == {Policy.B}
    assert alone[Policy.B] == beside[Policy.B]
    assert beside[Policy.A]["entropy"] != beside[Policy.B]["entropy"]


def test_a_step_that_is_not_accepted_moves_nothing_and_leaves_no_gradient_behind() -> None:
    refused, plain = make_learner(total_steps=2), make_learner(total_steps=2)
    seen = list[Gap]()

    def refuse(gaps: Sequence[Gap]) -> None:
        seen.extend(gaps)
        raise EngineError("these rows are not the learner's", fix="")

    streams = [
        stream(p, [[from_engine(row, "one" if n % 2 else "two") for n, row in enumerate(rows(p, 0, logprobs=True))]])
        for p in Policy
    ]
    with pytest.raises(EngineError):
        refused.update(streams, accept=refuse)
    assert (refused.step, refused.consistent) == (0, True)
    assert all(equal(weights(refused, p), weights(plain, p)) for p in Policy)
    assert {(gap.policy, gap.engine) for gap in seen} == {(p, engine) for p in Policy for engine in ("one", "two")}
    for learner in (refused, plain):
        learner.update(streams)
    assert all(equal(weights(refused, p), weights(plain, p)) for p in Policy)


def test_gaps_are_told_by_the_engine_that_drew() -> None:
    learner = make_learner(total_steps=1)
    group = rows(Policy.A, 0)
    scores = learner.score(Policy.A, [row.completion.tokens for row in group])
    off = {"right": 0.0, "wrong": 0.75}
    drawn = []
    for n, (row, score) in enumerate(zip(group, scores, strict=True)):
        engine = "wrong" if n == 2 else "right"
        tokens = replace(row.completion.tokens, logprobs=tuple(value - off[engine] for value in score))
        drawn.append(from_engine(rollout(Policy.A, row.index, tokens, row.advantage), engine))
    found = list[Gap]()
    learner.update([stream(Policy.A, [drawn])], accept=found.extend)
    assert {gap.engine: gap.mean for gap in found} == pytest.approx(off, abs=1e-5)
    assert sum(gap.tokens for gap in found) == sum(len(score) for score in scores)


def from_engine(row: Rollout, engine: str) -> Rollout:
    return replace(row, completion=replace(row.completion, engine=engine))
