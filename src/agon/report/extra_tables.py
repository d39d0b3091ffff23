"""Tables of what the paper does not measure: directions, the second stage, A and B together, tokens, what was spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agon.report.cells import MISSING, Number
from agon.report.collect import Run
from agon.report.tables import kilo, markdown


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
        rows.append([run.name, run.seed, f"{data}, {system}", *map(share, shares)])
    head = [
        "run",
        "seed",
        "problems, system",
        "converted",
        "regressed",
        "empty peek",
        "leak",
        "pass with leak",
        "pass without",
    ]
    return markdown(head, rows) if rows else "No cascade has been evaluated: " + MISSING + "."


def direction_table(runs: Sequence[Run]) -> str:
    """Both directions of every pair; the chosen one was chosen on dev."""
    rows = []
    for run in runs:
        for (data, system), result in run.results.items():
            if about := result.get("direction"):
                both = [_rate(run.results.get((data, way)), about["pass"][way]) for way in ("ab", "ba")]
                worth = f"{100 * about['optimism']:+.1f}" if "optimism" in about else ""
                at = [run.name, run.seed, f"{data}, {system}", result["problems"]]
                rows.append([*at, *both, about["chosen"].upper(), about["by"], worth])
    both_ways = ("A drafts, B answers, % [95%]", "B drafts, A answers, % [95%]")
    head = ["run", "seed", "problems, system", "n", *both_ways, "chosen", "by", "worth of choosing here"]
    return markdown(head, rows) if rows else "No direction has been chosen: " + MISSING + "."


def pair_table(runs: Sequence[Run]) -> str:
    """How far A and B fail on the same problems."""
    rows = []
    for run in runs:
        for data, pair in run.pairs.items():
            if found := pair.get("complementarity"):
                counts = [found[name] for name in ("both_right", "only_first", "only_second", "both_wrong")]
                alike = _two(found["error_overlap"]), _two(found["q"])
                rows.append([run.name, run.seed, data, sum(counts), *counts, _interval(found["oracle_union"]), *alike])
    four = ("both right", "only A", "only B", "both wrong")
    head = ["run", "seed", "problems", "n", *four, "either, % [95%]", "error overlap", "Yule's Q"]
    return markdown(head, rows) if rows else "A and B have not been evaluated alone: " + MISSING + "."


def distance_table(runs: Sequence[Run]) -> str:
    """How far apart the two adapters are: as updates of the weights, and as policies."""
    rows = []
    for run in runs:
        for data, pair in run.pairs.items():
            weights, kl = pair.get("weights") or {}, pair.get("policy_kl") or {}
            far = [_three(weights.get(name)) for name in ("norm_a", "norm_b", "cosine")]
            told = ", ".join(f"{name} {_three(value)}" for name, value in (kl.get("nats_per_token") or {}).items())
            drawn = f"{told}; {kl['prompts']} prompts, {kl['tokens']:,} tokens" if told else MISSING
            rows.append([run.name, run.seed, data, *far, drawn])
    head = ["run", "seed", "problems", "norm of A", "norm of B", "cosine of their updates", "nats per token"]
    if not rows:
        return "No pair has been evaluated: " + MISSING + "."
    more = (
        "\n\n`agon eval RUN --divergence` measures nats per token." if any(row[-1] == MISSING for row in rows) else ""
    )
    return markdown(head, rows) + more


def cost_table(runs: Sequence[Run]) -> str:
    """Tokens for one right answer, all stages, and completions that ended at the limit."""
    rows = []
    for run in runs:
        for (data, system), result in run.results.items():
            per = result["tokens"].get("per_correct")
            if per:
                cut = share(result["length"]["truncated"])
                at = [run.name, run.seed, f"{data}, {system}", result["problems"], _rate(result, None)]
                rows.append([*at, kilo(per["generated"]), kilo(per["prefilled"]), cut])
    per_answer = ("generated per right answer", "prefilled per right answer")
    head = ["run", "seed", "problems, system", "n", "pass@1, % [95%]", *per_answer, "cut off"]
    return markdown(head, rows) if rows else "Nothing has been evaluated: " + MISSING + "."


def budget_table(runs: Sequence[Run]) -> str:
    """What each run spent in training: the claim of a matched budget, to be checked."""
    rows = []
    for run in runs:
        spent = run.spent
        played = spent["steps"] * run.problems_per_step
        each = f"{spent['rollouts'] / played:.1f}" if played else "none"
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


def _rate(result: Mapping[str, Any] | None, alone: float | None) -> str:
    """A pass rate with its interval; alone where only the rate is known."""
    if result is not None:
        return _interval(result["pass"])
    return MISSING if alone is None else f"{100 * alone:.1f}"


def _interval(found: Mapping[str, Any]) -> str:
    return MISSING if found["value"] is None else str(Number(found["value"], found["low"], found["high"]))


def _three(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def _two(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"
