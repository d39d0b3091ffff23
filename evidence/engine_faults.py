"""What happens when the engine fails in the middle of a step: killed, stopped, or orphaned, for real, on vLLM.

A batch is being drawn when the engine's core is killed, then when its worker is frozen. Each time the same completions
must come back, from the same versions, within a deadline. Then a whole run is killed: its engine must go with it.
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
from agon.types import Completion, Policy, Request, Sampling

PATIENCE = 30.0
DEADLINE = 600.0
"""Seconds for noticing, starting again and drawing again; a start alone takes a minute on two idle cores."""
ORPHANS = 30.0


def main() -> None:
    if sys.argv[1:] == ["--victim"]:
        victim()
    args = arguments(__doc__)
    faults: dict[str, Callable[[Any], None]] = {"core killed": kill_core}
    if not args.quick:
        faults["worker frozen"] = freeze_worker
    with bench(patience=PATIENCE) as table:
        versions = [table.publish(policy) for policy in Policy]
        whole = draw(table, None)
        results = {name: survive(table, fault, whole, versions) for name, fault in faults.items()}
    left = None if args.quick else orphans()
    for name, (same, seconds) in results.items():
        print(f"{name}: {'the same completions' if same else 'OTHER COMPLETIONS'} after {seconds:.0f} s")
    if left is not None:
        print(f"run killed: {left} of its engine's processes alive after {ORPHANS:.0f} s at most")
    seconds = max(took for _, took in results.values())
    verdict(
        "an engine killed or frozen mid-step comes back with the same versions and completions; none is orphaned",
        {"seconds": round(seconds, 1), "same": all(same for same, _ in results.values()), "orphans": left},
        {"seconds": DEADLINE, "same": True, "orphans": 0},
        seconds <= DEADLINE and all(same for same, _ in results.values()) and not left,
        faults=list(results),
    )


def draw(table: Bench, fault: Callable[[Any], None] | None) -> list[Completion]:
    """Rows of both policies; the fault strikes while they are being drawn."""
    requests = [
        Request(ask(f"Problem {i}: count to ten."), policy, i, Sampling(max_tokens=128))
        for i in range(8)
        for policy in Policy
    ]

    async def together() -> list[Completion]:
        drawing = asyncio.gather(*(table.sampler.sample(request) for request in requests))
        before = await table.sampler.engine.progress()
        while fault and await table.sampler.engine.progress() < before + 400:  # noqa: ASYNC110 - it counts elsewhere
            await asyncio.sleep(0.01)
        if fault:
            fault(table.sampler.engine)
        return list(await drawing)

    return asyncio.run(together())


def survive(
    table: Bench, fault: Callable[[Any], None], whole: list[Completion], versions: list[str]
) -> tuple[bool, float]:
    """Whether the completions are the same as without the fault, and how long that took."""
    began = time.perf_counter()
    again = draw(table, fault)
    same = [c.tokens.completion_ids for c in again] == [c.tokens.completion_ids for c in whole]
    return same and {c.version for c in again} == set(versions), time.perf_counter() - began


def kill_core(engine: Any) -> None:
    named(engine, "EngineCore").kill()


def freeze_worker(engine: Any) -> None:
    named(engine, "Worker").suspend()


def named(engine: Any, word: str) -> Any:
    return next(process for process in engine._processes if word in " ".join(process.cmdline()))


# -- a run that is killed ---------------------------------------------------------------------------------------------


def victim() -> None:
    """A process with an engine, which says who the engine's processes are and waits to be killed."""
    with bench() as table:
        print(*(process.pid for process in table.sampler.engine._processes), flush=True)
        time.sleep(DEADLINE)
    sys.exit(0)


def orphans() -> int:
    """Kill a run and count what is left of its engine."""
    run = subprocess.Popen([sys.executable, __file__, "--victim"], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    processes = [int(word) for word in run.stdout.readline().split()]
    run.send_signal(signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + ORPHANS
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return sum(map(alive, processes)) if processes else -1


def alive(process: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main()
