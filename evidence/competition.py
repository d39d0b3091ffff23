"""The bonus is a weight on contexts: the weights of docs/competition.md, counted twice.

Once in closed form: a sum over how many of the other challenges are right, with binomial chances and the textbook's
mean and standard deviation. Once by playing every outcome of a group through `agon.algorithm.score`. They must agree
for every arm, number of wrong drafts and pair of rates below, and the table on the page must be theirs.

The prediction for R (docs/results/competition-plan.md) must be what the toy makes of the gate, and must have been in
the commit that R's cells ran from.
"""

from __future__ import annotations

import json
import subprocess
import sys
from math import comb
from statistics import fmean, stdev

from _competition import prediction, repair_cells
from _lib import ROOT, arguments, verdict
from _repair_toy import Start
from _tabletop import RAW, finished

sys.path.insert(0, str(ROOT))

from tests.game.helpers.contexts import pulls

from agon.game.rules import Game

SIZE = 8
RATES = ((0.6, 0.3), (0.8, 0.2), (0.4, 0.4))
"""Chances of a right challenge after a right draft and after a wrong one; the page shows the first."""
GAMES = {
    "coop": (Game(stack="coop"), lambda c, d: 2 * c),
    "agon": (Game(), lambda c, d: 2 * c + c * (1 - d)),
    "weight 2": (Game(conversion_weight=2.0), lambda c, d: 2 * c + 2 * c * (1 - d)),
    "weight 4": (Game(conversion_weight=4.0), lambda c, d: 2 * c + 4 * c * (1 - d)),
    "margin": (Game(stack="margin"), lambda c, d: 2 * c + (c - d)),
}
SAME = 2e-4
"""Equation 1 adds 1e-4 to the standard deviation, and the closed form does not."""
PAGE = ROOT / "docs" / "competition.md"


def main() -> None:
    args = arguments(__doc__ or "")
    rates = RATES[:1] if args.quick else RATES
    worst, table = 0.0, {}
    for kept, converted in rates:
        for wrong in (1, 4, 7):
            for name, (game, reward) in GAMES.items():
                closed = closed_form(reward, wrong, kept, converted)
                played = pulls(game, SIZE, wrong, kept, converted)
                worst = max(worst, *(abs(a / b - 1) for a, b in zip(played, closed, strict=True) if b))
                print(f"{kept} {converted} {wrong} wrong of {SIZE} {name:9} {closed[0]:.2f} {closed[1]:.2f}"
                      f"  ratio {closed[1] / closed[0]:.2f}", flush=True)  # fmt: skip
                if (kept, converted) == RATES[0]:
                    table[wrong, name] = closed
    stated = [line for wrong in (1, 4, 7) if (line := row(table, wrong)) not in PAGE.read_text()]
    print(*(f"not on the page: {line}" for line in stated), sep="\n")
    late = predicted_late()
    print(*late, sep="\n")
    values = {"largest relative difference": round(worst, 7), "rows that the page lacks": len(stated)}
    verdict(
        "the bonus weighs contexts as docs/competition.md says: closed form and `score` agree; R was predicted first",
        {**values, "faults of the prediction": len(late)},
        {"largest relative difference": SAME, "rows that the page lacks": 0, "faults of the prediction": 0},
        worst <= SAME and not stated and not late,
        games=len(GAMES),
        rates=len(rates),
    )


def predicted_late() -> list[str]:
    """What speaks against the prediction: it is not the toy's, or a cell ran from a commit that did not have it."""
    start = Start(**json.loads((RAW / "repair" / "gate.json").read_text())["start"])
    file = RAW / "repair" / "prediction.json"
    faults = [] if json.loads(file.read_text()) == prediction(start) else ["the prediction is not what the toy gives"]
    for commit in sorted({result.commit for result in finished(repair_cells()).values()}):
        shown = subprocess.run(
            ["git", "show", f"{commit}:{file.relative_to(ROOT)}"], cwd=ROOT, capture_output=True, text=True
        )
        if shown.stdout != file.read_text():
            faults.append(f"cells ran from {commit[:8]}, which did not have this prediction")
    return faults


def closed_form(reward, wrong: int, kept: float, converted: float) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """E_others[A(right) - A(wrong)] of a challenge of a right draft, and of one of a wrong draft."""

    def pull(mine: int) -> float:
        rights, wrongs = SIZE - wrong - mine, wrong - (1 - mine)
        total = 0.0
        for i in range(rights + 1):
            for j in range(wrongs + 1):
                chance = binomial(i, rights, kept) * binomial(j, wrongs, converted)
                others = [(1, 1)] * i + [(0, 1)] * (rights - i) + [(1, 0)] * j + [(0, 0)] * (wrongs - j)
                rows = [[reward(c, mine), *(reward(*other) for other in others)] for c in (1, 0)]
                total += chance * (standardised(rows[0]) - standardised(rows[1]))
        return total

    return pull(1), pull(0)


def binomial(k: int, n: int, p: float) -> float:
    return comb(n, k) * p**k * (1 - p) ** (n - k)


def standardised(rewards: list[float]) -> float:
    """The first of them; 0 where all are alike."""
    return 0.0 if len(set(rewards)) == 1 else (rewards[0] - fmean(rewards)) / stdev(rewards)


def row(table: dict[tuple[int, str], tuple[float, float]], wrong: int) -> str:
    """A row of the page's table."""
    coop, agon = ("{:.2f}, {:.2f}".format(*table[wrong, name]) for name in ("coop", "agon"))
    ratios = [f"{table[wrong, name][1] / table[wrong, name][0]:.2f}" for name in ("agon", "weight 2", "weight 4")]
    return f"| {wrong} | {coop} | {agon} | {' | '.join(ratios)} |"


if __name__ == "__main__":
    main()
