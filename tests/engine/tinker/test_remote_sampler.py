"""The contract of a sampler, on a fake service: CI has no server; `evidence/tinker_contract.py` runs a real one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agon.engine.render import Renderer
from agon.engine.shipped import folder_of
from agon.engine.tinker.client import TinkerClient
from agon.engine.tinker.remote_learner import TinkerLearner
from agon.engine.tinker.remote_sampler import TinkerSampler
from agon.errors import EngineError
from agon.types import BASE as BARE
from agon.types import Completion, Message, Policy, Prompt, Request, Sampling, Version

from .helpers import BASE, FakeService
from .test_remote_learner import make, train, weights

PROMPT = Prompt((Message("user", ("What is 2 + 3?",)),))


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer.load(str(folder_of("agon:tiny")))


@pytest.fixture
def service(serve: Any, renderer: Renderer) -> FakeService:
    made: FakeService = serve(renderer.vocabulary, one_slot=True)
    return made


@pytest.fixture
def sampler(service: FakeService, renderer: Renderer) -> TinkerSampler:
    return TinkerSampler(TinkerClient("http://127.0.0.1:1"), BASE, renderer, context=200)


def draw(sampler: TinkerSampler, seat: Policy | Version, seed: int = 1, tokens: int = 8) -> Completion:
    return asyncio.run(sampler.sample(Request(PROMPT, seat, seed, Sampling(1.0, 1.0, tokens))))


def published(sampler: TinkerSampler, learner: TinkerLearner, folder: Path) -> dict[Policy, Version]:
    versions = {}
    for policy in Policy:
        version = versions[policy] = Version.of(policy, learner.step, learner.hash(policy)[:8])
        learner.export(policy, folder / version)
        sampler.publish(version, folder / version)
    return versions


def test_every_version_draws_from_its_own_weights_and_says_so(sampler: TinkerSampler, tmp_path: Path) -> None:
    learner = make()
    versions = published(sampler, learner, tmp_path)
    drawn = {seat: draw(sampler, seat) for seat in (*Policy, BARE)}
    assert {seat: completion.version for seat, completion in drawn.items()} == {**versions, BARE: BARE}
    a, b = drawn[Policy.A].tokens, drawn[Policy.B].tokens
    assert a.logprobs == pytest.approx(learner.score(Policy.A, [a])[0])
    assert b.logprobs == pytest.approx(learner.score(Policy.B, [b])[0])
    assert b.logprobs != pytest.approx(learner.score(Policy.A, [b])[0], abs=1e-9)


def test_seeds_fix_a_draw(sampler: TinkerSampler) -> None:
    assert draw(sampler, BARE, 5).tokens == draw(sampler, BARE, 5).tokens != draw(sampler, BARE, 6).tokens


def test_a_new_version_is_sampled_from_after_an_update(sampler: TinkerSampler, tmp_path: Path) -> None:
    learner = make()
    published(sampler, learner, tmp_path)
    before = draw(sampler, Policy.A)
    train(learner, 1)
    versions = published(sampler, learner, tmp_path)
    after = draw(sampler, Policy.A)
    assert after.version == versions[Policy.A] != before.version
    assert after.tokens.logprobs == pytest.approx(learner.score(Policy.A, [after.tokens])[0])


def test_drawing_from_a_pinned_version_leaves_the_policy_that_trains_alone(
    sampler: TinkerSampler, tmp_path: Path
) -> None:
    learner = make()
    first = published(sampler, learner, tmp_path)
    before = draw(sampler, first[Policy.A])
    for version in first.values():
        sampler.pin(version, tmp_path / version)
        sampler.pin(version, tmp_path / version)
    train(learner, 3)
    moved = weights(learner, Policy.A)
    published(sampler, learner, tmp_path)
    assert draw(sampler, first[Policy.A]).tokens == before.tokens
    assert weights(learner, Policy.A) == moved


def test_what_has_no_state_cannot_be_pinned(sampler: TinkerSampler, tmp_path: Path) -> None:
    learner = make()
    train(learner, 1)
    versions = published(sampler, learner, tmp_path)
    with pytest.raises(EngineError, match="names no state"):
        sampler.pin(versions[Policy.A], tmp_path / versions[Policy.A])


def test_what_exceeds_the_context_is_refused_before_it_is_drawn(sampler: TinkerSampler, service: FakeService) -> None:
    with pytest.raises(EngineError, match="exceed a context of 200"):
        draw(sampler, BARE, tokens=200)
    assert service.draws == 0


def test_a_completion_without_log_probs_stops_the_run(sampler: TinkerSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    from agon.engine.tinker import client

    monkeypatch.setattr(
        client, "_drawn", lambda reply: client.DrawResult(tuple(reply.sequences[0].tokens), (), "length")
    )
    with pytest.raises(EngineError, match="0 log-probs for"):
        draw(sampler, BARE)
