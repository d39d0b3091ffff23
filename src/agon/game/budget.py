"""The ledger of section 4.5: rollouts, generated and prefilled tokens, by stage and policy.

The paper matches rollouts and leaves tokens unaudited; here every token of both stages, and every prefilled token, is
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agon.types import BASE, Bout, Completion, Policy

Stage = Literal["draft", "challenge"]


@dataclass(slots=True)
class Entry:
    """What one policy spent in one stage."""

    rollouts: int = 0
    """Completions drawn."""
    generated: int = 0
    """Completion tokens."""
    prefilled: int = 0
    """Prompt tokens."""

    def add(self, other: Entry) -> None:
        self.rollouts += other.rollouts
        self.generated += other.generated
        self.prefilled += other.prefilled


@dataclass(slots=True)
class Ledger:
    """A running account. `problems` counts how often each problem was played, so that rollouts per problem can be
    proven."""

    entries: dict[tuple[Stage, Policy | None], Entry] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    rollouts_by_problem: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, bouts: Iterable[Bout]) -> Ledger:
        """The account of some bouts."""
        ledger = cls()
        ledger.charge(bouts)
        return ledger

    def charge(self, bouts: Iterable[Bout]) -> None:
        """Account for the bouts of one step."""
        for bout in bouts:
            self.problems[bout.draft.problem.id] += bout.draft.index == 0
            for stage, rollout in (("draft", bout.draft), ("challenge", bout.challenge)):
                if rollout is not None:
                    self._spend(stage, rollout.policy, rollout.completion)  # type: ignore[arg-type]
                    self.rollouts_by_problem[rollout.problem.id] += 1

    def _spend(self, stage: Stage, policy: Policy | None, completion: Completion) -> None:
        entry = self.entries.setdefault((stage, policy), Entry())
        entry.add(Entry(1, completion.generated_tokens, completion.prompt_tokens))

    def total(self) -> Entry:
        """Both stages and both policies together."""
        total = Entry()
        for entry in self.entries.values():
            total.add(entry)
        return total

    def rollouts_per_problem(self) -> set[float]:
        """Rollouts drawn for each problem each time it was played: the matched budget says {2N}."""
        return {self.rollouts_by_problem[name] / times for name, times in self.problems.items()}

    def by_name(self) -> dict[str, Entry]:
        """Flat and stable, for `steps.jsonl`: {"draft/a": ..., "challenge/b": ...}."""
        return dict(sorted((f"{stage}/{policy or BASE}", entry) for (stage, policy), entry in self.entries.items()))
