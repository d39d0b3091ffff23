"""Evaluation points along a run: standalone, both cascade directions, and against the frozen first version, on dev.

The direction is chosen here, on dev alone: held-out problems choose nothing, even where the curve is measured on them.
An arm whose challenger never reads a draft is evaluated single-pass, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from agon.eval.draw import Evaluator
from agon.eval.systems import SYSTEMS, deployed_parts, drawn_by
from agon.game.cascade import System
from agon.game.exchange import exchange
from agon.game.rules import Game
from agon.rundir.records import Joint, SystemCounts
from agon.types import Bout, Direction, Policy, Problem, Version


def systems(game: Game, first: Mapping[Policy, Version]) -> dict[str, System]:
    """What to measure in an arm, by name. `first` holds the versions that the run began with, if it has moved on."""
    wanted = {name: SYSTEMS[name] for name in drawn_by(game)}
    if first and "ab" in wanted:
        wanted |= {f"first-{d.value}": (first[d.drafter], d.challenger) for d in Direction}
    return wanted


async def measure(
    problems: Sequence[Problem], wanted: Mapping[str, System], evaluator: Evaluator, samples: int
) -> dict[str, SystemCounts]:
    """Every system on every problem, counted, by name."""
    bouts = await evaluator.bouts(problems, wanted, samples)
    counts = {name: count(drawn) for name, drawn in bouts.items()}
    if "b" in bouts:
        counts["b"] = counts["b"].model_copy(update={"joint": joint(bouts["a"], bouts["b"])})
    return counts


def joint(first: Sequence[Bout], second: Sequence[Bout]) -> Joint:
    """How A and B fail together on the same trials: what complementarity over training is made of."""
    verdicts = [(a.final.verdict, b.final.verdict) for a, b in zip(first, second, strict=True)]
    return Joint.count((a.correct, b.correct) for a, b in verdicts if a.graded and b.graded)


def count(bouts: Sequence[Bout]) -> SystemCounts:
    """The counts of one system."""
    verdicts = [bout.final.verdict for bout in bouts]
    graded = [verdict for verdict in verdicts if verdict.graded]
    return SystemCounts(
        n=len(graded),
        correct=sum(verdict.correct for verdict in graded),
        ungraded=len(verdicts) - len(graded),
        well_formed=sum(verdict.well_formed for verdict in verdicts),
        tokens_final=sum(bout.final.completion.generated_tokens for bout in bouts),
        tokens_all=sum(rollout.completion.generated_tokens for bout in bouts for rollout in bout.rollouts),
        exchange=exchange(bouts) if any(bout.challenge for bout in bouts) else None,
    )


def choose(counts: Mapping[str, SystemCounts]) -> tuple[Direction | None, float]:
    """(direction, score) on dev: the better cascade, A->B on a tie; without two cascades, the mean of what deploys."""
    rates = {name: counts[name].pass_rate or 0.0 for name in deployed_parts(counts)}
    if "ab" in rates:
        direction = Direction.AB if rates["ab"] >= rates["ba"] else Direction.BA
        return direction, rates[direction.value]
    return None, fmean(rates.values())
