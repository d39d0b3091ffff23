"""An engine without a model: it echoes the requested adapter, and can die, hang, crawl and get stuck."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from agon.engine.protocol import Draw, DrawResult, EngineDown
from agon.errors import EngineError
from agon.types import BASE, Version

WEIGHTS = {"one": 0.1, "two": 0.2, "three": 0.3}
"""What each adapter adds to every log-prob, by the name of its folder."""


def save_tokenizer(folder: Path) -> Path:
    """A base as far as a sampler reads it: a tokenizer."""
    from .families import qwen3  # here, as it imports transformers and processes import this module

    qwen3().save_pretrained(folder)
    return folder


def adapter_folders(root: Path, *names: str) -> Path:
    """Folders that look like PEFT directories."""
    for name in names:
        (root / name).mkdir()
        (root / name / "adapter_config.json").write_text("{}")
    return root


class FakeEngine:
    """Implements `agon.engine.protocol.Engine`. Until its start number `faulty` every draw, or load, has the fault."""

    logs = "its notes"

    def __init__(self, fault: str = "", faulty: int = 0, context: int = 1024) -> None:
        self.context, self.fault, self.faulty = context, fault, faulty
        self.loaded: dict[Version, Path] = {}
        self.running = False
        self.starts = self.stops = self.tokens = 0
        self.log: list[str] = []
        self.silent = False

    def fail_next(self, fault: str, starts: int = 1) -> None:
        """Have the fault now, and after all but the last of the next `starts`."""
        self.fault, self.faulty = fault, self.starts + starts - 1

    async def start(self) -> None:
        self.starts += 1
        self.loaded.clear()
        self.running = True

    async def load(self, version: Version, folder: Path) -> None:
        assert self.running
        self.log.append(f"load {version}")
        if self._has("stuck"):
            await asyncio.Event().wait()
        if self._has("refuse"):
            raise EngineError("refused")
        self.loaded[version] = folder

    async def unload(self, version: Version) -> None:
        self.log.append(f"unload {version}")
        self.loaded.pop(version, None)

    async def attest(self, version: Version, folder: Path, digest: str) -> list[str] | None:
        """Whether the file that it loaded is the learner's; one that is `silent` cannot say."""
        assert self.running
        self.log.append(f"attest {version}")
        if self._has("die attesting"):
            raise EngineDown("the engine's process died")
        data = (self.loaded[version] / "adapter_model.safetensors").read_bytes()
        same = hashlib.sha256(data).hexdigest() == digest
        return None if self.silent else [] if same else ["layer 0", "layer 1"]

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        assert self.running
        if self._has("die") or (self._has("die odd, hang even") and draw.seed % 2):
            raise EngineDown("the engine's process died")
        if self._has("hang") or self._has("die odd, hang even"):
            await asyncio.Event().wait()
        if self._has("crawl"):
            await self._crawl()
        if self._has("refuse"):
            raise EngineError("refused")
        if draw.version != BASE and draw.version not in self.loaded:
            raise EngineError(f"{draw.version} is not loaded")
        count = draw.sampling.max_tokens
        self.tokens += count
        return DrawResult((7,) * count, (self.logprob(draw.version),) * count, "length")

    def logprob(self, version: Version) -> float:
        return -1.0 - (0.0 if version == BASE else WEIGHTS.get(self.loaded[version].name, 5.0))

    async def progress(self) -> int:
        return self.tokens

    async def sleep(self) -> None:
        self.log.append("sleep")

    async def wake(self) -> None:
        self.log.append("wake")

    async def stop(self) -> None:
        self.stops += 1
        self.running = False

    def _has(self, fault: str) -> bool:
        return self.fault == fault and self.starts <= self.faulty

    async def _crawl(self) -> None:
        """A token now and then, without end."""
        while True:
            await asyncio.sleep(0.05)
            self.tokens += 1
