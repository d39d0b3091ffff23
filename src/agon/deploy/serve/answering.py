"""One request at work: the cascade of `game.cascade`, each stage drawn from whichever server works.

The ids of a stage outlive the server that drew them: when it fails, another continues from them, and nothing that a
client has seen changes. Drafts, reasoning and recaps go out through `emit` as they are written; the answer alone, which
is what `Pair.answer` gives, goes out at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from agon.deploy.serve.reasoning import ReasoningText
from agon.deploy.serve.refusals import Refused, bad_request, failed, too_late, unavailable
from agon.deploy.serve.replicas import Replica, Replicas
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.upstream import Ask, RequestRejected, StageSilent
from agon.engine.render import Rendered
from agon.engine.watch import IncrementalText
from agon.eval.draw import seed_of
from agon.game.cascade import Peeks, System, Turn, follow, peeks_in, turns
from agon.game.parse import parse
from agon.pool import Wanted, WorkerDown
from agon.types import Completion, Finish, Message, Policy, Problem, Sampling, seed_for

TRIES = 5
"""Servers that one stage may be tried on."""
DRAFT_SHARE = 0.6
"""Part of the time that a draft may take: then it is cut, and the challenger reads what there is of its summary."""
DRAFT_INTERVAL = 8
"""Tokens per event of a draft: it is shown as reasoning, where a few tokens at once do not matter."""
LONG = 50_000
"""Characters above which a prompt is encoded beside the event loop."""
SEPARATOR = "\n\n---\n\n"
"""Between the two stages' reasoning."""


class TextPart(NamedTuple):
    """Text that a client may see."""

    kind: Literal["reasoning", "content"]
    text: str


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
    shown: ReasoningText
    text: IncrementalText
    ids: list[int] = field(default_factory=list)
    completion: Completion | None = None
    """Once it has ended."""
    reasoning_tokens: int = 0
    cached: int = 0
    tries: int = 0
    resumed: int = 0
    """How often a server failed and another continued from the ids in hand."""
    began: float = field(default_factory=time.monotonic)
    first: float | None = None
    """Seconds to the first ids."""
    seconds: float = 0.0

    @property
    def finish(self) -> Finish | None:
        return self.completion.finish if self.completion else None

    def grow(self, ids: Iterable[int]) -> str:
        """Take ids; what they let a client see."""
        text = ""
        for token in ids:
            self.ids.append(token)
            text += self.shown.add(self.text.add(token))
            self.reasoning_tokens += not self.shown.in_answer
        return text

    def end(self, completion: Completion) -> str:
        self.completion, self.seconds = completion, time.monotonic() - self.began
        return self.shown.add(self.text.end()) + self.shown.end()


@dataclass(slots=True)
class Answering:
    """Runs one inquiry. `first_wait`: seconds that it may wait for a server to begin with."""

    pair: ServedPair
    replicas: Replicas
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
            self._fall_back(too_late(f"no answer within {self.seconds:g} s"))
        except Refused as refusal:
            self._fall_back(refusal)
        answered = self._last.completion
        if answered and (content := _until(parse(answered).answer or "", self.asked.stops)):
            await self.emit(TextPart("content", content))

    @property
    def cascade(self) -> bool:
        return bool(peeks_in(self.asked.system))

    @property
    def finish(self) -> Finish:
        return self._last.finish or "stop"

    @property
    def _last(self) -> Stage:
        """The stage that answers."""
        return self.stages[0] if self.fallback else self.stages[-1]

    async def _draw(self, turn: Turn) -> Completion:
        """One turn of the cascade."""
        policy = turn.seat.policy
        assert policy is not None, "a pair answers with its adapters"
        rendered = await self._render(turn)
        final = not self.cascade or turn.stage != "draft"
        renderer = self.pair.renderer
        shown = ReasoningText(rendered.opened, renderer.markers, answers=not final)
        name = "draft" if turn.stage == "draft" else "challenge"
        stage = Stage(name, policy, rendered, turn.peek, shown, IncrementalText(renderer))
        self.stages.append(stage)
        if len(self.stages) > 1:
            await self.emit(TextPart("reasoning", SEPARATOR))
        finish = await self._within_share(stage, turn) if not final else await self._complete(stage, turn)
        text, version = renderer.text(stage.ids), self.pair.folder.info.versions[policy]
        completion = Completion(text, version, len(rendered.ids), len(stage.ids), finish, rendered.opened)
        await self._show(stage.end(completion))
        return completion

    async def _render(self, turn: Turn) -> Rendered:
        """Ids of a prompt; a long one is encoded beside the event loop."""
        size = sum(len(message.text) for message in (*self.asked.history, *turn.prompt.messages))
        if size > LONG:
            return await asyncio.to_thread(self.pair.render, self.asked.history, turn.prompt)
        return self.pair.render(self.asked.history, turn.prompt)

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
                wanted = Wanted(urgent=urgent, avoid=avoid)
                async with self.replicas.use(wanted, wait=wait) as avoid:
                    return await self._try(stage, turn, avoid, urgent)
            except (WorkerDown, StageSilent):
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
            model=replica.names[stage.policy],
            ids=prompt,
            sampling=replace(sampling, max_tokens=left),
            seed=seed if not stage.ids else seed_for(seed, "continued", len(stage.ids)),
            request_id=f"{self.asked.id}.{stage.name[0]}{stage.tries}",
            urgent=urgent,
            interval=DRAFT_INTERVAL if stage.name == "draft" and self.cascade else 1,
        )

        async def take(ids: tuple[int, ...]) -> None:
            if stage.first is None:
                stage.first = time.monotonic() - stage.began
            await self._show(stage.grow(ids))

        ending = await replica.draw(ask, take)
        stage.cached += ending.cached
        return ending.finish

    def _sampling(self, stage: Stage) -> Sampling:
        return self.asked.final if stage is not self.stages[0] or not self.cascade else self.asked.draft

    def _ended(self, stage: Stage) -> Finish | None:
        """Whether the ids in hand are the whole stage: a server may die between the last one and saying so."""
        if stage.ids and stage.ids[-1] in self.pair.renderer.stop:
            return "stop"
        return "length" if len(stage.ids) >= self._sampling(stage).max_tokens else None

    async def _show(self, text: str) -> None:
        if text:
            await self.emit(TextPart("reasoning", text))

    def _fall_back(self, refusal: Refused) -> None:
        """Let the draft answer, where the client allows it and the draft has an answer."""
        draft = self.stages[0].completion if self.stages else None
        if not (self.asked.fall_back and self.cascade and draft and parse(draft).answer):
            raise refusal
        self.fallback = True


def _until(text: str, stops: tuple[str, ...]) -> str:
    """Text up to the stop string that ends first."""
    places = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(places)[1]] if places else text
