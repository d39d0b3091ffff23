"""Every table of the paper, as Markdown. A cell that no run fills says so; the paper's numbers carry its name.

A difference has the interval that its two numbers imply when they are taken as independent (Zou and Donner's MOVER):
on the same problems that is usually too wide, and `agon compare` makes the paired test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from agon.formatting import MISSING, count, interval, kilo, markdown_table, percent, points
from agon.report import paper
from agon.report.collect import HELD_OUT, MeasuredRun, Setting
from agon.report.methods import BY_KEY, METHODS, TableCell, cell, limits
from agon.rundir.results import Interval

MAIN = tuple(paper.MAIN)
OURS = ("hidden-drafts", "mispaired", "plain-pair")
NOT_IN_PAPER = "not in the paper"
ABLATIONS = (
    ("Competition (reward)", "coop", "agon"),
    ("Information exchange", "shared-opponent", "agon"),
    ("Reward form", "margin", "agon"),
    ("Role assignment", "fixed-roles", "agon"),
    ("Pressure or difficulty (ours)", "mispaired", "agon"),
    ("Draft shown (ours)", "hidden-drafts", "agon"),
)


def main_table(runs: Sequence[MeasuredRun], setting: Setting) -> str:
    """Table 3 of the paper: methods on held-out problems at a matched training budget."""
    known = paper.MAIN if paper.describes(setting.base, setting.data) else {}
    return _methods(runs, (*MAIN, *OURS), known)


def code_table(runs: Sequence[MeasuredRun], setting: Setting) -> str:
    """Table 6: the second domain."""
    known = paper.CODE if (setting.base, setting.data) == (paper.CODE_BASE, paper.CODE_DATA) else {}
    return _methods(runs, tuple(paper.CODE), known)


def density_table(runs: Sequence[MeasuredRun], setting: Setting) -> str:
    """Table 8: the length tiebreak."""
    known = paper.DENSITY if paper.describes(setting.base, setting.data) else {}
    return _methods(runs, tuple(paper.DENSITY), known)


def _methods(runs: Sequence[MeasuredRun], keys: Sequence[str], known: Mapping[str, tuple[int, float]]) -> str:
    head = ["method", "pass@1, % [95%]", "final tokens", "all tokens", "passes", "n", "seeds"]
    head += ["training: rollouts, tokens", *(["the paper: pass@1", "the paper: tokens"] if known else [])]
    rows = [[BY_KEY[key].title, *_columns(cell(runs, key, HELD_OUT)), *_paper(key, known)] for key in keys]
    return markdown_table(head, rows)


def _columns(one: TableCell | None) -> list[str]:
    if one is None:
        return [MISSING, *[""] * 6]
    tokens = [kilo(one.length), kilo(one.tokens)]
    return [interval(one.rate, sign=""), *tokens, str(one.passes), one.n, _seeds(one), ", ".join(_training(one))]


def _paper(key: str, known: Mapping[str, tuple[int, float]]) -> list[str]:
    if not known:
        return []
    return [f"{known[key][0]}", f"{known[key][1]}k"] if key in known else [NOT_IN_PAPER, ""]


def _seeds(one: TableCell) -> str:
    seeds = ", ".join(map(str, one.seeds))
    return seeds if len(one.seeds) == len(one.runs) else f"{seeds} ({len(one.runs)} runs)"


def _training(one: TableCell) -> list[str]:
    """What training drew, per run: rollouts and generated tokens."""
    if one.method.arm is None:
        return ["none"]
    spent = [run.spending for run in one.runs]
    return [count(fmean(spending.rollouts for spending in spent)), count(fmean(s.generated for s in spent))]


def interval_table(runs: Sequence[MeasuredRun], setting: Setting) -> str:
    """Table 4: intervals, and what they are over."""
    known = paper.describes(setting.base, setting.data)
    rows = []
    for key in (*MAIN, *OURS):
        one = cell(runs, key, HELD_OUT)
        ours = [interval(one.rate, sign=""), one.kind, one.n, str(len(one.runs))] if one else [MISSING, "", "", ""]
        theirs = str(list(paper.INTERVALS[key])) if key in paper.INTERVALS else NOT_IN_PAPER
        rows.append([BY_KEY[key].title, *ours, *([theirs] if known else [])])
    head = ["method", "pass@1, %", "interval", "n", "runs", *(["the paper's interval"] if known else [])]
    return markdown_table(head, rows)


def transfer_table(runs: Sequence[MeasuredRun], setting: Setting) -> str:
    """Table 2: other problems, no further training."""
    others = sorted({data for run in runs for data, _ in run.results} - {HELD_OUT, "dev"})
    known = paper.describes(setting.base, setting.data)
    names = others or list(paper.TRANSFER if known else ())
    if not names:
        return f"No other problems have been evaluated: {MISSING}. Measure them with `agon eval RUN --data NAME`."
    rows = []
    for key in ("zero-shot", "grpo", "coop", "agon"):
        row = [BY_KEY[key].title]
        for data in names:
            row += [_short(cell(runs, key, data)), *([str(paper.TRANSFER.get(data, {}).get(key, ""))] if known else [])]
        rows.append(row)
    head = [word for data in names for word in ([data, "the paper"] if known else [data])]
    return markdown_table(["method", *head], rows)


def _short(one: TableCell | None) -> str:
    """A number with all that belongs to it, for tables of many columns."""
    if one is None:
        return MISSING
    seeds = f"seed{'s' if len(one.seeds) > 1 else ''} {_seeds(one)}"
    training = f"{_training(one)[0]} rollouts" if one.method.arm else "no training"
    return f"{interval(one.rate, sign='')}; n {one.n}; {seeds}; {training}"


def scaling_table(runs: Sequence[MeasuredRun], data: str) -> str:
    """Table 5: bases of different size and family on the same problems."""
    bases = sorted({run.setting.base for run in runs if run.setting.data == data})
    known = data == paper.DATA
    rows = []
    for base in [*paper.SCALING, *(b for b in bases if b not in paper.SCALING)] if known else bases:
        here = [run for run in runs if run.setting == Setting(base, data)]
        cells = {key: cell(here, key, HELD_OUT) for key in ("zero-shot", "grpo", "agon")}
        row = [base, *map(_short, cells.values()), _difference(cells["agon"], cells["grpo"])]
        rows.append([*row, *([_paper_scaling(base)] if known else [])])
    theirs = ["the paper: zero-shot / GRPO / Agon"] if known else []
    return markdown_table(["base", "zero-shot", "GRPO", "Agon", "Agon - GRPO, points [95%]", *theirs], rows)


def _paper_scaling(base: str) -> str:
    return " / ".join(map(str, paper.SCALING[base].values())) if base in paper.SCALING else NOT_IN_PAPER


def _difference(one: TableCell | None, two: TableCell | None) -> str:
    """The difference of two numbers with the interval that theirs imply."""
    if one is None or two is None:
        return MISSING
    a, b = one.rate, two.rate
    (a_low, a_high), (b_low, b_high) = limits(a), limits(b)
    value = a.value - b.value
    low = value - math.hypot(a.value - a_low, b_high - b.value)
    high = value + math.hypot(a_high - a.value, b.value - b_low)
    return points(Interval(value, low, high), unit="")


def ablation_table(runs: Sequence[MeasuredRun], setting: Setting) -> str:
    """Table 7: one training-time choice at a time."""
    known = paper.describes(setting.base, setting.data)
    rows = []
    for factor, other, ours in ABLATIONS:
        variant, agon = cell(runs, other, HELD_OUT), cell(runs, ours, HELD_OUT)
        row = [factor, f"{other}: {_short(variant)}", f"{ours}: {_short(agon)}", _difference(agon, variant)]
        row.append(bonus_share(agon.runs if agon else ()))
        rows.append([*row, *([_paper_ablation(other, ours)] if known else [])])
    head = ["factor", "variant", "Agon", "difference, points [95%]", "Agon's bonus acts in"]
    return markdown_table([*head, *(["the paper"] if known else [])], rows)


def bonus_share(runs: Sequence[MeasuredRun]) -> str:
    """In what share of the groups the bonus changed an advantage: elsewhere the run is a run without it."""
    shares = [run.bonus_bites for run in runs if run.bonus_bites is not None]
    return f"{percent(fmean(shares))} of groups" if shares else MISSING


def _paper_ablation(other: str, ours: str) -> str:
    known = paper.ABLATIONS
    return f"{known[other]} / {known[ours]}" if other in known else NOT_IN_PAPER


def design_table(runs: Sequence[MeasuredRun]) -> str:
    """The 2 x 2 design of table 1, with the cell that the paper leaves open."""
    grid = (
        ("no competition", ("grpo",), ("coop",)),
        ("competition", ("shared-opponent", "hidden-drafts"), ("agon",)),
    )
    rows = [
        [name, *("; ".join(f"{key}: {_short(cell(runs, key, HELD_OUT))}" for key in keys) for keys in sides)]
        for name, *sides in grid
    ]
    return markdown_table(["", "no information exchange", "information exchange"], rows)


def missing(runs: Sequence[MeasuredRun], keys: Sequence[str]) -> list[str]:
    """The methods that no run has measured on held-out problems, and what would measure them."""
    absent = [method for method in METHODS if method.key in keys and cell(runs, method.key, HELD_OUT) is None]
    return [f"{method.title}: {method.commands()}" for method in absent]
