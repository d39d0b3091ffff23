"""A process for one object: its environment, its answers, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.engine.vllm.orphans import NAME
from agon.engine.vllm.spawn import ActorLost, ProcessActor
from agon.errors import ConfigError, EngineError
from tests.waiting import alive, gone

from .in_processes import Thing


def with_actor(work: Any, *args: Any, device: str | None = None) -> Any:
    async def main() -> Any:
        actor = ProcessActor(device, Thing, *args)
        try:
            return await asyncio.wait_for(work(actor), 60)
        finally:
            await asyncio.to_thread(actor.kill)

    return asyncio.run(main())


def test_an_engine_has_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    seen = with_actor(lambda actor: actor.ask("environment"), device="6")
    assert seen["CUDA_VISIBLE_DEVICES"] == "6"
    assert with_actor(lambda actor: actor.ask("environment"))["CUDA_VISIBLE_DEVICES"] == "4,6"
    assert NAME not in os.environ


def test_calls_are_answered_and_errors_keep_their_type() -> None:
    async def work(actor: ProcessActor) -> None:
        assert await asyncio.gather(*(actor.ask("times", n) for n in range(4))) == [0, 3, 6, 9]
        with pytest.raises(EngineError) as refused:
            await actor.ask("refuse")
        assert refused.value.fix == "do something else"
        with pytest.raises(ActorLost, match="no space left"):
            await actor.ask("crash")
        large = tuple(range(1_000_000))  # larger than any buffer of a socket
        assert await actor.ask("echo", large) == large

    with_actor(work, 3)
    with pytest.raises(ConfigError, match="a factor is needed"):
        with_actor(lambda actor: actor.ask("times", 1), 0)


def test_a_batch_begins_together() -> None:
    async def work(actor: ProcessActor) -> Any:
        await actor.ask("times", 0)
        writes = list[Any]()
        assert actor._writer
        write, actor._writer.write = actor._writer.write, lambda data: (writes.append(data), write(data))  # type: ignore[method-assign]
        await asyncio.gather(*(actor.ask("times", n) for n in range(5)))
        return len(writes)

    assert with_actor(work) == 1


def test_a_call_that_is_cancelled_here_is_cancelled_there() -> None:
    async def work(actor: ProcessActor) -> None:
        hanging = asyncio.create_task(actor.ask("hang"))
        await actor.ask("times", 1)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert await actor.ask("seen") == ([1], 1)

    with_actor(work)


@pytest.mark.parametrize("last", ["killed", "frozen"])
def test_a_process_that_is_lost_ends_all_calls_and_leaves_nothing(last: str) -> None:
    async def work(actor: ProcessActor) -> None:
        child = await actor.ask("child")
        hanging = [asyncio.create_task(actor.ask("hang")) for _ in range(3)]
        await actor.ask("times", 1)
        assert {actor._process.pid, child} <= set(actor.processes())
        if last == "killed":
            actor._process.kill()
        else:
            os.kill(actor._process.pid, signal.SIGSTOP)
            await asyncio.to_thread(actor.kill)
        for call in hanging:
            with pytest.raises(ActorLost, match="process ended"):
                await call
        with pytest.raises(ActorLost, match="process ended"):
            await actor.ask("times", 1)
        await asyncio.to_thread(actor.kill)
        assert not alive(child)
        assert actor._process.returncode is not None
        assert actor._reaper._watcher.returncode is not None

    with_actor(work)


def test_a_process_that_is_no_longer_asked_ends_by_itself() -> None:
    async def work(actor: ProcessActor) -> ProcessActor:
        await actor.ask("times", 1)
        return actor

    assert with_actor(work)._process.returncode == 0


RUN = """
import asyncio, sys, time
from agon.engine.vllm.spawn import ProcessActor
from tests.engine.vllm.in_processes import Thing

async def main():
    actor = ProcessActor(None, Thing)
    print(await actor.ask("child"), actor._process.pid, flush=True)
    time.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
def test_a_killed_run_takes_its_processes_with_it(frozen: bool) -> None:
    root = str(Path(__file__).parents[3])
    run = subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True, cwd=root)
    assert run.stdout
    child, process = map(int, run.stdout.readline().split())
    if frozen:
        os.kill(process, signal.SIGSTOP)
    run.kill()
    run.wait()
    run.stdout.close()
    assert gone(child, process)


def test_ctrl_c_is_for_the_run_alone() -> None:
    async def work(actor: ProcessActor) -> int:
        await actor.ask("times", 1)
        os.kill(actor._process.pid, signal.SIGINT)
        return int(await actor.ask("times", 2))

    assert with_actor(work) == 4


def test_the_process_is_light_until_its_object_is_made() -> None:
    """It must not import torch before the engine sets its variables."""
    assert not {"torch", "vllm", "transformers"} & set(with_actor(lambda actor: actor.ask("modules")))
