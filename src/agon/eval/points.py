"""Evaluation points along a run: standalone, both cascade directions, and against the frozen first version, on dev.

The direction and the best pair are chosen here, on dev alone, so that the held-out set is looked at once. An arm whose
challenger never reads a draft is evaluated single-pass, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agon.eval.cascade import Seat, System, Table, Trial, hold
from agon.eval.joint import joint
from agon.game.rules import Game
from agon.types import Direction, Policy, Problem

A, B = Seat(Policy.A), Seat(Policy.B)


def systems(game: Game, first: Mapping[Policy, str]) -> dict[str, System]:
    """What there is to measure in an arm, by name. `first` names the versions that the run began with, if it has
    moved on."""
    if game.opponent == "none":
        return {"a": A}
    if game.opponent == "self":
        return {"a": A, "aa": (A, A)}
    alone: dict[str, System] = {"a": A, "b": B}
    if not game.shown:
        return alone
    pairs: dict[str, System] = {Direction.AB.value: (A, B), Direction.BA.value: (B, A)}
    if first:
        pairs |= {f"first-{d.value}": (Seat(d.drafter, first[d.drafter]), Seat(d.challenger)) for d in Direction}
    return alone | pairs


async def measure(
    problems: Sequence[Problem], wanted: Mapping[str, System], table: Table, samples: int
) -> dict[str, Any]:
    """Every system on every problem: counts, rates and lengths, by name."""
    held = dict(zip(wanted, await hold(problems, list(wanted.values()), table, samples), strict=True))
    results = {name: summary(trials) for name, trials in held.items()}
    if "b" in held:
        results["b"] |= beside(held["a"], held["b"])
    return results


def beside(first: Sequence[Trial], second: Sequence[Trial]) -> dict[str, int]:
    """How A and B fail together on the same trials: what complementarity over training is made of."""
    pairs = [(a.final.verdict, b.final.verdict) for a, b in zip(first, second, strict=True)]
    return joint((a.correct, b.correct) for a, b in pairs if a.graded and b.graded)


def summary(trials: Sequence[Trial]) -> dict[str, Any]:
    """Counts of one system. Ungraded trials are counted apart: a broken machine is not a wrong answer."""
    graded = [trial for trial in trials if trial.final.verdict.graded]
    correct = sum(trial.final.verdict.correct for trial in graded)
    counts: dict[str, Any] = {
        "n": len(graded),
        "correct": correct,
        "pass": correct / len(graded) if graded else None,
        "ungraded": len(trials) - len(graded),
        "well_formed": sum(trial.final.verdict.well_formed for trial in trials),
        "tokens_final": sum(trial.final.completion.generated_tokens for trial in trials),
        "tokens_all": sum(turn.completion.generated_tokens for trial in trials for turn in turns(trial)),
    }
    return counts | (exchange(trials) if trials and trials[0].draft is not None else {})


def merge(parts: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """The counts of all processes added up."""
    merged: dict[str, Any] = {}
    for name in parts[0]:
        counts = {key: sum(part[name][key] for part in parts) for key in parts[0][name] if key != "pass"}
        merged[name] = counts | {"pass": counts["correct"] / counts["n"] if counts["n"] else None}
    return merged


def turns(trial: Trial) -> list[Any]:
    return [trial.final] if trial.draft is None else [trial.draft, trial.final]


def exchange(trials: Sequence[Trial]) -> dict[str, int]:
    """What the second stage made of the first: conversions of wrong drafts, regressions of right ones."""
    known = [(t.draft.verdict.correct, t.final.verdict.correct) for t in trials
             if t.draft and t.draft.verdict.graded and t.final.verdict.graded]  # fmt: skip
    return {
        "draft_right": sum(draft for draft, _ in known),
        "draft_wrong": sum(not draft for draft, _ in known),
        "conversions": sum(final and not draft for draft, final in known),
        "regressions": sum(draft and not final for draft, final in known),
        "empty_peeks": sum(not trial.peek for trial in trials),
    }


def choose(results: Mapping[str, Mapping[str, Any]]) -> tuple[Direction | None, float]:
    """(direction, score) on dev: the better cascade, A->B on a tie; without a cascade, the mean of all."""
    rates = {name: result["pass"] or 0.0 for name, result in results.items()}
    if Direction.AB.value in rates:
        direction = Direction.AB if rates[Direction.AB.value] >= rates[Direction.BA.value] else Direction.BA
        return direction, rates[direction.value]
    if "aa" in rates:
        return None, rates["aa"]
    alone = [rates[name] for name in ("a", "b") if name in rates]
    return None, sum(alone) / len(alone)
