"""Stop a run at every single change it makes to the disk, and damage its newest checkpoint in every way we know.

A run of four steps logs, saves, prunes and replaces its pair; every byte of it is a function of the step. It is stopped
before each call that changes the file system: by killing the process (with a write half done), by a power cut that
loses every unsynced content, by one that loses unsynced names too, and by a kill on a system that cannot swap two
folders atomically. Each time it is resumed, must keep every checkpoint it had promised, and must end with the files of
the run that nothing stopped. No model is needed: `kill_resume.py` does the same to real training.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from _lib import arguments, verdict
from agon.rundir import checkpoint, files
from tests.rundir.helpers import faults, runs
from tests.rundir.helpers.crashes import Strike, crash_everywhere
from tests.rundir.helpers.damages import DAMAGES, damage


def crash(strike: Strike, first: int) -> int:
    """How many moments were survived, from step `first` on."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        before = Path(folder) / "before"
        runs.play(runs.new_run(before), 1, first - 1)
        return crash_everywhere(before, strike, first)


def fast_folder() -> str | None:
    """Memory, where there is some: thousands of small folders are made, and no sync is carried out."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def damaged(cases: int) -> int:
    """How many damaged newest checkpoints were skipped for the one before, with the damaged file named."""
    skipped = 0
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        whole = Path(folder) / "whole"
        for step in (10, 20, 30):
            checkpoint.save(whole, step, runs.fill(step), {})
        for case in range(cases):
            root = Path(shutil.copytree(whole, Path(folder) / str(case) / "checkpoints"))
            victim = damage(root / "step_000030", case)
            found = checkpoint.newest(root)
            named = any(victim.name in reason or "extra-" in reason for _, reason in found.skipped)
            skipped += found.path == root / "step_000020" and len(found.skipped) == 1 and named
    return skipped


def main() -> None:
    options = arguments(__doc__ or "")
    first, cases = (runs.STEPS, 56) if options.quick else (1, 210)
    os.fsync = lambda fd: None
    strikes: dict[str, Strike] = {"kill": faults.kill}
    if not options.quick:
        strikes |= {"power cut": faults.eager, "power cut, names lost": faults.lazy, "kill, no exchange": faults.kill}
    survived, failures = {}, []
    for name, strike in strikes.items():
        if name.endswith("no exchange"):
            files.swap_names = lambda one, two: False
        try:
            survived[name] = crash(strike, first)
            print(f"{name}: stopped at {survived[name]} moments, resumed to the same files from each", flush=True)
        except AssertionError as error:
            failures.append(f"{name}: {error}")
            print(f"FAILED {failures[-1]}", flush=True)
    skipped = damaged(cases)
    print(f"{skipped} of {cases} damaged newest checkpoints ({len(DAMAGES)} kinds) were skipped and named")
    verdict(
        "a scripted run stopped at any change to the disk resumes to the same files; damaged checkpoints are skipped",
        {"differing": len(failures), "skipped": skipped},
        {"differing": 0, "skipped": cases},
        holds=not failures and skipped == cases,
        moments=survived,
        steps=runs.STEPS - first + 1,
        kinds_of_damage=len(DAMAGES),
    )


if __name__ == "__main__":
    main()
