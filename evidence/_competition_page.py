"""The pages of docs/results/competition-plan.md, made whole from raw results: every number is computed here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from _competition import PLANS, RATES, STEPS
from _tabletop import RAW, ROOT, CellPlan, CellResult, SystemResult, finished
from _tabletop_compare import LEVEL, Difference, Side, by_seed, rate_of, seed_differences
from agon.eval import intervals
from agon.formatting import markdown_table, probability
from agon.report.figures import BLUE, GOLD, GREY, _pyplot

Done = dict[CellPlan, CellResult]
FOLDER = ROOT / "docs" / "results"
ASSETS = ROOT / "docs" / "assets"
SEEDS = {"G": 10, "S": 10, "R": 12}
MADE = (
    "Made by `scripts/tabletop_matrix --page` from `docs/results/raw`, and checked by `evidence/tabletop.py`. The "
    "[plan](competition-plan.md) was committed before these cells ran. These are tiny models (1.1 million parameters) "
    "on chains of arithmetic: the size of an effect says nothing about large models."
)
ARMS = {"coop": ("coop", ""), "agon": ("agon", ""), "agon, weight 4": ("agon", "bonus4")}


# -- measures of a cell -----------------------------------------------------------------------------------------------


def both(of: Callable[[SystemResult], float]) -> Callable[[CellResult], float]:
    """The mean of both directions of a pair."""
    return lambda result: fmean(of(result.systems[way]) for way in ("ab", "ba"))


def single(result: CellResult) -> float:
    return fmean(result.systems[name].rate for name in ("a", "b"))


def along(of: Callable[[SystemResult], float], step: int) -> Callable[[CellResult], float]:
    """The mean of both directions on dev after some steps."""
    return lambda result: fmean(of(result.along[str(step)][way]) for way in ("ab", "ba"))


def mean_along(result: CellResult) -> float:
    """The cascade, mean over the points along the run."""
    return fmean(along(lambda s: s.rate, step)(result) for step in STEPS)


def reading(kind: str) -> Callable[[CellResult], float]:
    """Both challengers with something else to read."""
    return rate_of(f"ab-{kind}", f"ba-{kind}")


MEASURES: dict[str, Callable[[CellResult], float]] = {
    "echoed": both(lambda s: s.echoed),
    "converted": both(lambda s: s.converted),
    "kept": both(lambda s: s.kept),
    "cascade": both(lambda s: s.rate),
    "draft": single,
}


@dataclass(frozen=True)
class ExpectedDifference:
    """A difference with what the plan predicted of it."""

    label: str
    difference: Difference
    predicted: int = 0
    """1 above zero, -1 below, 0 not predicted."""

    @property
    def verdict(self) -> str:
        interval = self.difference.interval
        if interval is None or self.difference.p_holm is None:
            return "undecided"
        found = (interval[0] > 0) - (interval[0] < 0)
        if self.difference.p_holm >= LEVEL:
            return "undecided"
        return "as predicted" if found == self.predicted else "against the prediction"


def corrected(tests: Sequence[ExpectedDifference]) -> list[ExpectedDifference]:
    """The same, with Holm's correction over all of them."""
    raw = [intervals.t_test(test.difference.values) if len(test.difference.values) > 1 else None for test in tests]
    adjusted = intervals.holm([1.0 if p is None else p for p in raw])
    return [
        ExpectedDifference(
            test.label, Difference(test.difference.values, None if p is None else q, len(tests)), test.predicted
        )
        for test, p, q in zip(tests, raw, adjusted, strict=True)
    ]


def against_coop(done: Done, world: str, arm: str, of: Callable[[CellResult], float]) -> Difference:
    name, variant = ARMS[arm]
    return Difference(seed_differences(done, world, Side(name, of, variant), Side("coop", of)))


# -- G ----------------------------------------------------------------------------------------------------------------


def gullible(done: Done) -> Iterator[str]:
    """Does the bonus change whom a reader trusts, and does that pay?"""
    primary = corrected(
        [
            ExpectedDifference(f"{measure}: {arm} - coop", against_coop(done, "gullible", arm, MEASURES[measure]), sign)
            for measure, sign in (("echoed", -1), ("converted", 1))
            for arm in ("agon", "agon, weight 4")
        ]
    )
    yield "# Where readers copy: does the bonus change trust?"
    yield MADE
    yield done_line(done, "G")
    yield "![differences to coop in points, with 95% intervals over seeds](../assets/gullible.svg)"
    yield (
        "Differences to coop of the same seed after 200 steps, on 500 held-out problems. *Echoed* should be below zero "
        "and *converted* above it."
    )
    yield "## Primary tests"
    yield test_table(primary)
    cascade = [(arm, against_coop(done, "gullible", arm, MEASURES["cascade"])) for arm in ("agon", "agon, weight 4")]
    trust = any(test.verdict == "as predicted" for test in primary)
    pays = [arm for arm, found in cascade if found.interval and found.interval[1] > 0]
    planned = len({cell.seed for cell in PLANS["G"]()})
    yield (
        f"No verdict yet: it needs all {planned} seeds of every arm."
        if min(len(test.difference.values) for test in primary) < planned
        else f"The bonus {'**changes trust**' if trust else '**is not shown to change trust**'} here. It "
        + (f"**pays** in the cascade of {' and '.join(pays)}." if pays else "**is not shown to pay** in the cascade.")
    )
    yield "## Everything that was measured at the end"
    yield level_table(done, "gullible")
    yield "Differences to coop, points [95%, over seeds]; described, not corrected:"
    yield difference_table(done, "gullible")
    yield "## Along the run"
    yield along_table(done, "gullible")
    yield "## With something else to read"
    yield reading_table(done, "gullible")


def gullible_figure(done: Done, path: Path) -> None:
    dots(
        [
            (measure, [(arm, against_coop(done, "gullible", arm, of)) for arm in ("agon", "agon, weight 4")])
            for measure, of in MEASURES.items()
        ],
        path,
    )


# -- S ----------------------------------------------------------------------------------------------------------------

SPLIT_WORLDS = ("neutral", "soft-halves")
HALF, COOP = Side("grpo", rate_of("self-cascade"), "half-budget"), Side("coop", variant="own")
COMPARED = {
    "coop's cascade - grpo's self-cascade, all rollouts (the first matrix)": (
        Side("coop"),
        Side("grpo", rate_of("self-cascade")),
    ),
    "coop's cascade - grpo's self-cascade at half budget": (COOP, HALF),
    "reading the rival - reading one's own draft, same challenger and prompt": (
        COOP,
        Side("coop", reading("own"), "own"),
    ),
    "reading the rival - refining one's own draft": (
        COOP,
        Side("coop", rate_of("self-cascade", "self-cascade-b"), "own"),
    ),
    "single passes: coop - grpo at half budget": (
        Side("coop", single, "own"),
        Side("grpo", rate_of("a"), "half-budget"),
    ),
}


def splitting(done: Done, matrix: Done) -> Iterator[str]:
    """What a pair loses because each adapter gets half of the rollouts."""
    yield "# What does a pair lose by splitting its rollouts?"
    yield MADE
    yield done_line(done, "S")
    yield "![differences in points, with 95% intervals over seeds](../assets/splitting.svg)"
    yield (
        "The first matrix compared a pair with one policy that had all rollouts, and called the difference *exchange "
        "at inference*. In neutral and soft-halves it was below zero. Against one policy with the rollouts that one "
        "adapter of a pair gets, and inside one run, the same question reads:"
    )
    rows = []
    for text, (first, second) in COMPARED.items():
        values = [Difference(seed_differences({**matrix, **done}, world, first, second)) for world in SPLIT_WORLDS]
        rows.append((text, *map(str, values), str(min(len(value.values) for value in values))))
    yield markdown_table(("difference [95%, over seeds]", *SPLIT_WORLDS, "seeds"), rows)
    yield "Described, not corrected. Two passes on each side, but for the last row."


def splitting_figure(done: Done, matrix: Done, path: Path) -> None:
    dots(
        [
            (text, [(w, Difference(seed_differences({**matrix, **done}, w, first, second))) for w in SPLIT_WORLDS])
            for text, (first, second) in COMPARED.items()
        ],
        path,
    )


WAYS = {
    "always": "the cascade's answer, always",
    "draft and answer": "only where the draft and the answer agree",
    "both directions": "only where both cascades agree",
    "2 drafts": "a draft, only where two drafts agree",
    "3 drafts": "a draft, only where three drafts agree",
    "4 drafts": "a draft, only where four drafts agree",
}
PASSES = {"always": 2, "draft and answer": 2, "both directions": 4, "2 drafts": 2, "3 drafts": 3, "4 drafts": 4}


def agreement(done: Done) -> Iterator[str]:
    """Answering only where passes agree: risk against coverage."""
    yield "# When draft and answer agree"
    yield MADE
    yield (
        "A pair gives a free warning: where the challenger arrives at the answer of the draft, it is right more often "
        "(`Pair.answer(...).agreed`). Below: how often a system answers (coverage) and how often it is wrong when it "
        "does (risk), against agreement between plain drafts of the same policies. Arm coop, seeds as in the plan; "
        "means over seeds, both directions. Neither was planned: this is described, not corrected."
    )
    yield "![risk against coverage](../assets/agreement.svg)"
    for world in SPLIT_WORLDS:
        results = [r for r in by_seed(done, world, "coop", "own").values() if r.selective]
        rows = (
            [(text, str(PASSES[way]), *selective_cells(results, way)) for way, text in WAYS.items()] if results else []
        )
        yield f"## {world}, {len(results)} seeds"
        yield markdown_table(("answers", "passes", "coverage, %", "risk, % [95%, over seeds]"), rows)


def selective_rates(results: Sequence[CellResult], way: str) -> tuple[list[float], list[float]]:
    """Coverage and risk by seed."""
    tallies = [result.selective[way] for result in results]
    return [t[0] / t[2] for t in tallies], [1 - t[1] / t[0] for t in tallies if t[0]]


def selective_cells(results: Sequence[CellResult], way: str) -> tuple[str, str]:
    coverage, risk = selective_rates(results, way)
    limits = Difference(risk).interval or (fmean(risk), fmean(risk), fmean(risk))
    return f"{100 * fmean(coverage):.1f}", "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * limit for limit in limits))


def agreement_figure(done: Done, path: Path) -> None:
    plt = _pyplot()
    figure, panels = plt.subplots(1, len(SPLIT_WORLDS), figsize=(8, 3), sharey=False)
    for axes, world in zip(panels, SPLIT_WORLDS, strict=True):
        results = [r for r in by_seed(done, world, "coop", "own").values() if r.selective]
        pair, plain = ("both directions", "draft and answer", "always"), ("4 drafts", "3 drafts", "2 drafts")
        for ways, colour, label in ((pair, BLUE, "the pair"), (plain, GREY, "drafts alone")):
            found = [[100 * fmean(side) for side in selective_rates(results, way)] for way in ways] if results else []
            axes.plot(*zip(*found, strict=True), "o-", color=colour, label=label) if found else None
            for way, (x, y) in zip(ways, found, strict=False):
                axes.annotate(f"{way} ({PASSES[way]})", (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
        axes.set_title(world)
        axes.set_xlabel("coverage, %")
    panels[0].set_ylabel("risk: wrong answers, %")
    panels[0].legend(frameon=False)
    save(figure, path)


# -- R ----------------------------------------------------------------------------------------------------------------


def repair(done: Done) -> Iterator[str]:
    """Does the bonus leave copying earlier, as the toy predicted?"""
    primary = [
        ExpectedDifference(f"cascade, mean over points: {arm} - coop", against_coop(done, "repair", arm, mean_along), 1)
        for arm in ("agon", "agon, weight 4")
    ]
    (first,), (second,) = corrected(primary[:1]), corrected(primary[1:])
    yield "# Copy or repair: does the bonus leave copying earlier?"
    yield MADE
    yield done_line(done, "R")
    yield "![agon - coop along the run: predicted and measured](../assets/repair.svg)"
    yield (
        "Points: the cascade of agon less that of coop on 300 dev problems, with 95% intervals over seeds. Lines: what "
        "the toy predicted before the cells ran, from what the readers did before training, for three of its learning "
        f"rates ({', '.join(map(str, RATES))})."
    )
    yield "## Primary test"
    yield test_table([first])
    yield "Beside it, not corrected:"
    yield test_table([second])
    yield "## Along the run"
    yield along_table(done, "repair")
    yield "## At the end, on held-out problems"
    yield level_table(done, "repair")
    yield difference_table(done, "repair")
    yield "## With something else to read"
    yield reading_table(done, "repair")
    yield "## Before training"
    gate = json.loads((RAW / "repair" / "gate.json").read_text())
    start = gate["start"]
    yield markdown_table(("", "share"), [(GATE[name], f"{100 * value:.1f}%") for name, value in start.items()])
    yield f"At the training temperature, {gate['bouts']:,} bouts on dev: `scripts/measure_world repair --gate`."


GATE = {
    "q": "drafts that are right (q)",
    "g": "challenges that work again instead of copying (g)",
    "k": "of those that work again on a right draft, right (k)",
    "u": "of those that work again on a wrong draft, right (u)",
    "copy_right": "copies of right drafts that are right",
    "copy_wrong": "copies of wrong drafts that are right",
}


def repair_figure(done: Done, path: Path) -> None:
    plt = _pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
    predicted = json.loads((RAW / "repair" / "prediction.json").read_text())
    for axes, (arm, key) in zip(panels, (("agon", "agon"), ("agon, weight 4", "agon-bonus4")), strict=True):
        for rate, style in zip(predicted, (":", "--", "-"), strict=True):
            gain = [100 * (a - c) for a, c in zip(predicted[rate][key], predicted[rate]["coop"], strict=True)]
            axes.plot(STEPS, gain, style, color=GREY, label=f"toy, rate {rate}")
        for step in STEPS:
            found = against_coop(done, "repair", arm, along(lambda s: s.rate, step)).interval
            if found:
                value, low, high = (100 * x for x in found)
                bars = [[value - low], [high - value]]
                axes.errorbar(step, value, yerr=bars, fmt="o", ms=5, capsize=3, color=BLUE)
        axes.axhline(0, color=GREY, lw=0.8)
        axes.set_title(f"{arm} - coop")
        axes.set_xlabel("steps")
    panels[0].set_ylabel("cascade, points")
    panels[0].legend(frameon=False, fontsize=7)
    save(figure, path)


# -- L ----------------------------------------------------------------------------------------------------------------

LANGUAGE_ARMS = {"plain-pair": ("plain-pair", ""), "coop": ("coop", ""), "agon": ("agon", "")}
GATE_ROWS = {
    "alone": "single passes that are right (pass@1)",
    "cascade": "challenges of its own drafts that are right",
    "kept": "of those of right drafts, right (kept)",
    "converted": "of those of wrong drafts, right (converted)",
    "echoed": "of those of wrong drafts, the same wrong answer again (echoed)",
    "formed": "challenges that keep to the format",
    "planted right, right": "challenges of planted right drafts that are right",
    "planted wrong, right": "challenges of planted wrong drafts, same problems, that are right",
    "planted wrong, followed": "of those, with the answer that follows from the planted mistake",
}


def language(done: Done) -> Iterator[str]:
    """Does exchange pay on a language model, and what does the bonus add?"""
    exchange = language_difference(done, "cascade", "coop", "plain-pair")
    [primary] = corrected([ExpectedDifference("cascade: coop - plain-pair", exchange, 1)])
    yield "# A language model: does it pay to train on a rival's drafts?"
    yield (
        "SmolLM2-135M-Instruct on sums of two-digit numbers. Made by `scripts/tabletop_matrix --page` from "
        "`docs/results/raw/smollm2`, and checked by `evidence/tabletop.py`. The [plan](competition-plan.md) was "
        "committed before these cells ran. One small model and one task: the size of an effect says nothing about "
        "others."
    )
    yield done_line(done, "L")
    yield "![differences in points, with 95% intervals over seeds](../assets/smollm2.svg)"
    yield "After 32 steps, on 200 held-out problems, paired by seed."
    yield "## Primary test"
    yield test_table([primary])
    yield "## Everything that was measured at the end"
    yield level_table(done, "smollm2", LANGUAGE_ARMS)
    yield "Points [95%, over seeds]; described, not corrected:"
    rows = [
        (f"{first} - {second}", *(str(language_difference(done, of, first, second)) for of in MEASURES))
        for first, second in LANGUAGE_PAIRS
    ]
    yield markdown_table(("", *MEASURES), rows)
    yield "## With something else to read"
    yield reading_table(done, "smollm2", LANGUAGE_ARMS)
    yield "## Before training"
    gate = json.loads((RAW / "smollm2" / "gate.json").read_text())
    shares = [(text, share(gate["gate"][name])) for name, text in GATE_ROWS.items()]
    yield markdown_table(("at the training temperature", "% [95%, over problems]"), shares)


LESSONS = {"sums": "half of them challenges", "drafts-only": "drafts alone"}
"""The lessons that were tried, by the name of their gate's file."""


def lessons() -> Iterator[str]:
    """What the taught base does before any run, while no run has been made."""
    gates = {name: json.loads((RAW / "smollm2" / f"gate-{name}.json").read_text())["gate"] for name in LESSONS}
    yield "# A language model: lessons that did not carry over to challenges"
    yield (
        "SmolLM2-135M-Instruct on sums of two-digit numbers. Made by `scripts/tabletop_matrix --page` from "
        "`docs/results/raw/smollm2`, and checked by `evidence/tabletop.py`. **No pair was trained.** Pairs were to "
        "start from a base that was taught the format once and is right in 25 to 40% of single passes. Both lessons "
        "below reach that, and both leave a model that does worse when it reads a draft than alone. A pair would spend "
        "its steps on the format of a challenge, and a difference between methods would say nothing about exchange."
    )
    rows = [
        (text, *(share(gate[name]) if name in gate else "not measured" for gate in gates.values()))
        for name, text in GATE_ROWS.items()
        if any(name in gate for gate in gates.values())
    ]
    yield markdown_table(("% [95%, over problems]", *(f"lessons: {text}" for text in LESSONS.values())), rows)
    yield (
        f"Missing: lessons that pass, and then {len(PLANS['L']())} runs of coop and plain-pair (9 more of agon if "
        "their readers copy), at about 1.1 core-hours each by measured rates."
    )


def share(measured: Sequence[float]) -> str:
    """A gate's share with its interval; the number of trials comes first in the file."""
    return "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * x for x in measured[1:]))


LANGUAGE_PAIRS = (("coop", "plain-pair"), ("agon", "coop"))


def language_difference(done: Done, measure: str, first: str, second: str) -> Difference:
    of = MEASURES[measure]
    return Difference(seed_differences(done, "smollm2", Side(first, of), Side(second, of)))


def language_figure(done: Done, path: Path) -> None:
    dots(
        [
            (measure, [(f"{a} - {b}", language_difference(done, measure, a, b)) for a, b in LANGUAGE_PAIRS])
            for measure in MEASURES
        ],
        path,
    )


# -- tables and pictures ----------------------------------------------------------------------------------------------


def done_line(done: Done, part: str) -> str:
    planned = PLANS[part]()
    mine = [cell for cell in planned if cell in done]
    hours = sum(done[cell].cpu_seconds for cell in mine) / 3600
    commits = sorted({done[cell].commit[:8] for cell in mine})
    return f"{len(mine)} of {len(planned)} cells are done ({hours:.1f} hours of CPU time, commit {', '.join(commits)})."


def test_table(tests: Sequence[ExpectedDifference]) -> str:
    rows = []
    for test in tests:
        found = test.difference
        least = "" if found.detectable is None else f"{100 * found.detectable:.1f}"
        way = {1: "above zero", -1: "below zero"}[test.predicted]
        p = probability(found.p_holm)
        rows.append((test.label, way, str(found), p, test.verdict, least, str(len(found.values))))
    head = ("difference", "predicted", "mean [95%, over seeds]", "p (Holm)", "", "found 4 times in 5, points", "seeds")
    return markdown_table(head, rows)


def level_table(done: Done, world: str, arms: Mapping[str, tuple[str, str]] = ARMS) -> str:
    rows = []
    for label, (arm, variant) in arms.items():
        results = list(by_seed(done, world, arm, variant).values())
        if results:
            cells = [f"{100 * fmean(map(of, results)):.1f}" for of in MEASURES.values()]
            bites = [r.bonus_bites for r in results if r.bonus_bites is not None]
            weights = [r.bonus_weight for r in results if r.bonus_weight is not None]
            bonus = (f"{100 * fmean(bites):.0f}%" if bites else "", f"{fmean(weights):.2f}" if weights else "")
            rows.append((label, *cells, *bonus, str(len(results))))
    head = ("arm, means in %", *MEASURES, "bonus acts in", "bonus weight", "seeds")
    return markdown_table(head, rows)


def difference_table(done: Done, world: str) -> str:
    rows = [
        (f"{arm} - coop", *(str(against_coop(done, world, arm, of)) for of in MEASURES.values()))
        for arm in ("agon", "agon, weight 4")
    ]
    return markdown_table(("", *MEASURES), rows)


def along_table(done: Done, world: str) -> str:
    rows = []
    for step in STEPS:
        coop = list(by_seed(done, world, "coop").values())
        level = f"{100 * fmean(along(lambda s: s.rate, step)(r) for r in coop):.1f}" if coop else ""
        found = [
            str(against_coop(done, world, arm, along(of, step)))
            for arm in ("agon", "agon, weight 4")
            for of in (lambda s: s.rate, lambda s: s.converted, lambda s: s.echoed)
        ]
        rows.append((str(step), level, *found))
    parts = [f"{arm}: {name}" for arm in ("agon", "weight 4") for name in ("cascade", "converted", "echoed")]
    return markdown_table(("steps", "coop's cascade, %", *parts), rows)


def reading_table(done: Done, world: str, arms: Mapping[str, tuple[str, str]] = ARMS) -> str:
    ways = {"the rival's draft": both(lambda s: s.rate), "its own": reading("own"),
            "of another problem": reading("shuffled"), "none": reading("none")}  # fmt: skip
    rows = []
    for label, (arm, variant) in arms.items():
        results = list(by_seed(done, world, arm, variant).values())
        if results:
            rows.append((label, *(f"{100 * fmean(map(of, results)):.1f}" for of in ways.values())))
    return markdown_table(("challengers read, right answers in %", *ways), rows)


def dots(rows: Sequence[tuple[str, Sequence[tuple[str, Difference]]]], path: Path) -> None:
    """One row per measure, one dot per side of it, with intervals."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.55 * len(rows)))
    for row, (_, sides) in enumerate(rows):
        for place, (label, difference) in enumerate(sides):
            if difference.interval is None:
                continue
            value, low, high = (100 * x for x in difference.interval)
            y, colour = row + 0.3 * (place - (len(sides) - 1) / 2), (BLUE, GOLD)[place % 2]
            name = label if row == 0 else None
            bars = [[value - low], [high - value]]
            axes.errorbar(value, y, xerr=bars, fmt="o", ms=5, capsize=3, color=colour, label=name)
    axes.axvline(0, color=GREY, lw=1)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("difference, points")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    save(figure, path)


def save(figure, path: Path) -> None:  # type: ignore[no-untyped-def]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    _pyplot().close(figure)


# -- all pages --------------------------------------------------------------------------------------------------------


def pages(matrix: Done) -> dict[Path, str]:
    """Every page whose cells have begun, by its file."""
    made = {part: finished(planned()) for part, planned in PLANS.items()}
    texts: dict[str, Iterator[str]] = {}
    if made["G"]:
        texts["gullible.md"] = gullible(made["G"])
    if made["S"]:
        texts |= {"splitting.md": splitting(made["S"], matrix), "agreement.md": agreement(made["S"])}
    if made["R"]:
        texts["repair.md"] = repair(made["R"])
    texts["smollm2.md"] = language(made["L"]) if made["L"] else lessons()
    return {FOLDER / name: "\n\n".join(sections) + "\n" for name, sections in texts.items()}


def figures(matrix: Done, folder: Path = ASSETS) -> list[Path]:
    """Draw the figure of every page whose cells have begun."""
    made = {part: finished(planned()) for part, planned in PLANS.items()}
    drawn = []
    for part, name, draw in (
        ("G", "gullible.svg", gullible_figure),
        ("S", "splitting.svg", lambda done, path: splitting_figure(done, matrix, path)),
        ("S", "agreement.svg", agreement_figure),
        ("R", "repair.svg", repair_figure),
        ("L", "smollm2.svg", language_figure),
    ):
        if made[part]:
            draw(made[part], folder / name)
            drawn.append(folder / name)
    return drawn
