"""What `agon_lens.watch` costs in a real TRL run: CPU microseconds per row, log and findings included.

GRPO with TRL on the tiny base: groups of eight, completions of up to 12 tokens, findings every five steps. Its log must
hold the same rows and rewards as TRL's own (`log_completions`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

from _lib import ROOT, arguments, verdict

sys.path.append(str(ROOT / "packages" / "lens" / "tests" / "writers"))

from trl_run import brief, digits, train

import agon_lens

LIMIT = 1000
"""CPU microseconds per row."""


def main() -> None:
    args = arguments(__doc__ or "")
    steps = 5 if args.quick else 30
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        funcs = agon_lens.watch([digits, brief], out / "lens", every=5, show=said.append)
        train(out / "trl", steps=steps, group=8, funcs=funcs)
        (ours,), (theirs,) = agon_lens.read(out / "lens"), agon_lens.read(out / "trl")
    recorder = funcs[0].recorder
    cost = 1e6 * recorder.cpu_seconds / recorder.rows
    print("\n\n".join(said))
    pairs = zip(sorted(row.terms for row in ours.rows()), sorted(row.terms for row in theirs.rows()), strict=False)
    same = max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))
    rows = (recorder.rows, sum(map(len, ours.groups)), sum(map(len, theirs.groups)))
    found = {"microseconds": round(cost), "rows": rows, "largest_difference": same, "printed": len(said)}
    print(found)
    holds = cost <= LIMIT and len(set(rows)) == 1 and same < 1e-6 and len(said) == steps // 5
    claim = "`agon_lens.watch` logs what TRL logs, and costs at most 1 ms of CPU per row with its findings"
    verdict(claim, found, f"at most {LIMIT} microseconds, the same rows", holds, steps=steps, quick=args.quick)


main()
