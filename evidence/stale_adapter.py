"""Would anyone notice an engine that serves the wrong weights? Stale, swapped and ignored for real, on vLLM.

In bfloat16 and in float32 a real engine serves a pair that moves by optimizer steps of the recipe's size. A worker
extension (`_tamper.py`) then changes what the engine serves, and the canary, which does not know what was done, must
name it:

- a slot holds the version before, the rival's adapter or zeros when a publication is checked;
- a slot is overwritten after that check, and must be noticed after the step's last draw;
- kernels ignore the adapters, or the engine has a different base, while every slot is right;
- the engine dies and comes back with old adapters under the new names.

Clean checks, half of them after a publication and half after draws, must give no alarm. `--quick`: bfloat16, one round
of each fault, no restart.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from _engine import TINY, Bench, ask_host, bench, build, random_checkpoint
from _lib import arguments, verdict
from agon.config.bases import Dtype
from agon.engine.dtypes import gpu_dtype
from agon.engine.protocol import Draw
from agon.engine.vllm.canary import Canary
from agon.types import Policy, Sampling, Version

STEP = 5e-5
"""Standard deviation of a move of the weights: about one optimizer step at the recipe's peak rate."""
ROUNDS, RARE, CLEAN = 5, 2, 100
"""Rounds of each fault of a slot, rounds of each other fault, and clean checks, in each type."""
FRESH = 5
"""Every so many clean publications the engine is checked as a new one, distance included."""
BACK = 600.0
"""Seconds in which an engine must be back."""

Versions = dict[Policy, Version]


def main() -> None:
    args = arguments(__doc__)
    here = gpu_dtype()  # on a GPU, vLLM's kernels for adapters have no float32
    dtypes: tuple[Dtype, ...] = (here,) if here else ("bfloat16",) if args.quick else ("bfloat16", "float32")
    rounds, rare, clean = (1, 1, 10) if args.quick else (ROUNDS, RARE, CLEAN)
    found = {dtype: measure(dtype, rounds, rare, clean, restarts=0 if args.quick else rare) for dtype in dtypes}
    for dtype, result in found.items():
        print(f"{dtype}: {result}")
    goal = {
        **dict.fromkeys(("stale", "swapped", "base", "overwritten"), rounds),
        **{"ignored": rare, "other base": rare, "restarted": 0 if args.quick else rare},
        **{"clean checks": clean, "alarms": 0},
    }
    verdict(
        "an engine that serves stale, swapped, overwritten or no adapters, ignores them, has a different base or comes "
        "back with old ones is found, in bfloat16 and float32, one optimizer step late; clean checks give no alarm",
        {dtype: {name: result[name] for name in goal} for dtype, result in found.items()},
        goal,
        all(result[name] == wanted for result in found.values() for name, wanted in goal.items()),
        n=sum(clean + 4 * rounds + 3 * rare for _ in found),
        measured={dtype: result["measured"] for dtype, result in found.items()},
    )


def measure(dtype: Dtype, rounds: int, rare: int, clean: int, restarts: int) -> dict[str, Any]:
    """How often each fault was stopped, and how often a clean check gave an alarm."""
    with bench(dtype=dtype, worker_extension_cls="_tamper.Tampering") as table:
        canary = canary_for(table, dtype)
        canary.check(publish(table))
        gap = max(canary.gaps().values())
        healthy = clean_checks(table, canary, clean, dtype)
        print(f"{dtype}: {healthy}, distance {gap:.2g}", flush=True)
        caught = {name: sum(fault(table, canary, n) for n in range(rounds)) for name, fault in FAULTS.items()}
        caught["ignored"] = sum(ignored(table, dtype) for _ in range(rare))
        caught["other base"] = sum(other_base(table, dtype, n) for n in range(rare))
        print(f"{dtype}: {caught}", flush=True)
        caught["restarted"] = sum(restarted(table, dtype) for _ in range(restarts))
    return {**caught, **healthy, "measured": {"distance": gap, "seconds per check": healthy.pop("seconds")}}


def publish(table: Bench) -> Versions:
    """Move both policies by one step and publish them."""
    for policy in Policy:
        table.move(policy, STEP, seed=table.count)
    return {policy: table.publish(policy) for policy in Policy}


def tamper(table: Bench, method: str, *args: Any) -> None:
    """Call the worker."""
    plain = tuple(str(arg) if isinstance(arg, Version) else arg for arg in args)  # vLLM encodes plain types alone
    ask_host(table, "vllm", "collective_rpc", method, None, plain)


def clean_checks(table: Bench, canary: Canary, count: int, dtype: Dtype) -> dict[str, Any]:
    """Checks of an engine that is right: of a publication, and after draws."""
    alarms, seconds = 0, 0.0
    for n in range(count // 2):
        versions = publish(table)
        if n % FRESH == 0:
            canary = canary_for(table, dtype)
        began = time.perf_counter()
        canary.check(versions)
        seconds += 0 if n % FRESH == 0 else time.perf_counter() - began
        draws = [Draw((1, 2, 3), version, n, Sampling(max_tokens=4)) for version in versions.values()]
        table.sampler.draw_all(draws)
        alarms += len(canary.notes()) + len(canary.attest(versions.values()))
    usual = count // 2 - len(range(0, count // 2, FRESH))
    return {"clean checks": 2 * (count // 2), "alarms": alarms, "seconds": round(seconds / max(usual, 1), 4)}


def canary_for(table: Bench, dtype: Dtype, learner: Bench | None = None) -> Canary:
    """A canary that has not seen the engine. It warns: if it stopped, there would be no engine for the next round."""
    return Canary(table.sampler, learner or table, slots=4, dtype=dtype, mode="warn")  # type: ignore[arg-type]


# -- what an engine does behind our back ------------------------------------------------------------------------------


def found(canary: Canary, versions: Versions, policy: Policy) -> bool:
    """Whether the check of a publication names the version that is wrong."""
    canary.check(versions)
    return f"does not hold {versions[policy]}" in "".join(canary.notes())


def stale(table: Bench, canary: Canary, n: int) -> bool:
    """The new name has the weights of the step before."""
    before = publish(table)
    canary.check(before)
    now, policy = publish(table), list(Policy)[n % 2]
    tamper(table, "overwrite", now[policy], before[policy])
    return found(canary, now, policy)


def swapped(table: Bench, canary: Canary, n: int) -> bool:
    versions = publish(table)
    tamper(table, "swap", *versions.values())
    return found(canary, versions, Policy.A)


def base(table: Bench, canary: Canary, n: int) -> bool:
    """The slot of a policy has no weights."""
    versions, policy = publish(table), list(Policy)[n % 2]
    tamper(table, "overwrite", versions[policy], "")
    return found(canary, versions, policy)


def overwritten(table: Bench, canary: Canary, n: int) -> bool:
    """All is well when the publication is checked; then the slot gets the rival's weights, and draws."""
    versions, policy = publish(table), list(Policy)[n % 2]
    canary.check(versions)
    tamper(table, "overwrite", versions[policy], versions[policy.rival])
    table.sampler.draw_all([Draw((1, 2, 3), versions[policy], n, Sampling(max_tokens=4))])
    return f"engine 0 does not hold {versions[policy]}" in "".join(canary.attest(versions.values()))


FAULTS = {"stale": stale, "swapped": swapped, "base": base, "overwritten": overwritten}


def ignored(table: Bench, dtype: Dtype) -> bool:
    """Slots are right, and kernels do not read them."""
    publish(table)  # versions whose slots were changed before are gone after two publications
    versions = publish(table)
    tamper(table, "ignore", True)
    canary = canary_for(table, dtype)
    canary.check(versions)
    tamper(table, "ignore", False)
    return "ignores adapters" in "".join(canary.notes())


def other_base(table: Bench, dtype: Dtype, n: int) -> bool:
    """The learner has a different base than the engine."""
    versions = publish(table)
    folder = random_checkpoint(table.root / f"other {n}", **TINY, seed=n + 1)
    learner = Bench(table.sampler, build(folder, dtype), table.root)
    canary = canary_for(table, dtype, learner)
    canary.check(versions)
    return "on the bare base" in "".join(canary.notes())


def restarted(table: Bench, dtype: Dtype) -> bool:
    """The engine's core is killed, and the new one loads old adapters under the new names."""
    old, versions = publish(table), publish(table)
    canary = canary_for(table, dtype)
    canary.check(versions)
    canary.notes()
    engine = table.sampler.fleet.members[0].engine
    load = engine.load
    stale_folders = {versions[policy]: table.sampler.live[old[policy]] for policy in Policy}

    async def load_old(version: Version, folder: Path) -> None:
        await load(version, stale_folders.get(version, folder))

    engine.load = load_old

    async def draw() -> None:
        """Nobody notices that an idle engine died; what is drawn comes from the new one."""
        async with asyncio.timeout(BACK):
            await table.sampler.draw(Draw((1, 2, 3), versions[Policy.A], 0, Sampling(max_tokens=4)))

    try:
        core = next(process for process in processes(engine) if "EngineCore" in " ".join(process.cmdline()))
        core.kill()
        asyncio.run(canary.attend(draw(), versions))
    finally:
        engine.load = load
    told = "".join(canary.notes())
    for version in versions.values():  # as they should be again
        table.sampler.unload(version)
        table.sampler.load(version, table.sampler.live[version])
    return f"does not hold {versions[Policy.A]}" in told


def processes(engine: Any) -> list[Any]:
    import psutil

    return [psutil.Process(number) for number in engine.actor.processes()]


if __name__ == "__main__":
    main()
