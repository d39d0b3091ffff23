"""Golds of difficulty 8, by class: is each paid for itself, and for one rewriting?

`hard_golds.jsonl` has 100 golds in the shapes that DeepMath's hardest problems have: rings, groups, cardinals,
infinity, "does not exist", sets, matrices, values and functions. They are written here, not copied from the data set.
Each is given to the math judge as its own answer, and in a different spelling of the same thing. Every gold must be
paid for itself. Rewritings that are not paid are listed with their verdict: `bad_gold` is no verdict, so such a row is
masked rather than taught as wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from _lib import arguments, verdict
from agon_judge.math.judge import MathJudge

EXTRA_SOURCES = ("evidence/hard_golds.jsonl",)
GOLDS, REWRITINGS = 100, 0.95
"""How many golds there are, and the least share of rewritings that is paid."""


def main() -> None:
    arguments(str(__doc__))
    rows = [json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text().splitlines()]
    with MathJudge(workers=2) as judge:
        itself = judge.judge_many((row["gold"], row["gold"], "") for row in rows)
        again = judge.judge_many((row["gold"], row["rewriting"], "") for row in rows)
    paid, total = Counter[str](), Counter(row["class"] for row in rows)
    misses, wrong = [], 0
    for row, own, other in zip(rows, itself, again, strict=True):
        paid[row["class"]] += other.correct
        if not other.correct:
            misses.append(f"{row['gold']}  as  {row['rewriting']}: {other.reason}")
            wrong += other.graded
        if not own.correct:
            print(f"not paid for itself: {row['gold']}: {own.reason} {own.detail}")
    for name, count in total.items():
        print(f"{name:<16} {paid[name]} of {count} rewritings paid")
    print(*(f"    missed: {miss}" for miss in misses), sep="\n")
    own_paid, share = sum(each.correct for each in itself), sum(paid.values()) / len(rows)
    verdict(
        "golds as the hardest problems have them are paid for themselves, most also in another spelling",
        {"golds": len(rows), "paid_for_itself": own_paid, "rewritings_paid": round(share, 4)},
        {"golds": GOLDS, "paid_for_itself": GOLDS, "rewritings_paid": f">= {REWRITINGS}"},
        len(rows) == GOLDS and own_paid == GOLDS and share >= REWRITINGS,
        by_class={name: f"{paid[name]} of {count}" for name, count in total.items()},
        missed_as_wrong=wrong,
        missed_without_verdict=len(misses) - wrong,
        misses=misses,
    )


if __name__ == "__main__":
    main()
