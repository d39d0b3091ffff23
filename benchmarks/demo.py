"""What `agon demo` shows, on five seeds: how far GRPO and the pair rise, and how long it takes on two cores.

Runs the command as a user would: a process of its own, start-up and evaluation included, no setting of threads. A rise
is right answers after training less before, paired by held-out problem; its interval is over problems, one seed each.
The mean over seeds has an interval over seeds. Run it alone: the times are wall clock, and the row that is recorded
names the load of the machine. Without --full: two seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

from _table import Row, arguments, report
from agon.eval.intervals import t_interval
from agon.report.demo_table import GRPO, READING, DemoResults

SEEDS = (0, 1, 2, 3, 4)
CORES = 2


def main() -> None:
    full = arguments(__doc__).full
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    rows, seconds = [], []
    rises: dict[str, list[float]] = {GRPO.title: [], READING.title: []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS if full else SEEDS[:2]:
            began = time.monotonic()
            results = demo(Path(folder) / str(seed), seed)
            seconds.append(time.monotonic() - began)
            for way in (GRPO, READING):
                rise = results.rise(way)
                rises[way.title].append(100 * rise.value)
                limits = None if rise.low is None or rise.high is None else (100 * rise.low, 100 * rise.high)
                rows.append(
                    Row(
                        f"rise of {way.title}, seed {seed}, points",
                        100 * rise.value,
                        n=results.problems,
                        interval=limits,
                    )
                )
    for title, values in rises.items():
        rows.append(Row(f"rise of {title}, points", fmean(values), n=len(values), interval=over_seeds(values)))
    rows.append(Row("slowest seed, seconds", max(seconds), n=len(seconds)))
    report("demo", rows, packages=("torch", "transformers"), full=full)


def demo(folder: Path, seed: int) -> DemoResults:
    """One demo."""
    command = [sys.executable, "-m", "agon", "demo", "--out", str(folder), "--seed", str(seed)]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(command, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"seed {seed}: the demo ended with {done.returncode}\n{done.stderr[-2000:]}")
    return DemoResults.read(folder / "demo-grpo", folder / "demo")


def over_seeds(values: list[float]) -> tuple[float, float] | None:
    found = t_interval(values)
    return None if found.low is None or found.high is None else (found.low, found.high)


if __name__ == "__main__":
    main()
