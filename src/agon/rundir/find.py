"""Find run directories in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agon.errors import RunDirError

LISTED = 8
"""Runs named when one does not exist, or must be chosen."""


def is_run(folder: Path) -> bool:
    """Whether a folder is a run directory."""
    return (folder / "config.yaml").is_file() and (folder / "manifest.json").is_file()


def runs_in(folder: Path, depth: int = 3, is_run: Callable[[Path], bool] = is_run) -> list[Path]:
    """The run directories in a folder and the folders in it, sorted; a run is not searched for more runs."""
    if is_run(folder):
        return [folder]
    if depth == 0 or not folder.is_dir():
        return []
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [run for path in inside for run in runs_in(path, depth - 1, is_run)]


def runs_near(path: Path) -> list[Path]:
    """The runs beside a path where there is none, else those in `runs`, where training puts them."""
    return runs_in(path.parent, depth=1) or runs_in(Path("runs"), depth=1)


def no_run(path: Path) -> RunDirError:
    """The error about a run that does not exist, or is a file, with the names of those that do."""
    here = runs_near(path)
    fix = name_one(here) if here else "start one: agon train CONFIG, or: agon demo"
    if meant := next((run for run in here if run.name == path.name), None):
        fix = f"did you mean {meant}?"
    return RunDirError(f"{path} is a file, not a run" if path.exists() else f"there is no run {path}", fix=fix)


def check_one_run(path: Path) -> None:
    """Refuse a folder of runs where one run is needed."""
    here = runs_in(path, depth=2)
    if here not in ([], [path]):
        raise RunDirError(f"{path} is a folder of runs, not a run", fix=name_one(here))


def name_one(runs: Sequence[Path]) -> str:
    """What to do where one of these runs is meant."""
    return f"name one of: {', '.join(map(str, runs[:LISTED]))}"
