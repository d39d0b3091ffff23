"""What every benchmark shares: its arguments, the table that it prints, and the row that it adds to RESULTS.md.

    args = arguments(__doc__)
    rows = [Row("rows per second", 31_000, reference=9_500, n=20, interval=(29_000, 33_000))]
    report("lens", rows, packages=("pyarrow",), full=args.full)

A run on a tree with changes is printed and not recorded: nobody could repeat it.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from statistics import fmean, stdev

from scipy import stats

from agon.rundir.manifest import hardware
from agon_lens.formatting import UNKNOWN, significant, table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = ("what", "ours", "reference", "ratio", "n", "interval")


@dataclass(frozen=True, slots=True)
class Row:
    """One measured value beside a reference. The ratio is ours over the reference, the interval is of ours, 95%."""

    what: str
    ours: float
    reference: float | None = None
    n: int | None = None
    interval: tuple[float, float] | None = None

    def cells(self) -> list[str]:
        ratio = self.ours / self.reference if self.reference else None
        interval = " to ".join(map(significant, self.interval)) if self.interval else UNKNOWN
        count = UNKNOWN if self.n is None else f"{self.n:,}"
        return [self.what, *map(significant, (self.ours, self.reference, ratio)), count, interval]


def mean_of(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The mean of repeated measurements, and its interval by Student's t."""
    middle, spread = fmean(values), stdev(values) / len(values) ** 0.5
    reach = float(stats.t.ppf(0.975, len(values) - 1)) * spread
    return middle, (middle - reach, middle + reach)


def arguments(doc: str | None) -> argparse.Namespace:
    """`--full` is the long form."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the long form")
    return parser.parse_args()


def report(name: str, rows: Sequence[Row], packages: Sequence[str] = (), *, full: bool = False) -> None:
    """Print the table, and append a row to RESULTS.md: date, revision, machine, versions of these packages, values."""
    print(table(HEAD, [row.cells() for row in rows]))
    revision = _git("rev-parse", "--short=10", "HEAD").strip()
    if not revision or [line for line in _git("status", "--porcelain").splitlines() if RESULTS.name not in line]:
        print("not recorded: commit the changes of this tree first")
        return
    what = f"{name} --full" if full else name
    versions = [f"python {platform.python_version()}", *(f"{each} {metadata.version(each)}" for each in packages)]
    values = "; ".join(_in_words(row.cells()) for row in rows)
    cells = [f"{datetime.now(UTC):%Y-%m-%d}", what, revision, _machine(), ", ".join(versions), values]
    with RESULTS.open("a") as file:
        file.write(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n")


def _in_words(cells: Sequence[str]) -> str:
    """`rows per second: 31,000 (reference 9,500, ratio 3.26, n 20, interval 29,000 to 33,000)`."""
    what, ours, *rest = cells
    known = ", ".join(f"{name} {cell}" for name, cell in zip(HEAD[2:], rest, strict=True) if cell != UNKNOWN)
    return f"{what}: {ours}" + (f" ({known})" if known else "")


def _machine() -> str:
    """What a time depends on, and nobody's name; with the load of its last minute."""
    found = hardware()
    parts = [found.system, found.cpu or found.machine, f"{found.cores} cores", f"{found.memory_gib:.0f} GiB"]
    return ", ".join([*parts, *found.gpus, f"load {os.getloadavg()[0]:.1f}"])


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout
