"""The bouts of an Agon run, known by their columns: a log of the drafts and a log of the answers to them.

An answer reads a draft and may earn a bonus for beating one. Its opponent is the draft that pays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agon_lens.columns import Columns
from agon_lens.errors import LensError
from agon_lens.formats import LogLine
from agon_lens.groups import GroupLog
from agon_lens.lines import in_memory
from agon_lens.rows import group_log

NEEDED = {"step", "problem_id", "index", "rival", "challenger", "draft_correct", "draft_reward", "challenge_reward"}
"""Columns that every line of training has; those of an evaluation have no step."""
ALWAYS = ("correctness", "format")
"""Parts of a reward that are shown also where they are always 0."""
ROLES = {"draft": "drafter", "challenge": "challenger"}


def streams(lines: Sequence[LogLine]) -> list[GroupLog]:
    """The standalone stream (drafts) and, where there are challenges, the competitive one."""
    if missing := set[str]().union(*(NEEDED - line.keys() for line in lines)):
        message = f"these bouts of Agon are not those of a training run: they lack {', '.join(sorted(missing))}"
        raise LensError(message, fix="name a run directory, or the parquet files in its bouts/")
    drafts = {(line["step"], line["problem_id"], line["index"]): line["draft_correct"] for line in lines}
    taught = _taught(lines, "draft")
    logs = [group_log(f"standalone{_rivals(lines)}", in_memory(taught), _columns(taught, "draft"))]
    challenges = [
        {**line, "opponent": drafts.get((line["step"], line["problem_id"], line["rival"]))}
        for line in _taught(lines, "challenge")
        if line["challenger"] is not None
    ]
    if challenges:
        columns = replace(_columns(challenges, "challenge"), opponent="opponent")
        logs.append(group_log(f"competitive{_rivals(lines)}", in_memory(challenges), columns))
    return logs


def _columns(lines: Sequence[LogLine], side: str) -> Columns:
    parts = [name for name in lines[0] if name.startswith(f"{side}_reward_")]
    return Columns(
        group=("step", "problem_id"),
        terms=tuple(name for name in parts if name.endswith(ALWAYS) or any(line.get(name) for line in lines)),
        total=f"{side}_reward",
        correct=f"{side}_correct",
        truncated=f"{side}_finish",
        advantage=f"{side}_advantage",
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
