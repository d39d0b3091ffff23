"""Steps that are played ahead of the learner: nothing changes at 0, and what 1 and 2 gain in time and lose in learning.

Each part runs alone with `--part`; the quick form is the first, on a few small steps.

- equal: `train.staleness=0` against a loop written here that plays, learns and publishes in turn: records of every step
  and the adapters at the end, to the bit.
- resume: runs with staleness 1 and 2, killed in the middle and resumed, against those that were not: `steps.jsonl` byte
  by byte.
- wall: 0 and 1 in turn, a vLLM server on one core and the run on another: seconds per step, and the bound
  max(play, rest). wall_own: the same with the engine that the run starts.
- learning: reward on the tabletop at 0, 1 and 2, five seeds each; runs continue where they stopped (`runs/staleness/`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from _learning import check_revision, rewards
from _lib import ROOT, Part, arguments, mean_interval, ratio_interval, verdict_of_parts
from _timed import CONFIG, FIRST, one_thread, timed_runs
from agon import RunDir, train
from agon.algorithm import play
from agon.config import Config, load_config
from agon.data import splits
from agon.plan.schedule import Schedule
from agon.rundir.records import StepRecord
from agon.training.machines import Machines, build
from agon.training.step_record import step_record
from agon.types import Policy, Problem, Version, seed_for

EXTRA_SOURCES = ("configs/tabletop", "src/agon/cli/train.py")
PARTS = ("equal", "resume", "wall", "wall_own", "learning")
AHEAD, SEEDS, WINDOW, KEPT_SHARE = (0, 1, 2), range(5), 15, 0.8
PAIRS, STEPS, FASTER, LIVE = 5, 11, 0.9, 0.5
"""Runs of each kind, their steps, the most that k = 1 may take of k = 0, and the least share of groups that a step
learns from."""
TINY = ["train.problems_per_step=2", "game.group_size=2", "data.train.take=12", "data.dev.take=4", "save.every=2"]


# -- equal -------------------------------------------------------------------------------------------------------------


def equal(quick: bool) -> dict[str, Any]:
    """A run at staleness 0, and the same steps one after the other."""
    sizes = [*TINY, "train.max_steps=3"] if quick else ["train.max_steps=20"]
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        run = train(CONFIG, *sizes, "train.staleness=0", out=scratch, name="run", show="nothing")
        records, hashes = sequential(load_config(CONFIG, sizes), Path(scratch, "published"))
        pairs = list(zip(run.steps.records(), records, strict=True))
        last = {policy: run.saved_state(len(records)).run.versions[policy].digest for policy in Policy}
    same = sum(one.model_dump_json() == other.model_dump_json() for one, other in pairs)
    return {"steps": len(pairs), "equal_steps": same, "equal_adapters": sum(last[p] == hashes[p][:8] for p in Policy)}


def equal_holds(found: dict[str, Any]) -> bool:
    return found["equal_steps"] == found["steps"] and found["equal_adapters"] == 2


def sequential(config: Config, folder: Path) -> tuple[list[StepRecord], dict[Policy, str]]:
    """Play, learn, publish, in turn: what a run is without anything around it."""
    problems = splits(config.data).train
    schedule = Schedule.of(config, len(problems))
    machines, records = build(config, schedule.total), list[StepRecord]()
    versions = publish(machines, folder, {}, 0)
    game = config.rules()
    try:
        for step in range(schedule.total):
            batch = batch_of(problems, step, config, schedule)
            played = asyncio.run(play(batch, step, game, machines.sampler, machines.verify))
            update = machines.learner.update(played.streams)
            records.append(step_record([played], update.metrics, game))
            versions.update(publish(machines, folder, versions, step + 1))
        return records, {policy: machines.learner.hash(policy) for policy in Policy}
    finally:
        machines.close()


def batch_of(problems: Sequence[Problem], step: int, config: Config, schedule: Schedule) -> list[Problem]:
    epoch, place = divmod(step, schedule.steps_per_epoch)
    seed, size = config.train.seed, config.train.problems_per_step
    order = sorted(problems, key=lambda problem: (seed_for(seed, "order", epoch, problem.id), problem.id))
    return order[place * size : (place + 1) * size]


def publish(machines: Machines, folder: Path, known: dict[Policy, Version], done: int) -> dict[Policy, Version]:
    """Hand adapters that moved to the sampler."""
    made = dict(known)
    for policy in Policy:
        digest = machines.learner.hash(policy)[:8]
        if policy not in known or known[policy].digest != digest:
            made[policy] = Version.of(policy, done, digest)
            machines.learner.export(policy, folder / made[policy])
            machines.sampler.publish(made[policy], folder / made[policy])
    return made


# -- resume ------------------------------------------------------------------------------------------------------------


def resume(quick: bool) -> dict[str, Any]:
    """SIGKILL and SIGTERM in the middle of runs with steps in flight."""
    sizes = [*TINY, "train.max_steps=5"] if quick else ["train.max_steps=14", "save.every=3"]
    kinds = (
        [(1, signal.SIGKILL)] if quick else [(k, number) for k in (1, 2) for number in (signal.SIGKILL, signal.SIGTERM)]
    )
    equal = 0
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        whole = {k: steps_of(command(Path(scratch), f"whole-{k}", k, sizes)) for k in {k for k, _ in kinds}}
        for k, number in kinds:
            name = f"killed-{k}-{number.name}"
            run = command(Path(scratch), name, k, sizes, kill=number)
            run = command(Path(scratch), name, k, sizes, resumed=True)
            equal += steps_of(run) == whole[k]
    return {"runs": len(kinds), "equal": equal}


def resume_holds(found: dict[str, Any]) -> bool:
    return found["equal"] == found["runs"]


def command(
    out: Path, name: str, k: int, sizes: list[str], kill: signal.Signals | None = None, resumed: bool = False
) -> Path:
    """Train in a process of its own; with `kill`, until it has written three steps."""
    run = out / name
    words = (
        [str(run), "--resume"]
        if resumed
        else [str(CONFIG), *sizes, f"train.staleness={k}", "--out", str(out), "--name", name]
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "agon", "train", *words],
        env=one_thread(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while kill and process.poll() is None:
        if steps_of(run).count(b"\n") >= 3:
            process.send_signal(kill)
            break
        time.sleep(0.02)
    process.wait()
    return run


def steps_of(run: Path) -> bytes:
    try:
        return (run / "steps.jsonl").read_bytes()
    except OSError:
        return b""


# -- wall --------------------------------------------------------------------------------------------------------------


def wall(quick: bool, own_engine: bool = False) -> dict[str, Any]:
    """Seconds per step of runs with nothing and with one step ahead, in turn."""
    pairs, steps = (1, FIRST + 2) if quick else (PAIRS, STEPS)
    found: dict[int, list[dict[str, float]]] = {0: [], 1: []}
    live = list[float]()
    with timed_runs(own_engine) as train_timed:
        for number in range(pairs):
            for k in (0, 1) if number % 2 else (1, 0):
                run = train_timed(f"train.max_steps={steps}", f"train.staleness={k}")
                found[k].append(seconds_by_part(run))
                live += [
                    stream.live_groups / stream.groups for record in run.steps.records() for stream in record.streams
                ]
    totals = {k: [sum(parts.values()) for parts in runs] for k, runs in found.items()}
    bound = [
        max(parts["play"], total - parts["play"]) / total for parts, total in zip(found[0], totals[0], strict=True)
    ]
    ratio = ratio_interval(totals[1], totals[0])
    return {
        "seconds_per_step": {k: round(median(values), 3) for k, values in totals.items()},
        "one_over_zero": [round(value, 3) for value in ratio],
        "bound": round(median(bound), 3),
        "parts": {
            k: {name: round(median([run.get(name, 0.0) for run in runs]), 3) for name in runs[0]}
            for k, runs in found.items()
        },
        "live_groups": round(fmean(live), 3),
        "load": round(os.getloadavg()[0], 1),
    }


def wall_holds(found: dict[str, Any]) -> bool:
    """Faster, in steps that had something to learn from."""
    return bool(found["one_over_zero"][2] <= FASTER and found["live_groups"] >= LIVE)


def seconds_by_part(run: RunDir) -> dict[str, float]:
    """Means over the steps of a run."""
    timings = run.timings.records()[FIRST:]
    names = {part for timing in timings for part in timing.seconds}
    return {part: fmean(timing.seconds.get(part, 0.0) for timing in timings) for part in sorted(names)}


# -- learning ----------------------------------------------------------------------------------------------------------


def learning(quick: bool) -> dict[str, Any]:
    """Reward at the end over that at the start, by staleness: seed by seed, so that every stop is balanced."""
    seeds, window = (range(1), 2) if quick else (SEEDS, WINDOW)
    sizes = [*TINY, "train.max_steps=4"] if quick else []
    out = ROOT / "runs" / ("staleness-quick" if quick else "staleness")
    rises: dict[int, list[float]] = {k: [] for k in AHEAD}
    for seed in seeds:
        for k in AHEAD:
            words = [*sizes, f"train.seed={seed}", f"train.staleness={k}"]
            run = train(CONFIG, *words, out=out, name=f"k{k}-s{seed}", resume=True, show="nothing")
            if not quick:
                check_revision(run)
            curve = rewards(run)
            rises[k].append(fmean(curve[-window:]) - fmean(curve[:window]))
            print(f"k={k} seed {seed}: rise {rises[k][-1]:+.3f}", flush=True)
    return {
        "rise": {
            k: [round(value, 3) for value in (mean_interval(rises[k]) if len(rises[k]) > 1 else rises[k])]
            for k in AHEAD
        },
        "share_of_zero": {k: round(fmean(rises[k]) / fmean(rises[0]), 3) for k in AHEAD[1:]} if fmean(rises[0]) else {},
        "seeds": len(seeds),
    }


def learning_holds(found: dict[str, Any]) -> bool:
    rose = all(values[1] > 0 for values in found["rise"].values())
    return rose and all(share >= KEPT_SHARE for share in found["share_of_zero"].values())


# -- main --------------------------------------------------------------------------------------------------------------


def main() -> None:
    args = arguments(__doc__, PARTS)
    os.environ["HF_HUB_OFFLINE"] = "1"
    work: dict[str, Part] = {
        "equal": (equal, equal_holds),
        "resume": (resume, resume_holds),
        "wall": (wall, lambda found: args.quick or wall_holds(found)),
        "wall_own": (partial(wall, own_engine=True), lambda found: args.quick or wall_holds(found)),
        "learning": (learning, lambda found: args.quick or learning_holds(found)),
    }
    verdict_of_parts(
        "staleness 0 is the sequential run to the bit; runs with steps in flight resume exactly; one step ahead is "
        "faster; and 1 and 2 still learn",
        work,
        args,
        quick=PARTS[:1],
    )


if __name__ == "__main__":
    main()
