"""A comparison in plain words, on a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agon.eval.compare import Comparison
from agon.eval.summary import markdown, percent, points, probability, table


def plain(found: Comparison) -> str:
    """Tables and sentences for a terminal."""
    parts = [f"{len(found.problems)} problems", table(*_sides(found)), *map(sentences, found.pairs)]
    return "\n\n".join([*parts, *(["\n".join(found.notes)] if found.notes else [])])


def in_markdown(found: Comparison) -> str:
    """The same, to paste."""
    head = ("against " + found.sides[0]["label"], "difference, 95% interval", "test", "p", "p (Holm)")
    rows = [
        (each["second"], points(each["difference"]), each["test"], probability(each["p"]), probability(each["p_holm"]))
        for each in found.pairs
    ]
    parts = [f"{len(found.problems)} problems.", markdown(*_sides(found)), markdown(head, rows)]
    parts += ["\n".join(f"- {line}" for each in found.pairs for line in sentences(each).splitlines())]
    return "\n\n".join([*parts, *(["\n".join(f"- {note}" for note in found.notes)] if found.notes else [])])


def _sides(found: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    head = ("", "pass@1, 95% interval", "over", "each seed")
    return head, [_side(side) for side in found.sides]


def _side(side: Mapping[str, Any]) -> tuple[str, ...]:
    each = "  ".join(f"{100 * value:.1f}" for value in side["values"].values())
    return side["label"], rate_of(side["pass"]), side["over"], each


def rate_of(found: Mapping[str, Any]) -> str:
    """A rate with its interval, if it has one."""
    return percent(found) if found.get("low") is not None else f"{100 * found['value']:.1f}%"


def sentences(pair: Mapping[str, Any]) -> str:
    """What one comparison says, and what it cannot say."""
    lines = [f"{pair['second']} against {pair['first']}: {points(pair['difference'])}", _evidence(pair), _verdict(pair)]
    if "seeds" not in pair:
        lines.append("This speaks of these problems and these runs; what another seed would change is not known.")
    if "note" in pair:
        lines.append(f"Beware: {pair['note']}.")
    return "\n".join(line for line in lines if line)


def _evidence(pair: Mapping[str, Any]) -> str:
    p = f"{pair['test']}: p = {probability(pair['p'])}, {probability(pair['p_holm'])} after Holm."
    if "only_first" in pair:
        gained, lost = pair["only_second"], pair["only_first"]
        return f"It solves {gained} that {pair['first']} does not, and misses {lost} that {pair['first']} solves. {p}"
    if "seeds" not in pair:
        return p
    each = ", ".join(f"{100 * value:+.1f}" for value in pair["differences"].values())
    spread = pair["bootstrap"]
    label = "bootstrap over seeds (descriptive: too few seeds)" if spread["descriptive"] else "bootstrap over seeds"
    return f"By seed: {each}. {p}\n{label}: {points(spread)}."


def _verdict(pair: Mapping[str, Any]) -> str:
    better = pair["second"] if pair["difference"]["value"] > 0 else pair["first"]
    if pair["decided"]:
        return f"{better} is better: the difference is larger than chance explains."
    if pair["detectable"] is None:
        return "No difference is shown."
    least = f"{100 * pair['detectable']:.1f} points"
    return f"No difference is shown; one below {least} would be missed more often than one time in five."
