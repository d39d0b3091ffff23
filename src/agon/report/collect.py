"""What run directories hold for tables and figures: results of `agon eval`, points, and what training spent.

A result that is not finished or cannot be read is left out and said to be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.report.curve import Point, curve
from agon.rundir import RunDir

HELD_OUT = "held_out"
CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class Setting:
    """What must be equal for two numbers to stand in one table: the base and the problems it was trained on."""

    base: str
    data: str

    def __str__(self) -> str:
        return f"{self.base} on {self.data}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run as a report sees it."""

    name: str
    setting: Setting
    arm: str
    seed: int
    problems_per_step: int
    group_size: int
    results: Mapping[tuple[str, str], Mapping[str, Any]]
    """By (data, system)."""
    pairs: Mapping[str, Mapping[str, Any]]
    """What is known of A and B together, by data."""
    points: Sequence[Point]
    spent: Mapping[str, int]
    notes: Sequence[str] = field(default=())


def collect(paths: Iterable[Path]) -> list[Run]:
    """Read every run, and every run of a matrix; runs of one name carry that of their folder too.

    What needs no training is measured outside of any run: it joins the runs that were measured on the same problems.
    """
    named = list(paths)
    folders = list(dict.fromkeys(folder.resolve() for path in named for folder in _inside(path)))
    trained = [folder for folder in folders if (folder / CONFIG).exists()]
    others = [folder for folder in folders if folder not in trained]
    if not trained:
        read_run(named[0])  # says what is wrong with it
    found = {folder: read_run(folder) for folder in trained}
    joined = {folder: _untrained(folder, list(found.values())) for folder in others}
    lost = [
        f"{folder} is no run, and none of these was measured on its problems" for folder in others if not joined[folder]
    ]
    runs = found | {folder: run for folder, run in joined.items() if run}
    names = Counter(run.name for run in runs.values())
    told = [
        replace(run, name=f"{path.parent.name}/{run.name}") if names[run.name] > 1 else run
        for path, run in runs.items()
    ]
    return [replace(told[0], notes=[*told[0].notes, *lost]), *told[1:]]


def _inside(path: Path) -> list[Path]:
    """A run is itself; a folder of runs, such as that of a matrix, is all of them."""
    if (path / CONFIG).exists() or (path / "evals").is_dir():
        return [path]
    return sorted(file.parent for name in (CONFIG, "evals") for file in path.glob(f"*/{name}")) or [path]


def _untrained(folder: Path, runs: Sequence[Run]) -> Run | None:
    """Results of a base alone, in the setting of the first run with the same base and problems."""
    notes = list[str]()
    for (data, system), raw in (results := _results(folder / "evals", notes)).items():
        for run in runs:
            theirs = [each for (name, _), each in run.results.items() if name == data]
            if raw["settings"]["base"] == run.setting.base and any(_same(raw, each) for each in theirs):
                seed, nothing = int(raw["run"]["seed"]), {"steps": 0, "rollouts": 0, "generated": 0, "prefilled": 0}
                return Run(folder.name, run.setting, system, seed, 0, 0, results, {}, [], nothing, notes)
    return None


def _same(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether two results are of the same problems."""
    return bool(one.get("outcomes")) and one["outcomes"].keys() == two.get("outcomes", {}).keys()


def read_run(path: Path) -> Run:
    """One run directory, with whatever of it is there."""
    run, notes = RunDir.open(path), list[str]()
    config = run.config
    try:
        setting = Setting(str(config["model"]["name"]), _data(config["data"]["train"]))
        arm, seed = str(config["arm"]), int(config["train"]["seed"])
        shape = int(config["train"]["problems_per_step"]), int(config["game"]["group_size"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirError(f"{path}/config.yaml lacks {error}", fix="restore the file from a copy of the run") from error
    results = _results(path / "evals", notes)
    pairs = {file.parent.name: raw for file in sorted(path.glob("evals/*/pair.json")) if (raw := _json(file, notes))}
    points = curve(path) if (path / "points.json").is_file() else []
    return Run(path.resolve().name, setting, arm, seed, *shape, results, pairs, points, spent(run), notes)


def _data(source: Mapping[str, Any]) -> str:
    """A name for the training problems: preset or file, and what makes its difficulty."""
    options = source.get("options") or {}
    words = [str(source.get("preset") or Path(str(source.get("path"))).name)]
    return " ".join([*words, *(f"{key} {value}" for key, value in sorted(options.items()))])


def _results(folder: Path, notes: list[str]) -> dict[tuple[str, str], Mapping[str, Any]]:
    found = {}
    for file in sorted(folder.glob("*/*.json")):
        raw = None if file.name == "pair.json" else _json(file, notes)
        if raw and raw.get("complete") and whole(raw):
            found[file.parent.name, str(raw["system"])] = raw
        elif raw:
            notes.append(f"{file} is not finished and was left out: run the same `agon eval` again")
    return found


def whole(raw: Mapping[str, Any]) -> bool:
    """Whether a result has everything that a table shows of it."""
    parts = [("pass", "low"), ("length", "final", "all", "mean"), ("tokens", "total", "generated"), ("interval",)]
    parts += [("system",), ("problems",), ("trials",)]
    parts += [("exchange", "empty_peek"), ("leak", "pass_without")] if "exchange" in raw else []
    parts += [("direction", "pass", "ba")] if "direction" in raw else []
    return all(_has(raw, path) for path in parts)


def _has(raw: Any, path: Sequence[str]) -> bool:
    for name in path:
        if not isinstance(raw, Mapping) or name not in raw:
            return False
        raw = raw[name]
    return True


def _json(file: Path, notes: list[str]) -> Mapping[str, Any] | None:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(raw, dict) and raw.get("schema") == 1:
            return raw
        notes.append(f"{file} is not a result of this version and was left out")
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{file} cannot be read and was left out: {error}")
    return None


def spent(run: RunDir) -> dict[str, int]:
    """What training drew: rollouts, generated and prefilled tokens, from the ledger of every step."""
    total = {"steps": 0, "rollouts": 0, "generated": 0, "prefilled": 0}
    for record in run.steps.records():
        total["steps"] += 1
        for entry in record["ledger"].values():
            for name in ("rollouts", "generated", "prefilled"):
                total[name] += entry[name]
    return total
