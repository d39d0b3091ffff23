"""One optimizer step in bfloat16: what `Canary.check_samples` says about real rows, as they are and under false names.

Every round takes the rows that the engine drew from one version of a policy (`_stale_rows.py`). As they are, they are
what a healthy engine returns. Given to a canary whose learner is a step further, they are what an engine returns that
is a step late; rows of the rival and of the bare base are what one returns that swaps or ignores adapters. Scores are
kept, so that judging may be interrupted too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from _lib import median
from _stale_rows import (
    CALIBRATED,
    GROUP,
    IGNORED,
    LEARNT,
    ROUNDS,
    WARM,
    Work,
    checkpoint,
    draw,
    make_learner,
    tested,
    write,
)
from agon.engine.synthetic import rollout, stream
from agon.engine.vllm.slope import Slope
from agon.engine.vllm.suspects import MOST, PARTS, Suspect
from agon.errors import EngineError
from agon.protocols import Stretch, Tokens
from agon.types import Policy

SETS, HEALTHY = 10, 48
"""Healthy checks per round, and their rows; no two share one. Their slopes pool, as those of a run's steps do."""
LAGS, SEEN = (1, 2, 3, 4, 6, 8), 0.95
"""Steps that an engine may be late, and the share of rounds in which that must be caught."""
GOAL = {
    **{"rounds": ROUNDS, "late": 19, "swapped": 20, "ignored": 20},
    **{"healthy checks": 200, "false alarms": 0, "tokens": 20_000},
}


def prove(root: Path) -> dict[str, Any]:
    """Draw what is missing, judge every round, and count."""
    work = Work(root, checkpoint(root / "base"))
    work.check_settings()
    draw(work)
    return judge(work)


def holds(found: dict[str, Any]) -> bool:
    caught = found["caught"]
    return (
        found["rounds"] == ROUNDS
        and all(caught[name] >= GOAL[name] for name in caught)
        and found["healthy checks"] >= GOAL["healthy checks"]
        and found["false alarms"] <= GOAL["false alarms"]
        and found["tokens of a late check"] <= GOAL["tokens"]
    )


def judge(work: Work) -> dict[str, Any]:
    """What the canary says in the rounds that have been drawn."""
    bench = Judge.of(work)
    rounds = [step for step in range(WARM, WARM + ROUNDS) if work.drawn(step)]
    for number, step in enumerate(rounds, 1):
        bench.round(step)
        print(f"round {number} of {ROUNDS}: {bench.line()}", flush=True)
    caught = {name: sum(found) for name, found in bench.caught.items()}
    lag = next((n for n in LAGS if bench.share(n) >= SEEN), None)
    return {
        **{"rounds": len(rounds), "healthy checks": bench.healthy, "false alarms": bench.alarms, "caught": caught},
        **{"smallest lag seen": lag, "tokens of a late check": bench.most, "distinct rows": bench.distinct(rounds)},
        **{"slopes": {name: summary(found) for name, found in bench.slopes.items() if found}},
    }


@dataclass(slots=True)
class KeptLearner:
    """The real learner at any of its versions; every score is computed once."""

    work: Work
    step: int = 0
    _real: Any = None
    _at: int | None = None

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        path = self.work.root / "scores" / f"{self._key(policy, rows, stretch)}.json"
        if not path.exists():
            order = sorted(range(len(rows)), key=lambda n: -len(rows[n].prompt_ids) - len(rows[n].completion_ids))
            scored = dict(zip(order, self._held().score(policy, [rows[n] for n in order], stretch), strict=True))
            write(path, json.dumps([scored[n] for n in range(len(rows))]))
        kept: list[list[float]] = json.loads(path.read_text())
        return kept

    def _key(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None) -> str:
        weights = self.work.version(self.step, policy) if policy else "base"
        way = f"{stretch.origin and stretch.origin.name} {stretch.factor!r}" if stretch else ""
        ids = [(row.prompt_ids, row.completion_ids) for row in rows]
        return hashlib.sha256(repr((weights, way, ids)).encode()).hexdigest()[:32]

    def _held(self) -> Any:
        self._real = self._real or make_learner(self.work)
        if self._at != self.step:
            for policy in Policy:
                self._real.pair.load(policy, self.work.folder(self.step, policy))
            self._at = self.step
        return self._real


@dataclass(slots=True)
class Judge:
    """`Canary.check_samples` over the rows of all rounds. Slopes pool over the checks of one round, and no further."""

    work: Work
    learner: KeptLearner
    canary: Any
    caught: dict[str, list[bool]] = field(default_factory=lambda: {"late": [], "swapped": [], "ignored": []})
    slopes: dict[str, list[Slope]] = field(default_factory=lambda: {"right": [], "late": []})
    healthy: int = 0
    alarms: int = 0
    most: int = 0

    @classmethod
    def of(cls, work: Work) -> Judge:
        """With what the canary calibrated on the engine before its first step."""
        from agon.engine.vllm.canary import Canary

        learner, found = KeptLearner(work), json.loads((work.root / "checks" / "000.json").read_text())
        published = SimpleNamespace(folder_of=work.folder_of)
        canary = Canary(published, learner, slots=4, **{name: found[name] for name in CALIBRATED})
        return cls(work, learner, canary)

    def round(self, step: int) -> None:
        policy = tested(step)
        rows = self._rows(step, policy)[:HEALTHY]
        self.canary.suspects.slopes.clear()
        pooled = list[Slope]()
        for number in range(SETS):
            self.healthy += 1
            self.alarms += self._stops(step, policy, rows[number::SETS])
            pooled.append(self.canary.suspects.slopes[policy, Suspect.BEFORE])
        self.slopes["right"].append(min(pooled, key=lambda slope: slope.error))
        self.caught["late"].append(self._late(step, 1))
        self.slopes["late"].append(self.canary.suspects.slopes[policy, Suspect.BEFORE])
        for name, wrong in ("swapped", self._rows(step, policy.rival)), ("ignored", self._rows(step, None)):
            self.canary.suspects.slopes.clear()
            self.caught[name].append(self._stops(step, policy, wrong[:IGNORED], others=True))

    def share(self, lag: int) -> float:
        """Rounds in which an engine that is so many steps late is caught; one step has been tried already."""
        steps = [n for n in range(WARM, WARM + ROUNDS) if self.work.drawn(n) and self.work.trained(n + lag)]
        found = self.caught["late"] if lag == 1 else [self._late(step, lag) for step in steps]
        return sum(found) / len(found) if found else 0.0

    def line(self) -> str:
        caught = ", ".join(f"{name} {sum(found)} of {len(found)}" for name, found in self.caught.items())
        read = ", ".join(
            f"{name} {found[-1].value:.2f} +- {found[-1].error:.2f}" for name, found in self.slopes.items()
        )
        return f"caught: {caught}; {self.alarms} false alarms in {self.healthy}; slopes now: {read}"

    def distinct(self, steps: Sequence[int]) -> int:
        """Rows that were judged; no two checks of one kind share any."""
        return sum(
            len(self._rows(step, policy)) for step in steps for policy in (tested(step), tested(step).rival, None)
        )

    def _late(self, step: int, lag: int) -> bool:
        """The engine still serves the version of `step` when the learner, `lag` steps further, asks it for new rows.

        Those that the learner took that step from are not new, and are left out.
        """
        rows = self._rows(step, tested(step))[GROUP * LEARNT :]
        self.canary.suspects.slopes.clear()
        self.most = max(self.most, sum(len(row.completion_ids) for row in rows))
        return self._stops(step + lag, tested(step), rows)

    def _stops(self, step: int, policy: Policy, rows: Sequence[Tokens], others: bool = False) -> bool:
        """Whether the canary stops a run whose engine returns these rows as samples of the policy at this step."""
        self.learner.step = step
        for number in (step - 1, step):
            self.canary._remember({each: self.work.version(number, each) for each in Policy})
        count = sum(len(row.completion_ids) for row in rows)
        self.canary.suspects.tokens = min(PARTS * count if others else count, 2 * MOST)
        samples = stream(policy, [[rollout(policy, n, row, None) for n, row in enumerate(rows)]])
        try:
            self.canary.check_samples([samples])
        except EngineError as error:
            print(f"  {error}", flush=True)
            return True
        return False

    def _rows(self, step: int, policy: Policy | None) -> list[Tokens]:
        return [row.tokens for row in self.work.rows(f"{step:03d}{policy.value if policy else 'base'}")]


def summary(slopes: Sequence[Slope]) -> dict[str, float]:
    values, errors = [slope.value for slope in slopes], [slope.error for slope in slopes]
    named = {"mean": fmean(values), "least": min(values), "most": max(values), "median error": median(errors)}
    return {name: round(value, 3) for name, value in named.items()}
