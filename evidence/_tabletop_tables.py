"""Tables of the tabletop matrix: what the arms of a world measured, as means over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from _tabletop import MAIN, TRANSFER_PROBLEMS, TRANSFER_STEPS, CellPlan, CellResult, SystemResult, cells
from _tabletop_compare import best, by_seed, chosen
from agon.data.tabletop.worlds import WORLDS
from agon.formatting import markdown_table

Done = dict[CellPlan, CellResult]
Kind = tuple[str, str]
"""An arm and its variant."""
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


@dataclass(frozen=True)
class Row:
    """An arm, the systems whose mean is its number, and its cells."""

    label: str
    answering: tuple[str, ...]
    results: Sequence[CellResult]

    @property
    def passes(self) -> str:
        return "1" if self.answering == ("a",) else "2"

    @property
    def numbers(self) -> list[float]:
        return [fmean(result.systems[name].rate for name in self.answering) for result in self.results]

    @property
    def tokens(self) -> list[float]:
        return [fmean(result.systems[name].all_tokens for name in self.answering) for result in self.results]

    @property
    def seeds(self) -> str:
        return str(len(self.results))

    def mean(self, system: str, of: Callable[[SystemResult], float]) -> str:
        return percent([of(result.systems[system]) for result in self.results if system in result.systems])

    def of_pairs(self, of: Callable[[CellResult], float]) -> str:
        return percent([of(result) for result in self.results if "ab" in result.systems])


def rows_of(done: Done, world: str, kinds: Sequence[Kind]) -> Iterator[Row]:
    """Arms that have a result; grpo is two rows, one pass and two."""
    for arm, variant in kinds:
        results = list(by_seed(done, world, arm, variant).values())
        if not results:
            continue
        label = f"{arm}, {VARIANTS[variant]}" if variant else arm
        yield Row(label, results[0].answering, results)
        if "self-cascade" in results[0].systems:
            yield Row(f"{label}: self-cascade", ("self-cascade",), results)


def percent(values: Sequence[float]) -> str:
    return f"{100 * fmean(values):.1f}" if values else ""


def rate(system: SystemResult) -> float:
    return system.rate


def either(result: CellResult) -> float:
    """How often A or B is right alone, drawn independently."""
    a, b = (result.systems[name].rates for name in ("a", "b"))
    return fmean(1 - (1 - x) * (1 - y) for x, y in zip(a, b, strict=True))


def arm_table(done: Done, world: str, kinds: Sequence[Kind]) -> str:
    table = []
    for row in rows_of(done, world, kinds):
        systems = (row.mean(name, rate) for name in ("a", "b", "ab", "ba"))
        spread = f"{100 * stdev(row.numbers):.1f}" if len(row.numbers) > 1 else ""
        table.append((row.label, row.passes, *systems, f"**{percent(row.numbers)}**", spread, row.seeds))
    return markdown_table(("arm", "passes", "A", "B", "ab", "ba", "number", "sd over seeds", "seeds"), table)


def control_table(done: Done, world: str, kinds: Sequence[Kind]) -> str:
    table = []
    for row in rows_of(done, world, kinds):
        pair = (row.of_pairs(of) for of in (chosen, best, either))
        alone = (row.mean("a", lambda system: system.majority_rate), row.mean("a", lambda system: system.either_of_two))
        tokens = f"{fmean(row.tokens) / max(fmean(row.numbers), 1e-9):.0f}"
        table.append((row.label, *pair, *alone, tokens, bites(row.results)))
    head = ("arm", "chosen", "after the fact", "A or B", "majority (A)", "pass@2 (A)", "tokens per right answer")
    return markdown_table((*head, "bonus acts in"), table)


def bites(results: Sequence[CellResult]) -> str:
    """The share of challenge groups whose advantages the bonus changes."""
    shares = [result.bonus_bites for result in results if result.bonus_bites is not None]
    return f"{100 * fmean(shares):.0f}%" if shares else ""


def fact_table(done: Done, world: str) -> str:
    table = []
    for arm in MAIN:
        results = list(by_seed(done, world, arm).values())
        for system in ("a", "b", "ba", "ab", "self-cascade", "self-refine"):
            counts = [result.systems[system].facts for result in results if system in result.systems]
            if counts:
                shares = [[sum(c[who][k] for c in counts) for k in (0, 1)] for who in ("both", "a", "b", "nobody")]
                table.append((arm, system, *(f"{100 * right / of:.0f}" if of else "" for right, of in shares)))
    return markdown_table(("arm", "system", "both", "A alone", "B alone", "nobody"), table)


def further(done: Done) -> str:
    """Every other kind of cell, beside the main arms on the same seeds."""
    kinds = dict.fromkeys((cell.world, cell.arm, cell.variant) for cell in cells() if is_further(cell))
    parts = []
    for world in WORLDS:
        by_seeds: dict[frozenset[int], list[Kind]] = {}
        for where, arm, variant in kinds:
            if where == world and (seeds := frozenset(by_seed(done, world, arm, variant))):
                by_seeds.setdefault(seeds, []).append((arm, variant))
        for seeds, here in by_seeds.items():
            beside = dict.fromkeys(arm if arm in MAIN else "agon" for arm, _ in here)
            shown = [*((arm, "") for arm in beside), *here]
            same = {cell: result for cell, result in done.items() if cell.seed in seeds}
            parts += [f"In {world}, seeds {min(seeds)} to {max(seeds)}:", arm_table(same, world, shown)]
            parts.append(control_table(same, world, shown))
    return "\n\n".join(parts) or "None is done yet."


def is_further(cell: CellPlan) -> bool:
    return bool(cell.variant) or cell.arm not in MAIN


def transfer(done: Done) -> str:
    """Means over seeds, on problems that no run trains on."""
    kinds = dict.fromkeys((cell.arm, cell.variant) for cell in cells())
    table = []
    for world in WORLDS:
        moved = {
            cell: replace(result, systems=result.transfer)
            for cell, result in done.items()
            if cell.world == world and result.transfer
        }
        for row in rows_of(moved, world, list(kinds)):
            single = (row.mean(name, rate) for name in ("a", "b"))
            table.append((world, row.label, row.passes, *single, percent(row.numbers), row.seeds))
    if not table:
        return "No cell is done yet."
    head = ("world", "arm", "passes", "A", "B", "number", "seeds")
    return f"On {TRANSFER_PROBLEMS} chains of {TRANSFER_STEPS}, in %:\n\n" + markdown_table(head, table)
