"""Results as a person reads them: aligned tables on a terminal, the same tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agon.eval.systems import TITLES

Row = Sequence[str]


def percent(found: Mapping[str, Any]) -> str:
    """`61.0% [55.2, 66.6]`."""
    if found["value"] is None:
        return "-"
    return f"{100 * found['value']:.1f}% [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def points(found: Mapping[str, Any]) -> str:
    """`+15.3 points [9.7, 21.0]`."""
    if found["low"] is None:
        return f"{100 * found['value']:+.1f} points"
    return f"{100 * found['value']:+.1f} points [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"


def whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def probability(p: float | None) -> str:
    if p is None:
        return "-"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}" if p > 0 else "< 1e-300"


def table(head: Row, rows: Sequence[Row]) -> str:
    """Columns aligned, the first to the left and the others to the right."""
    every = [head, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(head))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in every
    ]
    return "\n".join(line.rstrip() for line in lines)


def markdown(head: Row, rows: Sequence[Row]) -> str:
    """The same as a Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# -- one evaluation ---------------------------------------------------------------------------------------------------


def summary(results: Mapping[str, Mapping[str, Any]], pair: Mapping[str, Any] | None) -> str:
    """Everything that one evaluation found."""
    told = (_scores, _directions, _exchange, _leaks, _lengths, _costs)
    parts = [*(tell(results) for tell in told), _pair(pair)]
    return "\n\n".join(part for part in parts if part)


def _scores(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (TITLES[name], percent(r["pass"]), f"{r['correct']}/{r['trials']}", str(r["ungraded"]))
        for name, r in _own(results).items()
    ]
    kinds = {result["interval"] for result in results.values()}
    told = f"\nintervals: {' and '.join(sorted(kinds))}"
    return table(("", "pass@1, 95% interval", "right", "ungraded"), rows) + told


def _own(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Systems with records of their own: a cascade repeats one of them."""
    return {name: result for name, result in results.items() if not name.startswith("cascade")}


def _staged(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {name: result for name, result in _own(results).items() if "exchange" in result}


def _directions(results: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name in ("cascade", "cascade-post-hoc"):
        if name in results:
            result = results[name]
            about = result["direction"]
            lines.append(f"{name}: {percent(result['pass'])}, {TITLES[about['chosen']]}, chosen by {about['by']}")
        if name == "cascade-post-hoc" and name in results:
            gained = 100 * results[name]["direction"]["optimism"]
            lines.append(f"  choosing on the evaluated problems is worth {gained:.1f} points by itself")
    return "\n".join(lines)


def _exchange(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (TITLES[name], *(_of(r["exchange"][what]) for what in ("conversion", "regression")))
        for name, r in _staged(results).items()
    ]
    return table(("", "converts wrong drafts", "loses right drafts"), rows) if rows else ""


def _leaks(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (
            TITLES[name],
            percent_only(r["exchange"]["empty_peek"]),
            *(percent_only(r["leak"][what]) for what in ("rate", "pass_with", "pass_without")),
        )
        for name, r in _staged(results).items()
    ]
    return table(("what was read", "empty", "leaks", "right if it leaked", "if not"), rows) if rows else ""


def _of(found: Mapping[str, Any]) -> str:
    return f"{percent(found)} of {found['of']}" if found["of"] else "none"


def percent_only(found: Mapping[str, Any]) -> str:
    return "-" if found["value"] is None else f"{100 * found['value']:.1f}%"


def _lengths(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, result in _own(results).items():
        final = result["length"]["final"]
        groups = ("all", "right", "wrong", "read_right", "read_wrong")
        cells = [whole(final[group]["mean"]) if group in final else "" for group in groups]
        rows.append((TITLES[name], *cells, percent_only(result["length"]["truncated"])))
    return table(("final tokens", "mean", "right", "wrong", "read right", "read wrong", "cut off"), rows)


def _costs(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, result in _own(results).items():
        per = result["tokens"].get("per_correct", {})
        rows.append((TITLES[name], whole(per.get("generated")), whole(per.get("prefilled"))))
    return table(("tokens per right answer", "generated", "prefilled"), rows)


def _pair(pair: Mapping[str, Any] | None) -> str:
    if not pair:
        return ""
    lines = []
    if both := pair.get("complementarity"):
        counts = f"both right {both['both_right']}, only A {both['only_first']}, only B {both['only_second']}"
        lines.append(f"A and B alone: {counts}, both wrong {both['both_wrong']}")
        q = "-" if both["q"] is None else f"{both['q']:+.2f}"
        overlap = "-" if both["error_overlap"] is None else f"{100 * both['error_overlap']:.0f}%"
        lines.append(f"  either right {percent(both['oracle_union'])}; Yule's Q {q}; {overlap} of errors shared")
    weights = pair["weights"]
    cosine = "-" if weights["cosine"] is None else f"{weights['cosine']:+.3f}"
    lines.append(f"adapters: cosine {cosine}, norms {weights['norm_a']:.3g} and {weights['norm_b']:.3g}")
    if kl := pair.get("policy_kl"):
        told = ", ".join(f"{name} {value:.2g}" for name, value in kl["nats_per_token"].items())
        lines.append(f"policies: KL in nats per token on {kl['prompts']} prompts: {told}")
    return "\n".join(lines)
