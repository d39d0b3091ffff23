"""What servers reply, as typed records: a reply is one of these, or the engine is down."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agon.engine.http_client import Reply
from agon.engine.protocol import EngineDown

T = TypeVar("T", bound="Body")

Count = Annotated[int, Field(ge=0, lt=1 << 31)]
AtLeastOne = Field(min_length=1)


class Body(BaseModel):
    """Strict: a token id is not 3.0, a log-prob is a number. Fields that we do not read may be anything."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class Logprobs(Body):
    token_logprobs: tuple[float, ...]


class TokenChoice(Body):
    token_ids: tuple[Count, ...]
    finish_reason: str | None


class ScoredChoice(TokenChoice):
    logprobs: Logprobs


class ChatMessage(Body):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class ChatChoice(Body):
    message: ChatMessage
    finish_reason: str | None = None


class Usage(Body):
    prompt_tokens: Count
    completion_tokens: Count


class ScoredTokens(Body):
    """A completion of token ids with their log-probs, as training needs it."""

    choices: Annotated[tuple[ScoredChoice, ...], AtLeastOne]


class PlainTokens(Body):
    """A completion of token ids."""

    choices: Annotated[tuple[TokenChoice, ...], AtLeastOne]
    usage: Usage


class Chat(Body):
    """A completion of text."""

    choices: Annotated[tuple[ChatChoice, ...], AtLeastOne]
    usage: Usage


class ModelCard(Body):
    id: str
    max_model_len: Annotated[int, Field(ge=1, lt=1 << 31)] | None = None
    """Tokens that fit in one sequence; vLLM says so."""


class Models(Body):
    """What a server serves."""

    data: tuple[ModelCard, ...]


class Attested(Body):
    """What differs between a slot and a file, as each worker of a server says."""

    results: Annotated[tuple[tuple[str, ...], ...], AtLeastOne]


def parse(reply: Reply, kind: type[T]) -> T:
    """The reply as a record; EngineDown if it is anything else, such as the page of a proxy or half a line."""
    try:
        return kind.model_validate_json(reply.body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise EngineDown(f"{reply.url} sent a reply that cannot be read: {place}: {first['msg']}") from error
