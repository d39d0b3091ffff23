"""Do the arms learn? grpo, coop and agon on the tiny base and tabletop: same budget, two seeds each, about 100 steps.

A run resumes where it stopped (`runs/lab/`), so that all of this may be interrupted. Prints, for every run, the reward
at its start and at its end, the dev scores, and the seconds per step by part; draws the curves.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from _lib import ROOT, arguments, commit, mean_interval, median, verdict
from agon import RunDir, train

EXTRA_SOURCES = ("configs/tabletop",)
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
ARMS, SEEDS, STEPS, WINDOW = ("grpo", "coop", "agon"), (0, 1), 100, 15
FIGURE = ROOT / "docs" / "assets" / "lab-tabletop.svg"


def check_revision(run: RunDir) -> None:
    """Refuse a run that a different revision began: its numbers would be kept under the wrong one."""
    began = run.manifest.git
    if began is None or (began.revision, began.changed) != (commit()["commit"], False):
        sys.exit(f"{run.path.name} was begun at a different revision, or with changes: remove it and run again")


def rewards(run: RunDir) -> list[float]:
    """Mean correctness-and-format reward of all rollouts of a step, comparable across arms: 2 c + 0.5 phi."""
    return [
        fmean(2 * (stream.pass_rate or 0) + 0.5 * (stream.well_formed or 0) for stream in record.streams)
        for record in run.steps.records()
    ]


def describe(run: RunDir, window: int) -> dict[str, Any]:
    """Start, end, rise with its interval, dev scores, and seconds by part."""
    curve = rewards(run)
    start, end = curve[:window], curve[-window:]
    rise, low, high = mean_interval([late - early for early, late in zip(start, end, strict=True)])
    (dev_problems,) = {counts.n for point in run.points for counts in point.systems.values()}
    seconds = [timing.seconds for timing in run.timings.records()]
    parts = sorted({part for step in seconds[1:] for part in step})
    return {
        "start": fmean(start),
        "end": fmean(end),
        "rise": rise,
        "rise_interval": [low, high],
        "dev": {point.step: {name: counts.pass_rate for name, counts in point.systems.items()} for point in run.points},
        "dev_problems": dev_problems,
        "rollouts": sum(entry.rollouts for record in run.steps.records() for entry in record.ledger.values()),
        "trained_s": round(sum(sum(step.values()) for step in seconds)),
        "seconds": {part: median([step.get(part, 0.0) for step in seconds[1:]]) for part in parts},
    }


def draw(runs: Mapping[tuple[str, int], RunDir]) -> None:
    """Reward over steps, one line per run, smoothed over ten steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = {"grpo": "#94A3B8", "coop": "#F59E0B", "agon": "#6366F1"}
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for (arm, seed), run in runs.items():
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
    os.environ["HF_HUB_OFFLINE"] = "1"
    arms, seeds, steps, window = (("agon",), (0,), 6, 2) if args.quick else (ARMS, SEEDS, STEPS, WINDOW)
    out = ROOT / "runs" / ("lab-quick" if args.quick else "lab")
    if args.quick:
        shutil.rmtree(out, ignore_errors=True)
    small = ["data.dev.take=8", "eval.points=1", "train.problems_per_step=4"] if args.quick else []
    runs = {}
    for arm, seed in [(arm, seed) for arm in arms for seed in seeds]:
        overrides = [f"arm={arm}", f"train.seed={seed}", f"train.max_steps={steps}", *small]
        runs[arm, seed] = train(CONFIG, *overrides, out=out, name=f"{arm}-s{seed}", resume=True, show="nothing")
        if not args.quick:
            check_revision(runs[arm, seed])
    rows = {f"{arm}-s{seed}": describe(run, window) for (arm, seed), run in runs.items()}
    for name, row in rows.items():
        low, high = row["rise_interval"]
        print(f"{name:9} reward {row['start']:.3f} -> {row['end']:.3f}, rise {row['rise']:.3f} [{low:.3f}, {high:.3f}]")
        print(f"          dev {row['dev']}")
        print(
            f"          median seconds per step: { {part: round(value, 2) for part, value in row['seconds'].items()} }"
        )
    if not args.quick:
        draw(runs)
    rose = all(row["rise_interval"][0] > 0 for row in rows.values())
    verdict(
        "reward of grpo, coop and agon on the tiny base rises above its start for both seeds, at one budget",
        value=min(row["rise_interval"][0] for row in rows.values()),
        goal="lower end of every run's 95% interval > 0; one budget",
        runs=rows,
        holds=(rose or args.quick) and len({row["rollouts"] for row in rows.values()}) == 1,
        n={"runs": len(runs), "steps": steps},
        seeds=list(seeds),
        window=window,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
