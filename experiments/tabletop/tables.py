"""The blocks of tables.md: every arm and control of the first matrix, by world and along the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from results import (
    Runs,
    System,
    answering,
    better,
    bonus_acts,
    chosen,
    difference,
    either,
    mean_of,
    percent,
    pick,
    rate,
    table,
)

WORLDS = ("neutral", "relay", "halves", "soft-halves")
"""Of plan.md; the world of competition-plan.md is `gullible`."""
TAUGHT_APART = ("halves", "soft-halves")
MAIN = ("grpo", "self-refine", "plain-pair", "coop", "agon")
VARIANTS = {
    "from-b": "from B's adapter",
    "half-budget": "8 rollouts per problem",
    "long": "three epochs",
    "points": "again, with points on dev",
    "bonus2": "weight 2",
    "bonus4": "weight 4",
    "noise0.01": "noise of 0.01",
    "noise0.1": "noise of 0.1",
}
Kind = tuple[str, str]
"""An arm and its variant."""


@dataclass(frozen=True)
class Arm:
    """A row of a table: an arm, the systems whose mean is its number, and its runs."""

    label: str
    names: tuple[str, ...]
    runs: Runs
    at: str

    @property
    def passes(self) -> str:
        return "1" if self.names == ("a",) else "2"

    @property
    def numbers(self) -> list[float]:
        return [mean_of(*self.names, at=self.at)(run) for run in self.runs]

    def mean(self, name: str, of: Callable[[System], float] = rate) -> str:
        """The mean over runs of one system, where they have it."""
        return percent(of(run.systems(self.at)[name]) for run in self.runs if name in run.systems(self.at))


def arms(runs: Runs, world: str, kinds: Iterable[Kind], at: str = "held_out") -> Iterator[Arm]:
    """Arms that have runs; grpo is two rows, one pass and two."""
    for arm, variant in kinds:
        if mine := [run for run in pick(runs, world, arm, variant) if run.systems(at)]:
            label = f"{arm}, {VARIANTS[variant]}" if variant else arm
            yield Arm(label, answering(mine[0], at), mine, at)
            if "self-cascade" in mine[0].systems(at):
                yield Arm(f"{label}: self-cascade", ("self-cascade",), mine, at)


def arm_table(rows: Sequence[Arm]) -> str:
    lines = []
    for row in rows:
        systems = map(row.mean, ("a", "b", "ab", "ba"))
        spread = f"{100 * stdev(row.numbers):.1f}"
        lines.append((row.label, row.passes, *systems, f"**{percent(row.numbers)}**", spread, str(len(row.runs))))
    return table(("arm", "passes", "A", "B", "ab", "ba", "number", "sd over seeds", "seeds"), lines)


def control_table(rows: Sequence[Arm]) -> str:
    lines = []
    for row in rows:
        pairs = [run for run in row.runs if "ab" in run.systems()]
        of_pairs = (percent(map(of, pairs)) for of in (chosen, better, either))
        alone = (row.mean("a", lambda s: s.majority), row.mean("a", lambda s: s.pass_at_2))
        tokens = fmean(map(mean_of(*row.names, of=lambda s: s["all_tokens"]), row.runs))
        lines.append((row.label, *of_pairs, *alone, f"{tokens / fmean(row.numbers):.0f}", bonus_acts(row.runs)))
    head = ("arm", "chosen", "after the fact", "A or B", "majority (A)", "pass@2 (A)", "tokens per right answer")
    return table((*head, "bonus acts in"), lines)


def fact_table(runs: Runs, world: str) -> str:
    lines = []
    for arm in MAIN:
        for name in ("a", "b", "ba", "ab", "self-cascade", "self-refine"):
            if found := [run.systems()[name] for run in pick(runs, world, arm) if name in run.systems()]:
                counts = [[sum(s[f"{who}_{count}"] for s in found) for count in ("right", "all")]
                          for who in ("both", "a", "b", "nobody")]  # fmt: skip
                lines.append((arm, name, *(f"{100 * right / of:.0f}" for right, of in counts)))
    return table(("arm", "system", "both", "A alone", "B alone", "nobody"), lines)


def of_world(runs: Runs, world: str) -> str:
    [untrained] = pick(runs, world, "")
    before = untrained.systems("untrained").items()
    rates = [(name, f"{100 * s.rate:.1f} [{100 * s['low']:.1f}, {100 * s['high']:.1f}]") for name, s in before]
    main = list(arms(runs, world, [(arm, "") for arm in MAIN]))
    parts = ["Before training, pass@1 in % with intervals over problems:", table(("", "pass@1"), rates)]
    parts += ["After training, means over seeds in %:", arm_table(main)]
    parts += ["Controls at inference:", control_table(main)]
    if world in TAUGHT_APART:
        parts += ["Right steps in %, by who knew the fact before training:", fact_table(runs, world)]
    return "\n\n".join(parts)


def further(runs: Runs) -> str:
    """Every other arm, beside the main arms on the same seeds."""
    parts = []
    for world in WORLDS:
        groups: dict[frozenset[int], list[Kind]] = {}
        for arm, variant in dict.fromkeys((run.arm, run.variant) for run in runs if run.world == world and run.arm):
            if variant or arm not in MAIN:
                seeds = frozenset(run.seed for run in pick(runs, world, arm, variant))
                groups.setdefault(seeds, []).append((arm, variant))
        for seeds, kinds in groups.items():
            beside = dict.fromkeys((arm if arm in MAIN else "agon", "") for arm, _ in kinds)
            rows = list(arms([run for run in runs if run.seed in seeds], world, [*beside, *kinds]))
            parts += [f"In {world}, seeds {min(seeds)} to {max(seeds)}:", arm_table(rows), control_table(rows)]
    return "\n\n".join(parts)


def short_chains(runs: Runs) -> str:
    """Means over seeds on chains of 3, which no run trains on."""
    kinds = dict.fromkeys((run.arm, run.variant) for run in runs if run.world in WORLDS and run.arm)
    lines = [
        (world, row.label, row.passes, row.mean("a"), row.mean("b"), percent(row.numbers), str(len(row.runs)))
        for world in WORLDS
        for row in arms(runs, world, kinds, "short")
    ]
    return table(("world", "arm", "passes", "A", "B", "number", "seeds"), lines)


def along(runs: Runs) -> str:
    """Points on dev."""
    lines = []
    for world in TAUGHT_APART:
        mine = pick(runs, world, "agon", "points")
        for step in dict.fromkeys(step for at, step, _ in mine[0].measured if at == "dev"):
            points = [run.systems("dev", step) for run in mine]
            counts = [[sum(point[name][count] for point in points) for count in ("right", "trials")]
                      for name in ("a", "b", "ab", "ba", "a or b")]  # fmt: skip
            lines.append((world, step, *(f"{100 * right / of:.1f}" for right, of in counts), str(len(mine))))
    return table(("world", "step", "A", "B", "ab", "ba", "A or B", "seeds"), lines)


def best_point(runs: Runs) -> str:
    """The best of them less the last weights, on held-out problems."""
    found = {world: difference(runs, world, "agon/points:best on dev", "agon/points") for world in TAUGHT_APART}
    last = "the last was the best with every seed"
    return "\n".join(f"- {world}: {one if any(one.values) else last}" for world, one in found.items())
