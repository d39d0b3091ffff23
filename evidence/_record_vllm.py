"""Record answers of a real vLLM for the stub: `python evidence/_record_vllm.py` writes tests/fixtures/serve.

Greedy, float32, one at a time: both directions of the cascade on some questions, the models that the server lists, and
the shape of one event.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from _serve import RECORDING, questions, vllm, write_halves
from agon.deploy.pair_settings import problem_of
from agon.deploy.serve.answering import Answering, Inquiry, TextPart
from agon.deploy.serve.gateway_settings import GatewaySettings
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.serving import build_gateway
from agon.types import Policy, Sampling

COUNT = 12
DIRECTIONS = {"ab": (Policy.A, Policy.B), "ba": (Policy.B, Policy.A)}
GREEDY = Sampling(0.0, 1.0, 400)


async def record(pair: ServedPair, url: str) -> dict[str, Any]:
    gateway = build_gateway(pair, [url], pair.folder.info.versions, GatewaySettings())
    gateway.replicas.launch()
    await gateway.replicas.joined()
    answers: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
    asked = questions(COUNT)
    for question in asked:
        for system in DIRECTIONS.values():
            inquiry = Inquiry("record", "agon", system, problem_of(question, pair.settings), (), GREEDY, GREEDY, 0)
            work = Answering(pair, gateway.replicas, inquiry, _nothing, 600, 60)
            await work.run()
            for stage in work.stages:
                model, prompt = pair.folder.info.versions[stage.policy], stage.prompt.ids
                answer = {"model": model, "prompt": prompt, "ids": stage.ids, "finish": stage.finish}
                answers[model, prompt] = answer
    chunk, models = await _shape(url, next(iter(answers.values())))
    await gateway.replicas.close()
    return {"questions": asked, "models": models, "chunk": chunk, "answers": list(answers.values())}


async def _shape(url: str, answer: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One event, and the list of models, without what differs from run to run."""
    body = {"model": answer["model"], "prompt": answer["prompt"], "max_tokens": 4, "temperature": 0, "stream": True}
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        reply = await client.post(f"{url}/v1/completions", json=body | {"return_token_ids": True})
        models = (await client.get(f"{url}/v1/models")).json()
    print(reply.text, file=sys.stderr)
    chunk = json.loads(reply.text.split("\n\n")[0].removeprefix("data: "))
    kept = ("id", "object", "max_model_len", "owned_by")
    models["data"] = [{name: model.get(name) for name in kept} for model in models["data"]]
    models["data"][0]["id"] = "base"
    return chunk | {"id": "cmpl-recorded", "created": 0}, models


async def _nothing(part: TextPart) -> None:
    """Nobody reads along."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agon-record-") as scratch:
        pair = ServedPair.load(write_halves(Path(scratch)), weights=True)
        server = vllm(pair, Path(scratch))
        try:
            server.start("/health", 900)
            recorded = asyncio.run(record(pair, server.url))
        finally:
            print(server.log.read_text(), file=sys.stderr)
            server.kill()
    RECORDING.parent.mkdir(parents=True, exist_ok=True)
    RECORDING.write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
    lengths = [len(answer["ids"]) for answer in recorded["answers"]]
    print(f"{RECORDING.name}: {len(lengths)} answers of {min(lengths)} to {max(lengths)} ids")


if __name__ == "__main__":
    main()
