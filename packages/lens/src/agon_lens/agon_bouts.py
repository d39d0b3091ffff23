"""The bouts of an Agon run, known by their columns: a log of the drafts and a log of the challenges.

A challenge reads a draft and may earn a bonus for beating one. Its opponent is the draft that pays it. `bites` and
`bonus_weight` count what that bonus does, as the game of Agon does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from agon_lens.columns import Columns, group_log
from agon_lens.errors import LensError
from agon_lens.groups import SMALLEST, GroupLog, Reading, normalise
from agon_lens.lines import LogLine
from agon_lens.terms import UNCHANGED

BONUSES = ("conversion", "margin", "tiebreak")
NEEDED = {
    *("step", "problem_id", "index", "rival", "challenger", "echo", "draft_correct", "challenge_correct"),
    *("challenge_reward", *(f"challenge_reward_{name}" for name in ("correctness", *BONUSES))),
}
"""Columns that every line of training has; those of an evaluation have no step."""
ROLES = {"draft": "drafter", "challenge": "challenger"}


def streams(lines: Sequence[LogLine]) -> list[GroupLog]:
    """The standalone stream (drafts) and, where there are challenges, the competitive one."""
    if missing := set[str]().union(*(NEEDED - line.keys() for line in lines)):
        message = f"these bouts of Agon are not those of a training run: they lack {', '.join(sorted(missing))}"
        raise LensError(message, fix="name a run directory, or the parquet files in its bouts/")
    drafts = {(line["step"], line["problem_id"], line["index"]): line["draft_correct"] for line in lines}
    against = _rivals(lines)
    paid = ("correctness", "format", *(["extra"] if any(line.get("draft_reward_extra") for line in lines) else []))
    logs = [group_log(f"standalone{against}", _taught(lines, "draft"), _columns("draft_", paid))]
    challenges = [
        {**line, "opponent": drafts.get((line["step"], line["problem_id"], line["rival"]))}
        for line in _taught(lines, "challenge")
        if line["challenger"] is not None
    ]
    if challenges:
        bonus = tuple(name for name in BONUSES if any(line[f"challenge_reward_{name}"] for line in challenges))
        columns = replace(_columns("challenge_", (*paid, *bonus)), opponent="opponent")
        log = group_log(f"competitive{against}", challenges, columns)
        reading = _reading(challenges, bonus)
        logs.append(replace(log, correctness=columns.terms[0], bonus=columns.terms[len(paid) :], reading=reading))
    return logs


def _columns(prefix: str, terms: tuple[str, ...]) -> Columns:
    return Columns(
        group=("step", "problem_id"),
        terms=tuple(f"{prefix}reward_{term}" for term in terms),
        total=f"{prefix}reward",
        correct=f"{prefix}correct",
        truncated=f"{prefix}finish",
        advantage=f"{prefix}advantage",
    )


def _guest(line: LogLine, side: str) -> str | None:
    """The version on a side that plays B without being B, such as an endpoint: nobody learns from what it wrote."""
    version = line.get(f"{side}_version")
    return version if version and line.get(ROLES[side]) == "b" and not version.startswith("b@") else None


def _taught(lines: Sequence[LogLine], side: str) -> list[LogLine]:
    """The lines whose side somebody learns from; all of them if nobody does."""
    return [line for line in lines if _guest(line, side) is None] or list(lines)


def _rivals(lines: Sequence[LogLine]) -> str:
    """Who played B without being B, to add to the name of a stream; empty where nobody did."""
    names = sorted({guest for line in lines for side in ROLES if (guest := _guest(line, side))})
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f" of A against {names[0]}{more}" if names else ""


def _reading(lines: Sequence[LogLine], bonus: Sequence[str]) -> Reading:
    """Counted over the challenges whose reward is known: both verdicts are."""
    known = [line for line in lines if line["challenge_reward"] is not None]
    right, wrong = ([line for line in known if line["draft_correct"] is value] for value in (True, False))
    return Reading(
        draft_right=len(right),
        draft_wrong=len(wrong),
        kept=sum(line["challenge_correct"] for line in right),
        converted=sum(line["challenge_correct"] for line in wrong),
        echoed=sum(line["echo"] and not line["challenge_correct"] for line in wrong),
        bonus_weight=_logged_bonus_weight(known) if tuple(bonus) == ("conversion",) else None,
    )


def _logged_bonus_weight(lines: Sequence[LogLine]) -> float | None:
    """What a right answer would be paid is what the log's right answers were; a wrong one is paid 0."""
    paid = ("challenge_reward_correctness", "challenge_reward_conversion")
    correctness, conversion = (max(line[name] for line in lines) for name in paid)
    groups = defaultdict[Hashable, list[Challenge]](list)
    for line in lines:
        if_right = correctness + conversion * (not line["opponent"])
        challenge = Challenge(bool(line["draft_correct"]), sum(line[name] for name in paid), if_right)
        groups[line["step"], line["problem_id"]].append(challenge)
    return bonus_weight(groups.values())


# -- what the bonus does ----------------------------------------------------------------------------------------------


class Challenge(NamedTuple):
    """A challenge as the bonus sees it: correctness and bonus as paid, and as they would have been paid if right."""

    draft_right: bool
    paid: float
    if_right: float


def bites(correctness: Sequence[float], bonus: Sequence[float]) -> bool:
    """Whether the bonus changes an advantage of a group."""
    paid = [c + b for c, b in zip(correctness, bonus, strict=True)]
    with_bonus, without = (normalise(rewards, "group", SMALLEST) for rewards in (paid, correctness))
    return any(abs(a - b) > UNCHANGED for a, b in zip(with_bonus, without, strict=True))


def bonus_weight(groups: Iterable[Sequence[Challenge]]) -> float | None:
    """How much more it pays to be right against a wrong draft than against a right one.

    A challenge pulls with A(right) - A(wrong), the others of its group as they were. This is the mean pull against
    wrong drafts over the mean against right ones, in groups that have both; None if there are none, or if nothing
    pulls against right ones.
    """
    mixed = [group for group in groups if {challenge.draft_right for challenge in group} == {True, False}]
    if not mixed:
        return None
    on_right, on_wrong = (fmean(_mean_pull(group, draft_right) for group in mixed) for draft_right in (True, False))
    return on_wrong / on_right if on_right > UNCHANGED else None  # what is below is rounding


def _mean_pull(group: Sequence[Challenge], draft_right: bool) -> float:
    paid = [challenge.paid for challenge in group]
    pulls = []
    for i, challenge in enumerate(group):
        if challenge.draft_right is draft_right:
            right, wrong = ([*paid[:i], end, *paid[i + 1 :]] for end in (challenge.if_right, 0.0))
            pulls.append(normalise(right, "group", SMALLEST)[i] - normalise(wrong, "group", SMALLEST)[i])
    return fmean(pulls)
