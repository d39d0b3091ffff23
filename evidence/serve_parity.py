"""A served pair answers with the text that its evaluation draws, byte for byte: greedy, float32, one at a time.

The same questions go through the evaluation's cascade (transformers), `Pair.answer`, `agon ask`, and the gateway, asked
by the unchanged `openai` client, streamed and not. Full: `agon serve` starts a real vLLM, once with the pair that comes
with the package and once with two adapters of random weights over SmolLM2-135M. Then the connection to that vLLM is cut
in both stages after every few ids: the gateway continues from the ids in hand, and the text must be the same. The same
vLLM also answers through examples/vllm_plugin, and inspect-ai scores some rows of GSM8K through the gateway;
AGON_INSPECT names a Python that has it.
Quick: the gateway runs over answers that were recorded from that vLLM.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _cut_proxy import CutProxy
from _lib import ROOT, arguments, data_dir, verdict
from _serve import KEY, plugin_environment, recording, serving, smollm2_pair, stubs, write_halves
from _server import free_port
from agon.deploy.pieces import Answer
from agon.types import Completion, Policy, Reason, Verdict, Version

if TYPE_CHECKING:
    from agon.deploy.ask import Pair

EXTRA_SOURCES = ["evidence/_inspect_task.py", "examples/vllm_plugin"]
Compared = dict[str, str | None]
INSPECT = "AGON_INSPECT"
PATIENT = ("--stall", "120")
"""Of a gateway: two cores with other work may take long for a token."""
MISSING = (
    f"not run: set {INSPECT} to a Python with inspect-ai and openai installed, and AGON_DATA to a folder with gsm8k"
)


@dataclass(frozen=True)
class Case:
    """A pair, what it is asked, and how long its stages may be."""

    name: str
    pair: Path
    questions: list[str]
    cap: int
    every: int = 1
    """The connection is cut after every so many ids, in answers to the first `cut` questions."""
    cut: int = 2
    options: tuple[str, ...] = ()


PARTS = ("tiny", "smollm2")


def main() -> None:
    args = arguments(__doc__.splitlines()[0], PARTS)
    os.environ["HF_HUB_OFFLINE"] = "1"
    chosen, rows = args.part or PARTS[: 1 if args.quick else None], gsm8k(4)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="agon-serve-parity-") as scratch:
        folder = Path(scratch)
        asked = recording()["questions"]
        if "tiny" in chosen:
            case = Case("tiny", write_halves(folder), asked[: 3 if args.quick else 12], 400)
            found["tiny"] = compare(case, folder, real=not args.quick)
        if "smollm2" in chosen:
            pair, told = smollm2_pair(folder / "smollm2"), [row["question"] for row in rows] or asked[:4]
            case = Case("smollm2", pair, told, 32, every=5, options=("--max-model-len", "1024"))
            found["smollm2"] = compare(case, folder, real=True, rows=rows)
    for name, numbers in found.items():
        print(f"{name}: {numbers}")
    wrong = [number for numbers in found.values() for key, number in numbers.items() if "differ" in key]
    scored = "smollm2" not in found or found["smollm2"]["scored by inspect-ai"] == len(rows) > 0
    holds = not any(wrong) and scored
    verdict("a served pair writes what its evaluation draws", found, GOAL, holds)


GOAL = "0 differ, whether whole, streamed or continued; every row is scored"


def compare(case: Case, folder: Path, *, real: bool, rows: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """How many answers differ, by the way in which they were asked for."""
    expected, differing = local(case)
    found: dict[str, Any] = {"questions": len(case.questions), "Pair.answer and agon ask differ": differing}
    with gateway(case, folder, real=real) as (url, backend):
        for kind, ask in {"whole": whole, "streamed": streamed}.items():
            answers = [ask(url, question, case.cap)[0] for question in case.questions]
            found[f"{kind} differ"] = sum(row != wanted for row, wanted in zip(answers, expected, strict=True))
            print(f"{case.name}: {found}", file=sys.stderr, flush=True)
        if backend:
            answers = [inside(backend, question, case.cap) for question in case.questions]
            found["plugin differ"] = sum(row != wanted for row, wanted in zip(answers, expected, strict=True))
            found |= continued(case, folder, backend, expected)
            print(f"{case.name}: {found}", file=sys.stderr, flush=True)
        if rows is not None:
            found |= scores(url, rows, case.cap, expected, folder)
    return found


def parts(draft: str, peek: str | None, final: str) -> Compared:
    """What is compared: the draft, the peek, and all of the final text as a client sees it: what is outside the answer
    block as reasoning, and the answer as `Pair.answer` gives it."""
    begins = final.lstrip().startswith("<think>")
    trace, mark, rest = final.lstrip().removeprefix("<think>").partition("</think>") if begins else ("", "", final)
    recap = re.sub("<answer>.*?</answer>", "", rest, flags=re.DOTALL)
    content = Answer(Completion(final, Version("base"), 0, 0)).text or ""
    return {"draft": draft, "peek": peek, "reasoning": trace + ("\n" if mark else "") + recap, "content": content}


def local(case: Case) -> tuple[list[Compared], int]:
    """What the evaluation's cascade draws, and how many answers of `Pair` and of `agon ask` differ from it."""
    from agon.cli import main as agon
    from agon.deploy.ask import Pair

    differing, asked = 0, case.questions
    with Pair.load(case.pair, engine="hf", temperature=0, max_tokens=case.cap) as pair:
        expected = [evaluated(pair, question) for question in asked]
        for question, wanted in zip(asked, expected, strict=True):
            answer = pair.answer(question)
            differing += parts(answer.draft.text, answer.peek, answer.final.text) != wanted
            differing += (answer.text or "") != wanted["content"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        how = ["--engine", "hf", "--temperature", "0", "--max-tokens", str(case.cap), "--json"]
        agon(["ask", str(case.pair), asked[0], *how])
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
def gateway(case: Case, folder: Path, *, real: bool) -> Iterator[tuple[str, str | None]]:
    """The URL of a gateway, and that of the real vLLM behind it, if it is one."""
    if not real:
        with stubs(folder, 1) as started, serving(case.pair, [started[0].url], folder) as served:
            yield served.url, None
        return
    port = free_port()
    options = ("--dtype", "float32", "--vllm-port", str(port), *PATIENT, *case.options)
    variables = plugin_environment(folder, case.pair)
    with serving(case.pair, [], folder, *options, seconds=900, environment=variables) as served:
        yield served.url, f"http://127.0.0.1:{port}"


def request(question: str, cap: int) -> dict[str, Any]:
    return {
        "model": "agon",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": cap,
        "extra_body": {"agon": {"return_draft": True, "max_draft_tokens": cap}},
    }


def client(url: str) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


def compared(told: dict[str, Any], reasoning: str, content: str) -> tuple[Compared, int]:
    """An answer as it is compared, and how often another server continued a stage."""
    own = own_reasoning(reasoning)
    return {"draft": told["draft"], "peek": told["peek"], "reasoning": own, "content": content}, told["resumed"]


def own_reasoning(reasoning: str) -> str:
    """The challenger's part of it."""
    from agon.deploy.serve.answering import SEPARATOR

    return reasoning.rpartition(SEPARATOR)[2]


def whole(url: str, question: str, cap: int) -> tuple[Compared, int]:
    answer = client(url).chat.completions.create(**request(question, cap))
    message = answer.choices[0].message
    return compared(answer.model_extra["agon"], message.model_extra["reasoning"], message.content)


def streamed(url: str, question: str, cap: int) -> tuple[Compared, int]:
    reasoning = content = ""
    told: dict[str, Any] = {}
    for chunk in client(url).chat.completions.create(**request(question, cap), stream=True):
        told = (chunk.model_extra or {}).get("agon", told)
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += (choice.delta.model_extra or {}).get("reasoning") or ""
    return compared(told, reasoning, content)


def inside(backend: str, question: str, cap: int) -> Compared:
    """An answer of the plugin inside vLLM's own server."""
    body = json.dumps({"question": question, "temperature": 0, "max_tokens": cap}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    asked = urllib.request.Request(f"{backend}/v1/agon/answers", body, headers)
    with urllib.request.urlopen(asked, timeout=600) as reply:
        found = json.load(reply)
    return parts(found["draft"], found["peek"], found["answer"])


def continued(case: Case, folder: Path, backend: str, expected: list[Compared]) -> dict[str, int]:
    """Connections cut after every few ids of a stage, and how many answers are then another text."""
    numbers = Counter[str]()
    proxy = CutProxy(int(backend.rpartition(":")[2]))
    with proxy.running(), serving(case.pair, [proxy.url, backend], folder, *PATIENT) as up:
        for question, wanted in list(zip(case.questions, expected, strict=True))[: case.cut]:
            for policy in Policy:
                for after in range(1, case.cap + 1, case.every):
                    proxy.arm(f"{policy.value}@", after)
                    row, resumed = (streamed if after % 2 else whole)(up.url, question, case.cap)
                    if not proxy.cut:
                        break  # the stage ends before this id
                    numbers.update({"cut": 1, "continued": resumed, "continued and differ": row != wanted})
    return {name: numbers[name] for name in ("cut", "continued", "continued and differ")}


def gsm8k(count: int) -> list[dict[str, str]]:
    """Rows of GSM8K's test split; none where the data are missing."""
    folder = data_dir()
    if folder is None:
        return []
    with (folder / "gsm8k" / "test.jsonl").open() as lines:
        return [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]


def scores(url: str, rows: list[dict[str, str]], cap: int, expected: list[Compared], folder: Path) -> dict[str, Any]:
    """How many rows inspect-ai scored, and how many of the texts that it scored are not the evaluation's."""
    python = os.environ.get(INSPECT)
    if not python or not rows:
        print(f"inspect-ai: {MISSING}", file=sys.stderr)
        return {"scored by inspect-ai": MISSING}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [python, str(ROOT / "evidence" / "_inspect_task.py"), str(folder / "rows.jsonl"), str(cap)]
    named = {"AGON_BASE_URL": f"{url}/v1", "AGON_API_KEY": KEY, "INSPECT_LOG_DIR": str(folder / "logs")}
    done = subprocess.run(command, env=os.environ | named, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"inspect-ai failed: {(done.stdout + done.stderr)[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    names = ("reasoning", "content")
    seen = [{**row, "reasoning": own_reasoning(row["reasoning"])} for row in found]
    differing = sum(
        any(row[name] != wanted[name] for name in names) for row, wanted in zip(seen, expected, strict=True)
    )
    return {"scored by inspect-ai": sum(row["score"] in "CI" for row in found), "scored texts differ": differing}


if __name__ == "__main__":
    main()
