"""Who draws, of several processes that learn."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.config import ClusterConfig, SamplerConfig
from agon.engine.scripted import ScriptedSampler
from agon.errors import EngineError
from agon.interrupt import Interrupt
from agon.protocols import Phase, Tokens, Update, alone
from agon.rundir import RunDir, read_bouts
from agon.training.drawing import DrawnElsewhere, draws
from agon.training.machines import Machines
from agon.training.processes import Processes
from agon.types import Completion, Policy, Request, Stream, Version
from tests.training.helpers.runs import OneNumberLearner, Plain, Verifier, config, directory, half_right, training
from tests.training.helpers.stores import Board

HERE = ClusterConfig()


@pytest.mark.parametrize(
    ("settings", "cluster", "rank", "local_rank", "expected"),
    [
        (SamplerConfig(engine="hf"), HERE, 5, 5, True),
        (SamplerConfig(engine="vllm"), HERE, 0, 0, True),
        (SamplerConfig(engine="vllm"), HERE, 5, 5, False),
        (SamplerConfig(engine="vllm"), HERE, 8, 0, True),
        (SamplerConfig(urls=["http://localhost"]), HERE, 8, 0, False),
        (SamplerConfig(urls=["http://localhost"]), HERE, 0, 0, True),
        (SamplerConfig(engine="vllm"), ClusterConfig(engine="ray", address="local"), 8, 0, False),
        (SamplerConfig(engine="vllm"), ClusterConfig(engine="ray", address="local"), 0, 0, True),
        (SamplerConfig(engine="vllm"), ClusterConfig(engine="ray", address="local", samplers=0), 8, 0, True),
    ],
)
def test_one_process_of_a_machine_draws_for_all_its_engines(
    settings: SamplerConfig,
    cluster: ClusterConfig,
    rank: int,
    local_rank: int,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    assert draws(settings, cluster) is expected


def test_a_process_alone_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert draws(SamplerConfig(engine="vllm"), HERE)
    assert draws(SamplerConfig(urls=["http://localhost"]), HERE)


def test_a_process_that_does_not_draw_takes_publications_and_refuses_requests(tmp_path: Path) -> None:
    sampler = DrawnElsewhere()
    sampler.publish(Version("a@0-x"), tmp_path)
    sampler.pin(Version("a@0-x"), tmp_path)
    with pytest.raises(EngineError, match="does not draw"):
        asyncio.run(sampler.sample(None))  # type: ignore[arg-type]
    sampler.close()


class SharedLearner(OneNumberLearner):
    """One of several that move together."""

    def __init__(self, total: int, rank: int, board: Board) -> None:
        super().__init__(total)
        self.rank, self.processes, self.board = rank, board.size, board
        self.rows: list[int] = []

    def gather(self, value: Any) -> list[Any]:
        return self.board.gather(self.rank, value)

    def update(self, streams: Sequence[Stream], phase: Phase = alone) -> Update:
        with phase("update"):
            self.rows.append(sum(len(group) for s in streams for group in s.groups))
        own = [(s.policy, abs(row.advantage)) for s in streams for row in s.rollouts() if row.advantage is not None]
        moves = [move for part in self.gather(own) for move in part]
        for policy in Policy:
            self.weights[policy] += math.fsum(size for mover, size in moves if mover is policy)
        self.step += 1
        return Update(self.step - 1, {policy: {"loss": self.weights[policy]} for policy in Policy})


class WithTokens(ScriptedSampler):
    async def sample(self, request: Request) -> Completion:
        completion = await super().sample(request)
        return replace(completion, tokens=Tokens((1,), (7,) * (1 + request.seed % 9)))


def trained(root: Path, processes: int) -> tuple[RunDir, list[SharedLearner]]:
    """A run whose first process draws for all."""
    settings = config(eval__points=1, game__wait_for_all_drafts=True)
    run, board = directory(root, f"of-{processes}", settings), Board(processes)
    learners = [SharedLearner(6, rank, board) for rank in range(processes)]

    def process(learner: SharedLearner) -> bool:
        sampler = DrawnElsewhere() if learner.rank else WithTokens(half_right)
        machines = Machines(
            learner,
            sampler,
            Verifier(),  # type: ignore[arg-type]
            Plain(),  # type: ignore[arg-type]
            draws=learner.rank == 0,
            processes=Processes(learner.rank, processes, Interrupt(), board.store if processes > 1 else None),
        )
        return training(run, settings, machines=machines).go()

    with ThreadPoolExecutor(processes) as pool:
        assert list(pool.map(process, learners, timeout=60)) == [True] * processes
    return run, learners


def test_one_process_draws_for_several_and_all_learn(tmp_path: Path) -> None:
    (one, _), (two, learners) = trained(tmp_path, 1), trained(tmp_path, 2)
    assert read_bouts(two).to_pylist() == read_bouts(one).to_pylist()
    assert (two.path / "steps.jsonl").read_bytes() == (one.path / "steps.jsonl").read_bytes()
    assert (two.path / "points.json").read_bytes() == (one.path / "points.json").read_bytes()
    assert [learner.rows for learner in learners] == [[8] * 6, [0] * 6], "the learner deals them out"
