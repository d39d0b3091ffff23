"""Servers for tests: one that answers as told, and one that serves the tiny base and two adapters."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agon.data import tabletop
from agon.engine.render import Rendered
from agon.engine.shipped import folder_of
from agon.game.cascade import Peeks, System, Turn, follow, turns
from agon.protocols import Sampler
from agon.types import BASE, Completion, Message, Policy, Problem, Prompt, Request, Sampling, Version

Answer = Callable[[str, dict[str, Any] | None], tuple[int, Any]]
VERSIONS = {Policy.A: Version("a@000001-one"), Policy.B: Version("b@000001-two")}

GREEDY = Sampling(0.0, 1.0, 96)
SYSTEMS: list[System] = [BASE, Policy.A, Policy.B, (Policy.A, Policy.B), (Policy.B, Policy.A)]
Answers = list[list[tuple[list[Completion], Peeks]]]
"""For each system, the completions and peeks on each problem."""


def adapters(root: Path, std: float = 0.02) -> dict[Policy, Path]:
    """Two adapters over the tiny base that change what it says."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    for policy in Policy:
        base = AutoModelForCausalLM.from_pretrained(folder_of("agon:tiny"), dtype="float32")
        model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=std)
        model.save_pretrained(root / policy.value)
    return {policy: root / policy.value for policy in Policy}


def answers(sampler: Sampler) -> Answers:
    """Every system on every problem, all in flight at once."""
    problems = tabletop.problems("chain", 3, 8, seed=1)

    async def answer(system: System, problem: Problem) -> tuple[list[Completion], Peeks]:
        drawn: list[Completion] = []

        async def draw(turn: Turn) -> Completion:
            drawn.append(await sampler.sample(Request(turn.prompt, turn.seat, 1, GREEDY)))
            return drawn[-1]

        steps = turns(system, problem, 0, lambda text: sampler.clip(text, 64))
        return drawn, await follow(steps, draw)

    async def all_of_them() -> Answers:
        rows = (asyncio.gather(*(answer(system, problem) for problem in problems)) for system in SYSTEMS)
        return list(await asyncio.gather(*rows))

    return asyncio.run(all_of_them())


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """An HTTP server on this machine that answers (path, body) with (code, value)."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._reply(json.loads(self.rfile.read(length)))

        def do_GET(self) -> None:
            self._reply(None)

        def _reply(self, body: dict[str, Any] | None) -> None:
            code, value = answer(self.path, body)
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_port}/v1"
    finally:
        made.shutdown()
        made.server_close()


def foreign(engine: Any, loop: asyncio.AbstractEventLoop, ids: bool) -> Answer:
    """A server as a stranger would write it. Text: its own chat template. Ids, if it takes them: as they are."""

    def answer(path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        if body is None:
            return 200, {"data": [{"id": name} for name in ("tiny", *VERSIONS.values())]}
        if path.endswith("/chat/completions"):
            prompt = Prompt(tuple(Message(m["role"], (m["content"],)) for m in body["messages"]))
            return 200, reply(body, prompt, None)
        return (200, reply(body, None, body["prompt"])) if ids else (404, {"error": "no such place"})

    def reply(body: dict[str, Any], prompt: Prompt | None, given: list[int] | None) -> dict[str, Any]:
        seat = BASE if body["model"] == "tiny" else Version(body["model"])
        sampling = Sampling(body.get("temperature", 0.0), body.get("top_p", 1.0), body["max_tokens"])
        asked = engine.sample(Request(prompt or Literal(tuple(given or ())), seat, body.get("seed", 0), sampling))
        got = asyncio.run_coroutine_threadsafe(asked, loop).result(60)
        usage = {"prompt_tokens": got.prompt_tokens, "completion_tokens": got.generated_tokens}
        message = {"role": "assistant", "content": got.text}
        drawn = list(got.tokens.completion_ids)
        choice = {"message": message, "text": got.text, "finish_reason": got.finish, "token_ids": drawn}
        return {"choices": [choice], "usage": usage}

    return answer


class Literal(Prompt):
    """A prompt that is token ids already."""

    __slots__ = ()


class AsGiven:
    """A renderer that leaves a Literal as it is."""

    def __init__(self, renderer: Any) -> None:
        self.inner = renderer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def render(self, prompt: Prompt) -> Rendered:
        return Rendered(prompt.messages, opened=False) if isinstance(prompt, Literal) else self.inner.render(prompt)


@contextmanager
def serving(engine: Any, ids: bool = True) -> Iterator[str]:
    """The address of a server over a sampler of ours."""
    engine.renderer = AsGiven(engine.renderer)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    try:
        with server(foreign(engine, loop, ids)) as url:
            yield url
    finally:
        engine.renderer = engine.renderer.inner
        loop.call_soon_threadsafe(loop.stop)
