#!/usr/bin/env python3
"""Recompute every number that README.md and the pages of results state, from results.csv alone.

    python experiments/tabletop/recompute.py            names the pages that differ from the table, and exits with 1
    python experiments/tabletop/recompute.py --write    writes their blocks, and the figures

A page holds prose written by hand, and blocks between `<!-- tabletop: NAME -->` and `<!-- end -->`, written here. Needs
numpy and scipy, and matplotlib for the figures. README.md beside this file says what the columns of the table are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tables

from results import (
    PAIR,
    Difference,
    Measure,
    Run,
    Runs,
    bonus_acts,
    difference,
    holm,
    mean_of,
    percent,
    pick,
    probability,
    rate,
    read,
    spent,
    table,
    with_seeds,
)

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/results/tabletop.md", "docs/results/gullible.md", "experiments/tabletop/tables.md")
BLOCK = re.compile(r"(<!-- tabletop: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)


# -- claims of plan.md ------------------------------------------------------------------------------------------------

WORLDS = tables.WORLDS
COMPARISONS = {
    "E1": ("coop's cascade - grpo's single pass", "coop", "grpo"),
    "E2": ("coop's cascade - grpo's self-cascade", "coop", "grpo:self-cascade"),
    "E3": ("coop's cascade - plain-pair's cascade", "coop", "plain-pair"),
    "E4": ("coop's cascade - self-refine", "coop", "self-refine"),
    "C1": ("agon's cascade - coop's cascade", "agon", "coop"),
}
CLAIMS = {"exchange at inference": "E2", "training on exchange": "E3", "competition": "C1"}
FRONT = {
    "E2": "Reading each other's drafts, against one model that rereads its own:",
    "E3": "Training together, against training apart and meeting only at test:",
    "C1": "The bonus, against the same pair without it:",
}
EXPECTED = {
    "E2": ("near zero", "near zero", "above zero", "above zero"),
    "E3": ("undecided", "undecided", "above zero", "undecided"),
    "C1": ("near zero", "near zero", "near zero", "open"),
}
"""By world, written in the plan before any arm ran."""
BROKEN = 0.20
"""A or B of a broken run ends this far below the mean of its arm's other seeds."""
BY_WEIGHT = {"1": "agon", "2": "agon/bonus2", "4": "agon/bonus4"}


def compared(runs: Runs, world: str) -> dict[str, Difference]:
    """Every comparison of a world; Holm's correction is over those of one claim."""
    found = {key: difference(runs, world, first, second) for key, (_, first, second) in COMPARISONS.items()}
    competition = {"C1": found.pop("C1")}
    return holm(found) | holm(competition)


def told(found: Difference, expected: str) -> str:
    """A verdict, and whether it came out as the plan expected."""
    _, low, high = found.interval
    said = f"{found.verdict}: {found}"
    if expected == "open":
        return f"{said}; the plan left it open"
    came = {"near zero": low <= 0 <= high, "above zero": found.verdict == "supported"}
    return f"{said}; expected {expected}: {'yes' if came.get(expected, found.verdict == expected) else '**no**'}"


def broken(runs: Runs) -> Iterator[Run]:
    """Main runs in which A or B alone ends far below the mean of the arm's other seeds."""
    for run in runs:
        others = [other for other in pick(runs, run.world, run.arm) if other.seed != run.seed]
        for name in ("a", "b"):
            if run.variant or not others or name not in run.systems():
                continue
            if run.systems()[name].rate < fmean(map(mean_of(name), others)) - BROKEN:
                yield run


# -- README.md and docs/results/tabletop.md ---------------------------------------------------------------------------


def front(runs: Runs) -> str:
    """Where one side was ahead, behind or neither, by its interval."""
    lines = []
    for key, question in FRONT.items():
        places: dict[str, list[str]] = {"ahead": [], "behind": [], "no clear difference": []}
        for world in WORLDS:
            value, low, high = compared(runs, world)[key].interval
            where = "ahead" if low > 0 else "behind" if high < 0 else "no clear difference"
            places[where].append(f"*{world}* ({100 * value:+.1f})")
        said = "; ".join(f"{where} in {', '.join(names)}" for where, names in places.items() if names)
        lines.append(f"- **{question}** {said}.")
    counted = sum(len(pick(runs, world, arm)) for world in WORLDS for arm in ("grpo", "plain-pair", "coop", "agon"))
    one_table = "[one table](experiments/tabletop/README.md) has them all, each with its revision."
    return "\n".join([*lines, "", f"{counted} runs; {one_table}"])


def finished(runs: Runs) -> str:
    matrix = [run for run in runs if run.world in WORLDS and run.arm]
    return f"All {len(matrix)} planned runs are done ({spent(matrix)})."


def verdicts(runs: Runs) -> str:
    """Claims by worlds, each with what the plan expected."""
    found = [compared(runs, world) for world in WORLDS]
    rows = [
        (f"{claim}: {COMPARISONS[key][0]}", *map(told, (one[key] for one in found), EXPECTED[key]))
        for claim, key in CLAIMS.items()
    ]
    return table(("claim", *WORLDS), rows)


def one_correction(runs: Runs) -> str:
    """p-values of the verdicts under one correction over all of them."""
    adjusted = holm({f"{key} {world}": compared(runs, world)[key] for key in CLAIMS.values() for world in WORLDS})
    rows = [
        (f"{claim} ({key})", *(probability(adjusted[f"{key} {world}"].p) for world in WORLDS))
        for claim, key in CLAIMS.items()
    ]
    return table(("claim", *WORLDS), rows)


def tests(runs: Runs) -> str:
    rows = []
    for world in WORLDS:
        for key, one in compared(runs, world).items():
            acts = bonus_acts(pick(runs, world, "agon")) if key == "C1" else ""
            middle, least = f"{100 * median(one.values):+z.1f}", f"{100 * one.detectable:.1f}"
            seeds = str(len(one.values))
            rows.append((world, key, COMPARISONS[key][0], str(one), middle, probability(one.p), least, seeds, acts))
    head = ("world", "", "difference", "mean [95%, over seeds]", "median", "p (Holm)", "found 4 times in 5, points")
    return table((*head, "seeds", "bonus acts in"), rows)


def without_broken(runs: Runs) -> str:
    """Verdicts with and without a single broken run."""
    rows = []
    for run in broken(runs):
        whole, rest = (compared(kept, run.world) for kept in (runs, [other for other in runs if other is not run]))
        for claim, key in CLAIMS.items():
            if len(rest[key].values) < len(whole[key].values):
                sides = (f"{one.verdict}: {one}" for one in (whole[key], rest[key]))
                rows.append((run.world, f"{run.arm}, seed {run.seed}", claim, *sides))
    return table(("world", "cell", "claim", "with it", "without it"), rows)


def competition(runs: Runs) -> str:
    """agon - coop by world, and in soft-halves by the size of the bonus on the seeds that all sizes have."""
    common = {run.seed for run in pick(runs, "soft-halves", "agon", "bonus2")}
    same = [run for run in runs if run.seed in common]
    sides = [(runs, world, "1", "agon") for world in WORLDS]
    sides += [(same, "soft-halves", weight, arm) for weight, arm in BY_WEIGHT.items()]
    rows = []
    for some, world, weight, arm in sides:
        acts = bonus_acts(pick(some, world, *arm.split("/")))
        rows.append((world, weight, acts, *with_seeds(difference(some, world, arm, "coop"))))
    return table(("world", "weight", "bonus acts in", "agon - coop [95%, over seeds]", "seeds"), rows)


def against_majority(runs: Runs) -> str:
    """Two passes, the second reading the first, against the majority of three single passes of the same policies."""
    systems = {"coop": ("coop's cascade", PAIR, ("a", "b")), "grpo": ("grpo's self-cascade", ("self-cascade",), ("a",))}
    rows = []
    for world in WORLDS:
        for arm, (label, two, three) in systems.items():
            mine = pick(runs, world, arm)
            sides = [list(map(mean_of(*two), mine)), list(map(mean_of(*three, of=lambda s: s.majority), mine))]
            tokens = [times * fmean(map(mean_of(*names, of=lambda s: s["all_tokens"]), mine))
                      for times, names in ((1, two), (3, three))]  # fmt: skip
            priced = [f"{percent(side)} ({count:.0f} tokens)" for side, count in zip(sides, tokens, strict=True)]
            less = Difference([a - b for a, b in zip(*sides, strict=True)])
            rows.append((world, label, *priced, *with_seeds(less)))
    return table(("world", "", "two passes, %", "majority of three, %", "difference [95%, over seeds]", "seeds"), rows)


ALL, BOTH, HALVES, SOFT, NEUTRAL = WORLDS, tables.TAUGHT_APART, ("halves",), ("soft-halves",), ("neutral",)
LATER = "later"
QUESTIONS: dict[str, list[tuple[Any, ...]]] = {
    "Must the challenger see the draft?": [(SOFT, "agon - hidden-drafts", "agon", "hidden-drafts")],
    "Must each challenge have a draft of its own?": [
        (SOFT, "agon - shared-opponent (hidden)", "agon", "shared-opponent"),
    ],
    "Does the bonus teach without exchange?": [
        (SOFT, "hidden-drafts - shared-opponent (one draft for the group: the bonus cancels)", "hidden-drafts",
         "shared-opponent", LATER),
    ],
    "Is a shared opponent inert?": [(SOFT, "shared-opponent - plain-pair", "shared-opponent", "plain-pair", LATER)],
    "Pressure, or weight on hard problems?": [(SOFT, "agon - mispaired", "agon", "mispaired")],
    "Must the roles swap?": [
        (SOFT, "agon - fixed-roles", "agon", "fixed-roles"),
        (SOFT, "B reads A, which fixed roles train: agon - fixed-roles", "agon:ab", "fixed-roles:ab", LATER),
        (SOFT, "A reads B: agon - fixed-roles", "agon:ba", "fixed-roles:ba", LATER),
    ],
    "Is the margin a better payment?": [(SOFT, "agon - margin", "agon", "margin")],
    "Does a larger bonus pay more?": [
        (SOFT, "agon, weight 2 - 1", "agon/bonus2", "agon"),
        (SOFT, "agon, weight 4 - 1", "agon/bonus4", "agon"),
    ],
    "What does the tiebreak cost?": [(NEUTRAL, "agon - tiebreak", "agon", "tiebreak")],
    "Do challenger updates help a single pass?": [
        (ALL, "single passes, agon - plain-pair", "agon:a+b", "plain-pair:a+b", LATER),
        (SOFT, "B alone, fixed-roles (it only challenges) - plain-pair", "fixed-roles:b", "plain-pair:b", LATER),
    ],
    "Does exchange at inference pay without training on it?": [
        (ALL, "plain-pair's cascade - grpo's self-cascade", "plain-pair", "grpo:self-cascade", LATER),
    ],
    "How much does choosing the direction afterwards flatter?": [
        (ALL, "agon, better direction after the fact - chosen on the other half", "agon:better", "agon:chosen"),
    ],
    "Does the start of GRPO matter?": [
        (BOTH, "single pass, grpo from B's adapter - from A's", "grpo/from-b", "grpo"),
        (BOTH, "self-cascade, grpo from B's adapter - from A's", "grpo/from-b:self-cascade", "grpo:self-cascade",
         LATER),
        (BOTH, "coop's cascade - self-cascade of grpo from B's adapter", "coop", "grpo/from-b:self-cascade", LATER),
    ],
    "What does GRPO reach at one adapter's budget?": [
        (HALVES, "grpo, 8 rollouts per problem - 16", "grpo/half-budget", "grpo"),
    ],
    "Do runs of three epochs collapse?": [
        (SOFT, "grpo, three epochs - one", "grpo/long", "grpo"),
        (SOFT, "agon, three epochs - one", "agon/long", "agon"),
    ],
    "What is left to separate after three epochs?": [
        (SOFT, "agon's cascade - grpo's self-cascade", "agon/long", "grpo/long:self-cascade", LATER),
    ],
    "How different must B start?": [
        (NEUTRAL, "agon, noise of 0.01 - 0.001", "agon/noise0.01", "agon"),
        (NEUTRAL, "agon, noise of 0.1 - 0.001", "agon/noise0.1", "agon"),
        (NEUTRAL, "B alone, noise of 0.1 - 0.001", "agon/noise0.1:b", "agon:b", LATER),
    ],
}  # fmt: skip
"""Beside the claims, described and not tested: worlds, what is compared, its two sides, and whether it was asked later,
after runs of these arms had been seen."""


def questions(runs: Runs) -> str:
    rows = [
        (asked, world, text, *with_seeds(difference(runs, world, first, second)), *(later or [""]))
        for asked, compared_here in QUESTIONS.items()
        for worlds, text, first, second, *later in compared_here
        for world in worlds
    ]
    return table(("question", "world", "difference", "[95%, over seeds]", "seeds", "asked"), rows)


def trace_lengths(runs: Runs) -> str:
    """Whether the tiebreak shortens final traces."""
    found = difference(runs, "neutral", "tiebreak", "agon", mean_of(*PAIR, of=lambda s: s["final_tokens"]))
    size = "{:+z.2f} [{:+z.2f}, {:+z.2f}]".format(*found.interval)
    return f"Tokens of a cascade's final trace in neutral, tiebreak - agon: {size}, {len(found.values)} seeds."


# -- docs/results/gullible.md -----------------------------------------------------------------------------------------

GULLIBLE = {"coop": "coop", "agon": "agon", "agon, weight 4": "agon/bonus4"}
BONUS = ("agon", "agon, weight 4")
TRUST = {"cascade": rate, "converted": lambda s: s.converted, "echoed": lambda s: s.echoed}
MEASURES: dict[str, Measure] = {
    "echoed": mean_of(*PAIR, of=TRUST["echoed"]),
    "converted": mean_of(*PAIR, of=TRUST["converted"]),
    "kept": mean_of(*PAIR, of=lambda s: s.kept),
    "cascade": mean_of(*PAIR),
    "draft": mean_of("a", "b"),
}
PREDICTED = {"echoed": "below zero", "converted": "above zero"}
STEPS = ("40", "80", "120", "160", "200")


def readers(runs: Runs, label: str) -> list[Run]:
    return pick(runs, "gullible", *GULLIBLE[label].split("/"))


def to_coop(runs: Runs, label: str, of: Measure) -> Difference:
    return difference(runs, "gullible", GULLIBLE[label], "coop", of)


def gullible_finished(runs: Runs) -> str:
    mine = [run for run in runs if run.world == "gullible"]
    [commit] = {run.of_run("commit") for run in mine}
    return f"All {len(mine)} planned runs are done ({spent(mine)}, commit {commit[:8]})."


def sign(found: Difference) -> str:
    return "above zero" if found.interval[0] > 0 else "below zero"


def gullible_tests(runs: Runs) -> str:
    """The four planned tests."""
    tested = {f"{of}: {label} - coop": to_coop(runs, label, MEASURES[of]) for of in PREDICTED for label in BONUS}
    rows = []
    for name, one in holm(tested).items():
        predicted = PREDICTED[name.partition(":")[0]]
        came = "as predicted" if predicted == sign(one) else "against the prediction"
        said = (probability(one.p), came if one.significant else "undecided", f"{100 * one.detectable:.1f}")
        rows.append((name, predicted, str(one), *said, str(len(one.values))))
    head = ("difference", "predicted", "mean [95%, over seeds]", "p (Holm)", "", "found 4 times in 5, points", "seeds")
    return table(head, rows)


def gullible_levels(runs: Runs) -> str:
    rows = []
    for label in GULLIBLE:
        mine = readers(runs, label)
        weights = [float(weight) for run in mine if (weight := run.of_run("bonus_weight"))]
        bonus = (bonus_acts(mine), f"{fmean(weights):.2f}" if weights else "")
        rows.append((label, *(percent(map(of, mine)) for of in MEASURES.values()), *bonus, str(len(mine))))
    return table(("arm, means in %", *MEASURES, "bonus acts in", "bonus weight", "seeds"), rows)


def gullible_differences(runs: Runs) -> str:
    rows = [(f"{label} - coop", *(str(to_coop(runs, label, of)) for of in MEASURES.values())) for label in BONUS]
    return table(("", *MEASURES), rows)


def gullible_along(runs: Runs) -> str:
    rows = []
    for step in STEPS:
        on_dev = [mean_of(*PAIR, of=of, at="dev", step=step) for of in TRUST.values()]
        level = percent(map(on_dev[0], readers(runs, "coop")))
        rows.append((step, level, *(str(to_coop(runs, label, of)) for label in BONUS for of in on_dev)))
    parts = (f"{label}: {name}" for label in ("agon", "weight 4") for name in TRUST)
    return table(("steps", "coop's cascade, %", *parts), rows)


def gullible_reading(runs: Runs) -> str:
    ways = {"the rival's draft": "", "its own": "-own", "of another problem": "-shuffled", "none": "-none"}
    measures = [mean_of(f"ab{way}", f"ba{way}") for way in ways.values()]
    rows = [(label, *(percent(map(of, readers(runs, label))) for of in measures)) for label in GULLIBLE]
    return table(("challengers read, right answers in %", *ways), rows)


# -- pages ------------------------------------------------------------------------------------------------------------

BLOCKS: dict[str, Callable[[Runs], str]] = {
    "front": front,
    "finished": finished,
    "verdicts": verdicts,
    "one correction": one_correction,
    "tests": tests,
    "without broken runs": without_broken,
    "competition": competition,
    "against majority": against_majority,
    "questions": questions,
    "trace lengths": trace_lengths,
    "gullible finished": gullible_finished,
    "gullible tests": gullible_tests,
    "gullible levels": gullible_levels,
    "gullible differences": gullible_differences,
    "gullible along": gullible_along,
    "gullible reading": gullible_reading,
    **{f"{world} tables": partial(tables.of_world, world=world) for world in WORLDS},
    "further arms": tables.further,
    "short chains": tables.short_chains,
    "along the run": tables.along,
    "best point": tables.best_point,
}


def recomputed(page: str, runs: Runs) -> str:
    """A page with every block written anew."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]](runs)}\n\n{match[3]}", page)


def main() -> int:
    runs = read()
    pages = {ROOT / page: (ROOT / page).read_text() for page in PAGES}
    different = {path: new for path, old in pages.items() if (new := recomputed(old, runs)) != old}
    for path, new in different.items():
        print(f"{path.relative_to(ROOT)} differs from the table")
        if "--write" in sys.argv[1:]:
            path.write_text(new)
    if "--write" not in sys.argv[1:]:
        return 1 if different else 0
    import figures

    comparisons = {world: compared(runs, world) for world in WORLDS}
    figures.by_world(comparisons, list(COMPARISONS), ROOT / "docs" / "assets" / "tabletop.svg")
    figures.front(comparisons, ROOT / "docs" / "assets" / "verdicts.svg")
    sides = {of: {label: to_coop(runs, label, measure) for label in BONUS} for of, measure in MEASURES.items()}
    figures.dots(sides, ROOT / "docs" / "assets" / "gullible.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
