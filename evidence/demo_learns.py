"""The demo has a point: for each of three seeds the pair gains from reading its rival, and a demo takes two minutes.

Runs `agon demo` as a user would: a process of its own, start-up and evaluation included, no setting of threads, on two
cores of the machine however many it has. The gain is the pair's rate after reading the rival less its rate after
reading itself, both after training, paired by problem (120 held-out problems, both policies); every seed's interval
must be above zero. The rate against GRPO with as many rollouts and passes, and against a pair trained apart, is
reported beside it and decides nothing: training is short. The time that counts is the wall clock of the slowest seed,
so run it alone: how much other work took meanwhile is reported. With --quick there is one seed, and processor seconds
count, of which two cores have twice as many.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _lib import arguments, verdict
from agon.report.demo_table import ITSELF, RIVAL, DemoResults

EXTRA_SOURCES = ("src/agon/cli/demo.py", "src/agon/matrix/demo.py", "src/agon/report/demo_table.py")
CLAIM = "for each of 3 seeds the demo's pair gains from reading its rival, within 2 minutes on two cores"
SECONDS = 120.0
CORES = 2


def two_cores() -> None:
    """Keep this process and its children to two cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def busy() -> float:
    """Seconds that the whole machine has worked since it started."""
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    user, nice, system, _, _, irq, soft, *_ = map(int, first.split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def spent() -> float:
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def demo(folder: Path, seed: int) -> dict[str, Any]:
    """One demo: what the pair gains, wall and processor seconds, and those of other work meanwhile."""
    command = [sys.executable, "-m", "agon", "demo", "--out", str(folder / str(seed)), "--seed", str(seed)]
    env = {name: value for name, value in os.environ.items() if name not in {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}}
    before, worked, began = spent(), busy(), time.monotonic()
    done = subprocess.run(command, env=env | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    wall, processor = time.monotonic() - began, spent() - before
    if done.returncode:
        raise SystemExit(f"seed {seed}: the demo ended with {done.returncode}\n{done.stderr[-2000:]}")
    root = folder / str(seed) / "demo"
    results = DemoResults.read(root, root.with_name("demo-plain-pair"), root.with_name("demo-grpo"))
    gain = results.difference(("agon", RIVAL), ("agon", ITSELF))
    return {
        "gain": [gain.value, gain.low, gain.high],
        "over_grpo": results.difference(("agon", RIVAL), ("GRPO", ("self-cascade",))).value,
        "over_apart": results.difference(("agon", RIVAL), ("plain pair", RIVAL)).value,
        "n": len(results.means("agon", RIVAL)),
        **{"wall": wall, "processor": processor, "others": max(0.0, busy() - worked - processor)},
    }


def show(seed: int, one: dict[str, Any]) -> None:
    value, low, high = (100 * x for x in one["gain"])
    print(
        f"seed {seed}: {value:+.1f} points [{low:+.1f}, {high:+.1f}] from reading the rival, "
        f"{100 * one['over_grpo']:+.1f} against GRPO, {100 * one['over_apart']:+.1f} against a pair trained apart; "
        f"{one['wall']:.0f} s by the clock, {one['processor']:.0f} processor seconds, {one['others']:.0f} of others",
        flush=True,
    )


def main() -> None:
    quick = arguments(str(__doc__)).quick
    seeds = (0,) if quick else (0, 1, 2)
    two_cores()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            results.append(demo(Path(folder), seed))
            show(seed, results[-1])
    lows = [one["gain"][1] for one in results]
    wall, processor, others = (max(one[name] for one in results) for name in ("wall", "processor", "others"))
    seconds = processor / CORES if quick else wall
    verdict(
        CLAIM,
        {"least_lower_end_points": round(100 * min(lows), 1), "slowest_s": round(seconds)},
        {"least_lower_end_points": "above 0", "slowest_s": SECONDS},
        holds=min(lows) > 0 and seconds < SECONDS,
        n=results[0]["n"],
        seeds=list(seeds),
        gains=[[round(100 * x, 1) for x in one["gain"]] for one in results],
        over_grpo=[round(100 * one["over_grpo"], 1) for one in results],
        over_pair_trained_apart=[round(100 * one["over_apart"], 1) for one in results],
        processor_s=round(processor),
        other_work_s=round(others),
        timed="processor seconds over two cores" if quick else "wall clock",
    )


if __name__ == "__main__":
    main()
