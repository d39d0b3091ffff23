"""The two pages of the tabletop matrix, made whole from its raw results: every number on them is computed here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median

from _tabletop import MAIN, PAGE, RAW, TABLES, DevPoint, cells
from _tabletop_compare import (
    BROKEN,
    CLAIMS,
    COMPARISONS,
    EXPECTED,
    LEVEL,
    QUESTIONS,
    Difference,
    Side,
    broken_cells,
    by_seed,
    compared,
    final_tokens,
    holm_over_verdicts,
    seed_differences,
)
from _tabletop_tables import Done, arm_table, bites, control_table, fact_table, further, transfer
from agon.data.tabletop.worlds import WORLDS
from agon.formatting import markdown_table, plural, probability

SEEDS = 10
"""Planned for every comparison; a verdict on fewer is marked as early."""
INTRODUCTION = """\
Made by `scripts/tabletop_matrix --page` from `docs/results/raw`, and checked by `evidence/tabletop.py`. The \
[plan](tabletop-plan.md) was written before any arm ran; it says what arms, measures, tests and verdicts are. Its \
limit of CPU time was raised once, after six seeds. These are tiny models on arithmetic: the size of an effect says \
nothing about large models."""
TESTS = """\
*Found 4 times in 5* is the smallest effect that the test would find so often, given the spread over seeds, at the \
strictest step of Holm's correction. The median was not planned; it shows where one seed carries the mean."""
FIGURE_LINE = "![differences in points, with 95% intervals over seeds](../assets/tabletop.svg)"
FIGURE_KEY = "Exchange (E1 to E4) in gold, competition (C1) in blue; [tests](#tests) says what each compares."
BEFORE = """\
`ab` is the cascade in which A drafts and B reads the draft and answers; `ba` is the other direction. Before \
training, *A reads B* and *refines itself* show a draft as the challenge and as the refinement do; where A and B \
start as the same base (neutral, relay), B's draft is one of A's. *Mixture of agents* (not planned) shows two drafts \
of one's own. Right, wrong and half drafts are recaps that no model wrote: a wrong one has one wrong value and what \
follows from it, so its other steps are right."""
CONTROLS = """\
In the tables of controls at inference: *chosen* is the direction that is better on one half of the problems, \
measured on the other half; *after the fact*, the better direction on the problems it is measured on; *A or B*, at \
least one of two single passes, one of each; *majority*, of three single passes of A; *pass@2*, at least one of two \
single passes of A, a ceiling for choosing between them and not for a second pass that reads the first. These are \
in %. Tokens are of all passes that the number of the row takes, over all seeds. The bonus has an effect in a group of \
challenges when the advantages with and without it differ."""


def answers(done: Done) -> str:
    """The page of what came out: the plot first, then verdicts, then what they rest on."""
    return "\n\n".join(_answers(done)) + "\n"


def tables(done: Done) -> str:
    """The page of every arm, control and point along the run, by world."""
    return "\n\n".join(_tables(done)) + "\n"


def _answers(done: Done) -> Iterator[str]:
    hours = sum(result.cpu_seconds for result in done.values()) / 3600
    differences = {world: compared(done, world) for world in WORLDS}
    yield "# The tabletop matrix: results"
    yield INTRODUCTION
    yield FIGURE_LINE
    yield FIGURE_KEY
    spent = f"{len(done)} of {len(cells())} runs are done ({hours:.1f} hours of CPU time)."
    yield f"{spent} Every arm's own numbers: [tables]({TABLES.name})."
    yield "## Verdicts"
    if any(len(one.values) < SEEDS for found in differences.values() for one in found.values()):
        yield "*So far* marks what fewer seeds say than were planned: it may change, and no run was chosen to stop at."
    yield verdict_table(differences)
    yield from one_correction(differences)
    yield "## Tests"
    yield tests(done, differences)
    yield TESTS
    yield from without_broken(done, differences)
    yield "## Competition against where the bonus acts"
    yield competition(done)
    yield from against_majority(done)
    yield "## Questions beside the claims"
    yield questions(done)
    yield trace_lengths(done)


def _tables(done: Done) -> Iterator[str]:
    yield "# The tabletop matrix: tables"
    yield f"What the [results]({PAGE.name}) rest on: every arm and control, in each world and along the run."
    yield BEFORE
    yield CONTROLS
    for world in WORLDS:
        yield f"## {world}"
        yield from world_tables(done, world)
    yield "## Further arms and controls"
    yield further(done)
    yield "## Transfer to shorter chains"
    yield transfer(done)
    yield "## Along the run"
    yield along(done)


def verdict_table(differences: dict[str, dict[str, Difference]]) -> str:
    """Claims by worlds, each with what the plan expected and the seeds that it rests on where some are missing."""
    rows = []
    for claim, key in CLAIMS.items():
        told = (_verdict(differences[world][key], EXPECTED[key][world]) for world in WORLDS)
        rows.append((f"{claim}: {COMPARISONS[key][0]}", *told))
    return markdown_table(("claim", *WORLDS), rows)


def _verdict(difference: Difference, expected: str) -> str:
    seeds = len(difference.values)
    early = "" if seeds >= SEEDS else f" (so far: {seeds} of {SEEDS} seeds)"
    if expected == "open":
        return f"{difference.told}{early}; the plan left it open"
    return f"{difference.told}{early}; expected {expected}: {'yes' if difference.expected(expected) else '**no**'}"


def one_correction(differences: dict[str, dict[str, Difference]]) -> Iterator[str]:
    """The verdicts once more, with Holm's correction over all worlds and claims together."""
    adjusted = holm_over_verdicts(differences)
    rows = [
        (f"{claim} ({key})", *(probability(adjusted.get((world, key))) for world in WORLDS))
        for claim, key in CLAIMS.items()
    ]
    yield "### Under one correction"
    yield (
        "Not planned. The plan corrects within a world and a claim. Here is p with Holm's correction over the "
        f"{len(adjusted)} verdicts together; what is above {LEVEL} here rests on the narrower family."
    )
    yield markdown_table(("claim", *WORLDS), rows)


def against_majority(done: Done) -> Iterator[str]:
    """Two passes, the second reading the first, against the majority of three single passes of the same policies."""
    rows = []
    for world in WORLDS:
        for arm, systems, singles in (("coop", ("ab", "ba"), ("a", "b")), ("grpo", ("self-cascade",), ("a",))):
            results = by_seed(done, world, arm).values()
            both, three = (
                Difference([fmean(of(r.systems[name]) for name in names) for r in results])
                for names, of in ((systems, lambda s: s.rate), (singles, lambda s: s.majority_rate))
            )
            less = Difference([a - b for a, b in zip(both.values, three.values, strict=True)])
            tokens = [
                times * fmean(r.systems[name].all_tokens for r in results for name in names)
                for times, names in ((1, systems), (3, singles))
            ] if results else [0.0, 0.0]  # fmt: skip
            means = [f"{100 * fmean(side.values):.1f}" if side.values else "" for side in (both, three)]
            priced = [f"{mean} ({count:.0f} tokens)" for mean, count in zip(means, tokens, strict=True)]
            rows.append((world, "coop's cascade" if arm == "coop" else "grpo's self-cascade", *priced, *paired(less)))
    yield "## A second pass that reads, against more single passes"
    yield (
        "Not planned. Two passes, the second of which reads the first, against the majority of three single passes of "
        "the same policies, which takes half as many tokens again. These readers were *taught* to adopt right values "
        "from a recap, so this says what reading is worth to a reader who can, and not that a model learns it. In "
        "soft-halves the majority of grpo's single passes is above coop's cascade."
    )
    head = ("world", "", "two passes, %", "majority of three, %", "difference [95%, over seeds]", "seeds")
    yield markdown_table(head, rows)


def agon_bites(done: Done, world: str, variant: str = "") -> str:
    return bites(list(by_seed(done, world, "agon", variant).values()))


def tests(done: Done, differences: dict[str, dict[str, Difference]]) -> str:
    rows = []
    for world, found in differences.items():
        for key, difference in found.items():
            p = probability(difference.p_holm)
            least = "" if difference.detectable is None else f"{100 * difference.detectable:.1f}"
            middle = f"{100 * median(difference.values):+z.1f}" if difference.values else ""
            seeds, biting = str(len(difference.values)), agon_bites(done, world) if key == "C1" else ""
            rows.append((world, key, COMPARISONS[key][0], str(difference), middle, p, least, seeds, biting))
    head = (
        "world",
        "",
        "difference",
        "mean [95%, over seeds]",
        "median",
        "p (Holm)",
        "found 4 times in 5, points",
        "seeds",
        "bonus acts in",
    )
    return markdown_table(head, rows)


def without_broken(done: Done, differences: dict[str, dict[str, Difference]]) -> Iterator[str]:
    """Verdicts that a single broken cell decides."""
    rows = []
    for cell in broken_cells(done):
        rest = compared({other: result for other, result in done.items() if other != cell}, cell.world)
        for claim, key in CLAIMS.items():
            whole, less = differences[cell.world][key], rest[key]
            if len(less.values) < len(whole.values):
                rows.append((cell.world, f"{cell.arm}, seed {cell.seed}", claim, whole.told, less.told))
    if rows:
        yield "### Without the cells that broke"
        yield (
            f"Not planned. In these cells A or B alone ends more than {100 * BROKEN:.0f} points below the mean of its "
            "arm's other seeds. They stay in every number of this page; here is what each decides."
        )
        yield markdown_table(("world", "cell", "claim", "with it", "without it"), rows)


def competition(done: Done) -> str:
    """agon - coop by world, and in soft-halves by the size of the bonus on the seeds that all sizes have."""
    rows = []
    for world in WORLDS:
        rows.append((world, "1", agon_bites(done, world), *paired(against_coop(done, world))))
    common = by_seed(done, "soft-halves", "agon", "bonus2").keys()
    same = {cell: result for cell, result in done.items() if cell.seed in common}
    for weight, variant in (("1", ""), ("2", "bonus2"), ("4", "bonus4")) if common else ():
        share, found = agon_bites(same, "soft-halves", variant), against_coop(same, "soft-halves", variant)
        rows.append(("soft-halves", weight, share, *paired(found)))
    return markdown_table(("world", "weight", "bonus acts in", "agon - coop [95%, over seeds]", "seeds"), rows)


def against_coop(done: Done, world: str, variant: str = "") -> Difference:
    return Difference(seed_differences(done, world, Side("agon", variant=variant), Side("coop")))


def paired(difference: Difference) -> tuple[str, str]:
    return str(difference), str(len(difference.values))


def world_tables(done: Done, world: str) -> Iterator[str]:
    untrained = RAW / world / "untrained.json"
    if untrained.exists():
        rates = json.loads(untrained.read_text())["rates"]
        rows = [(name, f"{100 * v:.1f} [{100 * low:.1f}, {100 * high:.1f}]") for name, (v, low, high) in rates.items()]
        yield "Before training, pass@1 in % with intervals over problems:\n\n" + markdown_table(("", "pass@1"), rows)
    main = [(arm, "") for arm in MAIN]
    if not any(by_seed(done, world, arm) for arm in MAIN):
        yield "No cell is done yet."
        return
    yield "After training, means over seeds in %:\n\n" + arm_table(done, world, main)
    yield "Controls at inference:\n\n" + control_table(done, world, main)
    if WORLDS[world].taught:
        yield "Right steps in %, by who knew the fact before training:\n\n" + fact_table(done, world)


def questions(done: Done) -> str:
    rows = []
    for asked in QUESTIONS:
        for world in asked.worlds:
            found = Difference(seed_differences(done, world, asked.first, asked.second))
            rows.append((asked.asked, world, asked.text, *paired(found), "" if asked.planned else "later"))
    head = ("question", "world", "difference", "[95%, over seeds]", "seeds", "asked")
    said = "Described, not tested: no verdict, no correction. *Later*: asked after cells of these arms had been seen."
    return said + "\n\n" + markdown_table(head, rows)


def trace_lengths(done: Done) -> str:
    """Whether the tiebreak shortens final traces."""
    found = seed_differences(done, "neutral", Side("tiebreak", final_tokens), Side("agon", final_tokens))
    interval = Difference(found).interval
    size = "not measured twice" if interval is None else "{:+z.2f} [{:+z.2f}, {:+z.2f}]".format(*interval)
    return f"Tokens of a cascade's final trace in neutral, tiebreak - agon: {size}, {plural(len(found), 'seed')}."


def along(done: Done) -> str:
    """Points on dev, and the best of them against the last weights on held-out problems."""
    rows, chosen_by_dev = [], []
    for world in WORLDS:
        results = list(by_seed(done, world, "agon", "points").values())
        for points_of_a_step in zip(*(result.points for result in results), strict=True):
            rows.append((world, str(points_of_a_step[0].step), *shares(points_of_a_step), str(len(results))))
        if results:
            found = [replace(r, systems=r.best).rate - r.rate for r in results]
            said = Difference(found) if any(found) else "the last was the best with every seed"
            chosen_by_dev.append(f"- {world}: {said}")
    if not rows:
        return "No cell is done yet."
    head = ("world", "step", "A", "B", "ab", "ba", "A or B", "seeds")
    held_out = "The best point on dev - the last, measured on the held-out problems:"
    table = markdown_table(head, rows)
    said = "On dev, in %, means over seeds (at step 0 all seeds have the same two policies):"
    return f"{said}\n\n{table}\n\n{held_out}\n\n" + "\n".join(chosen_by_dev)


def shares(found: Sequence[DevPoint]) -> Iterator[str]:
    trials = sum(point.trials for point in found)
    for right in (
        *([point.right[name] for point in found] for name in ("a", "b", "ab", "ba")),
        [p.either for p in found],
    ):
        yield f"{100 * sum(right) / trials:.1f}"
