"""What agon-lens costs: memory and CPU seconds of `diagnose` and `view`, and what `watch` adds to a training with TRL.

The reference of a log is pandas: the file read at once, and the reward normalised by group. Each command runs in a
process of its own. The reference of 400 reward columns is four times the cost of 100; that of `watch` is the CPU time
of the whole training per row, on the tiny base. Intervals are of repeated runs, by Student's t; `--full` measures a log
of 400 MB, a million rows, and 30 steps.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _table import ROOT, Row, arguments, mean_of, report

RUNS = 3
BEGIN = """
import json, resource, sys, time
began = time.process_time()
"""
END = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(json.dumps([time.process_time() - began, peak]))
"""
LENS = f"{BEGIN}from agon_lens.cli import main\nmain(sys.argv[1:])\n{END}"
PANDAS = f"""{BEGIN}
import pandas
rows = pandas.read_json(sys.argv[1], lines=True)
group = rows.groupby(["step", "prompt"])["reward"]
rows["advantage"] = (rows["reward"] - group.transform("mean")) / group.transform("std")
{END}"""


def log(path: Path, rows: int, words: int = 0, columns: int = 0) -> Path:
    """Groups of eight, with texts of so many words."""
    rng, vocabulary = random.Random(0), [f"word{n}" for n in range(4000)]
    with path.open("w") as file:
        for k in range(rows):
            text = " ".join(rng.choices(vocabulary, k=words))
            row = {"step": k // 128, "prompt": f"problem {k // 8}", "completion": text or "c"}
            paid = {f"reward_{n}": rng.random() for n in range(columns)}
            file.write(json.dumps(row | paid | {"reward": float(rng.random() < 0.3)}) + "\n")
    return path


def measure(code: str, *words: object) -> tuple[list[float], list[float]]:
    """CPU seconds and largest memory in MB of repeated runs."""
    found = []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return [cpu for cpu, _ in found], [peak for _, peak in found]


def logs(folder: Path, full: bool) -> Iterator[Row]:
    texts, rows = (100_000, 1_000_000) if full else (25_000, 100_000)
    for what, path in (
        (f"{texts:,} rows of 4 kB", log(folder / "texts.jsonl", texts, words=450)),
        (f"{rows:,} short rows", log(folder / "short.jsonl", rows)),
    ):
        theirs, page = measure(PANDAS, path), ("-o", folder / "page.html")
        for command, more in (("diagnose", ()), ("view", page)):
            ours = measure(LENS, command, path, *more)
            for unit, mine, reference in zip(("CPU s", "MB of memory"), ours, theirs, strict=True):
                mean, interval = mean_of(mine)
                yield Row(f"{command}, {what}: {unit}", mean, mean_of(reference)[0], RUNS, interval)
    hundred, four = (measure(LENS, "diagnose", log(folder / f"{n}.jsonl", 64, columns=n))[0] for n in (100, 400))
    mean, interval = mean_of(four)
    yield Row("diagnose, 400 reward columns: CPU s", mean, 4 * mean_of(hundred)[0], RUNS, interval)


def watching(folder: Path, steps: int) -> Row:
    """CPU microseconds per row that `watch` adds, its findings included."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
    sys.path.append(str(ROOT / "packages" / "lens" / "tests" / "writers"))
    from trl_run import brief, digits, train

    import agon_lens

    costs, whole = list[float](), list[float]()
    for run in range(RUNS):
        out = folder / f"run-{run}"
        funcs: Any = agon_lens.watch([digits, brief], out / "lens", every=5, show=lambda said: None)
        began = time.process_time()
        train(out / "trl", steps=steps, group=8, funcs=funcs)
        recorder = funcs[0].recorder
        costs.append(1e6 * recorder.cpu_seconds / recorder.rows)
        whole.append(1e6 * (time.process_time() - began) / recorder.rows)
    mean, interval = mean_of(costs)
    return Row(f"watch, {steps} steps of TRL: CPU microseconds per row", mean, mean_of(whole)[0], RUNS, interval)


def main() -> None:
    args = arguments(__doc__)
    with tempfile.TemporaryDirectory() as name:
        rows = [*logs(Path(name), args.full), watching(Path(name), 30 if args.full else 10)]
    report("lens", rows, packages=("pyarrow", "pandas", "trl"), full=args.full)


main()
