"""A served pair answers with the text that its evaluation draws, byte for byte: greedy, float32, one at a time.

The same questions go through the evaluation's cascade (transformers), `Pair.answer`, `agon ask`, and the gateway, asked
by the unchanged `openai` client, streaming and not. Full: `agon serve` starts a real vLLM, and a second part shows that
vLLM continues an answer from any id in hand as it would have written it, which is what a gateway does when a server
dies. Quick: the gateway runs over answers that were recorded from that vLLM.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _lib import arguments, hardware, verdict
from _serve import KEY, recording, serving, stubs, write_halves
from agon.types import Completion, Reason, Verdict

if TYPE_CHECKING:
    from agon.deploy.ask import Pair

EXTRA_SOURCES = [
    "src/agon/deploy/serve",
    "src/agon/deploy",
    "src/agon/cli",
    "evidence/_stub_vllm.py",
    "tests/fixtures/serve",
]
Compared = dict[str, str | None]
CAP = 400
EVERY = 5
"""Answers are continued from every fifth id."""


def main() -> None:
    args = arguments(__doc__.splitlines()[0])
    os.environ["HF_HUB_OFFLINE"] = "1"
    count = 3 if args.quick else 12
    with tempfile.TemporaryDirectory(prefix="agon-parity-") as scratch:
        folder = Path(scratch)
        pair = write_halves(folder)
        asked = recording()["questions"][:count]
        expected, differ = local(pair, asked)
        differing = {"pair.answer and agon ask": differ}
        with gateway(pair, folder, real=not args.quick) as (url, backend):
            for kind, ask in {"whole": whole, "streamed": streamed}.items():
                rows = [ask(url, question) for question in asked]
                differing[kind] = sum(row != wanted for row, wanted in zip(rows, expected, strict=True))
            continued, flipped = continuations(backend) if backend else (0, 0)
    for name, number in differing.items():
        print(f"{name}: {number} of {count} differ", file=sys.stderr)
    holds = not any(differing.values()) and not flipped
    more = {"questions": count, "continued": continued, "continued differently": flipped, "hardware": hardware()}
    verdict("a served pair writes what its evaluation draws", differing, "0 differ", holds, **more)


def parts(draft: str, peek: str | None, final: str) -> Compared:
    """What is compared: the draft, the peek, and the final text as a client sees it."""
    reasoning, _, content = final.lstrip().removeprefix("<think>").partition("</think>")
    begins = final.lstrip().startswith("<think>")
    return {
        "draft": draft,
        "peek": peek,
        "reasoning": reasoning if begins else "",
        "content": content if begins else final,
    }


def local(path: Path, asked: list[str]) -> tuple[list[Compared], int]:
    """What the evaluation's cascade draws, and how many answers of `Pair` and of `agon ask` differ from it."""
    from agon.cli import main as agon
    from agon.deploy.ask import Pair

    differing = 0
    with Pair.load(path, engine="hf", temperature=0, max_tokens=CAP) as pair:
        expected = [evaluated(pair, question) for question in asked]
        for question, wanted in zip(asked, expected, strict=True):
            answer = pair.answer(question)
            differing += parts(answer.draft.text, answer.peek, answer.final.text) != wanted
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        how = ["--engine", "hf", "--temperature", "0", "--max-tokens", str(CAP), "--json"]
        agon(["ask", str(path), asked[0], *how])
    found = json.loads(out.getvalue())
    differing += parts(found["draft"]["text"], found["peek"], found["challenge"]["text"]) != expected[0]
    return expected, differing


def evaluated(pair: Pair, question: str) -> Compared:
    """One bout of the evaluation's cascade, in the pair's own event loop."""
    from agon.deploy.pair_settings import problem_of
    from agon.eval.draw import Evaluator

    async def wrong(problem: object, completion: Completion) -> Verdict:
        return Verdict(False, False, Reason.WRONG)

    settings = pair.settings
    machine = Evaluator(pair._sampler, wrong, settings.sampling, settings.max_peek_tokens, settings.seed)
    bout = pair._bridge.call(machine.bout(problem_of(question, settings), 0, pair.system))
    assert bout.challenge is not None
    return parts(bout.draft.completion.text, bout.peek, bout.challenge.completion.text)


@contextmanager
def gateway(pair: Path, folder: Path, *, real: bool) -> Iterator[tuple[str, str | None]]:
    """The URL of a gateway, and that of the real vLLM behind it."""
    if not real:
        with stubs(folder, 1) as started, serving(pair, [started[0].url], folder) as served:
            yield served.url, None
        return
    from _server import free_port

    port = free_port()
    options = ("--dtype", "float32", "--vllm-port", str(port))
    with serving(pair, [], folder, *options, seconds=900) as served:
        yield served.url, f"http://127.0.0.1:{port}"


def request(question: str) -> dict[str, Any]:
    return {
        "model": "agon",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": CAP,
        "extra_body": {"agon": {"return_draft": True, "max_draft_tokens": CAP}},
    }


def client(url: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


def compared(told: dict[str, Any], reasoning: str, content: str) -> Compared:
    """The challenger's reasoning is what follows the separator."""
    from agon.deploy.serve.answering import SEPARATOR

    own = reasoning.rpartition(SEPARATOR)[2]
    return {"draft": told["draft"], "peek": told["peek"], "reasoning": own, "content": content}


def whole(url: str, question: str) -> Compared:
    answer = client(url).chat.completions.create(**request(question))
    message = answer.choices[0].message
    return compared(answer.model_extra["agon"], message.model_extra["reasoning"], message.content)


def streamed(url: str, question: str) -> Compared:
    reasoning = content = ""
    told: dict[str, Any] = {}
    for chunk in client(url).chat.completions.create(**request(question), stream=True):
        told = (chunk.model_extra or {}).get("agon", told)
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += (choice.delta.model_extra or {}).get("reasoning") or ""
    return compared(told, reasoning, content)


def continuations(url: str) -> tuple[int, int]:
    """How many answers were continued from an id in hand, and how many differently than they were written."""
    tried = flipped = 0
    for answer in recording()["answers"]:
        for place in range(1, len(answer["ids"]), EVERY):
            body = {
                "model": answer["model"],
                "prompt": [*answer["prompt"], *answer["ids"][:place]],
                "max_tokens": CAP - place,
                "temperature": 0,
                "return_token_ids": True,
            }
            tried += 1
            flipped += completion(url, body) != answer["ids"][place:]
    print(f"{tried} answers continued, {flipped} differently", file=sys.stderr)
    return tried, flipped


def completion(url: str, body: dict[str, Any]) -> list[int]:
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=120) as reply:
        ids: list[int] = json.load(reply)["choices"][0]["token_ids"]
        return ids


if __name__ == "__main__":
    main()
