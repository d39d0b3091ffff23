"""Ours beside plain math-verify on answers whose worth is known: wrong ones that are paid, right ones that are refused.

`math_pairs.jsonl` holds 585 right and 545 wrong answers to 95 golds, written by somebody who had not read our rules;
`math_forms.jsonl` 1,300 more, on which the rules were made; `hard_golds.jsonl` golds of the hardest problems with one
other spelling each. A right answer that we refuse names the rule (`policy`). Values are percentages with Wilson's
intervals.
`--full` adds the restated question: every expression in the questions of MATH-500, as it stands and in brackets, and
needs AGON_DATA, a folder with math500/test.jsonl.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from _table import Row, arguments, report
from agon.eval.intervals import wilson
from agon_judge.math.judge import MathJudge
from agon_judge.math.plain import PlainMathJudge
from agon_judge.math.spelling import canonical

HERE = Path(__file__).parent
Probe = tuple[str, str, str]
"""Gold, answer, question."""


def table(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def row(what: str, probes: Sequence[Probe], *, paid: bool, ours: MathJudge, theirs: PlainMathJudge) -> Row:
    """How many percent of the probes are paid, or refused."""
    mine = sum(verdict.correct == paid for verdict in ours.judge_many(probes))
    plain = theirs.judge_many((gold, rf"\boxed{{{answer}}}") for gold, answer, _ in probes)
    other = sum(verdict.correct == paid for verdict in plain)
    found = wilson(mine, len(probes))
    interval = 100 * (found.low or 0), 100 * (found.high or 0)
    return Row(what, 100 * mine / len(probes), 100 * other / len(probes), len(probes), interval)


def restated() -> list[Probe]:
    """The expressions of the questions of MATH-500 and their sides, for golds that are written differently."""
    folder = Path(os.environ.get("AGON_DATA") or HERE.parents[1] / "shared" / "data")
    found = []
    for line in (folder / "math500" / "test.jsonl").read_text().splitlines():
        record = json.loads(line)
        question, gold = record["problem"], record["answer"]
        texts = [a or b for a, b in re.findall(r"\$\$?([^$]{2,200})\$|\\\[(.{2,200}?)\\\]", question, re.DOTALL)]
        sides = {side.strip().rstrip(".?,= ") for text in texts for side in (text, *text.split("="))}
        parts = sorted(part for part in sides if len(part) > 1 and canonical(part) != canonical(gold))
        found += [(gold, answer, question) for part in parts for answer in (part, f"({part})")]
    return found


def main() -> None:
    full = arguments(__doc__).full
    rows = []
    with MathJudge() as ours, PlainMathJudge() as theirs:
        for name, title in (("math_pairs.jsonl", "by a stranger"), ("math_forms.jsonl", "by us")):
            for right, what, paid in ((False, "wrong, paid", True), (True, "right, refused", False)):
                probes = [(r["gold"], r["answer"], r.get("question", "")) for r in table(name) if r["right"] == right]
                rows.append(row(f"{what}, % ({title})", probes, paid=paid, ours=ours, theirs=theirs))
        again = [(each["gold"], each["rewriting"], "") for each in table("hard_golds.jsonl")]
        rows.append(row("hard golds respelled, refused, %", again, paid=False, ours=ours, theirs=theirs))
        if full:
            rows.append(row("the question again, paid, %", restated(), paid=True, ours=ours, theirs=theirs))
    report("math_judge", rows, packages=("math-verify", "sympy"), full=full)


if __name__ == "__main__":
    main()
