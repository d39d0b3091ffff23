"""The contract of a learner, on a fake service: CI has no server; `evidence/tinker_contract.py` runs a real one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agon.config import Model, Train
from agon.engine.synthetic import random_tokens, rollout, stream
from agon.engine.tinker.client import TinkerClient
from agon.engine.tinker.remote_learner import TinkerLearner
from agon.engine.tinker.saved import SavedWeights
from agon.engine.tinker.token_weights import Averaging
from agon.errors import CheckpointError, EngineError
from agon.protocols import Learner, Tokens, Update
from agon.rundir.adapter import check_adapter
from agon.types import Policy, Stream

from .helpers import BASE, FakeService

VOCABULARY, TOTAL = 32, 4
MODEL = Model.model_validate({"name": BASE, "lora": {"rank": 4}, "init": {"b_noise_std": 0.01}})


def make(total: int = TOTAL, model: Model = MODEL, **train: Any) -> TinkerLearner:
    settings = Train.model_validate({"warmup": 0.0, "learning_rate": 0.01, "schedule": "constant"} | train)
    averaging = Averaging(over_positions=False, over_rows=False)
    client = TinkerClient("http://127.0.0.1:1")
    return TinkerLearner(client, BASE, model, settings, averaging, total_steps=total, vocabulary=VOCABULARY)


def rows(policy: Policy, learner: TinkerLearner, *signs: float | None, off: float = 0.0) -> Stream:
    """Live rows whose log-probs are the policy's own, so that every ratio is 1; `off` shifts them."""
    rng = random.Random(f"{policy} {learner.step}")
    drawn = [random_tokens(rng, VOCABULARY, 3, 5) for _ in signs]
    scores = learner.score(policy, drawn)
    known = [
        Tokens(t.prompt_ids, t.completion_ids, tuple(x + off for x in s)) for t, s in zip(drawn, scores, strict=True)
    ]
    return stream(policy, [[rollout(policy, i, t, sign) for i, (t, sign) in enumerate(zip(known, signs, strict=True))]])


def weights(learner: TinkerLearner, policy: Policy) -> list[list[float]]:
    probe = [random_tokens(random.Random(9), VOCABULARY, 3, 5)]
    return learner.score(policy, probe)


def train(learner: TinkerLearner, steps: int = TOTAL) -> list[Update]:
    updates: list[Update] = []
    while learner.step < steps:
        updates.append(learner.update([rows(policy, learner, 1.0, -1.0) for policy in Policy]))
    return updates


@pytest.fixture
def service(serve: Any) -> FakeService:
    made: FakeService = serve(VOCABULARY)
    return made


def test_it_is_a_learner(service: FakeService) -> None:
    learner: Learner = make()
    learner.rehearse(10, 10)
    assert learner.memory()["process_peak"] > 0


def test_b_starts_as_noise_of_the_config_s_size_and_a_as_the_base(service: FakeService) -> None:
    learner = make()
    assert weights(learner, Policy.A) != weights(learner, Policy.B)
    a, b = list(service.slots.values())[:2]
    assert not a.b.any()
    assert np.abs(b.b).max() == pytest.approx(0.01, rel=1e-3)
    assert np.median(np.abs(b.b)) == pytest.approx(0.01, rel=1e-3)
    assert abs(np.sign(b.b).mean()) < 0.5
    assert max(np.abs(moment).max() for moment in b.moments) < 1e-4, "the noise must not stay in Adam's memory"


def test_adapters_that_are_one_are_refused_before_step_1(serve: Any) -> None:
    serve(VOCABULARY, noise_works=False)
    with pytest.raises(EngineError, match="A and B are the same adapter"):
        make().hash(Policy.A)


def test_both_gradients_are_computed_before_either_policy_moves(service: FakeService) -> None:
    learner = make()
    weights(learner, Policy.A)
    service.calls.clear()
    train(learner, 1)
    kinds = [call.split()[0] for call in service.calls]
    assert kinds == ["backward", "backward", "step", "step"]


def test_a_step_raises_what_was_paid_and_lowers_what_was_not(service: FakeService) -> None:
    learner = make()
    played = rows(Policy.A, learner, 1.0, -1.0)
    tokens = [row.completion.tokens for row in played.rollouts()]
    before = [sum(row) for row in learner.score(Policy.A, tokens)]
    learner.update([played])
    after = [sum(row) for row in learner.score(Policy.A, tokens)]
    assert after[0] > before[0]
    assert after[1] < before[1]


def test_a_policy_without_a_live_row_keeps_its_weights_and_its_name(service: FakeService) -> None:
    learner = make()
    names = {policy: learner.hash(policy) for policy in Policy}
    before = weights(learner, Policy.B)
    update = learner.update([rows(Policy.A, learner, 1.0, -1.0), rows(Policy.B, learner, None, None)])
    assert weights(learner, Policy.B) == before
    assert learner.hash(Policy.B) == names[Policy.B]
    assert learner.hash(Policy.A) != names[Policy.A]
    assert update.metrics[Policy.B] == {
        "rows": 2.0,
        "masked_rows": 2.0,
        "tokens": 0.0,
        "updated": 0.0,
        "learning_rate": 0.01,
    }
    assert update.metrics[Policy.A]["grad_norm"] > 0


def test_rows_of_different_weights_are_not_learnt_from(service: FakeService) -> None:
    learner = make()
    before = weights(learner, Policy.A)
    with pytest.raises(EngineError, match=r"A was drawn from other weights.*differ by 0\.5 nats per token at step 0"):
        learner.update([rows(Policy.A, learner, 1.0, -1.0, off=0.5)])
    assert weights(learner, Policy.A) == before
    assert learner.consistent


def test_a_saved_run_continues_where_it_was_optimizer_included(service: FakeService, tmp_path: Path) -> None:
    straight = make()
    train(straight)
    first = make()
    train(first, 2)
    names = {policy: first.hash(policy) for policy in Policy}
    first.save(tmp_path)
    resumed = make()
    resumed.load(tmp_path)
    assert resumed.step == 2
    assert {policy: resumed.hash(policy) for policy in Policy} == names, "an unchanged policy keeps its version"
    train(resumed)
    for policy in Policy:
        assert weights(resumed, policy) == weights(straight, policy)
        assert check_adapter(tmp_path / policy.value).r == 4


def test_a_service_that_restores_other_weights_does_not_resume(service: FakeService, tmp_path: Path) -> None:
    first = make()
    train(first, 2)
    first.save(tmp_path)
    state = SavedWeights.read(tmp_path / "trainer_state" / "b").state
    assert state is not None
    kept = service.files[state]
    kept.b = kept.b * (1 + 2**-10)  # rounding
    make().load(tmp_path)
    kept.b = kept.b * 0  # as a new adapter starts
    with pytest.raises(CheckpointError, match=f"restored {state} as an adapter with other weights") as refused:
        make().load(tmp_path)
    assert "--name" in refused.value.fix


def test_an_export_names_copies_that_are_never_reused(service: FakeService, tmp_path: Path) -> None:
    learner = make()
    assert learner.export(Policy.A, tmp_path / "0") == learner.hash(Policy.A)
    first = SavedWeights.read(tmp_path / "0")
    assert first.state is not None, "a first version is pinned from its state"
    train(learner, 1)
    learner.export(Policy.A, tmp_path / "1")
    second = SavedWeights.read(tmp_path / "1")
    assert second.sampler != first.sampler
    assert second.state is None
    assert set(service.files) >= {first.sampler, first.state, second.sampler}


def test_what_a_service_cannot_score_is_refused(service: FakeService) -> None:
    learner = make()
    with pytest.raises(EngineError, match="the bare base"):
        learner.score(None, [])
