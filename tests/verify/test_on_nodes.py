"""A verifier on nodes that are lost: a row is judged elsewhere, or is `infra`, and never wrong."""

from __future__ import annotations

import asyncio
import time

import pytest

from agon.cluster.actor import Actor
from agon.errors import VerifierError
from agon.types import BASE, Completion, Problem, Reason, Verdict
from agon.verify.on_nodes import TRIES, NodeVerifier, VerifierHost
from tests.cluster.helpers import FakeCluster, FakeHandle
from tests.waiting import until, wait_until

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


def judged(handle: FakeHandle) -> int:
    return handle.calls.count("judge")


def test_rows_are_spread_over_the_actors() -> None:
    cluster = FakeCluster()
    with verifier_on(cluster) as verifier:
        assert not cluster.handles, "nothing is started before the first row"
        assert verifier.verify_many(problem("0.05") for _ in range(6)) == [RIGHT] * 6
        assert [judged(handle) for handle in cluster.handles] == [3, 3]
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
        await until(lambda: sum(map(judged, cluster.handles)) == 6)
        cluster.handles[0].lose()
        return await work

    with verifier_on(cluster) as verifier:
        assert asyncio.run(main()) == [RIGHT] * 6
        assert verifier.counters["moved"] == judged(cluster.handles[0]) > 0
        assert len(cluster.handles) == 3, "one new actor for all rows of the lost one"


def test_a_row_that_finds_no_actor_is_infra_and_never_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    class Doomed(FakeCluster):
        def place(self, *args: object, **more: object) -> Actor:
            actor = super().place(FakeHost)
            self.handles[-1].lose()
            return actor

    monkeypatch.setattr("agon.verify.on_nodes.AGAIN", 0.0)
    monkeypatch.setattr("agon.verify.on_nodes.STARTS", 3)
    cluster = Doomed()
    with verifier_on(cluster) as verifier:
        for _ in range(2):
            (verdict,) = verifier.verify_many([problem("0.1")])
            assert verdict.reason is Reason.INFRA
            assert verdict.well_formed
            assert "The actor died" in verdict.detail
        assert verifier.counters["infra"] == 2
        with pytest.raises(VerifierError, match="The actor died"):
            verifier.self_test()
    assert len(cluster.handles) == 2 * (1 + 3), "each place is given up"


@pytest.mark.parametrize(("wait", "reason"), [(0.05, Reason.CORRECT), (60, Reason.INFRA)])
def test_a_row_waits_for_a_node_with_room_and_not_without_end(wait: float, reason: Reason) -> None:
    class Late(FakeHost):
        async def ready(self) -> None:
            await asyncio.sleep(wait)

    class Failing(FakeHost):
        async def judge(self, problem: Problem, completion: Completion) -> Verdict:
            raise OSError("no space left on device")

    class FirstFails(FakeCluster):
        def place(self, *args: object, **more: object) -> Actor:
            return super().place(Late if self.handles else Failing)

    with verifier_on(FirstFails(), count=1, patience=0.5) as verifier:
        (verdict,) = verifier.verify_many([problem("0")])
    assert verdict.reason is reason
    assert reason is Reason.CORRECT or "none was ready" in verdict.detail


def test_a_hanging_actor_is_lost_after_a_while_and_a_busy_one_is_not() -> None:
    cluster = FakeCluster()
    with verifier_on(cluster, count=1, patience=0.6) as verifier:
        (verdict,) = verifier.verify_many([problem("hang")])
        assert (verdict.reason, "0 verdicts in" in verdict.detail) == (Reason.INFRA, True)
        assert verifier.counters["moved"] == TRIES
        assert verifier.verify_many(problem(f"{n / 5}") for n in range(8)) == [RIGHT] * 8
        assert verifier.counters["moved"] == TRIES, "it judged a row now and then"
        assert len(cluster.handles) == 1 + TRIES


def test_a_row_that_nobody_waits_for_leaves_its_actor() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(verifier(*problem("hang")), 0.2)

    with verifier_on(cluster, count=1, patience=0.4) as verifier:
        asyncio.run(main())
        wait_until(lambda: verifier._seats[0].busy == 0)
        time.sleep(0.6)
        assert len(cluster.handles) == 1, "an idle actor is not lost"


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
