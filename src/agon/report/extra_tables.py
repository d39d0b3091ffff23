"""Tables of what the paper does not measure: directions, the second stage, A and B together, tokens, what was spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from agon.formatting import MISSING, count, interval, kilo, markdown_table, rate, share, significant
from agon.report.collect import MeasuredRun
from agon.rundir.results import EvalResult, Measures, PolicyKL
from agon.types import Direction


def exchange_table(runs: Sequence[MeasuredRun]) -> str:
    """What the second stage made of the first, both directions."""
    rows = []
    for where, result in _results(runs):
        exchange, leak = result.measured.exchange, result.measured.leak
        if exchange and not result.direction:
            kept = (exchange.kept, exchange.conversion, exchange.echo, exchange.empty_peek)
            leaks = (leak.rate, leak.pass_with, leak.pass_without) if leak else (None, None, None)
            rows.append([*where, *map(share, (*kept, *leaks))])
    shares = ["kept", "converted", "echoed", "empty peek", "leak", "pass with leak", "pass without"]
    return _table(["run", "seed", "problems, system", *shares], rows, "No cascade has been evaluated")


def direction_table(runs: Sequence[MeasuredRun]) -> str:
    """Both directions of every pair; the chosen one was chosen on dev."""
    rows = []
    for run in runs:
        for (data, system), result in run.results.items():
            if choice := result.direction:
                both = [
                    _direction(run.results.get((data, direction)), choice.pass_rates.get(direction))
                    for direction in Direction
                ]
                bias = "" if choice.optimism is None else f"{100 * choice.optimism:+.1f}"
                where = [run.name, run.seed, f"{data}, {system}", result.measured.problems]
                rows.append([*where, *both, choice.chosen.upper(), choice.by, bias])
    directions = ("A drafts, B answers, % [95%]", "B drafts, A answers, % [95%]")
    head = ["run", "seed", "problems, system", "n", *directions, "chosen", "by", "bias of choosing here"]
    return _table(head, rows, "No direction has been chosen")


def _direction(result: EvalResult | None, pass_rate: float | None) -> str:
    """The pass rate of one direction with its interval; alone where only the rate is known."""
    if result:
        return _rate(result.measured)
    return MISSING if pass_rate is None else f"{100 * pass_rate:.1f}"


def pair_table(runs: Sequence[MeasuredRun]) -> str:
    """How far A and B fail on the same problems."""
    rows = []
    for run in runs:
        for data, pair in run.pairs.items():
            if joint := pair.joint:
                counts = [joint.both_right, joint.only_first, joint.only_second, joint.both_wrong]
                alike = interval(pair.either_right, sign=""), rate(joint.error_overlap), rate(joint.yule_q)
                rows.append([run.name, run.seed, data, sum(counts), *counts, *alike])
    four = ("both right", "only A", "only B", "both wrong")
    head = ["run", "seed", "problems", "n", *four, "either, % [95%]", "error overlap", "Yule's Q"]
    return _table(head, rows, "A and B have not been evaluated alone")


def distance_table(runs: Sequence[MeasuredRun]) -> str:
    """How far apart the two adapters are: as updates of the weights, and as policies."""
    rows = []
    for run in runs:
        for data, pair in run.pairs.items():
            weights = pair.weights
            distances = map(significant, (weights.norm_a, weights.norm_b, weights.cosine))
            rows.append([run.name, run.seed, data, *distances, _policy_kl(pair.policy_kl)])
    head = ["run", "seed", "problems", "norm of A", "norm of B", "cosine of their updates", "nats per token"]
    table = _table(head, rows, "No pair has been evaluated")
    unknown = any(row[-1] == MISSING for row in rows)
    return f"{table}\n\nMeasure nats per token with `agon eval RUN --divergence`." if unknown else table


def _policy_kl(kl: PolicyKL | None) -> str:
    if kl is None:
        return MISSING
    nats = ", ".join(f"{name} {significant(value)}" for name, value in kl.nats_per_token.items())
    return f"{nats}; {kl.prompts} prompts, {count(sum(kl.tokens.values()))} tokens"


def cost_table(runs: Sequence[MeasuredRun]) -> str:
    """Tokens for one right answer, all stages, and completions that ended at the limit."""
    rows = []
    for where, result in _results(runs):
        measures = result.measured
        per = measures.tokens.per_correct
        tokens = [kilo(per.generated if per else None), kilo(per.prefilled if per else None)]
        rows.append([*where, measures.problems, _rate(measures), *tokens, share(measures.length.truncated)])
    per_answer = ("generated per right answer", "prefilled per right answer")
    head = ["run", "seed", "problems, system", "n", "pass@1, % [95%]", *per_answer, "truncated"]
    return _table(head, rows, "Nothing has been evaluated")


def staleness_table(runs: Sequence[MeasuredRun]) -> str:
    """How old samples were when they were learnt from, in updates; empty where none was."""
    rows: list[list[object]] = [
        [run.name, run.seed, len(run.staleness), f"{fmean(run.staleness):.2f}", max(run.staleness)]
        for run in runs
        if any(run.staleness)
    ]
    return markdown_table(["run", "seed", "steps", "staleness, mean", "most"], rows) if rows else ""


def budget_table(runs: Sequence[MeasuredRun]) -> str:
    """What each run spent in training: the claim of a matched budget, to be checked."""
    rows = []
    for run in runs:
        spent = run.spending
        plays = spent.steps * run.problems_per_step
        per_problem = f"{spent.rollouts / plays:.1f}" if plays else "none"
        totals = [count(spent.rollouts), per_problem, count(spent.generated), count(spent.prefilled)]
        rows.append([run.name, run.arm, run.seed, spent.steps, *totals])
    head = ["run", "arm", "seed", "steps", "rollouts", "rollouts per problem", "generated", "prefilled"]
    return markdown_table(head, rows)


def _results(runs: Sequence[MeasuredRun]) -> Iterator[tuple[list[object], EvalResult]]:
    """Every result, with the columns that say where it is from."""
    for run in runs:
        for (data, system), result in run.results.items():
            yield [run.name, run.seed, f"{data}, {system}"], result


def _rate(measures: Measures) -> str:
    return interval(measures.pass_rate, sign="")


def _table(head: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> str:
    return markdown_table(head, rows) if rows else f"{empty}: {MISSING}."
