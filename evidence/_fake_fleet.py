"""Engines and a learner without a model, for evidence: what is drawn depends on the weights that are loaded, in full.

An engine draws from a hash of weights, prompt and seed, so that one with stale or swapped weights draws other tokens.
Time is virtual where a `VirtualLoop` runs.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agon.engine.protocol import Draw, DrawResult, EngineDown
from agon.protocols import Tokens
from agon.types import BASE, Policy, Version, seed_for

WEIGHTS = "adapter_model.safetensors"
SHARE = 1 / 32
"""What each row more adds to the time of a token."""


def write_adapter(folder: Path, weight: float) -> None:
    """An adapter that shifts every log-prob by `weight`."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    tensors = {"x.lora_A.weight": torch.ones(2, 3), "x.lora_B.weight": torch.full((3, 2), weight, dtype=torch.float64)}
    save_file(tensors, folder / WEIGHTS)


def read_adapter(folder: Path) -> float:
    from safetensors.numpy import load_file

    return float(load_file(folder / WEIGHTS)["x.lora_B.weight"].mean())


class FakeEngine:
    """Draws `length(draw)` tokens, `pace` seconds each while few rows are drawn; dies and hangs on request."""

    logs = "nothing"

    def __init__(self, length: Callable[[Draw], int], *, pace: float) -> None:
        self.context, self._length, self._pace = 1 << 20, length, pace
        self.weights: dict[Version, float] = {}
        self.rows = self.tokens = 0
        self.busy = 0.0
        """Seconds in which it drew at least one row."""
        self._fault, self._since = "", 0.0

    def strike(self, fault: str) -> None:
        """Fail from now on until it is started anew: `killed` at once, `hung` without a word."""
        self._fault = fault

    async def start(self) -> None:
        await asyncio.sleep(20 * self._pace)
        self.weights, self._fault = {}, ""

    async def load(self, version: Version, folder: Path) -> None:
        await self._work(1)
        self.weights[version] = read_adapter(folder)

    async def unload(self, version: Version) -> None:
        self.weights.pop(version, None)

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str]:
        return [] if self.weights.get(version) == read_adapter(folder) else ["x"]

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        weight = 0.0 if draw.version == BASE else self.weights[draw.version]
        length = min(self._length(draw), draw.sampling.max_tokens)
        self._count(1)
        try:
            for _ in range(length):
                await self._work(1 + self.rows * SHARE)
                self.tokens += 1
        finally:
            self._count(-1)
        rng = random.Random(seed_for(weight, draw.ids, draw.seed))
        ids = tuple(rng.randrange(97, 123) for _ in range(length))
        return DrawResult(ids, tuple(logprob(weight, token) for token in ids), "stop")

    async def progress(self) -> int:
        return self.tokens

    async def sleep(self) -> None: ...

    async def wake(self) -> None: ...

    async def stop(self) -> None: ...

    async def _work(self, pace: float) -> None:
        await asyncio.sleep(pace * self._pace)
        if self._fault == "hung":
            await asyncio.Event().wait()
        if self._fault:
            raise EngineDown(f"the engine was {self._fault}")

    def _count(self, change: int) -> None:
        now = asyncio.get_running_loop().time()
        if self.rows:
            self.busy += now - self._since
        self.rows, self._since = self.rows + change, now


def logprob(weight: float, token: int) -> float:
    return -8.0 - weight * (1 + token % 7)


class FakeLearner:
    """Holds one weight per policy, and scores as the engine does."""

    def __init__(self) -> None:
        self.weights = {Policy.A: 0.011, Policy.B: 0.023}

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        weight = self.weights[policy] if policy else 0.0
        return [[logprob(weight, token) for token in row.completion_ids] for row in rows]


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next event instead of waiting for it."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_NoWait(self))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class _NoWait(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Where a loop would wait, its clock advances."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self._loop.advance(timeout)
        return super().select(0)
