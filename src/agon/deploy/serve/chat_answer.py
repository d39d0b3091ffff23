"""One chat completion: from a request to work for the pair, and back to the client, whole or streamed.

A gateway holds no state that another gateway would need.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

from fastapi.responses import JSONResponse, Response
from starlette.types import Receive

from agon.deploy.pair_settings import problem_of
from agon.deploy.serve.admission import LEFT, Traffic
from agon.deploy.serve.answering import Answering, Emit, Inquiry, TextPart
from agon.deploy.serve.chat_reply import Fields, ReplyHead, closing, draft_text, opening, text_chunk, whole
from agon.deploy.serve.chat_request import MODELS, ChatRequest
from agon.deploy.serve.gateway_settings import GatewaySettings
from agon.deploy.serve.meters import Meters
from agon.deploy.serve.refusals import Refused, bad_request
from agon.deploy.serve.replicas import Pools
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.streaming import ClientLeft, EventStream, Put, unless_left
from agon.errors import EngineError


@dataclass(frozen=True, slots=True)
class Gateway:
    """What the routes need."""

    pair: ServedPair
    pools: Pools
    settings: GatewaySettings
    meters: Meters
    traffic: Traffic

    def understand(self, asked: ChatRequest, request_id: str) -> Inquiry:
        """A request as work for the pair; Refused for what it cannot do."""
        if asked.model not in MODELS:
            raise Refused(404, f"there is no such model; choose from {', '.join(MODELS)}", code="model_not_found")
        direction = asked.agon.direction
        if direction and asked.model not in ("agon", f"agon-{direction}"):
            raise bad_request(f"agon.direction contradicts the model {asked.model}", "agon.direction")
        own = self.pair.settings.sampling
        system = self.pair.system(asked.model, direction)
        final = replace(
            own,
            temperature=own.temperature if asked.temperature is None else asked.temperature,
            top_p=own.top_p if asked.top_p is None else asked.top_p,
            max_tokens=self._cap(asked.limit, "max_completion_tokens"),
        )
        draft = replace(final, max_tokens=self._cap(asked.agon.max_draft_tokens, "agon.max_draft_tokens"))
        inquiry = Inquiry(
            id=request_id,
            model=asked.model,
            system=system,
            problem=problem_of(asked.question, self.pair.settings),
            history=asked.history,
            draft=draft,
            final=final,
            seed=secrets.randbits(31) if asked.seed is None else asked.seed,
            stops=asked.stops,
            fall_back=asked.agon.fallback == "draft",
        )
        self._check_length(inquiry)
        return inquiry

    def _cap(self, asked: int | None, param: str) -> int:
        cap = self.pair.settings.sampling.max_tokens
        if asked is not None and asked > cap:
            raise bad_request(f"{param} is at most {cap}", param)
        return asked or cap

    def _check_length(self, inquiry: Inquiry) -> None:
        """Refuse a prompt whose second stage would not fit, before anything is drawn."""
        context = self.pools.context
        try:
            needed = self.pair.room(inquiry.history, inquiry.problem, inquiry.system, context)
        except EngineError as error:  # a template may want turns to alternate, or know no system
            raise bad_request(f"the messages do not fit the chat template: {error.message}", "messages") from error
        if context and needed >= context:
            message = f"the messages need {needed} of {context} tokens, which leaves no room for an answer"
            raise bad_request(message, "messages", "context_length_exceeded")


@dataclass(slots=True)
class ChatAnswer:
    """The answer to one request; `facts` goes into its log line."""

    gateway: Gateway
    asked: ChatRequest
    inquiry: Inquiry
    facts: Fields
    parts: list[TextPart] = field(default_factory=list)
    head: ReplyHead = field(init=False)

    def __post_init__(self) -> None:
        self.head = ReplyHead(self.inquiry.id, self.asked.model)

    async def reply(self, receive: Receive) -> Response:
        """The response; nothing is drawn any more once the client has left."""
        settings = self.gateway.settings
        try:
            if self.asked.stream:
                pace = {"ping": settings.ping, "write_seconds": settings.write_seconds}
                return await EventStream.open(self._write, receive, **pace)
            body: list[Fields] = []
            await unless_left(self._collect(body), receive)
            return JSONResponse(body[0])
        except ClientLeft:
            self.facts["left"] = True
            return Response(status_code=LEFT)

    async def _collect(self, body: list[Fields]) -> None:
        """The whole answer."""

        async def keep(part: TextPart) -> None:
            self.parts.append(part)

        work = await self._work(keep)
        body.append(whole(self.head, self.parts, work, self._told(work)))

    async def _write(self, put: Put) -> None:
        """The answer as events; the first comes with the first text, so that an earlier failure has a status."""
        begun = False

        async def emit(part: TextPart) -> None:
            nonlocal begun
            await put((b"" if begun else opening(self.head)) + text_chunk(self.head, part))
            begun = True

        work = await self._work(emit)
        options = self.asked.stream_options
        head = b"" if begun else opening(self.head)
        await put(head + closing(self.head, work, self._told(work), with_usage=bool(options and options.include_usage)))

    async def _work(self, emit: Emit) -> Answering:
        settings = self.gateway.settings
        work = Answering(
            self.gateway.pair, self.gateway.pools, self.inquiry, emit, settings.deadline, settings.first_wait
        )
        try:
            await work.run()
        finally:
            self._count(work)
        return work

    def _told(self, work: Answering) -> Fields:
        """What the `agon` object says besides the stages."""
        system = self.inquiry.system
        told: Fields = {
            "direction": "".join(seat.policy or "" for seat in system) if isinstance(system, tuple) else None,
            "ignored": self.asked.ignored,
            "untrained_shape": bool(self.inquiry.history),
        }
        return told | (draft_text(work) if self.asked.agon.return_draft else {})

    def _count(self, work: Answering) -> None:
        """Metrics and the log line, also of an answer that failed."""
        for stage in work.stages:
            self.gateway.meters.stage(stage)
            self.facts[stage.name] = {
                "prompt_tokens": len(stage.prompt.ids),
                "completion_tokens": len(stage.ids),
                "finish": stage.finish,
                "tries": stage.tries,
                "seconds": round(stage.seconds, 3),
            }
        self.gateway.meters.fallbacks.inc(work.fallback)
