"""Every table of the paper, as Markdown. A cell that no run fills says so; the paper's numbers carry its name.

A difference has the interval that its two numbers imply when they are taken as independent (Zou and Donner's MOVER):
on the same problems that is as a rule too wide, and `agon compare` makes the paired test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from agon.report import paper
from agon.report.cells import BY_KEY, METHODS, MISSING, Cell, cell
from agon.report.collect import HELD_OUT, Run, Setting
from agon.report.escape import escape

MAIN = tuple(paper.MAIN)
OURS = ("hidden-drafts", "mispaired")
NUMERIC = re.compile(rf"[-+–\d]|$|none|{MISSING}")
ABLATIONS = (
    ("Competition (reward)", "coop", "agon"),
    ("Information exchange", "shared-opponent", "agon"),
    ("Reward form", "margin", "agon"),
    ("Role assignment", "fixed-roles", "agon"),
    ("Pressure or difficulty (ours)", "mispaired", "agon"),
    ("Draft shown (ours)", "hidden-drafts", "agon"),
)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; columns of numbers stand to the right."""
    cells = [[escape(str(value)) for value in row] for row in rows]
    ruler = ["---:" if k and all(NUMERIC.match(row[k]) for row in cells) else "---" for k in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[escape(word) for word in head], ruler, *cells])


def kilo(tokens: float | None) -> str:
    if tokens is None:
        return MISSING
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else f"{tokens:.0f}"


def main_table(runs: Sequence[Run], setting: Setting) -> str:
    """Table 2 of the paper: methods on held-out problems at a matched training budget."""
    known = paper.MAIN if (setting.base, setting.data) == (paper.BASE, paper.DATA) else {}
    return _methods(runs, (*MAIN, *OURS), HELD_OUT, known)


def code_table(runs: Sequence[Run], setting: Setting) -> str:
    """Table 5: the second domain."""
    known = paper.CODE if (setting.base, setting.data) == (paper.CODE_BASE, paper.CODE_DATA) else {}
    return _methods(runs, tuple(paper.CODE), HELD_OUT, known)


def density_table(runs: Sequence[Run], setting: Setting) -> str:
    """Table 7: the length tiebreak."""
    known = paper.DENSITY if (setting.base, setting.data) == (paper.BASE, paper.DATA) else {}
    return _methods(runs, tuple(paper.DENSITY), HELD_OUT, known)


def _methods(runs: Sequence[Run], keys: Sequence[str], data: str, known: Mapping[str, tuple[int, float]]) -> str:
    head = [
        "method",
        "pass@1, % [95%]",
        "final tokens",
        "all tokens",
        "passes",
        "n",
        "seeds",
        "training: rollouts, tokens",
    ]
    rows = []
    for key in keys:
        row = [BY_KEY[key].title, *_columns(cell(runs, key, data)), *_paper(key, known)]
        rows.append(row)
    return markdown([*head, *(["the paper: pass@1", "the paper: tokens"] if known else [])], rows)


def _columns(found: Cell | None) -> list[str]:
    if found is None:
        return [MISSING, *[""] * 6]
    seeds = ", ".join(map(str, found.seeds))
    passes = str(found.method.passes)
    return [str(found.rate), kilo(found.length), kilo(found.tokens), passes, found.n, seeds, budget(found)]


def _paper(key: str, known: Mapping[str, tuple[int, float]]) -> list[str]:
    if not known:
        return []
    return [f"{known[key][0]}", f"{known[key][1]}k"] if key in known else ["not in the paper", ""]


def budget(found: Cell) -> str:
    """What training drew, per run: rollouts and generated tokens."""
    if found.method.arm is None:
        return "none"
    spent = [run.spent for run in found.runs]
    rollouts, generated = (fmean(each[name] for each in spent) for name in ("rollouts", "generated"))
    return f"{rollouts:,.0f}, {generated:,.0f}"


def interval_table(runs: Sequence[Run], setting: Setting) -> str:
    """Table 3: intervals, and what they are over."""
    known = (setting.base, setting.data) == (paper.BASE, paper.DATA)
    rows = []
    for key in (*MAIN, *OURS):
        found = cell(runs, key, HELD_OUT)
        ours = (
            [MISSING, "", "", ""] if found is None else [str(found.rate), found.kind, found.n, str(len(found.results))]
        )
        low, high = paper.INTERVALS.get(key, (None, None))
        rows.append([BY_KEY[key].title, *ours, *([f"[{low}, {high}]" if low else "not in the paper"] if known else [])])
    return markdown(
        ["method", "pass@1, %", "interval", "n", "runs", *(["the paper's interval"] if known else [])], rows
    )


def transfer_table(runs: Sequence[Run], setting: Setting) -> str:
    """Table 1: other problems, no further training."""
    others = sorted({data for run in runs for data, _ in run.results} - {HELD_OUT, "dev"})
    known = setting.base == paper.BASE and setting.data == paper.DATA
    names = others or list(paper.TRANSFER if known else ())
    if not names:
        return (
            f"Nothing but the problems of the runs has been evaluated: {MISSING}. `agon eval RUN --data NAME` does it."
        )
    rows = []
    for key in ("zero-shot", "grpo", "coop", "agon"):
        row = [BY_KEY[key].title]
        for data in names:
            row += [_short(cell(runs, key, data)), *([str(paper.TRANSFER.get(data, {}).get(key, ""))] if known else [])]
        rows.append(row)
    head = [word for data in names for word in ([data, "the paper"] if known else [data])]
    return markdown(["method", *head], rows)


def _short(found: Cell | None) -> str:
    """A number with all that belongs to it, for tables of many columns."""
    if found is None:
        return MISSING
    seeds = f"seed{'s' if len(found.seeds) > 1 else ''} {', '.join(map(str, found.seeds))}"
    drawn = f"{budget(found).split(', ')[0]} rollouts" if found.method.arm else "no training"
    return f"{found.rate}; n {found.n}; {seeds}; {drawn}"


def scaling_table(runs: Sequence[Run], data: str) -> str:
    """Table 4: bases of different size and family on the same problems."""
    bases = sorted({run.setting.base for run in runs if run.setting.data == data})
    names = [*paper.SCALING, *(b for b in bases if b not in paper.SCALING)] if data == paper.DATA else bases
    rows = []
    for base in names:
        here = [run for run in runs if run.setting == Setting(base, data)]
        found = {key: cell(here, key, HELD_OUT) for key in ("zero-shot", "grpo", "agon")}
        rows.append(
            [base, *map(_short, found.values()), _delta(found["agon"], found["grpo"]), *_paper_scale(base, data)]
        )
    told = ["the paper: zero-shot / GRPO / Agon"] if data == paper.DATA else []
    return markdown(["base", "zero-shot", "GRPO", "Agon", "Agon - GRPO, points [95%]", *told], rows)


def _delta(one: Cell | None, two: Cell | None) -> str:
    """The difference of two numbers with the interval that theirs imply."""
    if one is None or two is None:
        return MISSING
    a, b = one.rate, two.rate
    value = a.value - b.value
    low = value - math.hypot(a.value - a.low, b.high - b.value)
    high = value + math.hypot(a.high - a.value, b.value - b.low)
    return f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _paper_scale(base: str, data: str) -> list[str]:
    if data != paper.DATA:
        return []
    return [" / ".join(map(str, paper.SCALING[base].values())) if base in paper.SCALING else "not in the paper"]


def ablation_table(runs: Sequence[Run], setting: Setting) -> str:
    """Table 6: one training-time choice at a time."""
    known = (setting.base, setting.data) == (paper.BASE, paper.DATA)
    rows = []
    for factor, other, ours in ABLATIONS:
        pair = cell(runs, other, HELD_OUT), cell(runs, ours, HELD_OUT)
        told = [
            f"{paper.ABLATIONS[other]} / {paper.ABLATIONS[ours]}" if other in paper.ABLATIONS else "not in the paper"
        ]
        rows.append(
            [
                factor,
                f"{other}: {_short(pair[0])}",
                f"{ours}: {_short(pair[1])}",
                _delta(pair[1], pair[0]),
                *(told if known else []),
            ]
        )
    return markdown(["factor", "variant", "Agon", "difference, points [95%]", *(["the paper"] if known else [])], rows)


def matrix_table(runs: Sequence[Run]) -> str:
    """The 2 x 2 design of table 1, with the cell that the paper leaves open."""
    grid = (
        ("no competition", ("grpo",), ("coop",)),
        ("competition", ("shared-opponent", "hidden-drafts"), ("agon",)),
    )
    rows = [
        [name, *("; ".join(f"{key}: {_short(cell(runs, key, HELD_OUT))}" for key in keys) for keys in sides)]
        for name, *sides in grid
    ]
    return markdown(["", "no information exchange", "information exchange"], rows)


def missing(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """The methods that no run has measured on held-out problems, and what would measure them."""
    gone = [method for method in METHODS if method.key in keys and cell(runs, method.key, HELD_OUT) is None]
    return [f"{method.title}: {method.commands()}" for method in gone]
