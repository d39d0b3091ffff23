"""What a run relies on, over every installed backend: a version draws with its own weights, and only with those.

vLLM is the real one. A fake service stands in for Tinker; `evidence/tinker_contract.py` holds a real one to the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.config import Config
from agon.doors import doors
from agon.engine.backend import backend_of
from agon.engine.base import context_of
from agon.engine.shipped import folder_of
from agon.engine.synthetic import rollout, stream
from agon.game.prompts import draft_prompt
from agon.protocols import Learner, Sampler
from agon.types import Completion, Policy, Problem, Request, Rollout, Sampling, Version
from tests.engine.helpers.configs import config
from tests.engine.tinker.conftest import Serve, clients, serve  # noqa: F401

TINY = {"name": "agon:tiny", "dtype": "float32", "lora": {"rank": 4}}
SHORT = {
    "train": {"max_completion_tokens": 16, "max_peek_tokens": 16, "learning_rate": 0.01, "warmup": 0.0},
    "eval": {"max_completion_tokens": 16},
}
CHOSEN: dict[str, dict[str, Any]] = {
    "hf": {"model": TINY, "sampler": {"engine": "hf"}},
    "vllm": {"model": TINY, "sampler": {"engine": "vllm"}},
    "tinker": {"model": TINY, "sampler": {"engine": "tinker", "urls": ["http://127.0.0.1:1"]}},
}
CLOSE = 1e-3
"""Nats within which sampler and learner agree on a token, in float32."""


class Bench:
    """Learner and sampler of one backend, opened as a run opens them."""

    def __init__(self, config: Config, folder: Path) -> None:
        backend = backend_of(config)
        self.learner: Learner = backend.learner(steps=4)
        self.sampler: Sampler = backend.sampler(context_of(config))
        self.folder = folder

    def publish(self, policy: Policy) -> Version:
        version = Version.of(policy, self.learner.step, self.learner.hash(policy)[:8])
        self.learner.export(policy, self.folder / version)
        self.sampler.publish(version, self.folder / version)
        return version

    def draw(self, seat: Policy | Version) -> list[Rollout]:
        """Four rollouts of one policy or version, drawn together; their advantages alternate."""

        async def together() -> list[Completion]:
            prompts = [draft_prompt(Problem(str(n), f"Count from {n} to ten.", "10")) for n in range(4)]
            requests = [Request(prompt, seat, seed, Sampling(max_tokens=16)) for seed, prompt in enumerate(prompts)]
            return await asyncio.gather(*map(self.sampler.sample, requests))

        rows = [
            replace(rollout(seat.policy, index, drawn.tokens, 1.0 - 2 * (index % 2)), completion=drawn)
            for index, drawn in enumerate(asyncio.run(together()))
            if drawn.tokens
        ]
        assert len(rows) == 4
        return rows

    def gap(self, policy: Policy, rows: list[Rollout]) -> float:
        """The largest difference between the log-probs of the sampler and those of the learner as it is now."""
        tokens = [row.completion.tokens for row in rows]
        return max(
            abs(ours - theirs)
            for row, scores in zip(tokens, self.learner.score(policy, tokens), strict=True)
            for ours, theirs in zip(row.logprobs or (), scores, strict=True)
        )

    def update(self) -> None:
        """A step in which both policies learn from what they drew."""
        self.learner.update([stream(policy, [self.draw(policy)]) for policy in Policy])


REAL = {"vllm": pytest.mark.slow}
"""A real engine starts for it."""


@pytest.fixture(
    params=[
        pytest.param(name, marks=REAL.get(name, ())) for name in sorted(kind.name for kind in doors("agon.backends"))
    ]
)
def bench(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> Iterator[Bench]:  # noqa: F811
    name = request.param
    if name == "tinker":
        serve(768, one_slot=True, over_positions=True, over_rows=True).base = str(folder_of("agon:tiny"))
    made = Bench(config(**CHOSEN[name], **SHORT), tmp_path)
    yield made
    made.sampler.close()


def test_a_version_draws_with_its_own_weights_before_and_after_an_update(bench: Bench) -> None:
    first = {policy: bench.publish(policy) for policy in Policy}
    for policy, version in first.items():
        rows = bench.draw(policy)
        assert {row.completion.version for row in rows} == {version}
        assert bench.gap(policy, rows) < CLOSE
    old = bench.draw(Policy.A)
    bench.sampler.pin(first[Policy.A], bench.folder / first[Policy.A])
    bench.update()
    assert bench.learner.step == 1
    assert bench.gap(Policy.A, bench.draw(Policy.A)) > 10 * CLOSE, "the sampler has not heard of the step"
    second = {policy: bench.publish(policy) for policy in Policy}
    assert not set(first.values()) & set(second.values())
    for policy, version in second.items():
        rows = bench.draw(policy)
        assert {row.completion.version for row in rows} == {version}
        assert bench.gap(policy, rows) < CLOSE
    again = bench.draw(first[Policy.A])
    assert logprobs(again) == pytest.approx(logprobs(old), abs=CLOSE), "a pinned version is what it was"


def logprobs(rows: list[Rollout]) -> list[float]:
    return [value for row in rows for value in row.completion.tokens.logprobs or ()]
