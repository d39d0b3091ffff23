"""The page of the tabletop matrix, made whole from its raw results: every number on it is computed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median, stdev

from _tabletop import MAIN, RAW, TRANSFER_PROBLEMS, TRANSFER_STEPS, CellPlan, CellResult, DevPoint, cells
from _tabletop_compare import (
    CLAIMS,
    COMPARISONS,
    EXPECTED,
    QUESTIONS,
    Difference,
    Side,
    best,
    by_seed,
    chosen,
    compared,
    final_tokens,
    seed_differences,
)
from agon.data.tabletop.worlds import WORLDS
from agon.formatting import markdown_table, plural, probability

SEEDS = 10
"""Planned for every comparison; a verdict on fewer is marked as early."""
FIGURE_LINE = "![differences in points, with 95% intervals over seeds](../assets/tabletop.svg)"
MISSING = "missing"


def page(done: dict[CellPlan, CellResult]) -> str:
    """The page as Markdown."""
    return "\n\n".join(sections(done)) + "\n"


def sections(done: dict[CellPlan, CellResult]) -> Iterator[str]:
    hours = sum(result.cpu_seconds for result in done.values()) / 3600
    yield "# The tabletop matrix: results"
    yield (
        "Made by `scripts/tabletop_matrix --page` from `docs/results/raw`, and checked by `evidence/tabletop.py`. The "
        "[plan](tabletop-plan.md) was written before any arm ran; it says what arms, measures, tests and verdicts are. "
        "These are tiny models on arithmetic: the size of an effect says nothing about large models.\n\n"
        f"{len(done)} of {len(cells())} cells are done ({hours:.1f} hours of CPU time)."
    )
    differences = {world: compared(done, world) for world in WORLDS}
    yield "## Verdicts"
    if any(len(one.values) < SEEDS for found in differences.values() for one in found.values()):
        yield "*So far* marks what fewer seeds say than were planned: it may change, and no cell was chosen to stop at."
    yield verdict_table(differences)
    yield "\n".join(verdicts(done, differences))
    yield "## Tests"
    yield tests(done, differences)
    yield "The median was not planned; it shows where one seed carries the mean."
    yield FIGURE_LINE
    yield "## Competition against where the bonus bites"
    yield competition(done, differences)
    yield "## The worlds"
    yield CONTROLS
    for world in WORLDS:
        yield f"### {world}"
        yield from world_tables(done, world)
    yield "## Questions beside the claims"
    yield questions(done)
    yield trace_lengths(done)
    yield "## Further arms and controls"
    yield further(done)
    yield "## Transfer to shorter chains"
    yield transfer(done)
    yield "## Along the run"
    yield along(done)


def bites(done: dict[CellPlan, CellResult], world: str, variant: str = "") -> str:
    shares = [r.bonus_bites for r in by_seed(done, world, "agon", variant).values() if r.bonus_bites is not None]
    return f"{100 * fmean(shares):.0f}%" if shares else MISSING


def verdict_table(differences: dict[str, dict[str, Difference]]) -> str:
    """Claims by worlds, at a glance."""
    rows = []
    for claim, key in CLAIMS.items():
        found = [differences[world][key] for world in WORLDS]
        rows.append((f"{claim}: {COMPARISONS[key][0]}", *(f"{one.verdict}: {one}" for one in found)))
    seeds = [str(min(len(differences[world][key].values) for key in CLAIMS.values())) for world in WORLDS]
    return markdown_table(("claim", *WORLDS), [*rows, (f"seeds, of {SEEDS}", *seeds)])


def verdicts(done: dict[CellPlan, CellResult], differences: dict[str, dict[str, Difference]]) -> Iterator[str]:
    """One sentence per world and claim."""
    for world in WORLDS:
        for claim, key in CLAIMS.items():
            difference = differences[world][key]
            seeds = len(difference.values)
            early = "" if seeds >= SEEDS else " so far"
            share = bites(done, world)
            known = key == "C1" and share != MISSING
            beside = f"; the bonus bites in {share} of agon's groups" if known else ""
            yield (
                f"- In {world}, {claim} is **{difference.verdict}{early}**: {COMPARISONS[key][0]} is "
                f"{difference}, {seeds} of {SEEDS} seeds{beside}. The plan expected: {EXPECTED[key][world]}."
            )


def tests(done: dict[CellPlan, CellResult], differences: dict[str, dict[str, Difference]]) -> str:
    rows = []
    for world, found in differences.items():
        for key, difference in found.items():
            p = probability(difference.p_holm)
            least = "" if difference.detectable is None else f"{100 * difference.detectable:.1f}"
            middle = f"{100 * median(difference.values):+z.1f}" if difference.values else ""
            seeds, biting = str(len(difference.values)), bites(done, world) if key == "C1" else ""
            rows.append((world, key, COMPARISONS[key][0], str(difference), middle, p, least, seeds, biting))
    head = (
        "world",
        "",
        "difference",
        "mean [95%, over seeds]",
        "median",
        "p (Holm)",
        "would be found, points",
        "seeds",
        "bonus bites",
    )
    return markdown_table(head, rows)


def competition(done: dict[CellPlan, CellResult], differences: dict[str, dict[str, Difference]]) -> str:
    """agon - coop by world, and in soft-halves by the size of the bonus."""
    rows = [(world, "1", bites(done, world), *paired(differences[world]["C1"])) for world in WORLDS]
    for weight in ("2", "4"):
        stronger = Side("agon", variant=f"bonus{weight}")
        found = Difference(seed_differences(done, "soft-halves", stronger, Side("coop")))
        rows.append(("soft-halves", weight, bites(done, "soft-halves", f"bonus{weight}"), *paired(found)))
    return markdown_table(("world", "weight", "bonus bites", "agon - coop [95%, over seeds]", "seeds"), rows)


def paired(difference: Difference) -> tuple[str, str]:
    return str(difference), str(len(difference.values))


def world_tables(done: dict[CellPlan, CellResult], world: str) -> Iterator[str]:
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


CONTROLS = (
    "In the tables of controls at inference, all in %: *chosen* is the direction that is better on one half of the "
    "problems, measured on the other half; *after the fact*, the better direction on the problems it is measured on; "
    "*A or B*, at least one of two single passes, one of each; *majority*, of three single passes of A, which is 1.5 "
    "times the tokens of a cascade; *pass@2* of A, a ceiling for two passes and not a system. Tokens are of all "
    "passes, for what the number of the arm is about."
)


def arm_table(done: dict[CellPlan, CellResult], world: str, arms: Sequence[tuple[str, str]]) -> str:
    rows = []
    for arm, variant, results in measured(done, world, arms):
        own = "self-refine" if arm == "self-refine" else "self-cascade"
        single = (mean(results, name, lambda s: s.rate) for name in ("a", "b", own, "ab", "ba"))
        spread = f"{100 * stdev(r.rate for r in results):.1f}" if len(results) > 1 else ""
        number = f"**{percent(lambda r: r.rate, results)}**"
        rows.append((f"{arm} {variant}".strip(), *single, number, spread, str(len(results))))
    head = ("arm", "A", "B", "reads its own draft", "ab", "ba", "number of the arm", "sd over seeds", "seeds")
    return markdown_table(head, rows)


def control_table(done: dict[CellPlan, CellResult], world: str, arms: Sequence[tuple[str, str]]) -> str:
    rows = []
    for arm, variant, results in measured(done, world, arms):
        pair = [r for r in results if "ab" in r.systems]
        votes = (mean(results, "a", lambda s: s.majority_rate), mean(results, "a", lambda s: s.either_of_two))
        tokens = f"{fmean(per_right(r) for r in results):.0f}"
        rows.append((f"{arm} {variant}".strip(), *(percent(of, pair) for of in (chosen, best, either)), *votes, tokens))
    head = ("arm", "chosen", "after the fact", "A or B", "majority (A)", "pass@2 (A)", "tokens per right answer")
    return markdown_table(head, rows)


def measured(
    done: dict[CellPlan, CellResult], world: str, arms: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str, list[CellResult]]]:
    """Arms that have a result."""
    for arm, variant in arms:
        if results := list(by_seed(done, world, arm, variant).values()):
            yield arm, variant, results


def percent(of: Callable[[CellResult], float], results: Sequence[CellResult]) -> str:
    return f"{100 * fmean(map(of, results)):.1f}" if results else ""


def mean(results: Sequence[CellResult], system: str, of: Callable) -> str:  # type: ignore[type-arg]
    values = [of(r.systems[system]) for r in results if system in r.systems]
    return f"{100 * fmean(values):.1f}" if values else ""


def either(result: CellResult) -> float:
    """How often A or B is right alone, drawn independently."""
    a, b = (result.systems[name].rates for name in ("a", "b"))
    return fmean(1 - (1 - x) * (1 - y) for x, y in zip(a, b, strict=True))


def per_right(result: CellResult) -> float:
    """Tokens of all passes per right answer, in what the number of the arm is about."""
    names = ("ab", "ba") if "ab" in result.systems else ("self-refine",) if "self-refine" in result.systems else ("a",)
    return fmean(result.systems[name].all_tokens for name in names) / max(result.rate, 1e-9)


def fact_table(done: dict[CellPlan, CellResult], world: str) -> str:
    rows = []
    for arm in MAIN:
        results = list(by_seed(done, world, arm).values())
        for system in ("a", "b", "ba", "ab"):
            counts = [r.systems[system].facts for r in results if system in r.systems]
            if counts:
                shares = [[sum(c[who][k] for c in counts) for k in (0, 1)] for who in ("both", "a", "b", "nobody")]
                rows.append((arm, system, *(f"{100 * right / of:.0f}" if of else "" for right, of in shares)))
    return markdown_table(("arm", "system", "both", "A alone", "B alone", "nobody"), rows)


def questions(done: dict[CellPlan, CellResult]) -> str:
    rows = []
    for asked in QUESTIONS:
        for world in asked.worlds:
            found = Difference(seed_differences(done, world, asked.first, asked.second))
            rows.append((asked.asked, world, asked.text, *paired(found)))
    head = ("question", "world", "difference", "[95%, over seeds]", "seeds")
    return "Described, not tested: no verdict, no correction.\n\n" + markdown_table(head, rows)


def trace_lengths(done: dict[CellPlan, CellResult]) -> str:
    """Whether the tiebreak shortens final traces."""
    found = seed_differences(done, "neutral", Side("tiebreak", final_tokens), Side("agon", final_tokens))
    interval = Difference(found).interval
    size = "not measured twice" if interval is None else "{:+z.2f} [{:+z.2f}, {:+z.2f}]".format(*interval)
    return f"Tokens of a cascade's final trace in neutral, tiebreak - agon: {size}, {plural(len(found), 'seed')}."


def further(done: dict[CellPlan, CellResult]) -> str:
    kinds = dict.fromkeys((c.world, c.arm, c.variant) for c in cells() if c.variant or c.arm not in MAIN)
    parts = []
    for world in WORLDS:
        here = [(arm, variant) for where, arm, variant in kinds if where == world]
        if any(by_seed(done, world, *kind) for kind in here):
            beside = dict.fromkeys(arm if arm in MAIN else "agon" for arm, _ in here)
            shown = [*((arm, "") for arm in beside), *here]
            parts += [f"In {world}:\n\n" + arm_table(done, world, shown), control_table(done, world, shown)]
    if not parts:
        return "None is done yet."
    return "\n\n".join(["Main arms have more seeds: the table above pairs what has the same ones.", *parts])


def transfer(done: dict[CellPlan, CellResult]) -> str:
    """Means over seeds, on problems that no run trains on."""
    rows = []
    for world in WORLDS:
        for arm, _, results in measured(done, world, [(arm, "") for arm in MAIN]):
            if results[0].transfer:
                moved = [replace(result, systems=result.transfer) for result in results]
                single = (mean(moved, name, lambda s: s.rate) for name in ("a", "b"))
                rows.append((world, arm, *single, percent(lambda r: r.rate, moved), str(len(moved))))
    if not rows:
        return "No cell is done yet."
    head = ("world", "arm", "A", "B", "number of the arm", "seeds")
    return f"On {TRANSFER_PROBLEMS} chains of {TRANSFER_STEPS}, in %:\n\n" + markdown_table(head, rows)


def along(done: dict[CellPlan, CellResult]) -> str:
    """Points on dev, and the best of them against the last weights on held-out problems."""
    rows, chosen_by_dev = [], []
    for world in WORLDS:
        results = list(by_seed(done, world, "agon", "points").values())
        for points_of_a_step in zip(*(result.points for result in results), strict=True):
            rows.append((world, str(points_of_a_step[0].step), *shares(points_of_a_step), str(len(results))))
        if results:
            found = Difference([replace(r, systems=r.best).rate - r.rate for r in results])
            chosen_by_dev.append(f"- {world}: {found}")
    if not rows:
        return "No cell is done yet."
    head = ("world", "step", "A", "B", "ab", "ba", "A or B", "seeds")
    held_out = "The best point on dev - the last, measured on the held-out problems:"
    table = markdown_table(head, rows)
    return f"On dev, in %, means over seeds:\n\n{table}\n\n{held_out}\n\n" + "\n".join(chosen_by_dev)


def shares(found: Sequence[DevPoint]) -> Iterator[str]:
    trials = sum(point.trials for point in found)
    for right in (
        *([point.right[name] for point in found] for name in ("a", "b", "ab", "ba")),
        [p.either for p in found],
    ):
        yield f"{100 * sum(right) / trials:.1f}"
