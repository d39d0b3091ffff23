"""Kill -9 a training run again and again, resume it each time, and compare with a run that nobody touched.

Some kills fall at random moments of a step, some inside the write of a checkpoint. One process, float32, the tiny base.
On transformers all must be equal bit for bit: both adapters, the optimizer and schedule, the random generators,
`steps.jsonl` (roles, data, tokens, losses), every bout, every evaluation point. On vLLM the last bits of a log-prob
depend on what else is in the batch, so that every bout must be equal, and adapters nearly. The run that nobody touched
is trained by `agon.train` in this process on transformers, and by the command line on vLLM, the killed ones by the
command line. Then the newest checkpoint is damaged in many ways: the loader must report it and use the one before.
Two processes, and their engines, are killed in `process_faults.py`.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _lib import ROOT, arguments, verdict
from agon import train
from agon.rundir import read_bouts
from agon.rundir.bouts import files_in
from agon.rundir.checkpoint import folders, newest
from process_faults import CLOSE, VLLM, differences

EXTRA_SOURCES = ("src/agon/cli/train.py", "configs/tabletop")
OVERRIDES = [
    "data.train.take=60", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2", "game.group_size=2",
    "train.tokens_per_pass=80", "eval.points=2", "save.every=1", "save.keep=3",
]  # fmt: skip
ON_VLLM = [*VLLM, "train.max_completion_tokens=48", "eval.max_completion_tokens=48", "train.learning_rate=5e-5"]
"""At a larger rate Adam would turn the last bits of a log-prob into differences of a whole step."""
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
LIMIT = 900
STEPS, KILLS = 30, 20
STEPS_VLLM, KILLS_VLLM = 12, 4


@dataclass(frozen=True, slots=True)
class Killed:
    """A run of `steps` steps in a folder, and how often it is killed."""

    out: Path
    steps: int
    kills: int
    engine: tuple[str, ...] = ()
    name: str = "killed"

    @property
    def path(self) -> Path:
        return self.out / self.name

    @property
    def log(self) -> str:
        return (self.out / f"{self.name}.log").read_text()[-3000:]

    def start(self) -> subprocess.Popen[bytes]:
        """Start or resume it in a session of its own."""
        words = [str(CONFIG), *OVERRIDES, *self.engine, f"train.max_steps={self.steps}"]
        where = ["--out", str(self.out), "--name", self.name, "--resume"]
        with (self.out / f"{self.name}.log").open("ab") as log:
            command = [sys.executable, "-m", "agon", "train", *words, *where]
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def finish(self) -> None:
        if self.start().wait(LIMIT) != 0:
            sys.exit(self.log)


def lines(run: Path) -> int:
    path = run / "steps.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def saved(run: Path) -> int:
    found = folders(run / "checkpoints")
    return int(found[0].name[5:]) if found else -1


def life(killed: Killed, rng: random.Random, inside_save: bool, early: bool) -> bool:
    """Let the run live until the chosen moment and kill it; True when it ended by itself first.

    An early death may come at any moment, before the run has begun to step too; the others come after a checkpoint.
    """
    run, process = killed.path, killed.start()
    before, moment, deadline = saved(run), rng.uniform(0, 1.0), time.time() + LIMIT
    born = time.time()
    while process.poll() is None and time.time() < deadline:
        if early and time.time() > born + 12 * moment:
            break
        progressed = saved(run) > before
        writing = any((run / "checkpoints").glob(".tmp-*")) if (run / "checkpoints").exists() else False
        if progressed and (writing if inside_save else True):
            time.sleep(0 if inside_save else moment)
            break
        time.sleep(0.001)
    if process.poll() is not None:
        if process.returncode != 0:
            sys.exit(killed.log)
        return True
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return False


def kill_and_finish(killed: Killed, rng: random.Random) -> tuple[int, int]:
    """(kills, of them while a checkpoint was being written), then let it finish."""
    done = inside = 0
    while done < killed.kills:
        in_save, early = done % 4 == 3, done % 4 in (0, 2)
        if life(killed, rng, in_save, early):
            break
        done, inside = done + 1, inside + in_save
        run = killed.path
        print(f"kill {done}: {lines(run)} steps written, newest checkpoint {saved(run)}", flush=True)
    killed.finish()
    return done, inside


def on_transformers(out: Path, steps: int, kills: int, rng: random.Random) -> dict[str, Any]:
    """Kill a run on transformers, compare all it leaves behind, and damage checkpoints of the whole one."""
    train(CONFIG, *OVERRIDES, f"train.max_steps={steps}", out=out, name="whole", show="nothing")
    run = Killed(out, steps, kills)
    done, inside = kill_and_finish(run, rng)
    whole, killed = fingerprint(out / "whole"), fingerprint(run.path)
    differing = sorted(name for name in whole.keys() | killed.keys() if whole.get(name) != killed.get(name))
    missed = corruptions(out / "whole", 50, rng)
    print(f"{done} kills ({inside} inside a checkpoint write), {len(whole)} things compared")
    print(f"differing: {differing or 'none'}")
    print(f"50 damaged newest checkpoints, not reported and skipped: {missed or 'none'}")
    return {"kills": done, "inside_checkpoint_writes": inside, "differing": differing, "damages_missed": missed}


def on_vllm(out: Path, steps: int, kills: int, rng: random.Random) -> dict[str, Any]:
    """Kill a run on vLLM, and compare its bouts and adapters."""
    whole, run = (Killed(out, steps, kills, tuple(ON_VLLM), name) for name in ("whole-vllm", "killed-vllm"))
    whole.finish()
    done, _ = kill_and_finish(run, rng)
    apart = differences(whole.path, run.path)
    print(f"on vLLM: {done} kills; apart: {apart}")
    return {"kills": done, "bouts": apart["bouts"], "adapters": apart["adapters"]}


def fingerprint(run: Path) -> dict[str, str]:
    """Everything that must be equal, by name."""
    last = folders(run / "checkpoints")[0]
    files = [path for path in sorted(last.rglob("*")) if path.is_file() and path.name != "MANIFEST.json"]
    prints = {path.relative_to(last).as_posix(): digest(path.read_bytes()) for path in files}
    prints["steps.jsonl"] = digest((run / "steps.jsonl").read_bytes())
    prints["points.json"] = digest((run / "points.json").read_bytes())
    prints["bouts"] = digest(str(read_bouts(run).to_pylist()).encode())
    prints["bout files"] = digest(str([path.name for path in files_in(run / "bouts").values()]).encode())
    prints["pair/agon.json"] = digest((run / "pair" / "agon.json").read_bytes())
    return prints


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def corrupt(folder: Path, rng: random.Random) -> str:
    """Damage one file of a checkpoint and say how."""
    path = rng.choice([path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size])
    how = rng.choice(["bit flip", "truncation", "deletion"])
    data = bytearray(path.read_bytes())
    if how == "deletion":
        path.unlink()
    elif how == "truncation":
        path.write_bytes(data[: rng.randrange(len(data))])
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    return f"{how} of {path.relative_to(folder)}"


def corruptions(run: Path, count: int, rng: random.Random) -> list[str]:
    """Damage the newest checkpoint `count` times; return the damages that were not reported and skipped."""
    missed = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch, "checkpoints")
            shutil.copytree(run / "checkpoints", copy)
            last, previous, *_ = folders(copy)
            damage = corrupt(last, rng)
            found = newest(copy)
            if found.path != previous or [path for path, _ in found.skipped] != [last]:
                missed.append(damage)
    return missed


def main() -> None:
    args = arguments(__doc__)
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        value = on_transformers(Path(scratch), *((4, 1) if args.quick else (STEPS, KILLS)), rng)
        vllm = {} if args.quick else on_vllm(Path(scratch), STEPS_VLLM, KILLS_VLLM, rng)
    same = vllm == {} or (vllm["kills"] == KILLS_VLLM and not vllm["bouts"] and vllm["adapters"] <= CLOSE)
    equal = value["kills"] == (1 if args.quick else KILLS) and not value["differing"] and not value["damages_missed"]
    goal = {"kills": KILLS, "differing": [], "damages_missed": []}
    verdict(
        "a run killed and resumed equals an untouched one, on vLLM but for last bits; damaged checkpoints are skipped",
        value={**value, **({"vllm": vllm} if vllm else {})},
        goal={**goal, "vllm": {"kills": KILLS_VLLM, "bouts": 0, "adapters": CLOSE}},
        holds=equal and same and (value["inside_checkpoint_writes"] > 0 or args.quick),
        steps=STEPS,
        steps_on_vllm=STEPS_VLLM,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
