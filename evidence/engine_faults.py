"""What happens when the engine fails in the middle of a step: killed, stopped, or orphaned, for real, on vLLM.

A batch is being drawn when the engine's core is killed, then when it is asked to end (it hands out what it has so far),
then when its worker is frozen; then when the process with the front end is killed, and when it is frozen. Each time
the same completions must come back, from the same versions, within a deadline, and the canary must find both adapters
in the new engine.
Then a whole run is killed, once while it waits and once while its engine starts: the engine must go with it.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from _engine import Bench, ask, bench
from _lib import arguments, verdict
from agon.engine.vllm.canary import Canary
from agon.engine.vllm.orphans import processes_with, tag_of
from agon.types import Completion, Policy, Request, Sampling, Version

PATIENCE = 30.0
DEADLINE = 600.0
"""Seconds for noticing, starting again and drawing again; a start alone takes a minute on two idle cores."""
ORPHANS = 30.0
SEEDS = range(8)
"""Of the rows that are drawn of each policy."""
START = 120.0
"""Seconds until the first process of an engine must show."""


def main() -> None:
    if sys.argv[1:] == ["--victim"]:
        victim()
    args = arguments(__doc__)
    faults: dict[str, Callable[[Any], None]] = {"core killed": kill_core}
    if not args.quick:
        faults |= {"core asked to end": end_core, "worker frozen": freeze_worker}
        faults |= {"host killed": kill_host, "host frozen": freeze_host}
    with bench(patience=PATIENCE) as table:
        versions = {policy: table.publish(policy) for policy in Policy}
        canary = Canary(table.sampler, table, slots=4, dtype="float32")
        table.sampler.fleet.gated = False  # what is drawn again shows whether the adapters are back
        canary.check(versions)
        gap = max(canary.gaps().values())
        whole = draw(table, None)
        results = {name: survive(table, fault, whole, canary, versions) for name, fault in faults.items()}
    left = {} if args.quick else {"waiting": orphans(ready=True), "starting": orphans(ready=False)}
    for name, (same, seconds) in results.items():
        print(f"{name}: {'the same completions' if same else 'OTHER COMPLETIONS'} after {seconds:.0f} s")
    for name, count in left.items():
        print(f"run killed while {name}: {count} of its engine's processes alive after {ORPHANS:.0f} s at most")
    seconds = max(took for _, took in results.values())
    verdict(
        "an engine killed, asked to end or frozen mid-step comes back with the same versions and completions; "
        "none is orphaned",
        {"seconds": round(seconds, 1), "same": all(same for same, _ in results.values()), "orphans": left},
        {"seconds": DEADLINE, "same": True, "orphans": dict.fromkeys(left, 0)},
        holds=seconds <= DEADLINE and all(same for same, _ in results.values()) and not any(left.values()),
        n=len(results) + len(left),
        faults={name: round(took, 1) for name, (_, took) in results.items()},
        completions=len(whole),
        seeds=list(SEEDS),
        gap=gap,
        limit=canary.limit,
    )


def draw(table: Bench, fault: Callable[[Any], None] | None) -> list[Completion]:
    """Rows of both policies; the fault strikes while they are being drawn."""
    requests = [
        Request(ask(f"Problem {i}: count to ten."), policy, i, Sampling(max_tokens=128))
        for i in SEEDS
        for policy in Policy
    ]

    async def together() -> list[Completion]:
        drawing = asyncio.gather(*(table.sampler.sample(request) for request in requests))
        before = await progress(table)
        while fault and await progress(table) < before + 400:  # noqa: ASYNC110 - it counts elsewhere
            await asyncio.sleep(0.01)
        if fault:
            fault(table.sampler.fleet.members[0].engine)
        return list(await drawing)

    return asyncio.run(together())


async def progress(table: Bench) -> int:
    return await asyncio.wrap_future(table.sampler.submit(table.sampler.fleet.members[0].engine.progress()))


def survive(
    table: Bench, fault: Callable[[Any], None], whole: list[Completion], canary: Canary, versions: dict[Policy, Version]
) -> tuple[bool, float]:
    """Whether the completions are the same as without the fault, and how long that took."""
    began = time.perf_counter()
    again = draw(table, fault)
    same = [c.tokens.completion_ids for c in again] == [c.tokens.completion_ids for c in whole]
    took = time.perf_counter() - began
    canary.check(versions)
    right = bool(canary.gaps()) and canary.attested() > 0 and {c.version for c in again} == set(versions.values())
    return same and right, took


def kill_core(engine: Any) -> None:
    named(engine, "EngineCore").kill()


def end_core(engine: Any) -> None:
    named(engine, "EngineCore").terminate()


def freeze_worker(engine: Any) -> None:
    named(engine, "Worker").suspend()


def kill_host(engine: Any) -> None:
    host(engine).kill()


def freeze_host(engine: Any) -> None:
    host(engine).suspend()


def host(engine: Any) -> Any:
    import psutil

    return psutil.Process(engine.actor._process.pid)


def named(engine: Any, word: str) -> Any:
    import psutil

    processes = map(psutil.Process, engine.actor.processes())
    return next(process for process in processes if word in " ".join(process.cmdline()))


# -- a run that is killed ---------------------------------------------------------------------------------------------


def victim() -> None:
    """A process that starts an engine, says when it runs, and waits to be killed."""
    with bench():
        print("runs", flush=True)
        time.sleep(DEADLINE)
    sys.exit(0)


def orphans(ready: bool) -> int:
    """Kill a run, with its engine ready or just begun, and count what is left of the engine."""
    run = subprocess.Popen([sys.executable, __file__, "--victim"], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    if ready:
        run.stdout.readline()
    tag = engine_of(run.pid)
    run.send_signal(signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + ORPHANS
    while processes_with(tag) and time.monotonic() < deadline:
        time.sleep(0.2)
    return len(processes_with(tag))


def engine_of(run: int) -> str:
    """The tag of the engine's processes, as soon as there is one."""
    import psutil

    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        children = psutil.Process(run).children(recursive=True)
        if tags := [tag for child in children if (tag := tag_of(child.pid))]:
            return tags[0]
        time.sleep(0.02)
    raise RuntimeError("the run started no engine")


if __name__ == "__main__":
    main()
