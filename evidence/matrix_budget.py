"""A matrix that is killed and resumed repeats and loses no run, and every arm draws the same rollouts per problem.

The matrix trains and evaluates the tiny base. It is killed with everything it started, killed alone (its children run
on as orphans), and started again until it ends. Then everything on disk is counted, from the bouts and the records,
and the results are compared.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from _lib import ROOT, arguments, verdict
from agon import RunDir, compare
from agon.errors import RunDirError
from agon.eval.systems import headline
from agon.report.matrix_report import MatrixReport
from agon.rundir import read_bouts
from agon.rundir.bouts import files_in
from agon.rundir.records import read_record
from agon.rundir.results import read_result

EXTRA_SOURCES = ("src/agon/cli/matrix.py", "src/agon/cli/cell.py", "configs/tabletop")
SIZES = [
    "data.train.take=16", "data.dev.take=4", "data.held_out.take=12", "train.problems_per_step=2", "game.group_size=4",
    "train.max_completion_tokens=48", "eval.max_completion_tokens=48", "eval.points=1", "save.every=1",
]  # fmt: skip
GROUP, TRIALS = 4, 12
LIMIT = 3600
TRAINING, EVALUATING = "*/steps.jsonl", "*/evals/held_out/*.jsonl"
Moment = tuple[str, bool]
"""When to kill: once such a file has grown; True: the matrix alone, so that its children run on as orphans."""
QUICK: list[Moment] = [("*/manifest.json", False)]
FULL: list[Moment] = [(TRAINING, False), (TRAINING, True), (EVALUATING, False), (EVALUATING, False)]


class Killed(NamedTuple):
    """How often the matrix was killed, and the runs that were done before a kill, with the moment this was seen."""

    kills: int
    finished: dict[Path, float]


def start(out: Path, arms: list[str], seeds: list[int], steps: int) -> subprocess.Popen[bytes]:
    """The command that a person would type, in a session of its own."""
    config = str(ROOT / "configs" / "tabletop" / "base.yaml")
    cells = ["--arms", ",".join(arms), "--seeds", ",".join(map(str, seeds)), "--slots", "2", "--out", str(out)]
    command = [sys.executable, "-m", "agon", "matrix", config, *SIZES, f"train.max_steps={steps}", *cells]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (out.parent / "matrix.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)


def lines(out: Path, pattern: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in out.glob(pattern))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    table = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in table.read_text().split()] if table.exists() else []


def kill(process: subprocess.Popen[bytes], alone: bool) -> None:
    """SIGKILL to the matrix, and to all that it started unless it is killed alone."""
    victims = [] if alone else children(process.pid)
    process.kill()
    for pid in victims:
        os.killpg(pid, signal.SIGKILL)
    process.wait()


def live(out: Path, process: subprocess.Popen[bytes], pattern: str, alone: bool) -> bool:
    """Let it live until files of this pattern have grown, then kill it; False when it ended by itself first."""
    before, deadline = lines(out, pattern), time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        if lines(out, pattern) > before:
            kill(process, alone)
            return True
        time.sleep(0.05)
    return False


def faults(run: RunDir, steps: int) -> list[str]:
    """Every step, file of bouts or trial that is lost or there twice."""
    found, name = [], run.path.name
    logged, played = [record.step for record in run.steps.records()], list(files_in(run.bouts))
    if logged != list(range(steps)) or played != logged:
        found.append(f"{name}: steps {logged}, bouts {played}")
    for path in sorted((run.path / "evals" / "held_out").glob("*.jsonl")):
        trials = [(row["problem_id"], row["index"]) for row in map(json.loads, path.open())]
        if len(trials) != TRIALS or len(set(trials)) != TRIALS:
            found.append(f"{name}: {len(trials)} trials of {path.stem}, {len(set(trials))} of them different")
    return found


def rollouts(run: RunDir) -> Counter[tuple[int, str]]:
    """Rollouts of every problem at every step, counted from the bouts."""
    drawn = Counter[tuple[int, str]]()
    for bout in read_bouts(run, ["step", "problem_id", "challenger"]).to_pylist():
        drawn[bout["step"], bout["problem_id"]] += 1 if bout["challenger"] is None else 2
    return drawn


def budget(runs: list[RunDir]) -> dict[str, Any]:
    """Rollouts per problem in each arm, and whether the problems of a seed are the same in all."""
    spent = {run: rollouts(run) for run in runs}
    plays = {run.manifest.seeds.train: set[tuple[tuple[int, str], ...]]() for run in runs}
    for run in runs:
        plays[run.manifest.seeds.train].add(tuple(sorted(spent[run])))
    per_problem = {
        arm: sorted({n for run in runs if run.manifest.arm == arm for n in spent[run].values()})
        for arm in dict.fromkeys(run.manifest.arm for run in runs)
    }
    return {"rollouts_per_problem": per_problem, "same_problems": all(len(kinds) == 1 for kinds in plays.values())}


def repeated(finished: dict[Path, float]) -> list[str]:
    """Runs that were done before a kill and were touched after it."""
    return [run.name for run, when in finished.items() if (run / "steps.jsonl").stat().st_mtime > when]


def finished_runs(out: Path) -> dict[Path, float]:
    """Runs that are evaluated, with the moment this was seen."""
    return {path: time.time() for path in out.glob("*-s*") if evaluated(path)}


def evaluated(path: Path) -> bool:
    """Whether the result that stands for a run is complete."""
    try:
        name = headline(RunDir.open(path).config.rules())
        return read_result(path / "evals" / "held_out" / f"{name}.json").complete
    except RunDirError:
        return False


def kill_and_resume(out: Path, arms: list[str], seeds: list[int], steps: int, moments: list[Moment]) -> Killed:
    """Kill the matrix at every moment, then let it end; how often, and which runs were done before a kill."""
    kills, finished = 0, dict[Path, float]()
    for pattern, alone in moments:
        kills += live(out, start(out, arms, seeds, steps), pattern, alone)
        finished = finished_runs(out) | finished
        how = "alone" if alone else "with its children"
        print(f"killed {how}, {kills} kills; done so far: {sorted(run.name for run in finished)}", flush=True)
    if start(out, arms, seeds, steps).wait(LIMIT) != 0:
        sys.exit((out.parent / "matrix.log").read_text()[-3000:])
    return Killed(kills, finished)


def main() -> None:
    args = arguments(__doc__)
    arms = ["grpo", "agon"] if args.quick else ["grpo", "self-refine", "coop", "agon"]
    seeds, steps, moments = ([0], 2, QUICK) if args.quick else ([0, 1], 4, FULL)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "matrix")
        out.mkdir()
        killed = kill_and_resume(out, arms, seeds, steps, moments)
        runs = [RunDir.open(out / f"{arm}-s{seed}") for arm in arms for seed in seeds]
        lost = [fault for run in runs for fault in faults(run, steps)]
        twice, spent = repeated(killed.finished), budget(runs)
        comparison = compare(*runs)
        matched = read_record(out / "report.json", MatrixReport, fix="run this again").matched
    print(comparison)
    print(f"{killed.kills} kills; lost or written twice: {lost or 'none'}; done and touched again: {twice or 'none'}")
    print(f"rollouts per problem: {spent['rollouts_per_problem']}")
    even = spent["same_problems"] and all(n == [2 * GROUP] for n in spent["rollouts_per_problem"].values())
    verdict(
        "a matrix killed and resumed repeats and loses no run, and its arms draw equal rollouts per problem",
        value={"kills": killed.kills, "lost": lost, "repeated": twice, **spent, "report_says_matched": matched},
        goal={"kills": len(moments), "lost": [], "repeated": [], "rollouts_per_problem": 2 * GROUP},
        holds=killed.kills == len(moments) and not lost and not twice and even and matched,
        compared_problems=comparison.problems,
        arms=arms,
        seeds=seeds,
        steps=steps,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
