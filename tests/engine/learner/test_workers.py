"""Gradient workers: the gradient of one process, to the bit again and again, and nothing hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agon.engine.learner import workers
from agon.engine.learner.batch import policy_batches
from agon.engine.learner.learner import PairLearner
from agon.engine.learner.workers import deal
from agon.engine.synthetic import rollout, stream
from agon.errors import ConfigError, EngineError
from agon.protocols import Tokens
from agon.types import Policy, Stream
from tests.engine.helpers.bases import random_base

from .helpers import both, equal, masked, model_config, moments, rows, train_config, weights

contract = pytest.mark.contract


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    random_base(num_hidden_layers=2).save_pretrained(folder)
    return folder


def learner_of(base: Path, gpus: int, **train: Any) -> PairLearner:
    settings = train_config(**{"gpus": gpus, "tokens_per_pass": 40, "beta": 0.05} | train)
    return PairLearner(model_config(name=str(base)), settings, total_steps=8, path=str(base))


def close(learner: PairLearner) -> None:
    if learner.workers:
        learner.workers.close()


@contract
def test_several_learn_what_one_learns_and_the_same_bits_each_time(base: Path) -> None:
    def streams(step: int) -> list[Stream]:
        if step == 1:  # one policy is dead, and the other has a row alone
            return [stream(Policy.A, [masked(rows(Policy.A, 1))]), stream(Policy.B, [rows(Policy.B, 1)[:1]])]
        return both(step)

    ends, metrics = list[list[torch.Tensor]](), list[Any]()
    for gpus in (1, 2, 2, 3):
        learner = learner_of(base, gpus)
        metrics.append([learner.update(streams(step)).metrics for step in range(3)])
        ends.append([t for p in Policy for t in (*weights(learner, p), *moments(learner, p))])
        close(learner)
    one, two, again, three = ends
    assert equal(two, again)
    assert all(float((a - b).abs().max()) < 1e-6 for other in (two, three) for a, b in zip(one, other, strict=True))
    for step, whole in enumerate(metrics[0]):
        for policy, found in whole.items():
            several = metrics[1][step][policy] | {"micro_batches": found["micro_batches"]}
            assert several == pytest.approx(found, rel=1e-3, abs=1e-5)


def within(seconds: float, work: Callable[[], Any]) -> float:
    began = time.monotonic()
    with pytest.raises(EngineError):
        work()
    spent = time.monotonic() - began
    assert spent < seconds
    return spent


@contract
def test_a_worker_that_is_killed_ends_the_update_and_the_next_one_is_whole(base: Path) -> None:
    plain, learner = learner_of(base, 1), learner_of(base, 2)
    for one in (plain, learner):
        one.update(both(0))
    assert learner.workers
    process, _ = learner.workers._workers[0]
    accumulate = learner.passes.accumulate

    def killed(*args: Any) -> Any:
        os.kill(process.pid, signal.SIGKILL)
        return accumulate(*args)

    learner.passes.accumulate = killed  # type: ignore[method-assign]
    within(20, lambda: learner.update(both(1, groups=6)))
    learner.passes.accumulate = accumulate  # type: ignore[method-assign]
    assert learner.step == 1
    for one in (plain, learner):
        one.update(both(1))
    assert all(
        float((a - b).abs().max()) < 1e-6
        for p in Policy
        for a, b in zip(weights(plain, p), weights(learner, p), strict=True)
    )
    close(learner)


@contract
def test_a_worker_that_is_stopped_is_given_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(base, 2)
    learner.update(both(0))
    monkeypatch.setattr(workers, "SLACK", 1.0)
    assert learner.workers
    process, _ = learner.workers._workers[0]
    os.kill(process.pid, signal.SIGSTOP)
    within(120, lambda: learner.update(both(1)))
    assert process.poll() is not None
    close(learner)


@contract
def test_a_signal_ends_the_wait_for_workers_and_what_they_raise_comes_here(base: Path) -> None:
    learner = learner_of(base, 2)
    learner.rehearse(8, 24)
    process, _ = learner.workers._workers[0]  # type: ignore[union-attr]
    os.kill(process.pid, signal.SIGSTOP)
    asked = threading.Event()
    threading.Timer(1.0, asked.set).start()

    class Asked(Exception):
        pass

    def check() -> None:
        if asked.is_set():
            raise Asked

    with pytest.raises(Asked):
        learner.update(both(0), check)
    assert process.poll() is not None, "no worker outlives an update that was interrupted"
    no_prompt = [rollout(Policy.A, 0, Tokens((), (4, 5)), 1.0) for _ in range(4)]
    with pytest.raises(EngineError):
        learner.update([stream(Policy.A, [no_prompt])])
    close(learner)


def test_more_gpus_than_there_are_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "visible_devices", lambda: ["0", "1"])
    with pytest.raises(ConfigError) as refused:
        learner_of(base, 3)
    assert "train.gpus=2" in refused.value.fix


@given(lengths=st.lists(st.tuples(st.sampled_from(Policy), st.integers(1, 400)), max_size=20), hands=st.integers(1, 4))
def test_rows_are_dealt_by_tokens_once_each(lengths: list[tuple[Policy, int]], hands: int) -> None:
    """Nobody has more than another but for one row: the greedy bound."""
    group = [rollout(p, i, Tokens((1,), (1,) * n), 1.0) for i, (p, n) in enumerate(lengths)]
    batches = policy_batches([stream(p, [[row for row in group if row.policy is p]]) for p in Policy], 100)
    dealt = deal(batches, hands, 100)
    assert all([(b.policy, b.rows, b.live) for b in d] == [(b.policy, b.rows, b.live) for b in batches] for d in dealt)
    for policy in Policy:
        taken = [id(r) for d in dealt for b in d if b.policy is policy for rs in b.passes for r in rs]
        assert sorted(taken) == sorted(id(r) for b in batches if b.policy is policy for rs in b.passes for r in rs)
    held = [sum(row.size for b in hand for rs in b.passes for row in rs) for hand in dealt]
    assert max(held) - min(held) <= max((n + 1 for _, n in lengths), default=0)
