"""A verifier on nodes that are lost: a row is judged elsewhere, or is `infra`, and never wrong."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agon.cluster.actor import Actor
from agon.errors import VerifierError
from agon.types import BASE, Completion, Problem, Reason, Verdict
from agon.verify.on_nodes import TRIES, NodeVerifier, VerifierHost
from tests.cluster.helpers import FakeCluster

RIGHT = Verdict(True, True, Reason.CORRECT)


class FakeHost:
    """Takes as long as the question says; `refuse` is an error of ours, `hang` never ends."""

    async def ready(self) -> None: ...

    async def judge(self, problem: Problem, completion: Completion) -> Verdict:
        assert completion.tokens is None
        if problem.question == "refuse":
            raise VerifierError("no sandbox here", fix="install bubblewrap")
        await asyncio.sleep(60 if problem.question == "hang" else float(problem.question or 0))
        return RIGHT

    async def self_test(self) -> list[str]:
        return ["1 + 1 is wrong"]

    async def counters(self) -> dict[str, int]:
        return {"rows": 1, "jobs": 2}


def problem(question: str) -> tuple[Problem, Completion]:
    return Problem("p", question, "1"), Completion("<think></think><answer>1</answer>", BASE, 1, 1)


def answered(gold: str, answer: str) -> tuple[Problem, Completion]:
    return Problem("p", "", gold), Completion(f"<think></think><answer>{answer}</answer>", BASE, 1, 1)


def verifier_on(cluster: FakeCluster, count: int = 2, patience: float = 60.0) -> NodeVerifier:
    return NodeVerifier(lambda: cluster.place(FakeHost), count, patience=patience)


def test_rows_are_spread_over_the_actors() -> None:
    cluster = FakeCluster()
    with verifier_on(cluster) as verifier:
        assert not cluster.handles, "nothing is started before the first row"
        assert verifier.verify_many(problem("0.05") for _ in range(6)) == [RIGHT] * 6
        assert [handle.calls.count("judge") for handle in cluster.handles] == [3, 3]
        assert verifier.self_test() == ["1 + 1 is wrong"]
        assert verifier.counters == {"rows": 6, "jobs": 4, "moved": 0, "infra": 0}
    assert [handle.killed for handle in cluster.handles] == [1, 1]
    with pytest.raises(VerifierError, match="closed"):
        verifier.verify_many([problem("0")])


def test_rows_of_a_lost_actor_are_judged_by_another() -> None:
    class Stuck(FakeHost):
        async def judge(self, problem: Problem, completion: Completion) -> Verdict:
            await asyncio.Event().wait()
            raise AssertionError

    class FirstStuck(FakeCluster):
        def place(self, *args: object, **more: object) -> Actor:
            return super().place(FakeHost if self.handles else Stuck)

    cluster = FirstStuck()

    async def main() -> list[Verdict]:
        work = asyncio.gather(*(verifier(*problem("0.2")) for _ in range(6)))
        await asyncio.sleep(0.1)
        cluster.handles[0].lose()
        return await work

    with verifier_on(cluster) as verifier:
        assert asyncio.run(main()) == [RIGHT] * 6
        assert verifier.counters["moved"] == 3
        assert len(cluster.handles) == 3, "one new actor for all rows of the lost one"


def test_a_row_that_finds_no_actor_is_infra_and_never_wrong() -> None:
    class Doomed(FakeCluster):
        def place(self, *args: object, **more: object) -> Actor:
            actor = super().place(FakeHost)
            self.handles[-1].lose()
            return actor

    cluster = Doomed()
    with verifier_on(cluster) as verifier:
        (verdict,) = verifier.verify_many([problem("0.1")])
    assert verdict.reason is Reason.INFRA
    assert verdict.well_formed
    assert "The actor died" in verdict.detail
    assert len(cluster.handles) == 2 + TRIES


class Clock:
    """Moves when a row was judged and not otherwise, however long a busy machine takes."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now


def test_a_hanging_actor_is_lost_after_a_while_and_a_busy_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, clock = FakeCluster(), Clock()
    with verifier_on(cluster, count=1, patience=0.3) as verifier:
        began = time.monotonic()
        (verdict,) = verifier.verify_many([problem("hang")])
        assert (verdict.reason, time.monotonic() - began < 30) == (Reason.INFRA, True)
        assert len(cluster.handles) == 1 + TRIES
        note = verifier._note

        def note_and_tick(*judged: Any) -> None:
            note(*judged)
            clock.now += 0.1

        monkeypatch.setattr(verifier, "_note", note_and_tick)
        monkeypatch.setattr("agon.verify.on_nodes.time", clock)
        assert verifier.verify_many([*(problem(f"{n / 10}") for n in range(8))]) == [RIGHT] * 8
        assert len(cluster.handles) == 1 + TRIES, "it judged a row now and then"


def test_an_error_of_the_verifier_itself_stops_the_run() -> None:
    cluster = FakeCluster()
    with verifier_on(cluster) as verifier, pytest.raises(VerifierError, match="no sandbox here"):
        verifier.verify_many([problem("refuse")])
    assert len(cluster.handles) == 2


def test_the_math_verifier_judges_in_an_actor_as_it_does_here() -> None:
    rows = [answered("2x+1", "1+2x"), answered("2x+1", "2x"), answered("7", "(" * 2000)]
    cluster = FakeCluster()
    with NodeVerifier(lambda: cluster.place(VerifierHost, "math", None), 1) as verifier:
        verdicts = verifier.verify_many(rows)
        cluster.handles[0].shell._object._verifier.close()
    assert [verdict.reason for verdict in verdicts] == [Reason.CORRECT, Reason.WRONG, Reason.UNPARSABLE]


def test_an_actor_that_is_lost_before_it_is_loaded_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray may place the new actor on the node that has just died."""

    class Dead(FakeCluster):
        def place(self, *args: object, **more: object) -> Actor:
            actor = super().place(FakeHost)
            if len(self.handles) == 3:
                self.handles[-1].lose()
            return actor

    monkeypatch.setattr("agon.verify.on_nodes.AGAIN", 0.0)
    cluster = Dead()
    with verifier_on(cluster) as verifier:
        verifier.verify_many([problem("0")] * 2)
        cluster.handles[0].lose()
        deadline = time.monotonic() + 20
        while len(cluster.handles) < 4 or "judge" not in cluster.handles[3].calls:
            assert time.monotonic() < deadline, "the new actor gets no row"
            assert verifier.verify_many([problem("0.05")] * 4) == [RIGHT] * 4
        assert len(cluster.handles) == 4
