"""A matrix that is killed and continued repeats and loses no run, and every arm draws the same rollouts per problem.

The matrix trains and evaluates the tiny base. It is killed with everything it started, killed alone (its children go on
as orphans), and started again until it ends. What is on disk afterwards is counted, from the bouts and the records.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _lib import ROOT, arguments, verdict
from agon.matrix.report import ledger

SIZES = [
    "data.train.take=16", "data.dev.take=4", "data.held_out.take=12", "train.problems_per_step=2", "game.group_size=4",
    "train.max_completion_tokens=48", "eval.max_completion_tokens=48", "eval.points=1", "save.every=1",
]  # fmt: skip
GROUP = 4
LIMIT = 3600
TRAINING, EVALUATING = "*/steps.jsonl", "*/evals/held_out/*.jsonl"
QUICK = [("*/manifest.json", False)]
FULL = [(TRAINING, False), (TRAINING, True), (EVALUATING, False), (EVALUATING, False)]
"""Kill it when such a file has grown; True: alone, so that its children go on as orphans."""


def start(out: Path, arms: str, seeds: str, steps: int) -> subprocess.Popen[bytes]:
    """The command that a person would type, in a session of its own."""
    config = str(ROOT / "configs" / "tabletop" / "base.yaml")
    words = [config, *SIZES, f"train.max_steps={steps}", "--arms", arms, "--seeds", seeds, "--slots", "2"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (out.parent / "matrix.log").open("ab") as log:
        command = [sys.executable, "-m", "agon", "matrix", *words, "--out", str(out)]
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


def faults(out: Path, arms: list[str], seeds: list[str], steps: int) -> list[str]:
    """Everything that is lost or there twice."""
    found = []
    for name in [f"{arm}-s{seed}" for arm in arms for seed in seeds]:
        run = out / name
        told = [json.loads(line)["step"] for line in (run / "steps.jsonl").open()]
        bouts = sorted(int(path.stem[5:]) for path in (run / "bouts").glob("step_*.parquet"))
        if told != list(range(steps)) or bouts != told:
            found.append(f"{name}: steps {told}, bouts {bouts}")
        for path in sorted((run / "evals" / "held_out").glob("*.jsonl")):
            trials = [(row["problem"], row["sample"]) for row in map(json.loads, path.open())]
            if len(trials) != 12 or len(set(trials)) != 12:
                found.append(f"{name}: {len(trials)} trials of {path.stem}, {len(set(trials))} of them different")
    return found


def budget(out: Path, arms: list[str], seeds: list[str]) -> dict[str, Any]:
    """Rollouts per problem in each arm, and whether the problems of a seed are the same in all."""
    spent = {(arm, seed): ledger(out / f"{arm}-s{seed}") for arm in arms for seed in seeds}
    per_problem = {arm: sorted({n for s in seeds for n in spent[arm, s]["rollouts_per_problem"]}) for arm in arms}
    same = all(len({tuple(spent[arm, seed]["problems"]) for arm in arms}) == 1 for seed in seeds)
    return {"rollouts_per_problem": per_problem, "same_problems": same}


def repeated(out: Path, finished: dict[str, float]) -> list[str]:
    """Runs that were done before a kill and were touched after it."""
    return [name for name, when in finished.items() if (out / name / "steps.jsonl").stat().st_mtime > when]


def done(out: Path) -> dict[str, float]:
    """Runs that are evaluated, with the moment we saw it."""
    heads = {"agon": "cascade", "coop": "cascade", "grpo": "a", "self-refine": "self-refine"}
    wanted = {f"{arm}-s*/evals/held_out/{head}.json" for arm, head in heads.items()}
    paths = [path for pattern in wanted for path in out.glob(pattern) if json.loads(path.read_text())["complete"]]
    return {path.parents[2].name: time.time() for path in paths}


def main() -> None:
    args = arguments(__doc__)
    arms = ["grpo", "agon"] if args.quick else ["grpo", "self-refine", "coop", "agon"]
    seeds, steps = (["0"], 2) if args.quick else (["0", "1"], 4)
    moments = QUICK if args.quick else FULL
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "matrix")
        out.mkdir()
        kills, finished = 0, dict[str, float]()
        for pattern, alone in moments:
            kills += live(out, start(out, ",".join(arms), ",".join(seeds), steps), pattern, alone)
            finished = done(out) | finished
            print(f"killed {'alone' if alone else 'with its children'} {kills} times, done so far: {sorted(finished)}")
        if start(out, ",".join(arms), ",".join(seeds), steps).wait(LIMIT) != 0:
            sys.exit((out.parent / "matrix.log").read_text()[-3000:])
        lost, twice = faults(out, arms, seeds, steps), repeated(out, finished)
        spent, matched = budget(out, arms, seeds), json.loads((out / "report.json").read_text())["matched"]
        print((out / "report.md").read_text())
    print(f"{kills} kills; lost or told twice: {lost or 'nothing'}; done and touched again: {twice or 'nothing'}")
    print(f"rollouts per problem: {spent['rollouts_per_problem']}")
    even = spent["same_problems"] and all(each == [2 * GROUP] for each in spent["rollouts_per_problem"].values())
    verdict(
        "a matrix killed and continued repeats and loses no run, and its arms draw equal rollouts per problem",
        value={"kills": kills, "lost": lost, "repeated": twice, **spent, "report_says_matched": matched},
        goal={"kills": len(moments), "lost": [], "repeated": [], "rollouts_per_problem": 2 * GROUP},
        holds=kills == len(moments) and not lost and not twice and even and matched,
        arms=arms,
        seeds=seeds,
        steps=steps,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
