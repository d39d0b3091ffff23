"""Differences between arms of the tabletop matrix, paired by seed: the plan's claims and the questions beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from _tabletop import CellPlan, CellResult
from agon.eval import intervals
from agon.formatting import points
from agon.rundir.results import Interval

LEVEL = 0.05
MARGIN = 0.01
"""A claim whose whole interval is below this is not supported; fixed in the plan."""


# -- what is measured of a cell ---------------------------------------------------------------------------------------


def number(result: CellResult) -> float:
    return result.rate


def rate_of(*systems: str) -> Callable[[CellResult], float]:
    """The mean of some systems."""
    return lambda result: fmean(result.systems[name].rate for name in systems)


def final_tokens(result: CellResult) -> float:
    """Length of a cascade's final trace, the mean of both directions."""
    return fmean(result.systems[name].final_tokens for name in ("ab", "ba"))


def chosen(result: CellResult) -> float:
    """In the direction that is better on one half of the problems, measured on the other half; both ways round."""
    ab, ba = (result.systems[name].rates for name in ("ab", "ba"))
    halves = [(slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))]
    return fmean(fmean((ab if sum(ab[here]) >= sum(ba[here]) else ba)[there]) for here, there in halves)


def best(result: CellResult) -> float:
    """In the direction that is better on the problems it is measured on."""
    return max(result.systems[name].rate for name in ("ab", "ba"))


# -- differences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One side of a comparison: an arm and what is measured of it."""

    arm: str
    of: Callable[[CellResult], float] = number
    variant: str = ""


@dataclass(frozen=True)
class Difference:
    """A difference over the seeds that both sides have."""

    values: list[float]
    p_holm: float | None = None
    family: int = 1
    """Tests that Holm's correction is over."""

    @property
    def interval(self) -> tuple[float, float, float] | None:
        if len(self.values) < 2:
            return None
        found = intervals.t_interval(self.values)
        assert found.low is not None
        assert found.high is not None
        return found.value, found.low, found.high

    @property
    def detectable(self) -> float | None:
        """The smallest effect that is found four times in five at the first, strictest step of Holm's correction."""
        if len(self.values) < 2 or intervals.agree(self.values):
            return None
        return intervals.detectable_across_seeds(stdev(self.values), len(self.values), 1 - LEVEL / self.family)

    @property
    def verdict(self) -> str:
        if self.interval is None:
            return "undecided"
        _, low, high = self.interval
        if low > 0 and self.significant:
            return "supported"
        return "not supported" if high < MARGIN else "undecided"

    @property
    def significant(self) -> bool:
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def told(self) -> str:
        """The verdict, the difference, and that it is below zero where it is."""
        below = self.significant and self.interval is not None and self.interval[2] < 0
        return f"{self.verdict}{' (below zero)' if below else ''}: {self}"

    def expected(self, outcome: str) -> bool:
        """Whether it came out as the plan expected."""
        if self.interval is None:
            return False
        _, low, high = self.interval
        return {"near zero": low <= 0 <= high, "above zero": self.verdict == "supported"}.get(
            outcome, self.verdict == outcome
        )

    def __str__(self) -> str:
        if self.interval is None:
            return "not measured twice"
        if intervals.agree(self.values):
            return f"{points(Interval(self.values[0], None, None))} with every seed"
        return points(Interval(*self.interval))


def by_seed(done: dict[CellPlan, CellResult], world: str, arm: str, variant: str = "") -> dict[int, CellResult]:
    return {c.seed: r for c, r in done.items() if (c.world, c.arm, c.variant) == (world, arm, variant)}


def seed_differences(done: dict[CellPlan, CellResult], world: str, first: Side, second: Side) -> list[float]:
    """First less second, over the seeds that both have."""
    one, two = (by_seed(done, world, side.arm, side.variant) for side in (first, second))
    return [first.of(one[seed]) - second.of(two[seed]) for seed in sorted(one.keys() & two.keys())]


# -- claims -----------------------------------------------------------------------------------------------------------

COMPARISONS = {
    "E1": ("coop's cascade - grpo's single pass", Side("coop"), Side("grpo", rate_of("a"))),
    "E2": ("coop's cascade - grpo's self-cascade", Side("coop"), Side("grpo", rate_of("self-cascade"))),
    "E3": ("coop's cascade - plain-pair's cascade", Side("coop"), Side("plain-pair")),
    "E4": ("coop's cascade - self-refine", Side("coop"), Side("self-refine")),
    "C1": ("agon's cascade - coop's cascade", Side("agon"), Side("coop")),
}
CLAIMS = {
    "exchange at inference": "E2",
    "training on exchange": "E3",
    "competition": "C1",
}
EXPECTED = {
    "E2": {"neutral": "near zero", "relay": "near zero", "halves": "above zero", "soft-halves": "above zero"},
    "E3": {"neutral": "undecided", "relay": "undecided", "halves": "above zero", "soft-halves": "undecided"},
    "C1": {"neutral": "near zero", "relay": "near zero", "halves": "near zero", "soft-halves": "open"},
}
"""Written in the plan before any arm ran."""


def compared(done: dict[CellPlan, CellResult], world: str) -> dict[str, Difference]:
    """Every comparison of a world; Holm over those of one claim."""
    found = {key: seed_differences(done, world, first, second) for key, (_, first, second) in COMPARISONS.items()}
    made: dict[str, Difference] = {}
    for family in (("E1", "E2", "E3", "E4"), ("C1",)):
        tested = [key for key in family if len(found[key]) > 1]
        raw = [intervals.t_test(found[key]) for key in tested]
        adjusted = dict(zip(tested, intervals.holm([1.0 if p is None else p for p in raw]), strict=True))
        made |= {key: Difference(found[key], adjusted.get(key), len(family)) for key in family}
    return made


def holm_over_verdicts(differences: dict[str, dict[str, Difference]]) -> dict[tuple[str, str], float]:
    """The p-values of the twelve verdicts under one correction over all of them, by world and comparison."""
    keys = [(world, key) for world in differences for key in CLAIMS.values() if len(differences[world][key].values) > 1]
    raw = [intervals.t_test(differences[world][key].values) for world, key in keys]
    return dict(zip(keys, intervals.holm([1.0 if p is None else p for p in raw]), strict=True))


# -- cells that broke ------------------------------------------------------------------------------------------------

BROKEN = 0.20


def broken_cells(done: dict[CellPlan, CellResult]) -> list[CellPlan]:
    """Main cells in which A or B alone ends far below the mean of the arm's other seeds."""
    found = []
    for cell, result in done.items():
        arm = by_seed(done, cell.world, cell.arm) if not cell.variant else {}
        others = [other for seed, other in arm.items() if seed != cell.seed]
        singles = [name for name in ("a", "b") if others and name in result.systems]
        if any(result.systems[n].rate < fmean(o.systems[n].rate for o in others) - BROKEN for n in singles):
            found.append(cell)
    return found


# -- questions beside the claims --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A difference that is described and not tested."""

    asked: str
    worlds: tuple[str, ...]
    text: str
    first: Side
    second: Side
    planned: bool = True
    """Whether it was asked before its cells ran."""


ALL, HALVES, SOFT, NEUTRAL = ("neutral", "relay", "halves", "soft-halves"), ("halves",), ("soft-halves",), ("neutral",)
AGON, GRPO, HIDDEN, SHARED = Side("agon"), Side("grpo"), Side("hidden-drafts"), Side("shared-opponent")
FIXED, PLAIN = Side("fixed-roles"), Side("plain-pair")


def _variant(side: Side, variant: str) -> Side:
    return replace(side, variant=variant)


def _measured(side: Side, *systems: str) -> Side:
    return replace(side, of=rate_of(*systems))


def _longer(arm: str) -> Question:
    asked = "Do runs of three epochs collapse?"
    return Question(asked, SOFT, f"{arm}, three epochs - one", Side(arm, variant="long"), Side(arm))


def _noisier(noise: str) -> Question:
    text = f"agon, noise of {noise} - 0.001"
    return Question("How different must B start?", NEUTRAL, text, _variant(AGON, f"noise{noise}"), AGON)


def _stronger(weight: str) -> Question:
    text = f"agon, weight {weight} - 1"
    return Question("Does a larger bonus pay more?", SOFT, text, _variant(AGON, f"bonus{weight}"), AGON)


SWAP = "Must the roles swap?"
UPDATES = "Do challenger updates help a single pass?"
START = "Does the start of GRPO matter?"
UNTRAINED = "Does exchange at inference pay without training on it?"
QUESTIONS = (
    Question("Must the challenger see the draft?", SOFT, "agon - hidden-drafts", AGON, HIDDEN),
    Question("Must each challenge have a draft of its own?", SOFT, "agon - shared-opponent (hidden)", AGON, SHARED),
    Question(
        "Does the bonus teach without exchange?",
        SOFT,
        "hidden-drafts - shared-opponent (one draft for the group: the bonus cancels)",
        HIDDEN,
        SHARED,
        planned=False,
    ),
    Question("Is a shared opponent inert?", SOFT, "shared-opponent - plain-pair", SHARED, PLAIN, planned=False),
    Question("Pressure, or weight on hard problems?", SOFT, "agon - mispaired", AGON, Side("mispaired")),
    Question(SWAP, SOFT, "agon - fixed-roles", AGON, FIXED),
    Question(
        SWAP,
        SOFT,
        "B reads A, which fixed roles train: agon - fixed-roles",
        _measured(AGON, "ab"),
        _measured(FIXED, "ab"),
        planned=False,
    ),
    Question(SWAP, SOFT, "A reads B: agon - fixed-roles", _measured(AGON, "ba"), _measured(FIXED, "ba"), planned=False),
    Question("Is the margin a better payment?", SOFT, "agon - margin", AGON, Side("margin")),
    _stronger("2"),
    _stronger("4"),
    Question("What does the tiebreak cost?", NEUTRAL, "agon - tiebreak", AGON, Side("tiebreak")),
    Question(
        UPDATES,
        ALL,
        "single passes, agon - plain-pair",
        _measured(AGON, "a", "b"),
        _measured(PLAIN, "a", "b"),
        planned=False,
    ),
    Question(
        UPDATES,
        SOFT,
        "B alone, fixed-roles (it only challenges) - plain-pair",
        _measured(FIXED, "b"),
        _measured(PLAIN, "b"),
        planned=False,
    ),
    Question(
        UNTRAINED,
        ALL,
        "plain-pair's cascade - grpo's self-cascade",
        PLAIN,
        _measured(GRPO, "self-cascade"),
        planned=False,
    ),
    Question(
        "How much does choosing the direction afterwards flatter?",
        ALL,
        "agon, better direction after the fact - chosen on the other half",
        replace(AGON, of=best),
        replace(AGON, of=chosen),
    ),
    Question(START, (*HALVES, *SOFT), "single pass, grpo from B's adapter - from A's", _variant(GRPO, "from-b"), GRPO),
    Question(
        START,
        (*HALVES, *SOFT),
        "self-cascade, grpo from B's adapter - from A's",
        _measured(_variant(GRPO, "from-b"), "self-cascade"),
        _measured(GRPO, "self-cascade"),
        planned=False,
    ),
    Question(
        START,
        (*HALVES, *SOFT),
        "coop's cascade - self-cascade of grpo from B's adapter",
        Side("coop"),
        _measured(_variant(GRPO, "from-b"), "self-cascade"),
        planned=False,
    ),
    Question(
        "What does GRPO reach at one adapter's budget?",
        HALVES,
        "grpo, 8 rollouts per problem - 16",
        _variant(GRPO, "half-budget"),
        GRPO,
    ),
    _longer("grpo"),
    _longer("agon"),
    Question(
        "What is left to separate after three epochs?",
        SOFT,
        "agon's cascade - grpo's self-cascade",
        _variant(AGON, "long"),
        _measured(_variant(GRPO, "long"), "self-cascade"),
        planned=False,
    ),
    _noisier("0.01"),
    _noisier("0.1"),
    Question(
        "How different must B start?",
        NEUTRAL,
        "B alone, noise of 0.1 - 0.001",
        _measured(_variant(AGON, "noise0.1"), "b"),
        _measured(AGON, "b"),
        planned=False,
    ),
)
