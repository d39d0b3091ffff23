"""Does the audit of rewards find faults, and does it leave good rewards alone? Percent of rewards on which it fails.

`audit_rewards.jsonl` holds 45 rewards in TRL's signature with their rows: 20 with a fault each after public bugs, 10 by
somebody who had not read the probes, and 15 without a fault. A fault is something for which a person would mend the
reward: it pays wrong answers, refuses right ones, crashes, hangs, depends on chance or order, or runs what a model
wrote. `--full` prints what is found in each.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from _table import Row, arguments, report
from agon.eval.intervals import wilson
from agon_judge.auditing.run import audit

REWARDS = Path(__file__).with_name("audit_rewards.jsonl")
GROUPS = {"planted": "planted faults found, %", "blind": "faults by a stranger found, %", "good": "false alarms, %"}


def main() -> None:
    full = arguments(__doc__).full
    cases = [json.loads(line) for line in REWARDS.read_text().splitlines()]
    failed: dict[str, list[bool]] = {group: [] for group in GROUPS}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            file = Path(folder) / f"{case['name']}.py"
            file.write_text(case["code"])
            found = audit(f"{file}:reward", case["rows"], take=5, workers=1)
            failed[case["by"]].append(not found.passed)
            if full:
                said = "; ".join(fault.kind for fault in found.faults) or "passes"
                print(f"{case['by']:<8} {case['name']:<21} {case['what'][:60]:<61} {said}", flush=True)
    rows = []
    for group, what in GROUPS.items():
        share = wilson(sum(failed[group]), len(failed[group]))
        interval = 100 * (share.low or 0), 100 * (share.high or 0)
        rows.append(Row(what, 100 * share.value, n=len(failed[group]), interval=interval))
    report("audit", rows, packages=("math-verify",), full=full)


if __name__ == "__main__":
    main()
