"""The body of /v1/chat/completions: what is honoured, and what is refused with 400 and the name of the field.

Fields that would change the answer and that a cascade cannot honour (several choices, tools, log-probs, penalties,
images) may be sent with their neutral value, as SDKs do, and with no other. `user`, `metadata` and `reasoning_effort`
change nothing; the answer lists them under `agon.ignored`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from agon.deploy.serve.refusals import bad_request
from agon.types import Message, Quote, Role

MODELS = ("agon", "agon-ab", "agon-ba", "a", "b")
NEUTRAL: dict[str, tuple[JsonValue, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "logit_bias": ({},),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "audio": (),
    "prediction": (),
    "parallel_tool_calls": (),
    "function_call": (),
    "verbosity": (),
    "web_search_options": (),
}
"""Fields that are taken with these values only, and with null."""
IGNORED = ("user", "metadata", "reasoning_effort")

Positive = Annotated[int, Field(ge=1, lt=1 << 31)]
StopString = Annotated[str, Field(min_length=1, max_length=256)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ContentPart(_Strict):
    type: Literal["text"]
    text: str


class ChatTurn(_Strict):
    """One message. Reasoning and empty fields that clients feed back with an assistant's message are dropped."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[ContentPart], Field(min_length=1)] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    name: None = None
    refusal: None = None
    audio: None = None
    annotations: list[JsonValue] | None = None
    function_call: None = None
    tool_calls: Annotated[list[JsonValue], Field(max_length=0)] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(_Strict):
    include_usage: bool = False
    include_obfuscation: Literal[False] | None = None


class AgonOptions(_Strict):
    """What this server adds: `extra_body={"agon": {...}}` in the openai client."""

    direction: Literal["ab", "ba"] | None = None
    max_draft_tokens: Positive | None = None
    return_draft: bool = False
    fallback: Literal["error", "draft"] = "error"


class ChatRequest(_Strict):
    model: str
    messages: Annotated[list[ChatTurn], Field(min_length=1, max_length=128)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    reasoning_effort: str | None = None
    agon: AgonOptions = AgonOptions()
    n: JsonValue = None
    logprobs: JsonValue = None
    top_logprobs: JsonValue = None
    tools: JsonValue = None
    tool_choice: JsonValue = None
    functions: JsonValue = None
    response_format: JsonValue = None
    modalities: JsonValue = None
    logit_bias: JsonValue = None
    presence_penalty: JsonValue = None
    frequency_penalty: JsonValue = None
    service_tier: JsonValue = None
    store: JsonValue = None
    audio: JsonValue = None
    prediction: JsonValue = None
    parallel_tool_calls: JsonValue = None
    function_call: JsonValue = None
    verbosity: JsonValue = None
    web_search_options: JsonValue = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def ignored(self) -> list[str]:
        """Fields that were sent and change nothing."""
        return [name for name in IGNORED if getattr(self, name) is not None]

    @property
    def limit(self) -> int | None:
        """The cap on tokens of the stage that answers."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def history(self) -> tuple[Message, ...]:
        """What comes before the question, as quotes: none of it can speak for the template."""
        return tuple(Message(_role(turn.role), (Quote(turn.text),)) for turn in self.messages[:-1])

    @property
    def question(self) -> str:
        return self.messages[-1].text.strip()


def parse_request(body: bytes) -> ChatRequest:
    """The request in a body; Refused, with the field, for anything that is not honoured."""
    try:
        asked = ChatRequest.model_validate_json(body)
    except ValidationError as error:
        raise _explained(error) from error
    for name, values in NEUTRAL.items():
        given = getattr(asked, name)
        if given is not None and not any(given == value and type(given) is type(value) for value in values):
            raise bad_request(f"{name} is not supported with this value", name, "unsupported_parameter")
    if None not in (asked.max_tokens, asked.max_completion_tokens) and asked.max_tokens != asked.max_completion_tokens:
        raise bad_request("max_tokens and max_completion_tokens differ: send one of them", "max_tokens")
    if asked.stream_options and not asked.stream:
        raise bad_request("stream_options needs stream: true", "stream_options")
    last = asked.messages[-1]
    if last.role != "user" or not asked.question:
        raise bad_request("the last message must be a user's and not empty", "messages")
    return asked


def _explained(error: ValidationError) -> Exception:
    """The first fault, without the input."""
    fault = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(map(str, fault["loc"]))
    if fault["type"] == "json_invalid":
        return bad_request("the body is not valid JSON", None, "invalid_json")
    if fault["type"] == "extra_forbidden":
        return bad_request(f"{place[:100]} is not a field of this API", place[:100], "unsupported_parameter")
    return bad_request(f"{place[:100]}: {fault['msg']}", place[:100] or None)


def _role(role: str) -> Role:
    return "system" if role in ("system", "developer") else "user" if role == "user" else "assistant"
