"""What goes back to a client: one body, or server-sent events, in OpenAI's shape, with the same text in both.

`reasoning` is mirrored to `reasoning_content`, which some clients read instead. `usage` is the sum of all stages; the
top-level `agon` object splits it by stage and says who answered, what was resumed and whether the draft stood in.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from agon.deploy.serve.answering import Answering, Stage, TextPart

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """What every part of one reply repeats."""

    id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))

    def fields(self, kind: str) -> Fields:
        return {"id": f"chatcmpl-{self.id}", "object": kind, "created": self.created, "model": self.model}


def whole(head: ReplyHead, parts: list[TextPart], work: Answering, more: Fields) -> Fields:
    """A reply in one body; `content` is never null."""
    reasoning = "".join(part.text for part in parts if part.kind == "reasoning")
    content = "".join(part.text for part in parts if part.kind == "content")
    message: Fields = {"role": "assistant", "content": content, "refusal": None}
    message |= {"reasoning": reasoning or None, "reasoning_content": reasoning or None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": work.finish}
    return {**head.fields("chat.completion"), "choices": [choice], "usage": usage(work), "agon": facts(work, more)}


def chunk(head: ReplyHead, delta: Fields) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return event({**head.fields("chat.completion.chunk"), "choices": [choice]})


def opening(head: ReplyHead) -> bytes:
    return chunk(head, {"role": "assistant", "content": ""})


def text_chunk(head: ReplyHead, part: TextPart) -> bytes:
    if part.kind == "content":
        return chunk(head, {"content": part.text})
    return chunk(head, {"reasoning": part.text, "reasoning_content": part.text})


def closing(head: ReplyHead, work: Answering, more: Fields, *, with_usage: bool) -> bytes:
    """The end of a stream: the finish with what it took, then usage for those who asked, then `[DONE]`."""
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": work.finish}
    fields = head.fields("chat.completion.chunk")
    last = event({**fields, "choices": [choice], "agon": facts(work, more)})
    counted = event({**fields, "choices": [], "usage": usage(work)}) if with_usage else b""
    return last + counted + b"data: [DONE]\n\n"


def event(fields: Fields) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def usage(work: Answering) -> Fields:
    """Tokens of all stages; all of a draft that another policy answers is reasoning."""
    prompt = sum(len(stage.prompt.ids) for stage in work.stages)
    drawn = sum(len(stage.ids) for stage in work.stages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": drawn,
        "total_tokens": prompt + drawn,
        "prompt_tokens_details": {"cached_tokens": sum(stage.cached for stage in work.stages)},
        "completion_tokens_details": {"reasoning_tokens": sum(_reasoning(stage, work) for stage in work.stages)},
    }


def facts(work: Answering, more: Fields) -> Fields:
    """The `agon` object: stages, and what is worth knowing about this answer."""
    return {
        "stages": [_stage(stage, work) for stage in work.stages],
        "resumed": sum(stage.resumed for stage in work.stages),
        "fallback": "draft" if work.fallback else None,
        **more,
    }


def draft_text(work: Answering) -> Fields:
    """What `return_draft` adds: the whole draft, and what the challenger read of it."""
    draft = work.stages[0]
    return {"draft": work.pair.renderer.text(draft.ids), "peek": work.peeks.own}


def _stage(stage: Stage, work: Answering) -> Fields:
    return {
        "stage": stage.name,
        "version": work.pair.folder.info.versions[stage.policy],
        "prompt_tokens": len(stage.prompt.ids),
        "completion_tokens": len(stage.ids),
        "finish": stage.finish,
        "resumed": stage.resumed,
        "seconds": round(stage.seconds, 3),
    }


def _reasoning(stage: Stage, work: Answering) -> int:
    drafting = work.cascade and stage is work.stages[0] and not work.fallback
    return len(stage.ids) if drafting else stage.reasoning_tokens
