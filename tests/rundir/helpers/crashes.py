"""Stop the steps of a run at each change they make to the disk, resume, and compare with a run that nothing stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from agon.rundir import RunDir
from tests.rundir.helpers import faults, runs

Strike = Callable[[faults.Disk], None]


def steps_from(first: int, root: Path, disk: faults.Disk) -> list[str]:
    """Play the steps from `first` on a disk, in another process; return what it promised."""
    run = RunDir(root / "run")
    return faults.in_child(lambda say: runs.play(run, first, runs.STEPS, say), disk)


def undisturbed(before: Path, first: int = runs.STEPS) -> tuple[dict[str, bytes], list[str]]:
    """The files of a run that nothing stopped, and the changes that its steps from `first` made."""
    root = before.with_name("undisturbed")
    shutil.copytree(before, root)
    with faults.Disk(root).watching() as disk:
        runs.play(RunDir(root / "run"), first, runs.STEPS)
    found = runs.contents(root / "run")
    shutil.rmtree(root)
    return found, disk.changes


def moments(changes: list[str], strike: Strike) -> list[int]:
    """Where stopping can make a difference.

    A process that dies before or after a sync leaves the same files behind. A machine does not, but what it was
    deleting had lost its name for good before.
    """
    alike = {"fsync"} if strike is faults.kill else {"unlink", "rmdir"}
    return [at for at, name in enumerate(changes) if name not in alike]


def crash_everywhere(before: Path, strike: Strike, first: int = runs.STEPS) -> int:
    """Stop at every moment, resume each time, and compare; return how many moments there were."""
    expected, changes = undisturbed(before, first)
    chosen = moments(changes, strike)
    for at in chosen:
        root = before.with_name(f"stopped-{at}")
        shutil.copytree(before, root)
        words = steps_from(first, root, faults.Disk(root, at, strike))
        promised = max((int(word) for word in words if word.isdigit()), default=first - 1)
        step = runs.resume_and_finish(RunDir(root / "run"))
        assert step in {promised, promised + 1}, f"stopped at change {at}: step {promised} was promised, {step} found"
        assert runs.contents(root / "run") == expected, f"stopped at change {at}: the resumed run differs"
        shutil.rmtree(root)
    return len(chosen)
