"""One report of a matrix: every arm with each seed, its budget proven from the bouts, and paired comparisons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agon.eval.compare import Comparison, compare
from agon.eval.joint import over_training
from agon.eval.result import Result, read_result
from agon.eval.summary import markdown, points, probability, whole
from agon.eval.verdicts import rate_of, sentences
from agon.matrix import Cell
from agon.rundir.files import write, write_json


def write_report(made: Sequence[Cell], folder: Path) -> dict[str, Any]:
    """Write report.md and report.json from what is on disk; return the latter."""
    done = [cell for cell in made if not cell.commands()]
    results = {cell.name: read_result(cell.result) for cell in done}
    rows = {cell.name: row(cell, results[cell.name]) for cell in done}
    found = compare(list(results.values())) if len({cell.arm for cell in done}) > 1 else None
    missing = [cell.name for cell in made if cell.name not in rows]
    told = {
        "schema": 1,
        "cells": rows,
        "missing": missing,
        "comparison": found.as_dict() if found else None,
        "matched": matched(rows),
    }
    write_json(folder / "report.json", told)
    write(folder / "report.md", _markdown(made, told, results, found).encode())
    return told


def row(cell: Cell, result: Result) -> dict[str, Any]:
    """What one cell measured and spent."""
    about: dict[str, Any] = {"arm": cell.arm, "seed": cell.seed, "result": str(cell.result)}
    about |= {key: result.raw[key] for key in ("system", "pass", "problems", "trials", "correct", "ungraded")}
    about["final_tokens"] = result.raw["length"]["final"]["all"]["mean"]
    if not cell.trains:
        return about
    curve = json.loads((cell.folder / "points.json").read_text()) if (cell.folder / "points.json").is_file() else []
    return about | {"training": ledger(cell.folder), "complementarity": over_training(curve)}


def ledger(run: Path) -> dict[str, Any]:
    """What training spent, counted from the bouts: rollouts of every problem each time it was played, and tokens."""
    from agon.rundir import read_bouts

    columns = ["step", "problem_id", "challenger", "draft_tokens", "challenge_tokens"]
    prefilled = ["draft_prompt_tokens", "challenge_prompt_tokens"]
    bouts = read_bouts(run, [*columns, *prefilled]).to_pylist()
    drawn: Counter[tuple[int, str]] = Counter()
    for bout in bouts:
        drawn[bout["step"], bout["problem_id"]] += 1 + (bout["challenger"] is not None)
    stages = {name: sum(bout[f"{name}_tokens"] or 0 for bout in bouts) for name in ("draft", "challenge")}
    return {
        "steps": len({step for step, _ in drawn}),
        "problems": sorted({problem for _, problem in drawn}),
        "plays": len(drawn),
        "rollouts": sum(drawn.values()),
        "rollouts_per_problem": sorted(set(drawn.values())),
        "generated": stages,
        "prefilled": sum((bout[name] or 0) for bout in bouts for name in prefilled),
    }


def matched(rows: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether every trained cell of a seed played the same problems with the same number of rollouts for each."""
    spent = [(row["seed"], row["training"]) for row in rows.values() if "training" in row]
    by_seed = {(seed, tuple(t["problems"]), t["plays"]) for seed, t in spent}
    drawn = {tuple(t["rollouts_per_problem"]) for _, t in spent}
    return (
        len(by_seed) == len({seed for seed, _ in spent}) and len(drawn) <= 1 and all(len(each) == 1 for each in drawn)
    )


def _markdown(
    made: Sequence[Cell], told: Mapping[str, Any], results: Mapping[str, Result], found: Comparison | None
) -> str:
    seeds = sorted({cell.seed for cell in made})
    parts = [f"# Matrix: {len({cell.arm for cell in made})} arms, seeds {', '.join(map(str, seeds))}"]
    if told["missing"]:
        parts.append(f"Not done yet, and in no number below: {', '.join(told['missing'])}.")
    if results:
        parts += [_scores(made, told, found), _budget(made, told)]
    if found:
        parts += ["## Comparisons", _compared(found), *(sentences(pair).replace("\n", "  \n") for pair in found.pairs)]
        parts += ["\n".join(f"- {note}" for note in found.notes)] if found.notes else []
    return "\n\n".join(parts) + "\n"


def _scores(made: Sequence[Cell], told: Mapping[str, Any], found: Comparison | None) -> str:
    sides = {} if found is None else {side["label"]: side for side in found.sides}
    rows = []
    for arm in dict.fromkeys(cell.arm for cell in made):
        cells = [row for row in told["cells"].values() if row["arm"] == arm]
        if not cells:
            rows.append((arm, "missing", "", "", "", ""))
            continue
        side = next((s for label, s in sides.items() if label.split(" ")[0] == arm), None)
        rate = rate_of(side["pass"]) if side else rate_of(cells[0]["pass"])
        each = "  ".join(f"{100 * row['pass']['value']:.1f}" for row in cells)
        length = fmean(row["final_tokens"] for row in cells)
        rows.append((arm, cells[0]["system"], rate, side["over"] if side else "problems", each, whole(length)))
    return markdown(("arm", "evaluated as", "pass@1, 95% interval", "over", "each seed", "final tokens"), rows)


def _budget(made: Sequence[Cell], told: Mapping[str, Any]) -> str:
    head = ("training budget", "rollouts per problem", "rollouts", "drafts, tokens", "challenges, tokens", "prefilled")
    rows = []
    for cell in made:
        spent = told["cells"].get(cell.name, {}).get("training")
        if spent:
            each = "/".join(map(str, spent["rollouts_per_problem"]))
            tokens = [whole(spent["generated"][name]) for name in ("draft", "challenge")]
            rows.append((cell.name, each, whole(spent["rollouts"]), *tokens, whole(spent["prefilled"])))
    same = "Rollouts are matched." if told["matched"] else "**Rollouts are not matched.**"
    return f"{same} Tokens are counted, not matched.\n\n{markdown(head, rows)}"


def _compared(found: Comparison) -> str:
    head = (f"against {found.sides[0]['label']}", "difference, 95% interval", "test", "p", "p (Holm)")
    rows = [
        (pair["second"], points(pair["difference"]), pair["test"], probability(pair["p"]), probability(pair["p_holm"]))
        for pair in found.pairs
    ]
    return markdown(head, rows)
