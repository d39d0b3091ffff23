"""A real engine that is split over two ranks: it draws as the learner does, each rank attests, and a rank may die."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psutil
import pytest

from _engine import Bench, ask, ask_host, bench
from agon.engine.vllm.canary import LIMITS, Canary
from agon.errors import EngineError
from agon.types import BASE, Completion, Policy, Request, Sampling, Version
from tests.waiting import gone

pytestmark = pytest.mark.slow
RANKS = ["VLLM::Worker_TP0", "VLLM::Worker_TP1"]
TOKENS = 128


@pytest.fixture(scope="module")
def table() -> Iterator[Bench]:
    with bench(tensor_parallel_size=2, worker_extension_cls="_tamper.Tampering") as made:
        for seed, policy in enumerate(Policy):
            made.move(policy, 0.05, seed)
        yield made


def ranks(table: Bench) -> dict[str, psutil.Process]:
    """The processes that hold a part of the base each, by name."""
    processes = map(psutil.Process, table.sampler.fleet.members[0].engine.actor.processes())
    named = {" ".join(process.cmdline()).strip(): process for process in processes}
    return {name: named[name] for name in sorted(named) if "Worker" in name}


def checked(table: Bench) -> tuple[Canary, dict[Policy, Version]]:
    """A canary that has found the engine right, and what was published for it."""
    for _ in range(2):  # versions that another test changed are live until then
        versions = {policy: table.publish(policy) for policy in Policy}
    canary = Canary(table.sampler, table, slots=4, dtype="float32")  # type: ignore[arg-type]
    canary.check(versions)
    return canary, versions


async def draw(table: Bench, kill: psutil.Process | None = None) -> list[Completion]:
    """Rows of both policies; the process is killed while they are drawn."""
    sampling = Sampling(max_tokens=TOKENS)
    requests = [Request(ask(f"Count to {n}."), policy, n, sampling) for n in range(4) for policy in Policy]
    drawing = asyncio.gather(*(table.sampler.sample(request) for request in requests))
    if kill:
        before = await progress(table)
        while await progress(table) < before + 2 * TOKENS:  # noqa: ASYNC110 - it counts elsewhere
            await asyncio.sleep(0.01)
        assert not drawing.done()
        kill.kill()
    return list(await drawing)


async def progress(table: Bench) -> int:
    return await asyncio.wrap_future(table.sampler.submit(table.sampler.fleet.members[0].engine.progress()))


def test_adapters_draw_as_the_learner_does_and_every_rank_attests(table: Bench) -> None:
    """The learner holds the whole base: what it scores is what an engine on one GPU would draw."""
    assert list(ranks(table)) == RANKS
    canary, versions = checked(table)
    assert canary.attested() == 4
    assert 0 <= max(canary.gaps().values()) < LIMITS["float32"] / 10
    name, folder = str(versions[Policy.A]), table.sampler.live[versions[Policy.A]]
    answers = ask_host(table, "vllm", "collective_rpc", "attest", None, (name, str(folder), "not its digest"))
    assert answers == [["adapter_model.safetensors is not the learner's"]] * 2, "one answer of each rank"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_wrong_shard_of_one_rank_is_refused(table: Bench, rank: int) -> None:
    canary, versions = checked(table)
    a, b = (str(versions[policy]) for policy in Policy)
    ask_host(table, "vllm", "collective_rpc", "overwrite", None, (b, a, rank))
    with pytest.raises(EngineError, match=rf"engine 0 does not hold {b} .*model\.layers\.0"):
        canary.attest(versions.values())


def test_an_engine_whose_rank_is_killed_comes_back_with_the_same_completions(table: Bench) -> None:
    canary, versions = checked(table)
    whole, before = asyncio.run(draw(table)), ranks(table)
    canary.attested(), canary.gaps(), canary.notes()
    again = asyncio.run(canary.attend(draw(table, kill=before[RANKS[1]]), versions))
    assert canary.notes()[-1] == "engine 0 was restarted; its adapters are verified"
    assert canary.attested() >= len(versions)
    assert canary.gaps().keys() == {BASE, *versions.values()}
    assert [row.tokens.completion_ids for row in again] == [row.tokens.completion_ids for row in whole]
    assert {row.version for row in again} == set(versions.values())
    assert gone(*(process.pid for process in before.values())), "no rank is left of the first engine"
    assert list(ranks(table)) == RANKS
