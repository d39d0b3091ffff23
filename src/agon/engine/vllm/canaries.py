"""One canary per engine of a fleet: an engine draws for the game only after its own canary held.

An engine whose canary does not hold is put aside, and the others draw on; when none is left, the run stops with what
the canary found. An engine that comes back while the run plays is checked there, by `attend`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from agon.engine.vllm.canary import Canary
from agon.engine.vllm.fixed_prompts import Drawn
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.slope import Slope
from agon.errors import EngineError
from agon.pool import WorkerDown
from agon.protocols import Learner
from agon.types import Policy, Stream, Version

T = TypeVar("T")
Versions = Mapping[Policy, Version]


class Canaries:
    """Compares every engine of a fleet with the learner. Calls come from the thread that the learner computes in."""

    def __init__(
        self, sampler: VLLMSampler, learner: Learner, slots: int, temperature: float = 1.0, dtype: str = "bfloat16"
    ) -> None:
        self.sampler = sampler
        numbers = range(len(sampler.fleet.members))
        self.canaries = [Canary(sampler, learner, slots, temperature, dtype, number) for number in numbers]
        sampler.fleet.gated = True

    def check(self, versions: Versions) -> None:
        """Compare every engine that runs; stop unless one at least agrees with the learner."""
        while not self._check_running(versions):
            self.sampler.submit(self.sampler.fleet.returned()).result()

    async def attend(self, work: Coroutine[Any, Any, T], versions: Versions) -> T:
        """Run `work`; engines that come back meanwhile are checked, and then draw for it too."""
        async with asyncio.TaskGroup() as tasks:
            checking = tasks.create_task(self._check_returned(versions))
            result = await work
            checking.cancel()
        return result

    def check_samples(self, streams: Sequence[Stream], versions: Versions | None = None) -> list[str]:
        """Compare a step's samples with the learner, as it is or as of `versions`, each engine's by themselves."""
        return [warning for canary in self.canaries for warning in canary.check_samples(streams, versions)]

    def gaps(self) -> dict[str, float]:
        """How far the versions in each engine were from the learner at its last check, in nats per token."""
        return {
            self._named(version, n): gap
            for n, canary in enumerate(self.canaries)
            for version, gap in canary.measured.items()
        }

    def slopes(self) -> dict[str, Slope]:
        """What the samples of the last step say about each engine, by policy and suspect."""
        return {
            self._named(f"{policy.value} {suspect}", n): slope
            for n, canary in enumerate(self.canaries)
            for (policy, suspect), slope in canary.suspects.slopes.items()
            if slope.tokens
        }

    def notes(self) -> list[str]:
        """What happened to engines since the last call."""
        return self.sampler.notes()

    def _named(self, name: str, number: int) -> str:
        return name if len(self.canaries) == 1 else f"{name}, engine {number}"

    def _check_running(self, versions: Versions) -> bool:
        """Whether an engine agrees with the learner; all draw at once."""
        running = [member.number for member in self.sampler.fleet.members if member.runs]
        drawing = {number: self._drawing(number, versions) for number in running if self._calibrate(number, versions)}
        agreed = False
        for number, future in drawing.items():
            with suppress(WorkerDown):  # the fleet restarts it
                agreed |= self._judge(number, versions, future.result())
        return agreed

    async def _check_returned(self, versions: Versions) -> None:
        """Check engines as they come back, until cancelled."""
        while True:
            for number in await asyncio.wrap_future(self.sampler.submit(self.sampler.fleet.returned())):
                with suppress(WorkerDown):
                    if self._calibrate(number, versions):
                        drawn = await asyncio.wrap_future(self._drawing(number, versions))
                        self._judge(number, versions, drawn)

    def _drawing(self, number: int, versions: Versions) -> Future[Drawn]:
        return self.sampler.submit(self.canaries[number].probe.drawing(list(versions.values())))

    def _calibrate(self, number: int, versions: Versions) -> bool:
        """Whether an engine is calibrated: before step 1, or when it first comes back if it failed then."""
        try:
            self.canaries[number].calibrate(versions)
        except WorkerDown:
            return False
        except EngineError as error:
            self._put_aside(number, error)
            return False
        return True

    def _judge(self, number: int, versions: Versions, drawn: Drawn) -> bool:
        """Whether an engine agrees with the learner: it draws for the game then, and is put aside if not."""
        try:
            self.canaries[number].judge(versions, drawn)
        except EngineError as error:
            self._put_aside(number, error)
            return False
        self.sampler.submit(self.sampler.fleet.admit(number, drawn.life)).result()
        return True

    def _put_aside(self, number: int, error: EngineError) -> None:
        self.sampler.submit(self.sampler.fleet.put_aside(number, error)).result()
