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
    parts = [_scores(results), _directions(results), _exchange(results), _lengths(results), _pair(pair)]
    return "\n\n".join(part for part in parts if part)


def _scores(results: Mapping[str, Mapping[str, Any]]) -> str:
    head = ("", "pass@1, 95% interval", "right", "ungraded", "final tokens", "generated / right", "prefilled / right")
    rows = []
    for name, result in results.items():
        if name.startswith("cascade"):
            continue
        per = result["tokens"].get("per_correct", {})
        rows.append(
            (
                TITLES[name],
                percent(result["pass"]),
                f"{result['correct']}/{result['trials']}",
                str(result["ungraded"]),
                whole(result["length"]["final"]["all"]["mean"]),
                whole(per.get("generated")),
                whole(per.get("prefilled")),
            )
        )
    kinds = {result["interval"] for result in results.values()}
    return table(head, rows) + f"\nintervals: {' and '.join(sorted(kinds))}"


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
    staged = {n: r for n, r in results.items() if "exchange" in r and not n.startswith("cascade")}
    if not staged:
        return ""
    head = ("", "converts wrong drafts", "loses right drafts", "empty peeks", "leaks", "right if leaked", "if not")
    rows = [
        (
            TITLES[name],
            *(_of(r["exchange"][what]) for what in ("conversion", "regression")),
            percent_only(r["exchange"]["empty_peek"]),
            *(percent_only(r["leak"][what]) for what in ("rate", "pass_with", "pass_without")),
        )
        for name, r in staged.items()
    ]
    return table(head, rows)


def _of(found: Mapping[str, Any]) -> str:
    return f"{percent(found)} of {found['of']}" if found["of"] else "none"


def percent_only(found: Mapping[str, Any]) -> str:
    return "-" if found["value"] is None else f"{100 * found['value']:.1f}%"


def _lengths(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, result in results.items():
        if name.startswith("cascade") or "right" not in result["length"]["final"]:
            continue
        final = result["length"]["final"]
        cells = [whole(final[g]["mean"]) if g in final else "" for g in ("right", "wrong", "read_right", "read_wrong")]
        rows.append((TITLES[name], *cells, percent_only(result["length"]["truncated"])))
    return table(("final tokens when", "right", "wrong", "read right", "read wrong", "cut off"), rows)


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
