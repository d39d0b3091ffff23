"""A step may learn only from rows of the versions that the learner holds, whatever drew them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agon.engine.backend import Backend, backend_of
from agon.engine.scripted import ScriptedSampler
from agon.engine.synthetic import rollout, stream
from agon.engine.vllm.door import Vllm
from agon.engine.vllm.placement import GpuMemory
from agon.errors import EngineError, VerifierError
from agon.protocols import Tokens
from agon.training import machines
from agon.training.machines import Machines, own_share
from agon.training.processes import PeerError
from agon.training.streams import check_versions
from agon.types import Policy, Request, Rollout, Version
from agon_judge.sandbox import SandboxSettings
from tests.training.helpers.runs import BOTH, OneNumberLearner, Plain, Verifier, config, directory, half_right, training
from tests.training.helpers.stores import Board, Memory

VERSIONS = {policy: Version.of(policy, 7, "right") for policy in Policy}


def drawn_by(version: Version, policy: Policy) -> Rollout:
    row = rollout(policy, 0, Tokens((1,), (2,)), None)
    return replace(row, completion=replace(row.completion, version=version))


@pytest.mark.parametrize(
    "foreign", [Version("a@000006-before"), VERSIONS[Policy.B], Version("base")], ids=["late", "swapped", "base"]
)
def test_a_row_of_a_different_version_stops_the_run_by_name(foreign: Version) -> None:
    right = drawn_by(VERSIONS[Policy.A], Policy.A)
    check_versions([stream(Policy.A, [[right]])], VERSIONS)
    with pytest.raises(EngineError, match=f"drawn by {foreign}, and {VERSIONS[Policy.A]} plays this step"):
        check_versions([stream(Policy.A, [[right, drawn_by(foreign, Policy.A)]])], VERSIONS)


def test_without_a_canary_nothing_is_attested_or_measured() -> None:
    own = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), BOTH)  # type: ignore[arg-type]
    assert (own.attest(VERSIONS.values()), own.attested(), own.gaps()) == ([], 0, {})


def test_the_engines_of_a_run_are_those_of_its_fleet() -> None:
    own = Machines(OneNumberLearner(9), ScriptedSampler(half_right), Verifier(), BOTH)  # type: ignore[arg-type]
    assert own.engines == 0
    fleet = SimpleNamespace(sampler=SimpleNamespace(fleet=SimpleNamespace(members=[1, 2, 3])))
    assert replace(own, canary=fleet).engines == 3  # type: ignore[arg-type]


class Loaded(OneNumberLearner):
    """A learner of several, which leaves so many GiB of its GPU free."""

    def __init__(self, rank: int, board: Board) -> None:
        super().__init__(1)
        self.rank, self.processes, self.board = rank, board.size, board

    def gather(self, value: Any) -> list[Any]:
        return self.board.gather(self.rank, value)

    def store(self) -> Memory:
        return self.board.store


def built(
    monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any], judge: Callable[..., Any] = lambda *args: Verifier()
) -> list[Machines | BaseException]:
    """The machines of two processes, each a thread, of which the first draws; or what each ended with."""
    board, here = Board(2), threading.local()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(GpuMemory, "here", lambda: GpuMemory(free=60 - 20 * here.rank, total=80))
    monkeypatch.setattr(Backend, "learner", lambda self, steps: Loaded(here.rank, board))

    class Here(Vllm):
        def draws(self) -> bool:
            return bool(here.rank == 0)

        def sampler(self, context: int) -> Any:
            return start(self._beside)

        def verifier(self, sandbox: Any) -> Any:
            return judge(here.rank)

        def canary(self, sampler: Any, learner: Any) -> None: ...

        def renderers(self) -> dict[Policy, Any]:
            return dict.fromkeys(Policy, Plain())

    monkeypatch.setattr(machines, "backend_of", Here)

    def process(rank: int) -> Machines | BaseException:
        here.rank = rank
        try:
            return machines.build(config(model__name="agon:tiny"), 1)
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(process, range(2), timeout=60))


def test_an_engine_knows_what_the_learner_of_its_own_gpu_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[Sequence[GpuMemory]]()

    def start(beside: Sequence[GpuMemory]) -> ScriptedSampler:
        given.append(beside)
        return ScriptedSampler(half_right)

    both = built(monkeypatch, start)
    assert [isinstance(one, Machines) and one.draws for one in both] == [True, False], both
    assert given == [[GpuMemory(60, 80), GpuMemory(40, 80)]]


def test_an_engine_that_does_not_start_ends_every_process_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*args: object) -> None:
        raise EngineError("vLLM did not start", fix="see its log")

    first, second = built(monkeypatch, start)
    assert isinstance(first, EngineError)
    assert isinstance(second, PeerError)
    assert (second.message, second.fix) == ("process 0 failed: vLLM did not start", "see its log")


def test_engines_end_where_another_process_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, closed = ScriptedSampler(half_right), list[str]()
    monkeypatch.setattr(sampler, "close", lambda: closed.append("sampler"))

    def judge(rank: int) -> Verifier:
        if rank == 0:
            return Verifier()
        raise VerifierError("no sandbox", fix="install it")

    first, second = built(monkeypatch, lambda *args: sampler, judge)
    assert isinstance(first, PeerError)
    assert isinstance(second, VerifierError)
    assert closed == ["sampler"]


def test_processes_of_one_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    hf, vllm = (backend_of(config(sampler__engine=name)) for name in ("hf", "vllm"))
    assert own_share(SandboxSettings(), hf).workers == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert own_share(SandboxSettings(), hf).workers == 2
    assert own_share(SandboxSettings(), vllm).workers == 16, "one process draws for all"
    assert own_share(SandboxSettings(workers=5), hf).workers == 5
    assert own_share(SandboxSettings("http", url="http://h"), hf).workers is None
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "64")
    assert own_share(SandboxSettings(), hf).workers == 1


def test_a_run_stops_before_it_learns_from_a_late_row(tmp_path: Path) -> None:
    settings = config(eval__points=0)
    run = directory(tmp_path, "x", settings)
    work = training(run, settings)
    sampler = work.machines.sampler
    assert isinstance(sampler, ScriptedSampler)
    name, first = sampler._version, dict[Policy, Version]()

    def late(request: Request) -> Version:
        version = name(request)
        if version.policy is Policy.B:
            return first.setdefault(Policy.B, version)
        return version

    sampler._version = late  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=r"drawn by b@000000-\w+, and b@00000\d-\w+ plays this step"):
        work.go()
    assert len(run.steps.records()) == work.machines.learner.step >= 1
