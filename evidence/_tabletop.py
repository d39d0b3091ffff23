"""The tabletop matrix: its cells, and the small result that each leaves behind.

`docs/results/tabletop-plan.md` describes what is here as data. A cell's result is a JSON file of a few kilobytes under
`docs/results/raw/WORLD/`; `scripts/tabletop_matrix` writes them and `evidence/tabletop.py` reads them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from pathlib import Path
from statistics import fmean
from typing import Any

from agon.data.tabletop.halves import KnownTo, known_to
from agon.data.tabletop.lessons import Beliefs, Fact, truth
from agon.data.tabletop.problems import problems
from agon.data.tabletop.worlds import WORLDS
from agon.game.exchange import exchange
from agon.game.parse import parse, same_answer
from agon.rundir.bouts import bout_of
from agon.types import BASE, Completion, Problem

ROOT = Path(__file__).resolve().parent.parent
RAW = ROOT / "docs" / "results" / "raw"
PAGE = ROOT / "docs" / "results" / "tabletop.md"
TABLES = PAGE.with_name("tabletop-tables.md")
FIGURE = ROOT / "docs" / "assets" / "tabletop.svg"
FRONT = ROOT / "docs" / "assets" / "verdicts.svg"
CONFIGS = ROOT / "configs" / "tabletop" / "worlds"
MAIN = ("grpo", "self-refine", "plain-pair", "coop", "agon")
TRANSFER_STEPS, TRANSFER_PROBLEMS, TRANSFER_SEED = 3, 100, 1
SAMPLES = 4
PILOT = 1000
"""Seeds from here on are pilots and in no table."""


@dataclass(frozen=True)
class CellPlan:
    """One run of the matrix: an arm with one change besides, in one world, with one seed."""

    world: str
    arm: str
    seed: int
    variant: str = ""
    overrides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.arm}{f'-{self.variant}' if self.variant else ''}-s{self.seed}"

    @property
    def config(self) -> Path:
        return CONFIGS / f"{self.world}.yaml"

    @property
    def result(self) -> Path:
        return RAW / self.world / f"{self.name}.json"

    @property
    def system(self) -> str:
        """What is measured: two passes; the first of them is the single pass."""
        return {"grpo": "self-cascade", "self-refine": "self-refine"}.get(self.arm, "cascade")


def main_cells(seeds: Iterable[int]) -> Iterator[CellPlan]:
    """Main arms, seed by seed over all worlds, so that every stop is balanced."""
    for seed in seeds:
        for world in WORLDS:
            yield from (CellPlan(world, arm, seed) for arm in MAIN)


def further_cells(seeds: Iterable[int]) -> Iterator[CellPlan]:
    """Ablations, sizes of the bonus and budget controls."""
    for seed in seeds:
        for arm in ("hidden-drafts", "mispaired", "shared-opponent", "margin", "fixed-roles"):
            yield CellPlan("soft-halves", arm, seed)
        yield CellPlan("neutral", "tiebreak", seed)
        for weight in (2, 4):
            yield CellPlan("soft-halves", "agon", seed, f"bonus{weight}", (f"game.conversion_weight={weight}.0",))
        for world in ("halves", "soft-halves"):
            yield CellPlan(world, "grpo", seed, "from-b", (f"model.init.a=agon:{world}/b",))
        yield CellPlan("halves", "grpo", seed, "half-budget", ("game.group_size=4",))


def long_cells(seeds: Iterable[int]) -> Iterator[CellPlan]:
    """Three times the steps, two arms: collapse or not."""
    for seed in seeds:
        yield from (CellPlan("soft-halves", arm, seed, "long", ("train.epochs=3",)) for arm in ("grpo", "agon"))


def side_cells(seeds: Iterable[int]) -> Iterator[CellPlan]:
    """How different B must start, and points on dev along a run."""
    for seed in seeds:
        for noise in (0.01, 0.1):
            yield CellPlan("neutral", "agon", seed, f"noise{noise}", (f"model.init.b_noise_std={noise}",))
        for world in ("halves", "soft-halves"):
            yield CellPlan(world, "agon", seed, "points", ("eval.points=5",))


def cells() -> list[CellPlan]:
    """The whole matrix, in the order in which it runs."""
    return [*main_cells(range(10)), *further_cells(range(5)), *long_cells(range(3)), *side_cells(range(3))]


def transfer_problems(world: str) -> list[Problem]:
    """Shorter chains than a world trains on; none where the number of steps is what the world is about."""
    return [] if world == "relay" else problems("chain", TRANSFER_STEPS, TRANSFER_PROBLEMS, seed=TRANSFER_SEED)


@dataclass(frozen=True)
class SystemResult:
    """One system on the held-out problems of a cell."""

    right: str
    """Right samples of each problem, one digit each, in the order of problem ids."""
    majority: str
    """Whether the majority of the first three samples is right, one digit each; the first wins a tie."""
    final_tokens: float
    all_tokens: float
    facts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By who knew a fact before training: right and all steps on it, in the final trace; only where A and B differ."""
    exchange: dict[str, int] = field(default_factory=dict)
    """What challenges made of drafts (`agon.game.exchange.Exchange`); empty for single passes and in the matrix."""
    samples: int = SAMPLES
    """Of each problem."""

    @property
    def rates(self) -> list[float]:
        """By problem."""
        return [int(right) / self.samples for right in self.right]

    @property
    def rate(self) -> float:
        return fmean(self.rates)

    @property
    def kept(self) -> float:
        """P(right | right draft)."""
        return 1 - self.exchange["regressions"] / self.exchange["draft_right"]

    @property
    def converted(self) -> float:
        """P(right | wrong draft)."""
        return self.exchange["conversions"] / self.exchange["draft_wrong"]

    @property
    def echoed(self) -> float:
        """P(the same wrong answer | wrong draft)."""
        return self.exchange["echoes"] / self.exchange["draft_wrong"]

    @property
    def either_of_two(self) -> float:
        """pass@2, unbiased, from four samples."""
        return fmean(1 - comb(self.samples - int(right), 2) / comb(self.samples, 2) for right in self.right)

    @property
    def majority_rate(self) -> float:
        return sum(map(int, self.majority)) / len(self.majority)


@dataclass(frozen=True)
class DevPoint:
    """A pair on dev, after some steps."""

    step: int
    trials: int
    right: dict[str, int]
    """By system."""
    either: int
    """Trials that A or B solves alone."""


@dataclass(frozen=True)
class CellResult:
    """What a cell measured."""

    world: str
    arm: str
    variant: str
    seed: int
    steps: int
    rollouts: int
    generated: int
    cpu_seconds: float
    commit: str
    bonus_bites: float | None
    systems: dict[str, SystemResult]
    transfer: dict[str, SystemResult] = field(default_factory=dict)
    """The same systems on shorter chains than the run saw."""
    points: list[DevPoint] = field(default_factory=list)
    """On dev along the run, where the plan asks for them."""
    best: dict[str, SystemResult] = field(default_factory=dict)
    """The same systems on held-out problems, with the weights of the best point on dev."""
    bonus_weight: float | None = None
    """How much more it paid to be right against a wrong draft, mean over steps; not in the matrix."""
    along: dict[str, dict[str, SystemResult]] = field(default_factory=dict)
    """Both cascades on dev after some steps, by step; not in the matrix."""
    selective: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Ways to answer only where several passes agree: answered, right and all trials; not in the matrix."""
    base_hash: str | None = None
    """SHA-256 over the weights of a base that does not ship with the package."""

    @property
    def answering(self) -> tuple[str, ...]:
        """What the number of the cell is about: both directions of a pair, the refinement, or the single pass."""
        return next(names for names in (("ab", "ba"), ("self-refine",), ("a",)) if set(names) <= set(self.systems))

    @property
    def rate(self) -> float:
        """The number of the cell."""
        return fmean(self.systems[name].rate for name in self.answering)

    @classmethod
    def read(cls, path: Path) -> CellResult:
        raw = json.loads(path.read_text())
        measured = {key: _systems(raw.pop(key)) for key in ("systems", "transfer", "best")}
        along = {step: _systems(values) for step, values in raw.pop("along", {}).items()}
        points = [DevPoint(**point) for point in raw.pop("points")]
        return cls(**raw, **measured, points=points, along=along)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def _systems(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, SystemResult]:
    return {name: SystemResult(**values) for name, values in raw.items()}


def finished(planned: Iterable[CellPlan] | None = None) -> dict[CellPlan, CellResult]:
    """Cells that have a result, in the order of the matrix or of what is planned."""
    wanted = cells() if planned is None else planned
    return {cell: CellResult.read(cell.result) for cell in wanted if cell.result.exists()}


def system_result(
    world: str, rows: Sequence[Mapping[str, object]], final: str, *, count_exchange: bool = False
) -> SystemResult:
    """Summarise the bouts of an evaluation; `final` is the stage that answers, draft or challenge."""
    problems = defaultdict[str, list[Mapping[str, object]]](list)
    for row in sorted(rows, key=lambda row: (row["problem_id"], row["index"])):
        problems[str(row["problem_id"])].append(row)
    right = [sum(bool(row[f"{final}_correct"]) for row in group) for group in problems.values()]
    tokens = [int(str(row[f"{final}_tokens"])) for row in rows]
    drafts = [int(str(row["draft_tokens"])) for row in rows] if final == "challenge" else [0]
    return SystemResult(
        right="".join(map(str, right)),
        samples=len(next(iter(problems.values()))),
        majority="".join(str(int(_majority(group[:3], final))) for group in problems.values()),
        final_tokens=round(sum(tokens) / len(tokens), 2),
        all_tokens=round((sum(tokens) + sum(drafts)) / len(tokens), 2),
        facts=fact_counts(world, [str(row[f"{final}_text"]) for row in rows]) if _taught_apart(world) else {},
        exchange=asdict(exchange(map(bout_of, rows))) if count_exchange and final == "challenge" else {},
    )


def _taught_apart(world: str) -> bool:
    return world in WORLDS and WORLDS[world].taught > 0


def selective_counts(ab: Sequence[Mapping[str, object]], ba: Sequence[Mapping[str, object]]) -> dict[str, list[int]]:
    """Answering only where passes agree: the draft and the answer of a cascade, both directions, or several drafts."""
    rows = [{(row["problem_id"], row["index"]): row for row in each} for each in (ab, ba)]
    counts = {name: [0, 0, 0] for name in ("always", "draft and answer", "both directions")}
    drafts = {f"{n} drafts": [0, 0, 0] for n in (2, 3, 4)}
    for each in rows:
        by_problem = defaultdict[object, list[Mapping[str, object]]](list)
        for (problem, _), row in sorted(each.items(), key=lambda item: (str(item[0][0]), int(str(item[0][1])))):
            by_problem[problem].append(row)
            right = bool(row["challenge_correct"])
            _count(counts["always"], True, right)
            _count(counts["draft and answer"], _agree(row, "draft", row, "challenge"), right)
        for group in by_problem.values():
            for n in range(2, min(4, len(group)) + 1):
                same = all(_agree(group[0], "draft", other, "draft") for other in group[1:n])
                _count(drafts[f"{n} drafts"], same, bool(group[0]["draft_correct"]))
    for key, row in rows[0].items():
        agreed = _agree(row, "challenge", rows[1][key], "challenge")
        _count(counts["both directions"], agreed, bool(row["challenge_correct"]))
    return counts | drafts


def _count(tally: list[int], answered: bool, right: bool) -> None:
    tally[0] += answered
    tally[1] += answered and right
    tally[2] += 1


def _agree(one: Mapping[str, object], stage: str, two: Mapping[str, object], other: str) -> bool:
    first, second = (Completion(str(row[f"{name}_text"]), BASE, 0, 0) for row, name in ((one, stage), (two, other)))
    return same_answer(first, second)


def _majority(group: Sequence[Mapping[str, object]], final: str) -> bool:
    answers = [parse(Completion(str(row[f"{final}_text"]), BASE, 0, 0)).answers for row in group]
    chosen = Counter(answers).most_common(1)[0][0]
    return bool(group[answers.index(chosen)][f"{final}_correct"])


START = re.compile(r"Start = (\d+)")
STEP = re.compile(r"\n[a-i]\) ([-+*]) (\d+) = (\d+)")


def fact_counts(world: str, texts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Steps of worked traces by who knew the fact, right and all: each step is judged from the value before it."""
    made = WORLDS[world]
    known = known_to(Beliefs(made.seed, made.mixture))
    counts = {who.value: [0, 0] for who in KnownTo}
    for text in texts:
        trace = text.partition("</think>")[0]
        if not (start := START.search(trace)):
            continue
        value = int(start[1])
        for operation, operand, result in STEP.findall(trace):
            fact: Fact = (value, operation, int(operand))
            value = int(result)
            if fact[0] < 17:
                counts[known.get(fact, KnownTo.BOTH).value][1] += 1
                counts[known.get(fact, KnownTo.BOTH).value][0] += value == truth(*fact)
    return {who: (right, of) for who, (right, of) in counts.items()}
