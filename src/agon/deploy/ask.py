"""A pair that answers questions: the cascade that was evaluated, on an engine of this process.

Nothing but the pair and the base is needed. If the pair stands in a run, dtype, decoding and the cap on a peek are the
run's own; a server or a verifier that the run's config names is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

from agon.bridge import Bridge
from agon.config import SamplerConfig
from agon.deploy.pair_settings import Settings, checked_base, problem_of, settings_of, system_of
from agon.deploy.pieces import Answer, Growing, Piece, Stage, Watch
from agon.doors import door
from agon.engine.base import PROMPT_ROOM
from agon.errors import naming_extras
from agon.eval.draw import seed_of
from agon.game.cascade import System, Turn, follow, turns
from agon.protocols import Sampler
from agon.rundir import RunDir
from agon.rundir.pair import PairDir, read_pair
from agon.types import Completion, Direction, Policy, Problem, Request

MEMORY = 0.9
"""Share of a GPU that the engine may take: nothing is trained beside it."""


class Pair:
    """A loaded pair. `answer` waits, `ask` is awaited, `stream` gives the text while it is written."""

    def __init__(self, folder: PairDir, sampler: Sampler, system: System, settings: Settings) -> None:
        self.folder, self.system, self.settings = folder, system, settings
        self._sampler, self._bridge = sampler, Bridge("agon-pair")

    def __repr__(self) -> str:
        seats = self.system if isinstance(self.system, tuple) else (self.system,)
        return f"Pair({str(self.folder.path)!r}, {' then '.join(map(str, seats))}, base {self.folder.info.base!r})"

    @classmethod
    @naming_extras()
    def load(
        cls,
        path: RunDir | str | Path,
        *,
        direction: Direction | str | None = None,
        engine: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Self:
        """Load the pair in a folder, or of a run. By default it answers in the direction that dev chose, on vLLM where
        there is a GPU and on transformers where there is none."""
        folder = read_pair(Path(path))
        system = system_of(folder, direction)
        settings = settings_of(Path(path), folder.info, engine, temperature, max_tokens)
        return cls(folder, _sampler(folder, settings), system, settings)

    def answer(self, question: str, *, watch: Watch | None = None) -> Answer:
        """Answer a question and wait for it; `watch` is called with each piece of text, from a different thread."""
        return self._bridge.call(self._answer(question, watch))

    async def ask(self, question: str, *, watch: Watch | None = None) -> Answer:
        """Answer a question; many may be asked at once, and the engine batches them."""
        return await asyncio.wrap_future(self._bridge.submit(self._answer(question, watch)))

    async def stream(self, question: str) -> AsyncIterator[Piece | Answer]:
        """Each piece of text as it is written, then the answer."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Piece | None]()

        def pass_on(piece: Piece) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, piece)

        asking = asyncio.ensure_future(self.ask(question, watch=pass_on))
        asking.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while piece := await queue.get():
                yield piece
            yield await asking
        finally:
            asking.cancel()

    def close(self) -> None:
        """Stop the engine."""
        self._sampler.close()
        self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _answer(self, question: str, watch: Watch | None) -> Answer:
        problem = problem_of(question, self.settings)
        drawn: list[Completion] = []

        async def draw(turn: Turn) -> Completion:
            if drawn and watch:
                watch(Piece("peek", turn.seat, turn.peek or ""))
            drawn.append(await self._sample(problem, turn, watch))
            return drawn[-1]

        peeks = await follow(turns(self.system, problem, 0, self._clip, show_code=self.settings.show_code), draw)
        return Answer(drawn[0], peeks.own, drawn[1] if len(drawn) > 1 else None)

    async def _sample(self, problem: Problem, turn: Turn, watch: Watch | None) -> Completion:
        """One completion, with the seed that an evaluation would give it."""
        seed = seed_of(self.settings.seed, problem, turn)
        loop = asyncio.get_running_loop()
        stage: Stage = "draft" if turn.stage == "draft" else "challenge"
        growing = watch and Growing(stage, turn.seat, watch, lambda: loop.call_soon_threadsafe(drawing.cancel))
        request = Request(turn.prompt, turn.seat, seed, self.settings.sampling, growing)
        drawing = asyncio.ensure_future(self._sampler.sample(request))
        try:
            completion = await drawing
            if growing:
                growing(completion.text)
        finally:
            if growing and growing.failed:
                raise growing.failed
        return completion

    def _clip(self, text: str) -> str:
        return self._sampler.clip(text, self.settings.max_peek_tokens)


def _sampler(folder: PairDir, settings: Settings) -> Sampler:
    """An engine with both adapters live, after the base and its template were found to be the pair's."""
    base = checked_base(folder, settings)
    engine = SamplerConfig(engine=settings.engine, replicas=1, max_loras=2, gpu_memory_utilization=MEMORY)
    context = PROMPT_ROOM + settings.max_peek_tokens + settings.sampling.max_tokens
    sampler: Sampler = door("agon.backends", settings.engine).open_sampler(engine, base.model, base.path, context)
    for policy in Policy:
        sampler.publish(folder.info.versions[policy], folder.adapter(policy))
    return sampler
