"""Does the audit of rewards find faults, and does it leave good rewards alone?

Every file of `evidence/audit_faults/` is audited: `planted/`, rewards with one fault each after public bugs; `blind/`,
the same by somebody who has not read the probes; `good/`, rewards without a fault. README.md there has the rules. A
fault is found when the audit fails. With --quick every seventh file is audited.
"""

from __future__ import annotations

import ast
import json
import runpy
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _lib import ROOT, arguments, verdict
from agon_judge.auditing.run import audit

FOLDER = ROOT / "evidence" / "audit_faults"
EXTRA_SOURCES = ("evidence/audit_faults", "packages/judge/src/agon_judge")
RECALL, KINDS, PLANTED, BLIND, GOOD = 0.9, 8, 20, 10, 15


@dataclass(frozen=True)
class Case:
    """One file: what is wrong with its reward, and what the audit said."""

    name: str
    kind: str
    passed: bool
    findings: list[str]
    seconds: float


def audited(path: Path, folder: Path) -> Case:
    kind = (ast.get_docstring(ast.parse(path.read_text())) or "").partition(":")[0]
    rows = runpy.run_path(str(path))["ROWS"]
    file = folder / f"{path.stem}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    began = time.monotonic()
    result = audit(f"{path}:reward", file, take=5, workers=1)
    return Case(path.stem, kind, result.passed, [each.kind for each in result.faults], time.monotonic() - began)


def main() -> None:
    quick = arguments(str(__doc__)).quick
    cases: dict[str, list[Case]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("planted", "blind", "good"):
            files = sorted((FOLDER / name).glob("*.py"))
            cases[name] = []
            for path in files[:: 7 if quick else 1]:
                case = audited(path, Path(folder))
                cases[name].append(case)
                said = "passes" if case.passed else "; ".join(case.findings)
                print(f"{name:<8} {case.name:<18} {case.kind:<16} {case.seconds:5.1f} s  {said}", flush=True)
    found = {name: sum(not case.passed for case in cases[name]) for name in cases}
    recall = {name: round(found[name] / len(cases[name]), 4) if cases[name] else None for name in ("planted", "blind")}
    kinds = {case.kind for case in cases["planted"]}
    value = {"recall_planted": recall["planted"], "recall_blind": recall["blind"], "false_alarms": found["good"]}
    goal = {"recall_planted": f">= {RECALL}", "recall_blind": f">= {RECALL}", "false_alarms": 0}
    enough = quick or (
        len(cases["planted"]) >= PLANTED
        and len(cases["blind"]) >= BLIND
        and len(cases["good"]) >= GOOD
        and len(kinds) >= KINDS
    )
    holds = enough and not found["good"] and all((recall[name] or 0.0) >= RECALL for name in recall if cases[name])
    verdict(
        "the audit finds faulty rewards and raises no alarm on good ones",
        value,
        goal,
        holds,
        planted=len(cases["planted"]),
        blind=len(cases["blind"]),
        good=len(cases["good"]),
        kinds=sorted(kinds),
        missed=[case.name for name in ("planted", "blind") for case in cases[name] if case.passed],
        alarms=[case.name for case in cases["good"] if not case.passed],
    )


if __name__ == "__main__":
    main()
