"""Every table of the paper, and ours, as Markdown. A cell that no run fills says so; the paper's carry its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from agon.report import paper
from agon.report.cells import BY_KEY, METHODS, MISSING, Cell, cell
from agon.report.collect import HELD_OUT, Run, Setting
from agon.report.words import escape

MAIN = tuple(paper.MAIN)
OURS = ("hidden-drafts", "mispaired")
ABLATIONS = (
    ("Competition (reward)", "coop", "agon"),
    ("Information exchange", "shared-opponent", "agon"),
    ("Reward form", "margin", "agon"),
    ("Role assignment", "fixed-roles", "agon"),
    ("Pressure or difficulty (ours)", "mispaired", "agon"),
    ("Draft shown (ours)", "hidden-drafts", "agon"),
)


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers stand to the right."""
    ruler = ["---", *("---:" for _ in head[1:])]
    lines = [[escape(word) for word in head], ruler, *([escape(str(value)) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
    names = others or list(paper.TRANSFER)
    known = setting.base == paper.BASE and setting.data == paper.DATA
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
    return f"{found.rate}, n {found.n}, {len(found.results)} seed{'s' if len(found.results) > 1 else ''}"


def scaling_table(runs: Sequence[Run], data: str) -> str:
    """Table 4: bases of different size and family on the same problems."""
    bases = sorted({run.setting.base for run in runs if run.setting.data == data})
    names = [*paper.SCALING, *(b for b in bases if b not in paper.SCALING)] if data == paper.DATA else bases
    rows = []
    for base in names:
        here = [run for run in runs if run.setting == Setting(base, data)]
        found = {key: cell(here, key, HELD_OUT) for key in ("zero-shot", "grpo", "agon")}
        rows.append(
            [base, *map(_short, found.values()), _delta(found["agon"], found["grpo"]), _paper_scale(base, data)]
        )
    return markdown(
        ["base", "zero-shot", "GRPO", "Agon", "Agon - GRPO, points", "the paper: zero-shot / GRPO / Agon"], rows
    )


def _delta(one: Cell | None, two: Cell | None) -> str:
    return MISSING if one is None or two is None else f"{100 * (one.rate.value - two.rate.value):+.1f}"


def _paper_scale(base: str, data: str) -> str:
    known = paper.SCALING.get(base) if data == paper.DATA else None
    return " / ".join(map(str, known.values())) if known else "not in the paper"


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
    return markdown(["factor", "variant", "Agon", "difference, points", *(["the paper"] if known else [])], rows)


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


# -- measures that are not in the paper -------------------------------------------------------------------------------


def exchange_table(runs: Sequence[Run]) -> str:
    """What the second stage made of the first, both directions."""
    rows = []
    for run, data, system, result in _staged(runs):
        exchange, leak = result["exchange"], result["leak"]
        shares = (
            exchange["conversion"],
            exchange["regression"],
            exchange["empty_peek"],
            leak["rate"],
            leak["pass_with"],
            leak["pass_without"],
        )
        rows.append([run.name, f"{data}, {system}", *map(share, shares)])
    head = ["run", "problems, system", "converted", "regressed", "empty peek", "leak", "pass with leak", "pass without"]
    return markdown(head, rows) if rows else "No cascade has been evaluated: " + MISSING + "."


def direction_table(runs: Sequence[Run]) -> str:
    """Both directions of every pair; the chosen one was chosen on dev."""
    rows = []
    for run in runs:
        for (data, system), result in run.results.items():
            if about := result.get("direction"):
                both = [f"{100 * about['pass'][way]:.1f}" for way in ("ab", "ba")]
                worth = f"{100 * about['optimism']:+.1f}" if "optimism" in about else ""
                rows.append([run.name, f"{data}, {system}", *both, about["chosen"], about["by"], worth])
    head = [
        "run",
        "problems, system",
        "A drafts, B answers, %",
        "B drafts, A answers, %",
        "chosen",
        "by",
        "worth of choosing here",
    ]
    return markdown(head, rows) if rows else "No direction has been chosen: " + MISSING + "."


def pair_table(runs: Sequence[Run]) -> str:
    """How far A and B fail on the same problems."""
    rows = []
    for run in runs:
        for data, pair in run.pairs.items():
            if found := pair.get("complementarity"):
                counts = [found[name] for name in ("both_right", "only_first", "only_second", "both_wrong")]
                union = found["oracle_union"]["value"]
                rows.append([run.name, data, *counts, _percent(union), _two(found["error_overlap"]), _two(found["q"])])
    head = ["run", "problems", "both right", "only A", "only B", "both wrong", "either, %", "error overlap", "Yule's Q"]
    return markdown(head, rows) if rows else "A and B have not been evaluated alone: " + MISSING + "."


def cost_table(runs: Sequence[Run]) -> str:
    """Tokens for one right answer, all stages, and completions that ended at the limit."""
    rows = []
    for run in runs:
        for (data, system), result in run.results.items():
            per = result["tokens"].get("per_correct")
            if per:
                cut = share(result["length"]["truncated"])
                rows.append([run.name, f"{data}, {system}", kilo(per["generated"]), kilo(per["prefilled"]), cut])
    head = ["run", "problems, system", "generated per right answer", "prefilled per right answer", "cut off"]
    return markdown(head, rows) if rows else "Nothing has been evaluated: " + MISSING + "."


def budget_table(runs: Sequence[Run]) -> str:
    """What each run spent in training: the claim of a matched budget, to be checked."""
    rows = []
    for run in runs:
        spent = run.spent
        played = spent["steps"] * run.problems_per_step
        each = f"{spent['rollouts'] / played:.1f}" if played else MISSING
        rows.append(
            [
                run.name,
                run.arm,
                run.seed,
                spent["steps"],
                f"{spent['rollouts']:,}",
                each,
                f"{spent['generated']:,}",
                f"{spent['prefilled']:,}",
            ]
        )
    return markdown(["run", "arm", "seed", "steps", "rollouts", "rollouts per problem", "generated", "prefilled"], rows)


def _staged(runs: Sequence[Run]) -> list[tuple[Run, str, str, Mapping[str, Any]]]:
    return [
        (run, data, system, result)
        for run in runs
        for (data, system), result in run.results.items()
        if "exchange" in result and "direction" not in result
    ]


def share(found: Mapping[str, Any]) -> str:
    """A share with its counts and interval."""
    if found.get("value") is None:
        return f"– (0 of {found.get('of', 0)})"
    value, low, high = (f"{100 * found[name]:.0f}" for name in ("value", "low", "high"))
    return f"{value}% [{low}, {high}] ({found['count']}/{found['of']})"


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f}"


def _two(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def missing(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """The methods that no run has measured on held-out problems, and what would measure them."""
    gone = [method for method in METHODS if method.key in keys and cell(runs, method.key, HELD_OUT) is None]
    return [f"{method.title}: {method.config()}" for method in gone]


Table = Callable[[Sequence[Run], Setting], str]
