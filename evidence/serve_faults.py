"""A gateway over servers that are killed, hang, lie, are overloaded or shut down, and clients that leave.

Two stub servers (answers recorded from a real vLLM) behind `agon serve`. One at a time is killed every 2 s and comes
back after 1 s: no accepted request that is not streamed may be lost, and a stream that is lost must say so. Then each
fault in turn, disconnects, an overload, and SIGTERM with work in flight. Full: also two real vLLM servers, one of which
is killed ten times, in turn, at least 60 s apart. How fast an overloaded gateway is counts only if nothing else runs.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from _lib import arguments, percentile, verdict
from _serve import KEY, Process, control, recording, serving, stubs, vllm, write_halves

DELAY = 0.004
"""Seconds per event of a stub."""
SLOW = 0.02
"""The same where requests are more than can be answered, so that the servers are what limits."""
DEADLINE = 60
SHORT = 10
"""Seconds for an answer, the second where both servers fail."""
LIMITS = ("--stall", "2", "--deadline", str(DEADLINE))
HEADERS = {"Authorization": f"Bearer {KEY}"}
QUESTIONS: list[str] = recording()["questions"]
FAULTS = ("silent", "slow", "garbage", "half-close", "cut", "error-done", "abort", "status-500", "no-adapter")


PARTS = ("stubs", "real")


def main() -> None:
    args = arguments(__doc__.splitlines()[0], PARTS)
    chosen = args.part or PARTS[: 1 if args.quick else 2]
    found: dict[str, Any] = {}
    size = 16 if args.quick else 64
    with tempfile.TemporaryDirectory(prefix="agon-faults-") as scratch:
        folder = Path(scratch)
        pair = write_halves(folder)
        if "stubs" in chosen:
            found |= over_stubs(pair, folder, size, quick=args.quick)
        if "real" in chosen:
            found["kills of real servers"] = real_kills(pair, folder)
    for name, numbers in found.items():
        print(f"{name}: {numbers}")
    verdict(
        "no accepted request is lost to a failing server",
        found,
        GOAL,
        holds(found, timed=not args.quick),
    )


def over_stubs(pair: Path, folder: Path, size: int, *, quick: bool) -> dict[str, Any]:
    """Every fault, over two stubs."""
    count, found = 60 if quick else 1000, dict[str, Any]()
    with (
        stubs(folder, 2, DELAY) as started,
        serving(pair, [each.url for each in started], folder, *LIMITS, *slots(size)) as up,
    ):
        expected = asyncio.run(texts(up.url))
        asked = count if quick else 2 * count  # half of them are streamed
        found["kills"] = asyncio.run(kills(up.url, started, expected, asked, Chaos(1, 1)))
        found["faults"] = each_fault(pair, folder, up, started, expected, quick=quick)
        found["disconnects"] = asyncio.run(disconnects(up.url, started, count))
        found["overload"] = overloaded(pair, folder, started, quick=quick)
        found["drain"] = asyncio.run(drain(up, 40))
        found["tracebacks in the log"] = up.log.read_text().count("Traceback")
    return found


GOAL = (
    "kills: 0 lost, streams lost only with an error; faults: right or an error in time; no generation for clients that "
    "left; overload: p99 of accepted at most 2x, refused below 50 ms; SIGTERM: 0 lost"
)


def holds(found: dict[str, Any], *, timed: bool) -> bool:
    """Whether all parts do; `timed`: also how fast an overloaded gateway is, for which nothing else may run."""
    kills = [numbers for name, numbers in found.items() if name.startswith("kills")]
    if any(each[name] for each in kills for name in ("lost", "wrong", "streams lost in silence")):
        return False
    if "faults" not in found:
        return True
    faults, drain, overload = found["faults"], found["drain"], found["overload"]
    fast = overload["accepted p99 ratio"] <= 2 and (overload["refused p99 ms"] or 0) < 50
    return (
        (fast or not timed)
        and all(outcome in ("right", "error") for outcome in faults.values())
        and found["disconnects"]["running after 1 s"] == 0
        and overload["other"] == 0
        and overload["memory growth MiB"] <= 64
        and drain["lost"] == 0
        and drain["exit code"] == 0
        and not found["tracebacks in the log"]
    )


def slots(size: int) -> tuple[str, ...]:
    """As many stages at once on each of two servers, and as many answers that wait."""
    return ("--slots", str(size), "--queue", str(size))


def body(number: int, **more: Any) -> dict[str, Any]:
    content = QUESTIONS[number % len(QUESTIONS)]
    caps = {"max_tokens": 400, "agon": {"max_draft_tokens": 400}}
    return {"model": "agon", "messages": [{"role": "user", "content": content}], "temperature": 0, **caps, **more}


def client(url: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.AsyncClient(base_url=url, headers=HEADERS, timeout=330, limits=limits, trust_env=False)


async def texts(url: str) -> list[str]:
    """What each question is answered with while all is well."""
    async with client(url) as http:
        replies = [await http.post("/v1/chat/completions", json=body(number)) for number in range(len(QUESTIONS))]
    return [written(reply.json()["choices"][0]["message"]) for reply in replies]


def written(message: dict[str, Any]) -> str:
    """All that a client sees of an answer, or of a part of one."""
    return (message.get("reasoning") or "") + (message.get("content") or "")


@dataclass(frozen=True)
class Chaos:
    """How servers are killed, one after the other: seconds that one stays away, and until the next."""

    down: float
    gap: float
    at_least: int = 1
    at_once: int = 24
    """Requests in flight."""


async def kills(url: str, servers: list[Process], expected: list[str], count: int, chaos: Chaos) -> dict[str, int]:
    """Half of the requests streamed, half not, while one server at a time is killed and comes back."""
    numbers = Counter[str]()
    over = asyncio.Event()
    killing = asyncio.create_task(_kill(servers, over, numbers, chaos))
    async with client(url) as http:

        async def worker() -> None:
            while not killing.done() and (numbers["requests"] < count or numbers["kills"] < chaos.at_least):
                number = numbers["requests"]
                numbers["requests"] += 1
                numbers[await (streamed if number % 2 else whole)(http, number, expected)] += 1

        await asyncio.gather(*(worker() for _ in range(chaos.at_once)))
    over.set()
    await killing
    names = ("requests", "right", "wrong", "lost", "streams lost with an error", "streams lost in silence", "kills")
    return {name: numbers[name] for name in names}


async def _kill(servers: list[Process], over: asyncio.Event, numbers: Counter[str], chaos: Chaos) -> None:
    for server in itertools.cycle(servers):
        await asyncio.to_thread(server.kill)
        numbers["kills"] += 1
        await asyncio.sleep(chaos.down)
        await asyncio.to_thread(server.start, "/health", 600)
        await asyncio.sleep(chaos.gap)
        if over.is_set():
            return


def real_kills(path: Path, folder: Path, times: int = 10) -> dict[str, int]:
    """Two real vLLM servers in float32, of which one at a time is killed."""
    from agon.deploy.serve.served_pair import ServedPair

    pair = ServedPair.load(path, weights=True)
    servers = [vllm(pair, folder) for _ in range(2)]
    try:
        for server in servers:
            server.start("/health", 900)
        with serving(path, [server.url for server in servers], folder, "--deadline", "300", "--stall", "120") as up:
            expected = asyncio.run(texts(up.url))
            return asyncio.run(kills(up.url, servers, expected, 0, Chaos(0, 60, at_least=times, at_once=8)))
    finally:
        for server in servers:
            server.kill()


async def whole(http: httpx2.AsyncClient, number: int, expected: list[str]) -> str:
    try:
        reply = await http.post("/v1/chat/completions", json=body(number))
    except httpx2.HTTPError:
        return "lost"
    if reply.status_code != 200:
        return "lost"
    text = written(reply.json()["choices"][0]["message"])
    return "right" if text == expected[number % len(expected)] else "wrong"


async def streamed(http: httpx2.AsyncClient, number: int, expected: list[str]) -> str:
    try:
        reply = await http.post("/v1/chat/completions", json=body(number, stream=True))
    except httpx2.HTTPError:
        return "streams lost in silence"
    events = [line[6:] for line in reply.text.splitlines() if line.startswith("data: ")]
    if reply.status_code != 200 or (events and "error" in json.loads(events[-1] if events[-1] != "[DONE]" else "{}")):
        return "streams lost with an error"
    if not events or events[-1] != "[DONE]":
        return "streams lost in silence"
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    text = "".join(written(choice["delta"]) for choice in choices)
    return "right" if text == expected[number % len(expected)] else "wrong"


def each_fault(
    pair: Path, folder: Path, up: Process, servers: list[Process], expected: list[str], *, quick: bool
) -> dict[str, str]:
    """Each fault on one server, then on both. Quick: without those that take a whole deadline."""
    if quick:
        return asyncio.run(faults(up.url, servers, expected, DEADLINE, slow=False))
    urls = [server.url for server in servers]
    with serving(pair, urls, folder, "--stall", "2", "--deadline", str(SHORT)) as short:
        return asyncio.run(faults(short.url, servers, expected, SHORT, slow=True))


async def faults(url: str, servers: list[Process], expected: list[str], deadline: float, slow: bool) -> dict[str, str]:
    """Right, or an error, within the deadline and one second."""
    outcomes = {}
    async with client(url) as http:
        for name in FAULTS:
            for broken in (1, 2):
                if name in ("silent", "half-close") and broken == 2 and not slow:
                    continue
                for server in servers[:broken]:
                    control(server.url, mode=name, times=-1)
                began = time.monotonic()
                reply = await http.post("/v1/chat/completions", json=body(0))
                late = time.monotonic() - began > deadline + 1
                right = reply.status_code == 200 and written(reply.json()["choices"][0]["message"]) == expected[0]
                explained = reply.status_code >= 500 and "error" in reply.json()
                outcomes[f"{name}, {broken}"] = (
                    "late" if late else "right" if right else "error" if explained else "wrong"
                )
                for server in servers:
                    control(server.url, mode="normal")
                await ready(http)
    return outcomes


async def ready(http: httpx2.AsyncClient) -> None:
    """Wait until both servers are used again."""
    for _ in range(200):
        metrics = (await http.get("/metrics")).text
        if metrics.count("agon_replica_up{") == metrics.count("} 1.0\n", metrics.index("agon_replica_up{")):
            return
        await asyncio.sleep(0.05)


async def disconnects(url: str, servers: list[Process], count: int) -> dict[str, int]:
    """Clients that leave at any moment of an answer; what the servers still generate a second later."""

    async def leave(http: httpx2.AsyncClient, number: int) -> None:
        try:
            async with asyncio.timeout(0.02 + 0.01 * (number % 50)):
                await http.post("/v1/chat/completions", json=body(number, stream=bool(number % 2)))
        except (TimeoutError, httpx2.HTTPError):
            return

    async with client(url) as http:
        for start in range(0, count, 50):
            await asyncio.gather(*(leave(http, number) for number in range(start, min(start + 50, count))))
    await asyncio.sleep(1)
    return {"clients": count, "running after 1 s": sum(control(server.url)["running"] for server in servers)}


def overloaded(pair: Path, folder: Path, servers: list[Process], *, quick: bool) -> dict[str, Any]:
    """A gateway with few slots, and more requests than it can answer."""
    for server in servers:
        control(server.url, delay=SLOW)
    with serving(pair, [server.url for server in servers], folder, "--slots", "4", "--queue", "8") as up:
        return asyncio.run(overload(up, 16, *((3, 2.0) if quick else (10, 20.0))))


async def overload(up: Process, fits: int, times: int, seconds: float) -> dict[str, Any]:
    """As many clients as fit, each of which asks again once it is answered; then several times as many requests as were
    answered, evenly spread, whether answered or not: latency of what is accepted, time and status of the rest."""

    async def timed(number: int) -> tuple[int, float]:
        began = time.monotonic()
        reply = await http.post("/v1/chat/completions", json=body(number))
        return reply.status_code, time.monotonic() - began

    async def again(number: int) -> list[tuple[int, float]]:
        return [await timed(number) for _ in iter(lambda: time.monotonic() < end, False)]

    async with client(up.url) as http:
        before, end = memory(up), time.monotonic() + seconds
        alone = [each for row in await asyncio.gather(*map(again, range(fits))) for each in row]
        gap, sent = seconds / len(alone) / times, list[asyncio.Task[tuple[int, float]]]()
        began = time.monotonic()
        while len(sent) < times * len(alone):
            await asyncio.sleep(began + len(sent) * gap - time.monotonic())
            sent.append(asyncio.create_task(timed(len(sent))))
        over = await asyncio.gather(*sent)
    accepted, refused = [s for code, s in over if code == 200], [s for code, s in over if code == 429]
    usual = percentile([took for _, took in alone], 99)
    return {
        "answered per second": round(len(alone) / seconds, 1),
        "sent": len(over),
        "accepted": len(accepted),
        "refused": len(refused),
        "other": len(over) - len(accepted) - len(refused) + sum(code != 200 for code, _ in alone),
        "accepted p99 ratio": round(percentile(accepted, 99) / usual, 2),
        "refused p99 ms": round(1000 * percentile(refused, 99), 1) if refused else None,
        "memory growth MiB": round((memory(up) - before) / 2**20),
    }


def memory(up: Process) -> int:
    assert up.child is not None
    pages = int(Path(f"/proc/{up.child.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def drain(up: Process, count: int) -> dict[str, Any]:
    """SIGTERM while requests run: those that run are answered, /ready says no, and the process ends by itself."""
    async with client(up.url) as http:
        running = [asyncio.create_task(http.post("/v1/chat/completions", json=body(n))) for n in range(count)]
        await asyncio.sleep(0.2)
        assert up.child is not None
        up.child.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        ready = (await http.get("/ready")).status_code
        replies = await asyncio.gather(*running, return_exceptions=True)
    code = await asyncio.to_thread(up.child.wait, 30)
    lost = sum(isinstance(reply, BaseException) or reply.status_code != 200 for reply in replies)
    return {"running": count, "lost": lost, "ready": ready, "exit code": code}


if __name__ == "__main__":
    main()
