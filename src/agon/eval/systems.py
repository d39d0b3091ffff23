"""What can be evaluated, by name, and what an arm deploys.

    base            zero-shot: the bare base, one pass
    a, b            a policy alone, one pass
    cascade         ab and ba: one drafts, the other reads the summary and answers
    self-cascade    policy A (or the bare base of a MODEL) refines its own first pass; self-cascade-b: policy B
    self-refine     the same two passes for the arm that was trained on them
    moa             two samples of the base, each refined after reading itself and the other
    reading         controls of both cascades: the challenger reads its own draft (ab-own), the rival's draft of a
                    different problem (ab-shuffled), or nothing (ab-none), under the prompt that it was trained on

An arm whose challenger never reads a draft is evaluated single-pass, as in the paper: `a`, `b`, and their mean. Asked
for by name, its cascade is the control for training on the exchange: a pair that was trained apart and meets at test.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from agon.errors import InputError
from agon.game.cascade import Control, Mixture, System
from agon.game.rules import Game
from agon.types import BASE, Policy

A, B = Policy.A, Policy.B
NAMES = ("cascade", "a", "b", "base", "moa", "self-cascade", "self-cascade-b", "self-refine", "reading")
READS: tuple[Literal["own", "shuffled", "none"], ...] = ("own", "shuffled", "none")
DIRECTIONS = ("dev", "ab", "ba", "both", "post-hoc")
"""Which cascade is reported: the one dev chose, one or both as named, or the better one on the evaluated problems."""
SYSTEMS: dict[str, System] = {
    "ab": (A, B),
    "ba": (B, A),
    "a": A,
    "b": B,
    "base": BASE,
    "moa": Mixture(BASE),
    "self-cascade": (A, A),
    "self-cascade-b": (B, B),
    "self-refine": (A, A),
    **{
        f"{first}{second}-{reads}": Control(first, second, reads)
        for first, second in ((A, B), (B, A))
        for reads in READS
    },
}
"""Every system that has records of its own."""
TITLES = {
    "ab": "A drafts, B answers",
    "ba": "B drafts, A answers",
    "a": "A alone",
    "b": "B alone",
    "base": "base, zero-shot",
    "moa": "base, mixture of agents",
    "self-cascade": "refines its own draft",
    "self-cascade-b": "B refines its own draft",
    "self-refine": "refines its own draft",
    **{
        f"{first}{second}-{reads}": f"{second.name} reads {what}"
        for first, second in ((A, B), (B, A))
        for reads, what in {
            "own": "its own draft",
            "shuffled": f"{first.name}'s draft of another problem",
            "none": "no draft",
        }.items()
    },
    "cascade": "cascade",
    "cascade-post-hoc": "cascade, direction chosen here",
    "single-pass": "single pass, mean of A and B",
}


def drawn_by(game: Game) -> tuple[str, ...]:
    """The systems with records of their own that an arm deploys, first stages before what reads them."""
    if game.opponent == "self":
        return ("a", "self-refine")
    if not game.makes_pair:
        return ("a",)
    return ("a", "b", "ab", "ba") if game.show_draft else ("a", "b")


def deployed_parts(names: Collection[str]) -> tuple[str, ...]:
    """Of the systems measured in an arm, those that it deploys: both cascades, its own refinement, or single passes."""
    for parts in (("ab", "ba"), ("self-refine",), ("a", "b"), ("a",)):
        if set(parts) <= set(names):
            return parts
    raise KeyError("no system was measured")


def deployed(game: Game | None) -> tuple[str, ...]:
    """What is evaluated by default: an arm as it deploys, and the first stages, drawn anyway."""
    if game is None:
        return ("base",)
    if game.opponent == "self":
        return ("self-refine", "a")
    if not game.makes_pair:
        return ("a",)
    return ("cascade", "a", "b") if game.show_draft else ("a", "b")


def headline(game: Game | None) -> str:
    """The result that stands for an arm in a table."""
    if game is None or not game.makes_pair:
        return deployed(game)[0]
    return "cascade" if game.show_draft else "single-pass"


def select(names: Sequence[str], game: Game | None, direction: str) -> dict[str, System]:
    """The systems behind some names, in order; what the arm does not have is refused. No game: a bare model."""
    chosen: dict[str, System] = {}
    for name in names or deployed(game):
        check(name, game)
        ways = [direction] if direction in ("ab", "ba") else ["ab", "ba"]
        parts = {"cascade": ways, "reading": [f"{way}-{reads}" for way in ways for reads in READS]}.get(name, [name])
        bare = game is None and name == "self-cascade"
        chosen |= {part: (BASE, BASE) if bare else SYSTEMS[part] for part in parts}
    return chosen


def check(name: str, game: Game | None) -> None:
    """Refuse a system that the target does not have, and say which one it has."""
    if name not in NAMES:
        raise InputError(f"there is no system {name!r}", fix=f"choose from: {', '.join(NAMES)}")
    why = _lacks(name, game)
    if why:
        offered = ", ".join(other for other in NAMES if not _lacks(other, game))
        raise InputError(f"--system {name}: {why}", fix=f"choose from: {offered}")


def _lacks(name: str, game: Game | None) -> str | None:
    if game is None:
        return None if name in ("base", "moa", "self-cascade") else "a bare model has no policies"
    if name in ("cascade", "b", "self-cascade-b", "reading") and not game.makes_pair:
        return "this run trains policy A alone"
    if name == "self-refine" and game.opponent != "self":
        return "this arm was not trained to refine itself; that control is called self-cascade"
    if name == "self-cascade" and game.opponent == "self":
        return "for an arm that was trained to refine itself this is called self-refine"
    return None
