"""The results of one evaluation as tables, on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agon.eval.systems import READS, SYSTEMS, TITLES
from agon.formatting import UNKNOWN, count, html_lines, html_table, interval, not_graded, percent, table
from agon.game.cascade import Control
from agon.rundir.results import EvalResult, Measures, PairResult, Share, passes_of, tokens_of
from agon.types import Direction

Results = Mapping[str, EvalResult]
EXCHANGE = ("", "keeps right drafts", "converts wrong drafts", "echoes wrong answers")


def summary(results: Results, pair: PairResult | None, *, full: bool = False) -> str:
    """What one evaluation measured: scores and their price, direction, exchange; in full also the rest."""
    sections = (_scores, _directions, _exchange, _reading, *((_leaks, _lengths, _costs) if full else ()))
    parts = [*(section(results) for section in sections), _pair(pair) if full else ""]
    return "\n\n".join(part for part in parts if part)


def html_summary(results: Results) -> str:
    """The same, short, for a notebook."""
    exchange = _exchange_rows(results)
    direction = f"<p>{html_lines(_directions(results))}</p>"
    return html_table(*_score_rows(results)) + direction + (html_table(EXCHANGE, exchange) if exchange else "")


def _scores(results: Results) -> str:
    kinds = {result.measured.interval for result in results.values()}
    missing = filter(None, (_ungraded(name, result) for name, result in _own(results).items()))
    return "\n".join([table(*_score_rows(results)), f"intervals: {' and '.join(sorted(kinds))}", *missing])


def _score_rows(results: Results) -> tuple[Sequence[str], list[Sequence[str]]]:
    rows: list[Sequence[str]] = [
        (TITLES[name], interval(m.pass_rate), f"{m.correct}/{m.trials}", str(m.ungraded), *_price(m))
        for name, m in ((name, result.measured) for name, result in _own(results).items())
    ]
    return ("", "pass@1, 95% interval", "right", "ungraded", "passes", "tokens per answer"), rows


def _ungraded(name: str, result: EvalResult) -> str:
    """How many problems the rate leaves out, and what it would be with them; empty if it leaves out none."""
    measures = result.measured
    if not (missing := not_graded(measures)):
        return ""
    lowest = measures.correct / (measures.trials + measures.ungraded)
    return f"{TITLES[name]}: {missing}; counted as wrong, the rate would be {percent(lowest, 1)}"


def _price(measures: Measures) -> tuple[str, str]:
    return str(passes_of(measures)), count(tokens_of(measures))


def _own(results: Results) -> dict[str, EvalResult]:
    """Systems with bouts of their own: a cascade repeats one of them, and controls have a table of theirs."""
    return {
        name: result
        for name, result in results.items()
        if not name.startswith("cascade") and not isinstance(SYSTEMS.get(name), Control)
    }


def _reading(results: Results) -> str:
    """What each challenger makes of the rival's draft, its own, a shuffled one and none, under one prompt."""
    rows = [
        (f"{way.challenger.name} reads", *(interval(results[name].measured.pass_rate) for name in names))
        for way in Direction
        if set(names := [way.value, *(f"{way.value}-{reads}" for reads in READS)]) <= results.keys()
    ]
    head = ("pass@1, 95% interval", "the rival's draft", "its own", "of another problem", "none")
    return table(head, rows) if rows else ""


def _directions(results: Results) -> str:
    lines = []
    for name, result in results.items():
        if choice := result.direction:
            title = TITLES[choice.chosen.value]
            lines.append(f"{name}: {interval(result.measured.pass_rate)}, {title}, chosen by {choice.by}")
            if choice.optimism is not None:
                lines.append(
                    f"  choosing on the evaluated problems is worth {100 * choice.optimism:.1f} points by itself"
                )
    return "\n".join(lines)


def _exchange(results: Results) -> str:
    rows = _exchange_rows(results)
    return table(EXCHANGE, rows) if rows else ""


def _exchange_rows(results: Results) -> list[Sequence[str]]:
    return [
        (TITLES[name], _share(shares.kept), _share(shares.conversion), _share(shares.echo))
        for name, result in _own(results).items()
        if (shares := result.measured.exchange)
    ]


def _share(share: Share | None) -> str:
    if share is None:
        return UNKNOWN
    return f"{interval(share.rate)} of {share.of}" if share.of else "none"


def _leaks(results: Results) -> str:
    rows = []
    for name, result in _own(results).items():
        exchange, leak = result.measured.exchange, result.measured.leak
        if exchange and leak:
            shares = (exchange.empty_peek, leak.rate, leak.pass_with, leak.pass_without)
            rows.append((TITLES[name], *map(_percent, shares)))
    return table(("what was read", "empty", "leaks", "right if it leaked", "if not"), rows) if rows else ""


def _percent(share: Share | None) -> str:
    return UNKNOWN if share is None or share.rate is None else percent(share.rate.value, 1)


def _lengths(results: Results) -> str:
    rows = []
    for name, result in _own(results).items():
        length = result.measured.length
        groups = ("all", "right", "wrong", "read_right", "read_wrong")
        means = [count(length.final[group].mean) if group in length.final else "" for group in groups]
        rows.append((TITLES[name], *means, _percent(length.truncated)))
    return table(("final tokens", "mean", "right", "wrong", "read right", "read wrong", "truncated"), rows)


def _costs(results: Results) -> str:
    rows = []
    for name, result in _own(results).items():
        per = result.measured.tokens.per_correct
        rows.append((TITLES[name], count(per.generated if per else None), count(per.prefilled if per else None)))
    return table(("tokens per right answer", "generated", "prefilled"), rows)


def _pair(pair: PairResult | None) -> str:
    if not pair:
        return ""
    lines = []
    if both := pair.joint:
        counts = f"both right {both.both_right}, only A {both.only_first}, only B {both.only_second}"
        lines.append(f"A and B alone: {counts}, both wrong {both.both_wrong}")
        q = UNKNOWN if both.yule_q is None else f"{both.yule_q:+.2f}"
        shared = f"{percent(both.error_overlap)} of errors shared"
        lines.append(f"  either right {interval(pair.either_right)}; Yule's Q {q}; {shared}")
    weights = pair.weights
    cosine = UNKNOWN if weights.cosine is None else f"{weights.cosine:+.3f}"
    lines.append(f"adapters: cosine {cosine}, norms {weights.norm_a:.3g} and {weights.norm_b:.3g}")
    if kl := pair.policy_kl:
        distances = ", ".join(f"{name} {value:.2g}" for name, value in kl.nats_per_token.items())
        lines.append(f"policies: KL in nats per token on {kl.prompts} prompts: {distances}")
    return "\n".join(lines)
