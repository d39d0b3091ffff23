"""Two processes train as one, on vLLM, and one fault after another hits them; each time they resume.

The processes play unevenly, so that a fault finds one still playing while the other waits. Faults, at random moments:
SIGTERM and SIGINT to the launcher; SIGKILL of either engine; an exception in the update of either process; SIGKILL of
either process. Measured for each: how long until everything has ended (or, where the engine restarts, until
the next step), and how many finished steps were lost. After the last fault the run is trained to its end and compared
with one that nobody touched, which has run beside it. Two engines draw where engines are killed, from the last start to
the end; before, and in the run that nobody touched, there is one: bouts do not depend on their number.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from safetensors.torch import load_file

from _lib import ROOT, arguments, percentile, verdict
from agon.rundir import read_bouts
from agon.rundir.checkpoint import folders
from agon.types import Policy

EXTRA_SOURCES = ("src/agon/cli/train.py", "configs/tabletop", "evidence/_faulty_rank.py")
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
SIZES = [
    "data.train.take=400", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=4", "game.group_size=4",
    "train.max_completion_tokens=48", "eval.max_completion_tokens=48", "eval.points=0", "train.tokens_per_pass=80",
    "train.learning_rate=5e-5", "save.every=1000",
]  # fmt: skip
VLLM = ["sampler.engine=vllm", "sampler.max_model_len=512"]
STEPS = 3
"""For each fault: two that pass before it, and one in which it comes."""
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
WAIT, START = 60.0, 300.0
"""The longest wait without progress, and for engines to start, in seconds."""
CLOSE = 1e-5
SAME = ["problem_id", "index", "draft_text", "draft_correct", "challenge_text", "challenge_correct", "challenge_reward"]


@dataclass(slots=True)
class Outcome:
    """What one fault did."""

    fault: str
    rank: int
    seconds: float
    """From the fault until all processes had ended, or until the next step."""
    logged: int
    """Finished steps when the fault came."""
    saved: int
    """Steps in the newest checkpoint when all was over; for a fault that ends nothing, `logged`."""

    @property
    def lost(self) -> int:
        return max(0, self.logged - self.saved)


class Run:
    """A run of two processes in a folder, started and resumed by torchrun."""

    def __init__(self, folder: Path, steps: int, engine: list[str]) -> None:
        self.folder, self.path, self.log = folder, folder / "run", folder / "log"
        self.words = [str(CONFIG), *SIZES, *engine, f"train.max_steps={steps}", "--out", str(folder), "--name", "run"]
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    def start(self, engines: int = 1) -> None:
        script = str(ROOT / "evidence" / "_faulty_rank.py")
        replicas = [f"sampler.replicas={engines}"] if VLLM[0] in self.words else []
        command = [sys.executable, *LAUNCH, script, str(self.folder), *self.words, *replicas, "--resume"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def pid(self, rank: int) -> int:
        return int((self.folder / f"pid.{rank}").read_text())

    def steps(self) -> int:
        path = self.path / "steps.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def saved(self) -> int:
        found = folders(self.path / "checkpoints")
        return int(found[0].name[5:]) if found else 0

    def await_steps(self, number: int, seconds: float) -> None:
        """Wait until so many steps are finished, or the run has ended."""
        deadline = time.monotonic() + seconds
        while self.steps() < number and self.alive():
            if time.monotonic() > deadline:
                self.fail(f"{number} steps were not reached within {seconds:.0f} s")
            time.sleep(0.01)

    def await_resume(self, kept: int, seconds: float) -> None:
        """Wait until the steps that are to be played again are gone from the log: before, the processes only start."""
        deadline = time.monotonic() + seconds
        while self.steps() > kept:
            if time.monotonic() > deadline or not self.alive():
                self.fail(f"the run did not resume within {seconds:.0f} s")
            time.sleep(0.01)

    def await_end(self, seconds: float) -> int:
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"processes were still there after {seconds:.0f} s")

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def fail(self, reason: str) -> Any:
        self.kill()
        sys.exit(f"{self.log.read_text()[-4000:]}\n{reason}")

    def kill(self) -> None:
        if self.process is not None and self.alive():
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()


def engines_of(process: int) -> list[psutil.Process]:
    """The processes of the engines that a process of the run has started, one each."""
    children = psutil.Process(process).children(recursive=True)
    return [child for child in children if "EngineCore" in child.name() or "EngineCore" in " ".join(child.cmdline())]


def launcher_gets(number: signal.Signals) -> Callable[[Run, int], None]:
    def send(run: Run, rank: int) -> None:
        assert run.process is not None
        os.kill(run.process.pid, number)

    return send


def kill_engine(run: Run, rank: int) -> None:
    """The first process has started all of them."""
    engines = engines_of(run.pid(0))
    engines[min(rank, len(engines) - 1)].kill()  # the other may still be starting after a fault before


def fail_update(run: Run, rank: int) -> None:
    (run.folder / f"fail.{rank}").touch()


def kill_process(run: Run, rank: int) -> None:
    os.kill(run.pid(rank), signal.SIGKILL)


FAULTS: dict[str, Callable[[Run, int], None]] = {
    "SIGTERM": launcher_gets(signal.SIGTERM),
    "SIGINT": launcher_gets(signal.SIGINT),
    "engine killed": kill_engine,
    "exception in an update": fail_update,
    "SIGKILL of a process": kill_process,
}
TO_THE_LAUNCHER = ("SIGTERM", "SIGINT")


def strike(run: Run, fault: str, rank: int, moment: float) -> Outcome:
    """Start or resume, let two steps pass, wait a moment longer, and strike."""
    if not run.alive():
        before = run.saved()
        run.start(engines=2 if fault == "engine killed" else 1)
        run.await_resume(before, START)
        run.await_steps(before + 2, START)
    else:
        run.await_steps(run.steps() + 2, START)
    time.sleep(moment)
    logged, began = run.steps(), time.monotonic()
    FAULTS[fault](run, rank)
    if fault == "engine killed":
        run.await_steps(logged + 2, START)
        return Outcome(fault, rank, time.monotonic() - began, logged, logged)
    run.await_end(START)
    return Outcome(fault, rank, time.monotonic() - began, logged, run.saved())


def plan() -> Iterator[tuple[str, int, float]]:
    """Every fault on every process that it can hit, at random moments and in a random order; those that end nothing
    come last, in one start."""
    rng = random.Random(0)
    planned = [(fault, rank, rng.uniform(0, 3.0)) for fault in FAULTS for rank in (0, 1)]
    planned = [one for one in planned if one[0] not in TO_THE_LAUNCHER or one[1] == 0]
    rng.shuffle(planned)
    yield from sorted(planned, key=lambda one: one[0] == "engine killed")


def differences(one: Path, two: Path) -> dict[str, float]:
    """How far two finished runs are apart: bouts that differ, and the largest difference of an adapter's weight."""
    rows = [sorted(tuple(row.values()) for row in read_bouts(run, ["step", *SAME]).to_pylist()) for run in (one, two)]
    apart = sum((Counter(rows[0]) - Counter(rows[1])).values()) + abs(len(rows[0]) - len(rows[1]))
    adapters = [newest_adapters(run) for run in (one, two)]
    weights = max(float((adapters[0][name] - adapters[1][name]).abs().max()) for name in adapters[0])
    return {"bouts": apart, "adapters": weights, "lines of steps.jsonl": differing_lines(one, two)}


def differing_lines(one: Path, two: Path) -> int:
    lines = [(run / "steps.jsonl").read_bytes().splitlines() for run in (one, two)]
    return sum(a != b for a, b in zip(*lines, strict=True))


def newest_adapters(run: Path) -> dict[str, Any]:
    last = folders(run / "checkpoints")[0]
    files = {policy: load_file(last / policy.value / "adapter_model.safetensors") for policy in Policy}
    return {f"{policy.value} {name}": tensor for policy, state in files.items() for name, tensor in state.items()}


def main() -> None:
    args = arguments(__doc__)
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    quick = args.quick
    planned = [("SIGTERM", 0, 0.5)] if quick else list(plan())
    engine, steps = ([], 4) if quick else (VLLM, STEPS * len(planned))
    with tempfile.TemporaryDirectory() as scratch:
        run, whole = (Run(Path(scratch, name), steps, engine) for name in ("struck", "untouched"))
        outcomes = []
        try:
            if not quick:
                whole.start()
            for number, (fault, rank, moment) in enumerate(planned, 1):
                outcomes.append(strike(run, fault, rank, moment))
                show(number, outcomes[-1])
            apart = {} if quick else finish_and_compare(run, whole)
        finally:
            run.kill()
            whole.kill()
    report(outcomes, apart, steps, quick)


def finish(run: Run) -> None:
    if not run.alive() and (run.process is None or run.process.returncode):
        run.start()
    if run.await_end(1800) != 0:
        run.fail("the last resume did not reach the end")


def finish_and_compare(run: Run, whole: Run) -> dict[str, float]:
    """Train both to the end: the one that was struck, and the one that nobody touched."""
    for one in (run, whole):
        finish(one)
    return differences(whole.path, run.path)


def show(number: int, outcome: Outcome) -> None:
    print(
        f"{number:2d}. {outcome.fault} (process {outcome.rank}): {outcome.logged} steps done, {outcome.saved} kept, "
        f"{outcome.seconds:.1f} s",
        flush=True,
    )


def report(outcomes: list[Outcome], apart: dict[str, float], steps: int, quick: bool) -> None:
    ended = [outcome for outcome in outcomes if outcome.fault != "engine killed"]
    bound = [outcome for outcome in ended if outcome.fault != "SIGKILL of a process"]
    lost = sum(outcome.lost for outcome in bound)
    lost_to_kills = {
        f"process {rank}": sum(o.lost for o in ended if o not in bound and o.rank == rank) for rank in (0, 1)
    }
    slowest = max(outcome.seconds for outcome in ended)
    print(f"\nagainst a run that nobody touched, {steps} steps: {apart}")
    same = not apart or (apart["bouts"] == 0 and apart["adapters"] <= CLOSE)
    verdict(
        "two processes stop, fail and die together: no finished step is lost to a signal or an error, resume goes on",
        value={"slowest_seconds": round(slowest, 1), "steps_lost": lost, "apart": apart},
        goal={"slowest_seconds": WAIT, "steps_lost": 0, "apart": {"bouts": 0, "adapters": CLOSE}},
        holds=slowest < WAIT and lost == 0 and same and lost_to_kills["process 1"] == 0,
        faults=len(outcomes),
        steps=steps,
        median_seconds=round(percentile([outcome.seconds for outcome in ended], 50), 1),
        steps_lost_when_killed=lost_to_kills,
        outcomes=[asdict(outcome) for outcome in outcomes],
        quick=quick,
    )


if __name__ == "__main__":
    main()
