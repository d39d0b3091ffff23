"""What was found in a log, as data: a kind, its numbers, and groups that show it. The texts are made from these."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from agon_lens.dead import Cause
from agon_lens.formatting import significant
from agon_lens.terms import MIN_REPEATS

PAGE = "https://github.com/OWNER/agon/blob/main/docs/diagnose.md"
EXAMPLES = 20
"""Groups that a finding names in JSON."""

MEANING = {
    Cause.UNGRADED: "fewer than two rows have a reward: look for errors of the verifier or reward functions",
    Cause.CANCELLING: "terms differ but add up to the same total: the weights trade one term against another",
    Cause.UNPAID: "right and wrong rows earn the same: correctness is not paid, or has weight 0",
    Cause.TRUNCATED: "every row was cut off: raise the completion limit, or pay for shorter answers",
    Cause.ALL_RIGHT: "too easy: take out problems that the policy always solves",
    Cause.ALL_WRONG: "too hard: take easier problems, or more rollouts per problem",
    Cause.SATURATED: "every term is at the log's maximum: too easy, or a reward that everyone earns",
    Cause.FLOORED: "every term is at the log's minimum: too hard, or a reward function that always fails",
    Cause.CONSTANT: "every term is the same in all rows",
}

TOO_HARD = (
    "Take easier problems, more rollouts per problem, or pay parts of an answer; and try the verifier on some right "
    "answers."
)
REMEDY = {
    Cause.UNGRADED: "Look for errors of the verifier or reward functions.",
    Cause.CANCELLING: "Change the weights: terms differ but add up to the same total.",
    Cause.UNPAID: "Pay correctness: right and wrong rows earn the same.",
    Cause.TRUNCATED: "Raise the completion limit, or pay for shorter answers.",
    Cause.ALL_RIGHT: "Take harder problems: these are solved every time.",
    Cause.ALL_WRONG: TOO_HARD,
    Cause.SATURATED: "Take harder problems: these earn everything every time.",
    Cause.FLOORED: TOO_HARD,
    Cause.CONSTANT: "Pay parts of an answer, so that different texts earn different rewards.",
}
"""What to change where different texts earn the same reward."""
EASY, HARD = (Cause.ALL_RIGHT, Cause.SATURATED), (Cause.ALL_WRONG, Cause.FLOORED)
MIXED = "Take problems that the policy solves sometimes: many of these are solved every time, and many never."
NEVER_RIGHT = "Try the verifier on some right answers; if it is right, take easier problems."
ALWAYS_EQUAL = "Try the reward functions on a right and a wrong answer: here every answer earns the same."
VARY = (
    "Let the policy vary: raise the temperature, check that every rollout has a seed of its own, lower the learning "
    "rate or add an entropy term."
)


class Rank(IntEnum):
    """What a finding is about; the first in this order comes first."""

    LOG = 0
    """The log may not be what it is read as."""
    COST = 1
    """Rows are drawn and teach nothing, or teach something unintended."""
    NOTE = 2
    """Worth knowing."""


class Text(NamedTuple):
    """How a kind of finding is told: its rank, the section of the page that explains it, a sentence, a remedy."""

    rank: Rank
    section: str
    sentence: str
    fix: str = ""


LOGS, ADVANTAGES, DEAD = "which-logs-are-understood", "advantages", "causes-of-dead-groups"
TERMS, ALONE, CLIFF = "kinds-of-terms", "a-term-that-alone-decides", "cliff-or-collapse"

TEXTS = {
    "groups of one row": Text(
        Rank.LOG,
        LOGS,
        "No group has two rows (groups: {groups}): rows of one group must share the value of the group column.",
        "Name that column with --group; an evaluation with one answer per problem is for `agon compare`.",
    ),
    "missing steps": Text(
        Rank.LOG,
        LOGS,
        "{missing} of {rows} rows have no step (missing or NaN), so rows of several steps may be one group.",
        "Log the step, or name a column that tells the groups apart with --group.",
    ),
    "unexplained total": Text(
        Rank.LOG,
        LOGS,
        "The total varies by something that is not among the terms in {count} of {groups} groups ({share:%}).",
        "Name every reward column with --terms and its weight with --weights.",
    ),
    "other advantages": Text(
        Rank.LOG,
        ADVANTAGES,
        "The logged advantages are not the totals normalised by group in {count} of {groups} groups ({share:%}): "
        "something else was learnt from than these rewards.",
        "Check --weights, --total and --scale; if they are right, look in the trainer for a normalisation over the "
        "batch, of each term on its own, or for rewards that change after they are logged.",
    ),
    "advantages scaled by batch": Text(
        Rank.NOTE,
        ADVANTAGES,
        "The logged advantages of all {groups} groups are divided by the standard deviation of their batch: groups "
        "whose rewards hardly differ get small advantages. The table of terms divides by the group's.",
    ),
    "ungraded rows": Text(
        Rank.COST,
        DEAD,
        "{missing} of {rows} rows have no reward (missing or NaN) and are left out; {share:%} of the groups have some.",
        "Look for errors of the verifier or reward functions.",
    ),
    "outliers": Text(
        Rank.COST,
        TERMS,
        "`{term}` is up to {largest} in {count} of {groups} groups ({share:%}), and {median} in the median: such a "
        "value decides every advantage of its group.",
        "Repair `{term}`, or limit it.",
    ),
    "truncation": Text(
        Rank.COST,
        "truncation",
        "{truncated:%} of the rows were truncated, and {least:%} of those earned the least reward of their group "
        "({others:%} of the others did): the limit of length decides them, not the answer.",
        "Raise the limit of completion tokens, or leave truncated rows out of the loss (TRL: "
        "mask_truncated_completions=True).",
    ),
    "dead groups": Text(
        Rank.COST,
        DEAD,
        "{count} of {groups} groups ({share:%}) are dead: their tokens teach nothing.",
    ),
    "collapse": Text(
        Rank.COST,
        CLIFF,
        "{count} of {groups} groups ({share:%}) died by collapse: more than half of their texts are the same "
        "({cause} in {of_cause} of them).",
    ),
    "cliff": Text(
        Rank.COST,
        CLIFF,
        "{count} of {groups} groups ({share:%}) died on a cliff: different texts, the same reward "
        "({cause} in {of_cause} of them). More randomness would not help them.",
    ),
    "changing dead groups": Text(
        Rank.NOTE,
        DEAD,
        "Dead groups go from {early:%} in the first third of the steps to {late:%} in the last.",
    ),
    "always the same": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` is {mean} in every row, so the group's mean cancels it.",
    ),
    "group-constant": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` differs between groups only ({least} to {most}), so the group's mean cancels it.",
        "Make it vary within a group, or drop it.",
    ),
    "action-independent": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` is inert in expectation: once the opponent's outcome is fixed it never varies (at least "
        f"{MIN_REPEATS} repeats), so it pays for the opponent that was drawn, not for what the policy wrote.",
    ),
    "rescaling": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` is inert: it varies in {share:%} of the groups, but no advantage changes when it is dropped. It only "
        "stretches the group, and the standard deviation divides that out.",
    ),
    "echo": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` is {slope} x `{other}`, apart from what the group or its opponent fixes: it changes that term's "
        "weight and adds no direction of its own.",
    ),
    "nearly inert": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` is nearly inert: it changes the advantages of {share:%} of the groups.",
    ),
    "at its end": Text(
        Rank.NOTE,
        TERMS,
        "`{term}` is at its {end} ({value}) in every row of {share:%} of the groups: it adds little.",
    ),
    "decides alone": Text(
        Rank.NOTE,
        ALONE,
        "`{term}` alone decides {count} of {groups} groups ({share:%}): nothing else is learnt there.",
    ),
    "decides by little": Text(
        Rank.COST,
        ALONE,
        "`{term}` alone decides {count} of {groups} groups ({share:%}), {small} of them by differences below 10% of "
        "the range of rewards, which the standard deviation makes as large as a right answer.",
        "Drop `{term}` or pay it to right answers only; or do not divide by the group's standard deviation (TRL: "
        'scale_rewards="none" or "batch").',
    ),
}
"""Every kind of finding."""
ALWAYS_0 = (
    "If it pays right answers, keep it: the problems are too hard, or the verifier does not read the answers. Take "
    "easier problems, and try the verifier on some right answers."
)
ALWAYS_PAID = "If it pays right answers, the problems are too easy: take harder ones. Otherwise drop it."


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: what kind it is, its numbers by name, the share of groups (it sorts by it), and where to see it."""

    kind: str
    share: float
    groups: tuple[int, ...]
    """Numbers of groups in which it can be seen."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = ""
    """What to change, where that depends on more than the kind."""
    usual: bool = False
    """Whether it is so small that healthy runs have it: then it is a note without a remedy."""

    @property
    def rank(self) -> Rank:
        return Rank.NOTE if self.usual else TEXTS[self.kind].rank

    @property
    def sentence(self) -> str:
        return self._filled(TEXTS[self.kind].sentence) + " So few are usual." * self.usual

    @property
    def fix(self) -> str:
        """What to change; empty where there is nothing to."""
        return "" if self.usual else self.remedy or self._filled(TEXTS[self.kind].fix)

    @property
    def page(self) -> str:
        """Where it is explained."""
        return f"{PAGE}#{TEXTS[self.kind].section}"

    def _filled(self, text: str) -> str:
        return _Filling().vformat(text, (), {"share": self.share, **self.numbers})

    def __str__(self) -> str:
        return f"{self.sentence} {self.fix}".strip()

    def json(self) -> dict[str, object]:
        """As plain values, with the first groups that show it."""
        plain = {"kind": self.kind, "rank": self.rank.name.lower(), "share": self.share, "numbers": dict(self.numbers)}
        texts = {"sentence": self.sentence, "fix": self.fix, "page": self.page}
        return {**plain, "groups": list(self.groups[:EXAMPLES]), **texts}


class _Filling(string.Formatter):
    """Numbers as people read them: `{share:%}` is 7.3%, other floats have three significant digits."""

    def format_field(self, value: Any, spec: str) -> str:
        if spec == "%":
            return percent(value)
        return significant(value) if isinstance(value, float) else str(value)


def percent(share: float) -> str:
    """A share that is small and not 0 does not become 0%."""
    return f"{significant(100 * share, 2)}%"
