"""What every evidence script shares: arguments, the verdict line, small statistics, and a description of the machine.

A script measures, prints what a person wants to read, and ends with `verdict(...)`, which prints one JSON line and
exits with 0 or 1. `scripts/prove` keeps that line. Where something is missing that it needs, it ends with
`cannot_run(...)`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

# not an import statement, which `_sources.py` would follow: no result depends on how the machine is described
provenance = import_module("agon.rundir.manifest")

CANNOT_RUN = 77
"""Exit code of a script that cannot run here, as automake's tests use it: neither a verdict nor a crash."""
ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # helpers of tests serve here too


def arguments(description: str, parts: Sequence[str] = ()) -> argparse.Namespace:
    """Parse the command line of a script: `--quick` is its smallest form, `--part` some parts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="the smallest measurement: seconds to a few minutes")
    if parts:
        parser.add_argument("--part", action="append", choices=parts, help="this part alone; may be repeated")
    return parser.parse_args()


Part = tuple[Callable[[bool], dict[str, Any]], Callable[[dict[str, Any]], bool]]
"""Measures something, quickly or in full, and says whether what was found is as claimed."""


KEPT = frozenset({"name", "seconds", "commit", "dirty", "sources", "versions", "hardware"})
"""What `scripts/prove` adds to a verdict that it keeps."""


def verdict_of_parts(claim: str, parts: Mapping[str, Part], args: argparse.Namespace, quick: Sequence[str]) -> NoReturn:
    """Run the parts that the command line names, or all, or those of the quick version; all must hold."""
    found, held = dict[str, dict[str, Any]](), dict[str, bool]()
    for name in args.part or (quick if args.quick else parts):
        run, holds = parts[name]
        found[name] = run(args.quick)
        held[name] = holds(found[name])
        print(f"{name}: {found[name]}", flush=True)
    said = {name: "holds" if good else "does not hold" for name, good in held.items()}
    missing = [name for name in parts if name not in found]
    verdict(claim, said, "every part holds", all(held.values()), parts=found, missing=missing, quick=args.quick)


def verdict(claim: str, value: Any, goal: Any, holds: bool, **more: Any) -> NoReturn:
    """Print the last line, {"claim", "value", "goal", "holds", ...}, and exit with 0 if the claim holds, else 1."""
    if clash := more.keys() & KEPT:
        raise ValueError(f"a kept result adds these itself: {sorted(clash)}")
    line = {"claim": claim, "value": value, "goal": goal, "holds": bool(holds), **more}
    print(json.dumps(line, allow_nan=False), flush=True)
    sys.exit(0 if holds else 1)


def cannot_run(reason: str) -> NoReturn:
    """Say what is missing here, and exit with CANNOT_RUN."""
    print(f"cannot run here: {reason}", file=sys.stderr, flush=True)
    sys.exit(CANNOT_RUN)


def need_bubblewrap() -> None:
    """End here where programs cannot be boxed."""
    if shutil.which("bwrap") is None:
        cannot_run("bubblewrap is not installed; Debian, Ubuntu: apt-get install bubblewrap")


def data_dir() -> Path | None:
    """The folder of data sets (AGON_DATA, by default `shared/data` beside the repository), if it is there."""
    folder = Path(os.environ.get("AGON_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def smollm2(folder: Path) -> Path:
    """The checkpoint of SmolLM2-135M that AGON_SMOLLM2 names, or one that is made in `folder`, once."""
    if named := os.environ.get("AGON_SMOLLM2"):
        return Path(named).resolve()
    if not (folder / "config.json").exists():
        made = subprocess.run([sys.executable, ROOT / "scripts" / "make_smollm2", folder], stdout=sys.stderr)
        if made.returncode:
            cannot_run("SmolLM2-135M was not made; set AGON_SMOLLM2 to a folder that scripts/make_smollm2 wrote")
    return folder


def percentile(values: Sequence[float], q: float) -> float:
    """The q-th percentile (0 to 100), interpolated between neighbours."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    """The 50th percentile."""
    return percentile(values, 50)


def ratio_interval(
    above: Sequence[float], below: Sequence[float], *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """(ratio, low, high) of sum(above) / sum(below), by a paired bootstrap over rows."""
    if len(above) != len(below) or not above:
        raise ValueError("paired values of equal, positive length are needed")
    rng = random.Random(seed)
    rows = range(len(above))
    ratios = []
    for _ in range(draws):
        drawn = rng.choices(rows, k=len(above))
        ratios.append(sum(above[i] for i in drawn) / sum(below[i] for i in drawn))
    tail = 50 * (1 - level)
    return sum(above) / sum(below), percentile(ratios, tail), percentile(ratios, 100 - tail)


def mean_interval(
    values: Sequence[float], *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float, float]:
    """(mean, low, high) by the bootstrap."""
    return ratio_interval(values, [1.0] * len(values), level=level, draws=draws, seed=seed)


def hardware() -> dict[str, Any]:
    """Cores, instruction sets, memory and accelerators: what a measured time depends on, and no name of a machine."""
    return {**provenance.hardware().model_dump(), "cpu_flags": _cpu_flags()}


versions = provenance.packages


def commit() -> dict[str, Any]:
    """The revision that was measured, and whether the tree had other changes than results."""
    dirty = [line for line in _git("status", "--porcelain").splitlines() if "evidence/results/" not in line]
    return {"commit": _git("rev-parse", "HEAD").strip(), "dirty": bool(dirty)}


def _git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _cpu_flags() -> list[str]:
    """Instruction sets that decide how fast matrices multiply."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text().lower().splitlines() if table.exists() else []
    flags = {word for line in lines if line.startswith(("flags", "features")) for word in line.split()}
    return sorted({"avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile", "asimd", "sve"} & flags)
