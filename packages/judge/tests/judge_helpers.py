"""What several tests of the judge share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agon_judge.math.judge import MathJudge
from agon_judge.math.probes import Probe, row
from agon_judge.sandbox import cgroups
from agon_judge.verdict import Reason

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
DATA = Path(os.environ.get("AGON_DATA") or Path(__file__).parents[4] / "shared" / "data")
"""MATH-500 and GSM8K, where they are at hand."""
HERE = "cgroup" if cgroups.places() else "per_process"
"""How memory can be limited on this machine."""


@dataclass(frozen=True)
class Form:
    """An answer in one form, and whether it is right. `policy` names the rule by which it is not judged so."""

    gold: str
    answer: str
    right: bool
    policy: str = ""
    question: str = ""

    @property
    def paid(self) -> bool:
        return self.right != bool(self.policy)


def forms(name: str) -> list[Form]:
    """A table of the benchmarks."""
    return [Form(**json.loads(line)) for line in (BENCHMARKS / f"{name}.jsonl").read_text().splitlines()]


def reasons(judge: MathJudge, *probes: Probe) -> list[Reason]:
    return [verdict.reason for verdict in judge.judge_many(row(*probe) for probe in probes)]


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for what happens, and never for a fixed time; AssertionError if it does not happen."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def gone(*processes: int, seconds: float = 20.0) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + seconds
    while any(map(alive, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(process: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
