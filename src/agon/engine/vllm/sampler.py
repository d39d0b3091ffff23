"""Sampler over vLLM: one base, both adapters live in the same batch, token ids in and out.

The engine (`vllm_local.py`: inside this process; `vllm_http.py`: a running server) lives on an event loop of its own,
in a thread: publication is a plain call, and a sample may be awaited from any loop. Publication sends the adapter
alone, under a name and a path that were never used before; nothing is merged, and the base is never pushed.

An engine that dies, hangs or crawls is started again with the versions that were live, and what was being drawn is
drawn again from the same seeds. When that does not help, the run stops with an EngineError; nothing has been learnt
from the step, so it resumes exactly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agon.engine.render import Renderer
from agon.engine.versions import Versions
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Completion, Finish, Policy, Request, Sampling

T = TypeVar("T")

RESTARTS = 3
"""Failures of the engine between two publications after which the run stops."""
PATIENCE = 120.0
"""Seconds in which an engine with work must produce `RATE` tokens a second, and in which an adapter must load."""
RATE = 0.2
GRACE = 1.0
"""A Ctrl-C reaches the engine too and kills it: the run's own cancellation gets this long to arrive first."""
RESUME = "look at the engine's last lines above, then go on with: agon train RUN --resume"


class EngineDown(Exception):
    """The engine died, hangs or crawls: worth a restart, unlike a request that it refused."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One completion to be drawn, in token ids."""

    ids: tuple[int, ...]
    version: str
    seed: int
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Drawn:
    """What came back, the token that ended it included."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish


class Engine(Protocol):
    """A vLLM, wherever it runs. Every call may raise EngineDown."""

    context: int
    """Tokens that fit in one sequence."""

    async def start(self) -> None: ...

    async def load(self, version: str, folder: Path) -> None: ...

    async def unload(self, version: str) -> None: ...

    async def draw(self, draw: Draw, stop: frozenset[int]) -> Drawn: ...

    async def progress(self) -> int:
        """Tokens processed so far, prompts included."""
        ...

    async def sleep(self) -> None:
        """Give memory back without losing the base or an adapter."""
        ...

    async def wake(self) -> None: ...

    async def stop(self) -> None:
        """End it, dead or alive, and leave no process behind."""
        ...


class VLLMSampler:
    """Implements `agon.protocols.Sampler`."""

    def __init__(self, base_path: str, engine: Engine, *, sleeps: bool = False, patience: float = PATIENCE) -> None:
        self.renderer = Renderer.load(base_path)
        self.engine = engine
        self._stop = self.renderer.stop | end_ids(base_path)
        self._versions, self._patience = Versions(), patience
        self._sleeps, self._asleep = sleeps, False
        self._life = self._failures = self._drawing = 0
        self._gate, self._waiting = threading.Lock(), list[tuple[Coroutine[Any, Any, Any], Future[Any]]]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agon-vllm", daemon=True)
        self._thread.start()
        try:
            self._call(self._begin())
        except BaseException as error:
            self.close()
            if isinstance(error, EngineDown):
                raise EngineError(str(error), fix="`agon doctor` checks vLLM") from error
            raise

    async def sample(self, request: Request) -> Completion:
        """Draw one completion; the engine batches whatever is in flight, of both policies."""
        version = self._versions.resolve(request.policy, request.version)
        rendered = self.renderer.render(request.prompt)
        drawn = await self.draw(Draw(rendered.ids, version, request.seed, request.sampling))
        end = -1 if drawn.finish == "stop" and drawn.ids and drawn.ids[-1] in self._stop else None
        return Completion(
            text=self.renderer.text(drawn.ids[:end]),
            version=version,
            prompt_tokens=len(rendered.ids),
            generated_tokens=len(drawn.ids),
            finish=drawn.finish,
            opened=rendered.opened,
            tokens=Tokens(rendered.ids, drawn.ids, drawn.logprobs),
        )

    async def draw(self, draw: Draw) -> Drawn:
        """Draw from token ids, through as many lives of the engine as it takes."""
        room = min(draw.sampling.max_tokens, self.engine.context - len(draw.ids))
        if room < 1:
            raise EngineError(
                f"a prompt of {len(draw.ids)} tokens leaves no room in a context of {self.engine.context}",
                fix="raise sampler.max_model_len, lower train.max_peek_tokens, or drop the longest problems",
            )
        fitting = replace(draw, sampling=replace(draw.sampling, max_tokens=room))
        return await asyncio.wrap_future(self._gathered(self._persist(lambda: self._attempt(fitting))))

    def draw_all(self, draws: Sequence[Draw]) -> list[Drawn]:
        """Draw together and wait for all: for the canary, between steps."""

        async def together() -> list[Drawn]:
            return await asyncio.gather(*(self.draw(draw) for draw in draws))

        return self._call(together())

    @property
    def life(self) -> int:
        """How often the engine was started again."""
        return self._life

    def folder_of(self, version: str) -> Path:
        """Where a live version was loaded from."""
        return self._versions.live[version]

    def publish(self, policy: Policy, version: str, folder: Path) -> None:
        """Load the adapter in `folder` as the latest version of `policy`; drop what is older than the step before."""
        self._versions.publish(policy, version, folder)
        self.load(version, folder)
        self._failures = 0
        for gone in self._versions.evict():
            self.unload(gone)

    def pin(self, policy: Policy, version: str, folder: Path) -> None:
        """Keep a version live for good, loading it if it is not."""
        if self._versions.pin(version, folder):
            self.load(version, folder)

    def load(self, version: str, folder: Path) -> None:
        """Hand an adapter to the engine; only `publish` and `pin` make it survive a restart."""
        try:
            self._call(self._persist(lambda: self._in_time(self.engine.load(version, folder.resolve()))))
        except EngineError:
            self._versions.drop(version)
            raise

    def unload(self, version: str) -> None:
        self._call(self._persist(lambda: self._in_time(self.engine.unload(version))))

    def rest(self) -> None:
        """Give the engine's memory back until the next draw or load; nothing, unless it was told that it sleeps."""
        if self._sleeps and not self._asleep:
            self._call(self._persist(lambda: self._in_time(self.engine.sleep())))
            self._asleep = True

    def clip(self, text: str, max_tokens: int) -> str:
        return self.renderer.clip(text, max_tokens)

    def close(self) -> None:
        """Stop the engine and its thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        try:
            self._call(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # -- on the engine's own loop -------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._reviving = asyncio.Lock()
        self._down: asyncio.Future[str] = self._loop.create_future()
        await self.engine.start()
        self._watchdog = self._loop.create_task(self._watch())

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await self.engine.stop()
        await asyncio.gather(*others, return_exceptions=True)

    async def _persist(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Try until it works, with a new engine after each failure, or until there were too many."""
        while True:
            life = self._life
            try:
                await self._rise()
                return await attempt()
            except EngineDown as failure:
                await self._revive(life, str(failure))

    async def _rise(self) -> None:
        if self._asleep:
            async with self._reviving:
                if self._asleep:
                    await self._in_time(self.engine.wake())
                    self._asleep = False

    async def _attempt(self, draw: Draw) -> Drawn:
        """One try, given up as soon as the watchdog says that the engine is down."""
        task = asyncio.ensure_future(self.engine.draw(draw, self._stop))
        self._drawing += 1
        try:
            either: set[asyncio.Future[Any]] = {task, self._down}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise EngineDown(self._down.result())
        finally:
            self._drawing -= 1
            task.cancel()

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wait_for(work, self._patience)
        except TimeoutError:
            raise EngineDown(f"no answer in {self._patience:.0f} s") from None

    async def _revive(self, life: int, why: str) -> None:
        """Start the engine again with every live version, once for all that wait."""
        await asyncio.sleep(GRACE)
        async with self._reviving:
            while self._life == life:
                self._failures += 1
                if self._failures > RESTARTS:
                    raise EngineError(f"the engine failed {self._failures} times in one step; now: {why}", fix=RESUME)
                try:
                    await self._restart()
                except EngineDown as again:
                    why = str(again)
                    await asyncio.sleep(GRACE)  # a server that is going still says that it is healthy

    async def _restart(self) -> None:
        self._watchdog.cancel()
        await self.engine.stop()
        await self.engine.start()
        for version, folder in self._versions.live.items():
            if folder.is_dir():  # a run removes folders of versions that nothing will ask for
                await self._in_time(self.engine.load(version, folder))
        self._life, self._asleep = self._life + 1, False
        self._down = self._loop.create_future()
        self._watchdog = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        """Say that the engine is down when it has work and produces next to nothing."""
        tick, waited, seen = self._patience / 8, 0.0, await self.engine.progress()
        while not self._down.done():
            before = self._loop.time()
            await asyncio.sleep(tick)
            # a long sleep means that this process was frozen, which says nothing about the engine
            waited += min(self._loop.time() - before, 2 * tick)
            made = await self.engine.progress()
            if not self._drawing or made - seen >= RATE * self._patience:
                waited, seen = 0.0, made
            elif waited >= self._patience:
                self._down.set_result(f"{made - seen} tokens in {waited:.0f} s")

    # -- from other threads -------------------------------------------------------------------------------------------

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop.is_closed():
            work.close()
            raise closed()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._submit(work).result()

    def _gathered(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Submit together with all that is asked in the same turn of the caller's loop.

        A batch that trickles in over the threads costs an engine some steps: it begins with the first few rows.
        """
        future: Future[T] = Future()
        with self._gate:
            self._waiting.append((work, future))
            if len(self._waiting) == 1:
                asyncio.get_running_loop().call_soon(self._hand_over)
        return future

    def _hand_over(self) -> None:
        with self._gate:
            waiting, self._waiting = self._waiting, []
        if self._loop.is_closed():
            for work, future in waiting:
                work.close()
                future.set_exception(closed())
            return
        self._loop.call_soon_threadsafe(self._take, waiting)

    def _take(self, waiting: Sequence[tuple[Coroutine[Any, Any, Any], Future[Any]]]) -> None:
        for work, future in waiting:
            chain(self._loop.create_task(work), future)


def finished(reason: str | None) -> Finish:
    """How a completion ended; an engine that is asked to end hands out what it has so far, and that is none."""
    if reason not in ("stop", "length"):
        raise EngineDown(f"a completion was broken off ({reason})")
    return "stop" if reason == "stop" else "length"


def closed() -> EngineError:
    return EngineError("the sampler was closed", fix="start the run again")


def chain(task: asyncio.Task[T], future: Future[T]) -> None:
    """Let a future of another thread end as the task does, and the task be cancelled as the future is."""

    def ended(_: asyncio.Task[T]) -> None:
        if task.cancelled():
            future.cancel()
        if not future.set_running_or_notify_cancel():
            return
        if error := task.exception():
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def left(_: Future[T]) -> None:
        if future.cancelled() and not task.done():
            task.get_loop().call_soon_threadsafe(task.cancel)

    task.add_done_callback(ended)
    future.add_done_callback(left)


def end_ids(base_path: str) -> frozenset[int]:
    """The ids that end a text according to the checkpoint's own generation config."""
    from transformers import GenerationConfig

    try:
        ends = GenerationConfig.from_pretrained(base_path).eos_token_id
    except OSError:
        return frozenset()
    return frozenset([ends] if isinstance(ends, int) else ends or [])
