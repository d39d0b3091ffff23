"""One request at work: the cascade of `game.cascade`, each stage drawn from whichever server works.

The ids of a stage outlive the server that drew them: when it fails, another continues from them, and nothing that a
client has seen changes. Text goes out through `emit` as it is written; `Answered` is what it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby

from agon.deploy.serve.refusals import Refused, bad_request, failed, too_late, unavailable
from agon.deploy.serve.replicas import Pools, Replica
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.splitter import Splitter, TextPart
from agon.deploy.serve.upstream import Ask, ReplicaFailed, RequestRejected
from agon.engine.render import Rendered
from agon.engine.watch import IncrementalText
from agon.eval.draw import seed_of
from agon.game.cascade import Peeks, System, Turn, follow, peeks_in, turns
from agon.types import Completion, Finish, Message, Policy, Problem, Sampling, seed_for

TRIES = 5
"""Servers that one stage may be tried on."""
DRAFT_SHARE = 0.6
"""Part of the time that a draft may take: then the challenger reads nothing of it and answers alone."""
DRAFT_INTERVAL = 8
"""Tokens per event of a draft: it is shown as reasoning, where a few tokens at once do not matter."""
LONG = 50_000
"""Characters above which a prompt is encoded beside the event loop."""
SEPARATOR = "\n\n---\n\n"
"""Between the two stages' reasoning."""

Emit = Callable[[TextPart], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request that was understood."""

    id: str
    model: str
    system: System
    problem: Problem
    history: tuple[Message, ...]
    draft: Sampling
    final: Sampling
    seed: int
    stops: tuple[str, ...] = ()
    fall_back: bool = False
    """Whether the draft may answer when the challenge fails."""


@dataclass(slots=True)
class Stage:
    """One completion as it grows."""

    name: str
    policy: Policy
    prompt: Rendered
    peek: str | None
    splitter: Splitter
    text: IncrementalText
    ids: list[int] = field(default_factory=list)
    finish: Finish | None = None
    reasoning_tokens: int = 0
    cached: int = 0
    tries: int = 0
    resumed: int = 0
    """How often a server failed and another continued from the ids in hand."""
    began: float = field(default_factory=time.monotonic)
    first: float | None = None
    """Seconds to the first ids."""
    seconds: float = 0.0

    def grow(self, ids: Iterable[int]) -> list[TextPart]:
        """Take ids; what they let a client see."""
        parts: list[TextPart] = []
        for token in ids:
            self.ids.append(token)
            parts += self.splitter.add(self.text.add(token))
            self.reasoning_tokens += not self.splitter.in_content
            if self.splitter.stopped:
                break
        return parts

    def end(self, finish: Finish) -> list[TextPart]:
        self.finish, self.seconds = finish, time.monotonic() - self.began
        return [*self.splitter.add(self.text.end()), *self.splitter.end()]


@dataclass(slots=True)
class Answering:
    """Runs one inquiry. `first_wait`: seconds that it may wait for a server to begin with."""

    pair: ServedPair
    pools: Pools
    asked: Inquiry
    emit: Emit
    seconds: float
    first_wait: float
    stages: list[Stage] = field(default_factory=list)
    peeks: Peeks = field(default_factory=Peeks)
    fallback: bool = False
    began: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Draft, peek, challenge, within one deadline; Refused when it cannot be answered."""
        settings = self.pair.settings
        steps = turns(self.asked.system, self.asked.problem, 0, self.pair.clip, show_code=settings.show_code)
        try:
            async with asyncio.timeout(self.seconds):
                self.peeks = await follow(steps, self._draw)
        except TimeoutError:
            await self._fall_back(too_late(f"no answer within {self.seconds:g} s"))
        except Refused as refusal:
            await self._fall_back(refusal)

    @property
    def cascade(self) -> bool:
        return bool(peeks_in(self.asked.system))

    @property
    def finish(self) -> Finish:
        return (self.stages[0] if self.fallback else self.stages[-1]).finish or "stop"

    async def _draw(self, turn: Turn) -> Completion:
        """One turn of the cascade."""
        policy = turn.seat.policy
        assert policy is not None, "a pair answers with its adapters"
        rendered = await self._render(turn, policy)
        final = not self.cascade or turn.stage != "draft"
        renderer = self.pair.renderer(policy)
        splitter = Splitter(rendered.opened, renderer.markers, self.asked.stops if final else ())
        name = "draft" if turn.stage == "draft" else "challenge"
        stage = Stage(name, policy, rendered, turn.peek, splitter, IncrementalText(renderer))
        self.stages.append(stage)
        if len(self.stages) > 1:
            await self.emit(TextPart("reasoning", SEPARATOR))
        finish = await self._within_share(stage, turn) if not final else await self._complete(stage, turn)
        await self._show(stage, stage.end(finish))
        text, version = renderer.text(stage.ids), self.pair.folder.info.versions[policy]
        return Completion(text, version, len(rendered.ids), len(stage.ids), finish, rendered.opened)

    async def _render(self, turn: Turn, policy: Policy) -> Rendered:
        """Ids of a prompt; a long one is encoded beside the event loop."""
        size = sum(len(message.text) for message in (*self.asked.history, *turn.prompt.messages))
        if size > LONG:
            return await asyncio.to_thread(self.pair.render, self.asked.history, turn.prompt, policy)
        return self.pair.render(self.asked.history, turn.prompt, policy)

    async def _within_share(self, stage: Stage, turn: Turn) -> Finish:
        """A draft that takes too long is cut, as one that reaches its cap is; the challenger then answers alone."""
        try:
            async with asyncio.timeout(DRAFT_SHARE * self.seconds):
                return await self._complete(stage, turn)
        except TimeoutError:
            if not stage.ids:
                raise unavailable("no server began to answer in time") from None
            return "length"

    async def _complete(self, stage: Stage, turn: Turn) -> Finish:
        """Draw until the stage ends; what a failed server drew is kept."""
        avoid: Replica | None = None
        while stage.tries < TRIES:
            if done := self._ended(stage):
                return done
            stage.tries += 1
            try:
                urgent, wait = len(self.stages) > 1, self.first_wait if not self.stages[0].ids else None
                async with self.pools[stage.policy].slot(urgent=urgent, avoid=avoid, wait=wait) as avoid:
                    return await self._try(stage, turn, avoid, urgent)
            except ReplicaFailed:
                stage.resumed += bool(stage.ids)
            except RequestRejected as error:
                raise bad_request("the prompt is too long for this model", "messages", "rejected") from error
            except TimeoutError:
                raise unavailable("all servers are busy or down") from None
        raise failed(f"the {stage.name} failed on {TRIES} servers")

    async def _try(self, stage: Stage, turn: Turn, replica: Replica, urgent: bool) -> Finish:
        prompt, sampling = (*stage.prompt.ids, *stage.ids), self._sampling(stage)
        left = min(sampling.max_tokens - len(stage.ids), replica.context - len(prompt))
        if left < 1 and not stage.ids:
            message = (
                f"the {stage.name} needs {len(prompt)} of {replica.context} tokens, which leaves no room for an answer"
            )
            raise bad_request(message, "messages", "context_length_exceeded")
        if left < 1:
            return "length"
        seed = seed_of(self.asked.seed, self.asked.problem, turn)
        ask = Ask(
            model=self.pools[stage.policy].names[stage.policy],
            ids=prompt,
            sampling=replace(sampling, max_tokens=left),
            seed=seed if not stage.ids else seed_for(seed, "continued", len(stage.ids)),
            request_id=f"{self.asked.id}.{stage.name[0]}{stage.tries}",
            urgent=urgent,
            interval=DRAFT_INTERVAL if stage.name == "draft" and self.cascade else 1,
        )

        async def take(ids: tuple[int, ...]) -> bool:
            if stage.first is None:
                stage.first = time.monotonic() - stage.began
            await self._show(stage, stage.grow(ids))
            return stage.splitter.stopped

        ending = await replica.upstream.draw(ask, take)
        stage.cached += ending.cached
        return ending.finish

    def _sampling(self, stage: Stage) -> Sampling:
        return self.asked.final if stage is not self.stages[0] or not self.cascade else self.asked.draft

    def _ended(self, stage: Stage) -> Finish | None:
        """Whether the ids in hand are the whole stage: a server may die between the last one and saying so."""
        if stage.ids and stage.ids[-1] in self.pair.renderer(stage.policy).stop:
            return "stop"
        return "length" if len(stage.ids) >= self._sampling(stage).max_tokens else None

    async def _show(self, stage: Stage, parts: list[TextPart]) -> None:
        """Pass text on, neighbours joined; all of a draft that another policy answers is reasoning."""
        drafting = self.cascade and stage is self.stages[0]
        for kind, group in groupby(parts, key=lambda part: "reasoning" if drafting else part.kind):
            await self.emit(TextPart("reasoning" if kind == "reasoning" else "content", "".join(p.text for p in group)))

    async def _fall_back(self, refusal: Refused) -> None:
        """Answer with the draft's own text where the client allows it and has seen no content yet."""
        draft = self.stages[0] if self.stages else None
        shown = len(self.stages) > 1 and self.stages[1].splitter.in_content
        if not (self.asked.fall_back and self.cascade and draft and draft.finish) or shown:
            raise refusal
        renderer = self.pair.renderer(draft.policy)
        splitter = Splitter(draft.prompt.opened, renderer.markers, self.asked.stops)
        ids = [token for token in draft.ids if token not in renderer.stop]
        parts = [*splitter.add(renderer.decode(ids)), *splitter.end()]
        content = "".join(part.text for part in parts if part.kind == "content")
        if not content:
            raise refusal
        self.fallback = True
        await self.emit(TextPart("content", content))
