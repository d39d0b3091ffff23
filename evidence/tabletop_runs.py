"""Do the arms learn? grpo, coop and agon on the tiny base and tabletop: same budget, two seeds each, about 100 steps.

Each run goes on where it stopped (`runs/lab/`), so that the whole may be interrupted. Prints, for every run, the
reward at its start and at its end, the dev scores, and the seconds of a step by part; draws the curves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from _lib import ROOT, arguments, commit, mean_interval, median, verdict

ARMS, SEEDS, STEPS, WINDOW = ("grpo", "coop", "agon"), (0, 1), 100, 15
FIGURE = ROOT / "docs" / "assets" / "lab-tabletop.svg"


def train(arm: str, seed: int, steps: int, out: Path, *more: str) -> Path:
    """Run, or go on with, one run and return its directory."""
    name = f"{arm}-s{seed}"
    overrides = [f"arm={arm}", f"train.seed={seed}", f"train.max_steps={steps}", *more]
    config = str(ROOT / "configs" / "tabletop" / "agon.yaml")
    words = [sys.executable, "-m", "agon", "train", config, *overrides, "--out", str(out), "--name", name, "--resume"]
    quiet = os.environ | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, env=quiet, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-3000:]}")
    return out / name


def of_this_revision(run: Path) -> None:
    """Refuse a run that another revision began: its numbers would be kept under the wrong one."""
    began = json.loads((run / "manifest.json").read_text())["git"]
    if (began["revision"], began["changed"]) != (commit()["commit"], False):
        sys.exit(f"{run.relative_to(ROOT)} was begun at another revision, or with changes: remove it and run again")


def records(run: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / name).read_text().splitlines()]


def rewards(run: Path) -> list[float]:
    """Mean correctness-and-format reward of all rollouts of a step, comparable across arms: 2 c + 0.5 phi."""
    values = []
    for record in records(run, "steps.jsonl"):
        streams = [stream for stream in (record["standalone"], record["competitive"]) if stream]
        values.append(fmean(2 * stream["solo_rate"] + 0.5 * stream["well_formed"] for stream in streams))
    return values


def look(run: Path, window: int) -> dict[str, Any]:
    """Start, end, rise with its interval, dev scores, and seconds by part."""
    curve = rewards(run)
    start, end = curve[:window], curve[-window:]
    pairs = [late - early for early, late in zip(start, end, strict=True)]
    rise, low, high = mean_interval(pairs)
    points = json.loads((run / "points.json").read_text())
    (dev_problems,) = {result["n"] for point in points for result in point["systems"].values()}
    timings = records(run, "timings.jsonl")[1:]
    parts = sorted({part for timing in timings for part in timing["seconds"]})
    rollouts = sum(e["rollouts"] for r in records(run, "steps.jsonl") for e in r["ledger"].values())
    return {
        "start": fmean(start),
        "end": fmean(end),
        "rise": rise,
        "rise_interval": [low, high],
        "dev": {point["step"]: {name: result["pass"] for name, result in point["systems"].items()} for point in points},
        "dev_problems": dev_problems,
        "rollouts": rollouts,
        "trained_s": round(sum(sum(timing["seconds"].values()) for timing in records(run, "timings.jsonl"))),
        "seconds": {part: median([timing["seconds"].get(part, 0.0) for timing in timings]) for part in parts},
    }


def draw(runs: Sequence[tuple[str, int, Path]]) -> None:
    """Reward over steps, one line a run, smoothed over ten steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = {"grpo": "#94A3B8", "coop": "#F59E0B", "agon": "#6366F1"}
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for arm, seed, run in runs:
        curve = rewards(run)
        smooth = [fmean(curve[max(0, i - 9) : i + 1]) for i in range(len(curve))]
        axes.plot(smooth, color=colours[arm], linestyle="-" if seed == 0 else "--", label=f"{arm}, seed {seed}")
    axes.set(xlabel="step", ylabel="2 c + 0.5 phi, mean of all rollouts", title="Tabletop: reward over training")
    axes.grid(alpha=0.2)
    axes.legend(frameon=False, fontsize=8, ncols=3)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    args = arguments(__doc__)
    arms, seeds, steps, window = (("agon",), (0,), 6, 2) if args.quick else (ARMS, SEEDS, STEPS, WINDOW)
    out = ROOT / "runs" / ("lab-quick" if args.quick else "lab")
    if args.quick:
        shutil.rmtree(out, ignore_errors=True)
    small = ["data.dev.take=8", "eval.points=1", "train.problems_per_step=4"] if args.quick else []
    runs = [(arm, seed, train(arm, seed, steps, out, *small)) for arm in arms for seed in seeds]
    if not args.quick:
        for _, _, run in runs:
            of_this_revision(run)
    told = {f"{arm}-s{seed}": look(run, window) for arm, seed, run in runs}
    for name, row in told.items():
        low, high = row["rise_interval"]
        print(f"{name:9} reward {row['start']:.3f} -> {row['end']:.3f}, rise {row['rise']:.3f} [{low:.3f}, {high:.3f}]")
        print(f"          dev {row['dev']}")
        print(
            f"          seconds a step, median: { {part: round(value, 2) for part, value in row['seconds'].items()} }"
        )
    budgets = {row["rollouts"] for row in told.values()}
    if not args.quick:
        draw(runs)
    rose = all(row["rise_interval"][0] > 0 for row in told.values())
    verdict(
        "every arm's reward rises above its start, at one budget",
        value=min(row["rise_interval"][0] for row in told.values()),
        goal="lower end of every run's 95% interval > 0; one budget",
        runs=told,
        holds=(rose or args.quick) and len(budgets) == 1,
        n={"runs": len(runs), "steps": steps},
        seeds=list(seeds),
        window=window,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
