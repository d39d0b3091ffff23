"""What the gateway adds to two hand-made calls of vLLM: latency, CPU per request, throughput, streams at once.

Over stub servers: added p50 and p99 at 1, 16 and 64 at once, interleaved; CPU seconds of the gateway per request;
answers per second of one gateway and of two; 1,000 streams at once; CPU per token of long answers. Full adds a real
vLLM at the size of SmolLM2-135M: tokens per second through the gateway and through examples/vllm_plugin, over those of
the hand-made calls. `--part` runs one of the two. Times are worth something only if nothing else runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from _lib import arguments, percentile, ratio_interval, verdict
from _serve import KEY, Process, plugin_environment, recording, serving, smollm2_pair, stubs, write_halves
from agon.deploy.pair_settings import problem_of
from agon.deploy.serve.served_pair import ServedPair
from agon.game.cascade import Turn, follow, turns
from agon.types import Completion, Policy

EXTRA_SOURCES = ["examples/vllm_plugin"]
AIM = 0.97
"""Throughput through the gateway over that of hand-made calls, at SmolLM2's size."""
GOAL = f"no answer failed, all streams whole, ratio at least {AIM}"
PARTS = ("stubs", "size")
QUESTIONS: list[str] = recording()["questions"]
CAP, LONG_CAP = 400, 15_000

One = Callable[[int], Awaitable[int]]
"""One answer to the question of this number; its tokens."""


def main() -> None:
    args = arguments(__doc__.splitlines()[0], PARTS)
    chosen = args.part or PARTS[: 1 if args.quick else 2]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agon-overhead-") as scratch:
        if "stubs" in chosen:
            found |= over_stubs(Path(scratch), quick=args.quick)
        if "size" in chosen:
            found["smollm2"] = at_size(Path(scratch))
    for name, numbers in found.items():
        print(f"{name}: {numbers}")
    verdict("the gateway costs little over two hand-made calls", found, GOAL, holds(found))


def over_stubs(folder: Path, *, quick: bool) -> dict[str, Any]:
    """Latency, CPU, throughput, streams and long answers over stub servers."""
    rounds, total, streams = (2, 60, 100) if quick else (20, 2000, 1000)
    found: dict[str, Any] = {}
    pair = write_halves(folder)
    served = ServedPair.load(pair, weights=False)
    with stubs(folder, 2) as started, serving(pair, [started[0].url, started[1].url], folder) as up:
        direct = Direct(served, started[0].url, CAP)
        for at_once in (1, 16) if quick else (1, 16, 64):
            found[f"{at_once} at once"] = asyncio.run(added(up, direct, at_once, rounds))
        found["one gateway"] = asyncio.run(throughput([up], total))
        with serving(pair, [started[0].url, started[1].url], folder) as second:
            found["two gateways"] = asyncio.run(throughput([up, second], total))
    with stubs(folder, 2, delay=0.05) as slow:
        found["streams"] = asyncio.run(many_streams(pair, [each.url for each in slow], folder, streams))
    longer = lengthened(folder, 500 if quick else 8000)
    with stubs(folder, 2, answers=longer) as long, serving(pair, [each.url for each in long], folder) as up:
        found["long answers"] = asyncio.run(long_answers(up))
    return found


def holds(found: dict[str, Any]) -> bool:
    """No answer failed, all streams were whole, and the throughput is that of hand-made calls."""
    streams, size = found.get("streams"), found.get("smollm2")
    failed = [found[name]["failed"] for name in ("one gateway", "two gateways") if name in found]
    whole = streams is None or streams["whole"] == streams["at once"]
    return whole and not any(failed) and (size is None or size["ratio"] >= AIM)


class Direct:
    """The cascade by hand: two calls of /v1/completions with token ids, not streamed."""

    def __init__(self, pair: ServedPair, url: str, cap: int) -> None:
        self._pair, self._url, self._cap = pair, url, cap

    async def __aenter__(self) -> None:
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=3)
        headers = {"Authorization": f"Bearer {KEY}"}
        self._http = httpx2.AsyncClient(headers=headers, timeout=600, limits=limits, trust_env=False)

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def answer(self, number: int) -> int:
        problem = problem_of(QUESTIONS[number % len(QUESTIONS)], self._pair.settings)
        tokens = 0

        async def draw(turn: Turn) -> Completion:
            nonlocal tokens
            completion = await self._draw(turn)
            tokens += completion.generated_tokens
            return completion

        await follow(turns((Policy.A, Policy.B), problem, 0, self._pair.clip), draw)
        return tokens

    async def _draw(self, turn: Turn) -> Completion:
        policy = turn.seat.policy or Policy.A
        renderer = self._pair.renderer
        rendered, version = renderer.render(turn.prompt), self._pair.folder.info.versions[policy]
        body = {"model": version, "prompt": rendered.ids, "max_tokens": self._cap, "temperature": 0}
        body |= {"return_token_ids": True, "stop_token_ids": sorted(renderer.stop)}
        reply = await self._http.post(f"{self._url}/v1/completions", json=body)
        ids = reply.json()["choices"][0]["token_ids"]
        return Completion(renderer.text(ids), version, len(rendered.ids), len(ids), "stop", rendered.opened)


def through(up: Process, http: httpx2.AsyncClient, cap: int = CAP) -> One:
    """One answer of the gateway, not streamed."""

    async def answer(number: int) -> int:
        reply = await http.post(f"{up.url}/v1/chat/completions", json=body(number, cap))
        reply.raise_for_status()
        return int(reply.json()["usage"]["completion_tokens"])

    return answer


def body(number: int, cap: int = CAP, **more: Any) -> dict[str, Any]:
    content = QUESTIONS[number % len(QUESTIONS)]
    caps = {"max_tokens": cap, "agon": {"max_draft_tokens": cap}}
    return {"model": "agon", "messages": [{"role": "user", "content": content}], "temperature": 0, **caps, **more}


def client() -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=600, limits=limits, trust_env=False)


async def timed(one: One, at_once: int) -> tuple[list[float], float, int]:
    """Latencies of so many answers at once, the seconds that all took, and their tokens."""

    async def single(number: int) -> tuple[float, int]:
        began = time.perf_counter()
        tokens = await one(number)
        return time.perf_counter() - began, tokens

    began = time.perf_counter()
    done = await asyncio.gather(*(single(number) for number in range(at_once)))
    return [seconds for seconds, _ in done], time.perf_counter() - began, sum(tokens for _, tokens in done)


Rounds = list[tuple[list[float], list[float]]]
"""Latencies of each round: by hand, through the gateway."""


async def added(up: Process, direct: Direct, at_once: int, rounds: int) -> dict[str, Any]:
    """Milliseconds at the median and at the 99th percentile beyond two hand-made calls, and CPU per request."""
    measured: Rounds = []
    cpu = 0.0
    async with client() as http, direct:
        await timed(through(up, http), at_once)
        await timed(direct.answer, at_once)
        for _ in range(rounds):
            by_hand = (await timed(direct.answer, at_once))[0]
            before = cpu_seconds(up)
            gateway = (await timed(through(up, http), at_once))[0]
            cpu += cpu_seconds(up) - before
            measured.append((by_hand, gateway))
    return {
        "added p50 ms": difference(measured, 50),
        "added p99 ms": difference(measured, 99),
        "cpu ms per request": round(1000 * cpu / (rounds * at_once), 2),
    }


def difference(measured: Rounds, q: float, draws: int = 500) -> list[float]:
    """[milliseconds, low, high] between the q-th percentiles, with an interval by the bootstrap over rounds."""

    def between(rounds: Rounds) -> float:
        by_hand, gateway = ([each for one in side for each in one] for side in zip(*rounds, strict=True))
        return 1000 * (percentile(gateway, q) - percentile(by_hand, q))

    rng = random.Random(0)
    drawn = [between(rng.choices(measured, k=len(measured))) for _ in range(draws)]
    return [round(each, 2) for each in (between(measured), percentile(drawn, 2.5), percentile(drawn, 97.5))]


async def throughput(gateways: list[Process], total: int) -> dict[str, float]:
    """Answers per second with 64 at once, spread over the gateways."""
    failed, waiting = 0, list(range(total))
    async with client() as http:
        answers = [through(up, http) for up in gateways]

        async def worker(number: int) -> None:
            nonlocal failed
            while waiting:
                try:
                    await answers[number % len(answers)](waiting.pop())
                except httpx2.HTTPError:
                    failed += 1

        began = time.perf_counter()
        await asyncio.gather(*(worker(number) for number in range(64)))
        seconds = time.perf_counter() - began
    return {"answers per second": round(total / seconds, 1), "failed": failed}


async def many_streams(pair: Path, urls: list[str], folder: Path, count: int) -> dict[str, float]:
    """So many streams at once, and how many of them came whole."""
    limits = ("--slots", str(count), "--queue", str(count))
    with ExitStack() as stack:
        up = stack.enter_context(serving(pair, urls, folder, *limits))
        async with client() as http:

            async def stream(number: int) -> bool:
                async with http.stream(
                    "POST", f"{up.url}/v1/chat/completions", json=body(number, stream=True)
                ) as reply:
                    last = [line async for line in reply.aiter_lines() if line][-1]
                return last == "data: [DONE]"

            before = cpu_seconds(up)
            whole = sum(await asyncio.gather(*(stream(number) for number in range(count))))
        return {
            "at once": count,
            "whole": whole,
            "cpu ms per stream": round(1000 * (cpu_seconds(up) - before) / count, 2),
        }


def lengthened(folder: Path, tokens: int) -> Path:
    """The recorded answers with so many tokens more in each stage."""
    longer = recording()
    for model in longer["models"]["data"]:
        model["max_model_len"] = 40_000
    for answer in longer["answers"]:
        first, again, *rest = answer["ids"]
        answer["ids"] = [first, *[again] * (tokens + 1), *rest]
    path = folder / "longer.json"
    path.write_text(json.dumps(longer))
    return path


async def long_answers(up: Process) -> dict[str, float]:
    """CPU of the gateway per token of four long answers at once, whole and streamed."""
    found: dict[str, float] = {}
    async with client() as http:

        async def whole(number: int) -> int:
            return await through(up, http, LONG_CAP)(number)

        async def streamed(number: int) -> int:
            asked = body(number, LONG_CAP, stream=True, stream_options={"include_usage": True})
            async with http.stream("POST", f"{up.url}/v1/chat/completions", json=asked) as reply:
                lines = [line async for line in reply.aiter_lines() if line]
            return int(json.loads(lines[-2].removeprefix("data: "))["usage"]["completion_tokens"])

        for name, one in (("whole", whole), ("streamed", streamed)):
            before = cpu_seconds(up)
            _, _, tokens = await timed(one, 4)
            found[f"{name}, cpu microseconds per token"] = round(1e6 * (cpu_seconds(up) - before) / tokens, 1)
            found["tokens of an answer"] = tokens / 4
    return found


def cpu_seconds(up: Process) -> float:
    assert up.child is not None
    fields = Path(f"/proc/{up.child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def at_size(folder: Path) -> dict[str, Any]:
    """Tokens per second at the size of SmolLM2: through the gateway, through the plugin and by hand, interleaved."""
    from _server import free_port

    pair = smollm2_pair(folder / "smollm2")
    served = ServedPair.load(pair, weights=True)
    port, at_once, cap = free_port(), 16, 64
    options, variables = ("--max-model-len", "1024", "--vllm-port", str(port)), plugin_environment(folder, pair)
    with serving(pair, [], folder, *options, seconds=1200, environment=variables) as up:
        url = f"http://127.0.0.1:{port}"
        rates = asyncio.run(compare(up, Direct(served, url, cap), url, at_once, cap))
    found: dict[str, Any] = {"at once": at_once, "tokens per second by hand": round(sum(rates[0]) / len(rates[0]), 1)}
    for name, own in (("ratio", rates[1]), ("ratio of the plugin", rates[2])):
        found[name], *interval = (round(each, 3) for each in ratio_interval(own, rates[0]))
        found[f"{name}, interval"] = interval
    return found


async def compare(up: Process, direct: Direct, url: str, at_once: int, cap: int) -> list[list[float]]:
    """Tokens per second of six rounds by hand, through the gateway, and through the plugin, after one to warm up."""
    rates: list[list[float]] = [[], [], []]
    async with client() as http, direct:
        ways = (direct.answer, through(up, http, cap), inside(url, http, cap))
        for _ in range(7):
            for rate, way in zip(rates, ways, strict=True):
                _, seconds, tokens = await timed(way, at_once)
                rate.append(tokens / seconds)
    return [rate[1:] for rate in rates]


def inside(url: str, http: httpx2.AsyncClient, cap: int) -> One:
    """One answer of the plugin inside vLLM's own server."""

    async def answer(number: int) -> int:
        asked = {"question": QUESTIONS[number % len(QUESTIONS)], "temperature": 0, "max_tokens": cap}
        reply = await http.post(f"{url}/v1/agon/answers", json=asked)
        reply.raise_for_status()
        return int(reply.json()["completion_tokens"])

    return answer


if __name__ == "__main__":
    main()
