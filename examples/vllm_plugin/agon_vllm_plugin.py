"""The cascade inside vLLM's own server, as an endpoint plugin: no gateway, no hop.

    pip install -e examples/vllm_plugin
    export AGON_PAIR=runs/NAME VLLM_PLUGINS=agon
    eval "$(agon serve runs/NAME --print-command)"
    curl localhost:8001/v1/agon/answers -H 'Content-Type: application/json' -d '{"question": "What is 7 times 8?"}'

For one GPU, one process and a trusted network. It has no failover, no queue of its own, no streaming and no deadline:
the cascade ends with the process that runs it. `agon serve` has all of these.
"""

from __future__ import annotations

import os
import uuid
from argparse import Namespace
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import State
from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from agon.deploy.pair_settings import problem_of
from agon.deploy.serve.served_pair import ServedPair
from agon.eval.draw import seed_of
from agon.game.cascade import Turn, follow, turns
from agon.types import Completion


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    question: str = Field(min_length=1)
    model: Literal["agon", "agon-ab", "agon-ba", "a", "b"] = "agon"
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, ge=1)
    """Of each stage."""
    seed: int = 0


class AgonPlugin:
    """What vLLM asks of an endpoint plugin."""

    name = "agon"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        @app.post("/v1/agon/answers")
        async def answers(asked: Question, request: Request) -> dict[str, object]:
            return await answer(request.app.state, asked)

    async def init_state(self, engine_client: Any, state: State, args: Namespace) -> None:
        state.agon_pair = ServedPair.load(Path(os.environ["AGON_PAIR"]), weights=False)


async def answer(state: State, asked: Question) -> dict[str, object]:
    """Draft, peek, challenge: the generator asks for completions, vLLM's engine draws them."""
    pair: ServedPair = state.agon_pair
    problem, drawn = problem_of(asked.question, pair.settings), list[Completion]()

    async def draw(turn: Turn) -> Completion:
        drawn.append(await complete(state, turn, asked, seed_of(asked.seed, problem, turn)))
        return drawn[-1]

    steps = turns(pair.system(asked.model, None), problem, 0, pair.clip, show_code=pair.settings.show_code)
    peeks = await follow(steps, draw)
    tokens = sum(completion.generated_tokens for completion in drawn)
    draft = drawn[0].text if len(drawn) > 1 else None
    return {"answer": drawn[-1].text, "peek": peeks.own, "draft": draft, "completion_tokens": tokens}


async def complete(state: State, turn: Turn, asked: Question, seed: int) -> Completion:
    """One completion, in token ids."""
    pair: ServedPair = state.agon_pair
    renderer, sampling = pair.renderer, pair.settings.sampling
    version, rendered = pair.folder.info.versions[turn.seat.policy], renderer.render(turn.prompt)
    room = state.openai_serving_models.model_config.max_model_len - len(rendered.ids)
    if room < 1:
        raise HTTPException(400, f"{len(rendered.ids)} tokens of {turn.stage} leave no room for an answer")
    params = SamplingParams(
        temperature=sampling.temperature if asked.temperature is None else asked.temperature,
        top_p=sampling.top_p,
        max_tokens=min(asked.max_tokens or sampling.max_tokens, room),
        seed=seed,
        stop_token_ids=sorted(renderer.stop),
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    lora = state.openai_serving_models.lora_requests[version]
    prompt, request_id = {"prompt_token_ids": list(rendered.ids)}, f"agon-{uuid.uuid4().hex}"
    async for output in state.engine_client.generate(prompt, params, request_id, lora_request=lora):
        ids, finish = output.outputs[0].token_ids, output.outputs[0].finish_reason
    if finish not in ("stop", "length"):
        raise HTTPException(503, f"vLLM ended the completion with {finish!r}")
    return Completion(renderer.text(ids), version, len(rendered.ids), len(ids), finish, rendered.opened)
