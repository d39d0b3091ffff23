"""The demo learns: for each of three seeds dev reward rises by a stated margin, and a demo takes under three minutes.

Runs `agon demo` as a user would: a process of its own, start-up and evaluation included, no setting of threads, on two
cores of the machine however many it has. Dev reward is that of both cascade directions, 2 for a right answer and 0.5
for its format; the margin is a little more than one standard error of a rise (128 trials, 0.125 were they independent),
and every seed has to pass it. The time that counts is the wall clock of the slowest seed, so run it alone: how much
other work took meanwhile is reported. With --quick there is one seed, and processor seconds count.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _lib import arguments, verdict
from agon import RunDir
from agon.eval.intervals import t_interval
from agon.rundir.records import Point

EXTRA_SOURCES = ("src/agon/cli/demo.py",)
CLAIM = "for each of 3 seeds the demo's dev reward rises by at least 0.15, within 3 minutes on two cores"
MARGIN, SECONDS = 0.15, 180.0
DIRECTIONS = ("ab", "ba")
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


def demo(folder: Path, seed: int) -> dict[str, float]:
    """One demo: reward at its first and last point, wall and processor seconds, and those of other work meanwhile."""
    command = [sys.executable, "-m", "agon", "demo", "--out", str(folder / str(seed)), "--seed", str(seed)]
    env = {name: value for name, value in os.environ.items() if name not in {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}}
    before, worked, began = spent(), busy(), time.monotonic()
    done = subprocess.run(command, env=env | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    wall, processor = time.monotonic() - began, spent() - before
    if done.returncode:
        raise SystemExit(f"seed {seed}: the demo ended with {done.returncode}\n{done.stderr[-2000:]}")
    points = RunDir.open(folder / str(seed) / "demo").points
    times = {"wall": wall, "processor": processor, "others": max(0.0, busy() - worked - processor)}
    return {"first": reward(points[0]), "last": reward(points[-1]), "n": trials(points[-1]), **times}


def reward(point: Point) -> float:
    """2 for a right answer and 0.5 for its format, over both directions."""
    both = [point.systems[name] for name in DIRECTIONS]
    right, well_formed = sum(counts.correct for counts in both), sum(counts.well_formed for counts in both)
    return 2 * right / trials(point) + 0.5 * well_formed / sum(counts.n + counts.ungraded for counts in both)


def trials(point: Point) -> int:
    return sum(point.systems[name].n for name in DIRECTIONS)


def show(seed: int, one: dict[str, float]) -> None:
    print(
        f"seed {seed}: dev reward {one['first']:.2f} -> {one['last']:.2f} (n {one['n']:.0f}); {one['wall']:.0f} s by "
        f"the clock, {one['processor']:.0f} processor seconds, {one['others']:.0f} more of other work on this machine",
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
    rise = [one["last"] - one["first"] for one in results]
    interval = t_interval(rise)
    wall, processor, others = (max(one[name] for one in results) for name in ("wall", "processor", "others"))
    verdict(
        CLAIM,
        {"least_rise": round(min(rise), 3), "slowest_s": round(processor if quick else wall)},
        {"least_rise": MARGIN, "slowest_s": SECONDS},
        holds=min(rise) >= MARGIN and (processor if quick else wall) < SECONDS,
        n=int(results[0]["n"]),
        seeds=list(seeds),
        rises=[round(x, 3) for x in rise],
        mean_rise=round(interval.value, 3),
        interval=[limit and round(limit, 3) for limit in (interval.low, interval.high)],
        processor_s=round(processor),
        other_work_s=round(others),
        timed="processor seconds" if quick else "wall clock",
    )


if __name__ == "__main__":
    main()
