"""A pair that answers questions: the cascade that was evaluated, on an engine of this process.

Nothing but the pair and the base is needed. If the pair stands in a run, dtype, decoding and the cap on a peek are the
run's own; a server or a verifier that the run's config names is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from agon.arms import ARMS, resolve
from agon.config import Eval, Lora, Model, SamplerConfig, Train
from agon.config.rival import kind_of
from agon.deploy.pieces import Answer, Growing, Piece, Watch
from agon.engine.bridge import Bridge
from agon.engine.build import PROMPT_ROOM, EngineName, base_files, build_sampler, default_engine, quieten
from agon.engine.render import Renderer
from agon.eval.draw import seed_of
from agon.eval.engines import check_template
from agon.eval.systems import SYSTEMS, headline
from agon.eval.target import check_pair
from agon.game.cascade import System, Turn, follow, turns
from agon.game.rules import Game
from agon.protocols import Sampler
from agon.rundir import RunDir
from agon.rundir.adapter import check_adapter
from agon.rundir.pair import PairDir, PairInfo, read_pair
from agon.types import Completion, Direction, Policy, Problem, Request, Sampling, UnitTests, content_id

MEMORY = 0.9
"""Share of a GPU that the engine may take: nothing is trained beside it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a pair answers."""

    engine: EngineName
    dtype: Literal["bfloat16", "float32"]
    sampling: Sampling
    max_peek_tokens: int
    seed: int = 0
    code: bool = False
    show_code: bool = False


class Pair:
    """A loaded pair. `answer` waits, `ask` is awaited, `stream` gives the text while it is written."""

    def __init__(self, folder: PairDir, sampler: Sampler, system: System, settings: Settings) -> None:
        self.folder, self.system, self.settings = folder, system, settings
        self._sampler, self._bridge = sampler, Bridge("agon-pair")

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        direction: Direction | str | None = None,
        engine: EngineName | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Self:
        """Load the pair in a folder, or of a run. By default it answers in the direction that dev chose, on vLLM where
        there is a GPU and on transformers where there is none."""
        folder = read_pair(Path(path))
        settings = _settings(Path(path), folder.info, engine, temperature, max_tokens)
        return cls(folder, _sampler(folder, settings), _system(folder, direction), settings)

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
        self._bridge.close(_nothing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _answer(self, question: str, watch: Watch | None) -> Answer:
        problem = Problem(content_id(question), question, "", tests=UnitTests() if self.settings.code else None)
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
        growing = watch and Growing("draft" if turn.stage == "draft" else "challenge", turn.seat, watch)
        completion = await self._sampler.sample(Request(turn.prompt, turn.seat, seed, self.settings.sampling, growing))
        if growing:
            growing(completion.text)
        return completion

    def _clip(self, text: str) -> str:
        return self._sampler.clip(text, self.settings.max_peek_tokens)


async def _nothing() -> None: ...


def _settings(
    path: Path, info: PairInfo, engine: EngineName | None, temperature: float | None, max_tokens: int | None
) -> Settings:
    """The run's own where the path is a run, else the defaults of an evaluation."""
    config = RunDir.open(path).config if (path / "config.yaml").is_file() else None
    measured, engine = config.eval if config else Eval(), engine or default_engine()
    return Settings(
        engine=engine,
        dtype=config.model.dtype if config else ("bfloat16" if engine == "vllm" else "float32"),
        sampling=Sampling(
            measured.temperature if temperature is None else temperature,
            measured.top_p,
            max_tokens or measured.max_completion_tokens,
        ),
        max_peek_tokens=(config.train if config else Train()).max_peek_tokens,
        seed=config.train.seed if config else 0,
        code=info.code,
        show_code=info.show_code,
    )


def _system(folder: PairDir, direction: Direction | str | None) -> System:
    """Who answers: as the arm deploys; a direction that is named always makes a cascade."""
    arm = folder.info.arm
    if direction is None and arm is not None and arm in ARMS:
        deployed = headline(Game(**resolve(arm), rival=kind_of(folder.info.rival)))
        if deployed != "cascade":
            return SYSTEMS.get(deployed, Policy.A)  # of a pair of single passes, A
    chosen = Direction(direction or folder.info.direction or Direction.AB)
    return (chosen.drafter, chosen.challenger)


def _sampler(folder: PairDir, settings: Settings) -> Sampler:
    """An engine with both adapters live, after the base and its template were found to be the pair's."""
    rank = max(check_adapter(folder.adapter(policy)).r for policy in Policy)
    info = folder.info
    model = Model(name=info.base, revision=info.base_revision, dtype=settings.dtype, lora=Lora(rank=rank))
    check_pair(folder, model)
    path = base_files(model)
    quieten(path)
    check_template(folder, Renderer.load(path))
    engine = SamplerConfig(engine=settings.engine, max_loras=2, gpu_memory_utilization=MEMORY)
    context = PROMPT_ROOM + settings.max_peek_tokens + settings.sampling.max_tokens
    sampler = build_sampler(engine, model, path, context)
    for policy in Policy:
        sampler.publish(info.versions[policy], folder.adapter(policy))
    return sampler
