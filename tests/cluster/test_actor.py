"""Answers and errors of an actor: ours keep their type, everything else means that the actor is lost."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys

import pytest

from agon.cluster.actor import ActorLost
from agon.cluster.shell import CallRefused, Failed, Shell
from agon.errors import ConfigError, EngineError
from tests.cluster.helpers import FakeCluster
from tests.waiting import gone


class Thing:
    """Something that an actor holds."""

    def __init__(self, factor: int = 2) -> None:
        if not factor:
            raise ConfigError("a factor is needed", fix="write one")
        self.factor = factor

    async def times(self, value: int) -> int:
        await asyncio.sleep(0.01 * value)
        return self.factor * value

    async def refuse(self, message: str) -> None:
        raise EngineError(message, fix="do something else")

    async def crash(self) -> None:
        raise OSError("no space left on device")

    async def hang(self, _: int = 0) -> None:
        await asyncio.Event().wait()


def test_an_error_of_ours_crosses_as_a_value_with_its_type_and_fix() -> None:
    answer = pickle.loads(pickle.dumps(asyncio.run(Shell(Thing).ask("refuse", "no"))))  # noqa: S301 - our own
    assert isinstance(answer, CallRefused)
    assert isinstance(answer.error, EngineError)
    assert (answer.error.message, answer.error.fix) == ("no", "do something else")


def test_any_other_error_crosses_as_a_failure_of_the_actor() -> None:
    assert asyncio.run(Shell(Thing).ask("crash")) == Failed("no space left on device")


def test_an_object_that_cannot_be_built_says_why() -> None:
    answer = asyncio.run(Shell(Thing, 0).ask("times", 1))
    assert isinstance(answer, CallRefused)
    assert isinstance(answer.error, ConfigError)


def test_errors_are_raised_where_the_answer_is_awaited() -> None:
    async def main() -> None:
        actor = FakeCluster().place(Thing)
        with pytest.raises(EngineError, match="not this"):
            await actor.ask("refuse", "not this")
        with pytest.raises(EngineError, match="nor this"):
            await actor.ask_together("refuse", "nor this")
        with pytest.raises(ActorLost, match="no space left"):
            await actor.ask("crash")
        assert await actor.ask("times", 4) == 8

    asyncio.run(main())


def test_what_is_asked_in_one_turn_is_one_call() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        actor = cluster.place(Thing)
        assert await asyncio.gather(*(actor.ask_together("times", value) for value in (3, 1, 2))) == [6, 2, 4]
        assert await actor.ask_together("times", 1) == 2

    asyncio.run(main())
    assert cluster.handles[0].calls == ["times x 3", "times x 1"]


def test_an_answer_arrives_before_the_last_of_its_call() -> None:
    async def main() -> None:
        actor = FakeCluster().place(Thing)
        slow, quick = (asyncio.ensure_future(actor.ask_together("times", value)) for value in (6000, 1))
        assert await quick == 2
        assert not slow.done()
        slow.cancel()

    asyncio.run(main())


def test_all_that_wait_for_a_lost_actor_are_told() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        actor = cluster.place(Thing)
        waiting = [asyncio.ensure_future(actor.ask_together("hang", value)) for value in range(3)]
        waiting.append(asyncio.ensure_future(actor.ask("hang")))
        await asyncio.sleep(0.05)
        cluster.handles[0].lose()
        for answer in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(answer, ActorLost)
            assert str(answer) == "Gone: The actor died."

    asyncio.run(main())


ACTOR = """
import os, time
from agon.cluster.shell import NodeShell
NodeShell(dict)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_an_actor_ends_with_its_node() -> None:
    """A raylet that is killed leaves its actors; nobody would end them."""
    raylet = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ACTOR!r}])"
    with subprocess.Popen([sys.executable, "-c", raylet], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        actor = int(process.stdout.readline())
        process.kill()
    assert gone(actor, seconds=30)
