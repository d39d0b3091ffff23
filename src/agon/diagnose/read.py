"""Logged groups and their columns, from files, folders or a run directory.

Columns are recognised by name where that is safe: Agon's bouts, TRL's `log_completions` files (step, prompt,
completion, one column per reward function, advantage), and verl's rollout dumps (step, input, output, score).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten

from agon.diagnose.groups import GroupLog, Reading, RewardRow
from agon.diagnose.lines import AGON, LogLine, read_lines
from agon.errors import DataError
from agon.formatting import plural
from agon.game.bonus import Context, bonus_weight

GROUP = ("group", "group_id", "problem_id", "prompt_id", "question_id", "uid", "prompt", "input", "question")
GROUP_IDS = ("group", "group_id", "uid")
"""Columns that name a group, not what was asked: whatever shares their value is one group."""
STEP = ("step", "global_step", "iteration")
TOTAL = ("total", "reward", "total_reward", "reward_total", "score")
CORRECT = ("correct", "is_correct", "acc")
TRUNCATED = ("truncated", "is_truncated", "finish", "finish_reason", "stop_reason")
OPPONENT = ("opponent_correct", "rival_correct", "opponent")
ADVANTAGE = ("advantage", "advantages")
PROMPT = ("prompt", "input", "question", "problem", "query", "messages")
COMPLETION = ("completion", "output", "response", "generation", "rollout", "text")
LARGEST = 1e100
"""Rewards beyond this overflow when they are squared."""
GOLD = ("gts", "gold", "ground_truth", "answer", "solution", "reference", "target")


COUNTS = {
    "num", "n", "count", "counts", "token", "tokens", "char", "chars", "length", "len", "lengths", "step", "steps",
    "epoch", "epochs", "iteration", "index", "idx", "id", "ids", "seed", "rank", "turn", "turns", "time", "timestamp",
    "seconds", "duration",
}  # fmt: skip
"""Words in the name of a number that is not a reward ..."""
PAID = {"reward", "rewards", "score", "scores", "penalty", "bonus", "punishment"}
"""... unless one of these is in it too."""
PER_TERM = 'log one row per completion, and its rewards by name: {"correct": 1.0, "format": 0.5}, or a column for each'


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what. What is left empty is recognised by name, or not used."""

    group: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    total: str | None = None
    correct: str | None = None
    truncated: str | None = None
    opponent: str | None = None
    advantage: str | None = None
    prompt: str | None = None
    completion: str | None = None
    gold: str | None = None

    def names(self) -> list[str]:
        """Every column that is named."""
        rewards = (self.total, self.correct, self.truncated, self.opponent, self.advantage)
        optional = (*rewards, self.prompt, self.completion, self.gold)
        return [*self.group, *self.terms, *self.weights, *(name for name in optional if name)]


def read(paths: str | Path | Sequence[str | Path], columns: Columns | None = None) -> list[GroupLog]:
    """The logs in files, folders or a run directory, as one: a single log, or one per stream of an Agon run."""
    given = [Path(paths)] if isinstance(paths, str | Path) else list(map(Path, paths))
    lines, notes = read_lines(given)
    if columns is None and set[str]().union(*lines) >= AGON:
        return [replace(log, notes=tuple(notes)) for log in _agon(lines)]
    known = recognise(lines, columns or Columns())
    notes += guessed(lines, known, columns or Columns())
    log = group_log(name_of(given), lines, known)
    return [replace(log, notes=(*notes, *log.notes))]


def name_of(paths: Sequence[Path]) -> str:
    """What a log of several files is called."""
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


def recognise(lines: Sequence[LogLine], given: Columns) -> Columns:
    """Fill in the columns that were not named, and refuse names that are not there."""
    present = set[str]().union(*lines)
    if unknown := [name for name in given.names() if name not in present]:
        names = ", ".join(sorted(present))
        raise DataError(f"no column named {', '.join(unknown)}", fix=f"choose among the columns of the log: {names}")
    texts = {name for name in present - set(given.terms) if not _numeric(name, lines)}
    columns = replace(
        given,
        group=given.group or _group(present),
        total=given.total or _first(TOTAL, present - set(given.terms)),
        correct=given.correct or _first(CORRECT, present - set(given.terms)),
        truncated=given.truncated or _first(TRUNCATED, present),
        opponent=given.opponent or _first(OPPONENT, present),
        advantage=given.advantage or _first(ADVANTAGE, present),
        prompt=given.prompt or _first(PROMPT, texts),
        completion=given.completion or _first(COMPLETION, texts),
        gold=given.gold or _first(GOLD, texts),
    )
    terms = given.terms or _terms(lines, present, columns)
    if not terms and columns.total is None:
        raise _unrecognised(lines, present)
    return replace(columns, terms=terms)


def _unrecognised(lines: Sequence[LogLine], present: set[str]) -> DataError:
    """No reward column: say which columns could be one."""
    for name in sorted(filter(_is_paid, present)):
        for line in lines:
            if isinstance(value := line.get(name), list | dict):
                return _not_a_number(name, value)
    numbers = ", ".join(sorted(name for name in present if _numeric(name, lines))) or "none"
    fix = f"name the reward columns with --terms a,b,c; columns of numbers: {numbers}"
    return DataError("no reward column was recognised", fix=fix)


def guessed(lines: Sequence[LogLine], known: Columns, given: Columns) -> list[str]:
    """Which columns were taken for rewards, which were not, and what changes that; nothing where they were named."""
    if given.terms:
        return []
    total = f"; total: {known.total}" if known.terms and known.total else ""
    left = f"; not: {', '.join(free)}" if (free := _free(lines, known)) else ""
    terms = ", ".join(known.terms or (known.total or "",))
    return [f"taken as rewards: {terms}{total}{left} (name others with --terms{' and --total' if total else ''})"]


def _group(present: set[str]) -> tuple[str, ...]:
    """The column that names the problem, within the step where the log has steps."""
    name = _first(GROUP, present)
    if name is None:
        raise DataError("no group column was recognised", fix="name it with --group COLUMN (or --group step,COLUMN)")
    step = _first(STEP, present)
    return (step, name) if step else (name,)


def _terms(lines: Sequence[LogLine], present: set[str], known: Columns) -> tuple[str, ...]:
    """Columns named after a reward; in TRL's files, every numeric column that is not something else."""
    free = _free(lines, known)
    if "completion" in present and present & {"advantage", "prompt"}:
        return tuple(name for name in free if not _is_count(name))
    return tuple(name for name in free if _is_paid(name))


def _free(lines: Sequence[LogLine], known: Columns) -> list[str]:
    """Columns of numbers that are nothing else, in the order of the log."""
    taken = {*known.names(), *GROUP, *STEP, *TRUNCATED, *ADVANTAGE, "index"} - (known.weights.keys() - {*known.terms})
    ordered = dict.fromkeys(name for line in lines for name in line)
    return [name for name in ordered if name not in taken and _numeric(name, lines)]


def _is_paid(name: str) -> bool:
    """Whether a column is named after a reward, or is a part of a score."""
    return "reward" in name.lower() or name.partition(".")[0].lower() in {"score", "scores"}


def _is_count(name: str) -> bool:
    """Whether a column is named after a count or a place, such as num_tokens; `length_reward` is a reward."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    return bool(words & COUNTS) and not words & PAID


def _numeric(name: str, lines: Sequence[LogLine]) -> bool:
    values = [line[name] for line in lines if line.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _first(names: Sequence[str], present: set[str]) -> str | None:
    return next((name for name in names if name in present), None)


def group_log(name: str, lines: Iterable[LogLine], columns: Columns) -> GroupLog:
    """The rewards of lines, group by group."""
    terms = columns.terms or (columns.total or "total",)
    columns = replace(columns, terms=terms)
    groups, notes = grouped(lines, columns)
    rows = tuple(tuple(_row(line, columns) for line in group) for group in groups)
    return GroupLog(name, terms, rows, steps=tuple(step_of(group[0]) for group in groups), notes=tuple(notes))


def grouped(lines: Iterable[LogLine], columns: Columns) -> tuple[list[list[LogLine]], list[str]]:
    """Lines that were normalised together, in the order in which their groups appear; and notes on what was split.

    A prompt that occurs twice in a step was drawn as two groups, one after the other: where all other groups have one
    size, its rows are split by their order into groups of that size.
    """
    groups = defaultdict[Hashable, list[LogLine]](list)
    for line in lines:
        groups[tuple(_key(line.get(part)) for part in columns.group)].append(line)
    found = list(groups.values())
    if not found or columns.group[-1] in GROUP_IDS:
        return found, []
    sizes = Counter(map(len, found))
    ((usual, _),) = sizes.most_common(1)
    several = sum(number for size, number in sizes.items() if size > usual and size % usual == 0)
    if usual < 2 or not several:
        return found, []
    where = "in a step" if len(columns.group) > 1 else "in the log"
    if sizes[usual] + several < len(found):
        note = (
            f"{plural(several, 'group')} of a multiple of the usual {usual} rows: perhaps a prompt that occurs several "
        )
        return found, [f"{note}times {where}; name a column that tells its groups apart with --group"]
    parts = [group[at : at + usual] for group in found for at in range(0, len(group), usual)]
    note = (
        f"{plural(several, 'prompt')} occurring several times {where}: rows split by their order into groups of {usual}"
    )
    return parts, [note]


def step_of(line: LogLine) -> float | None:
    """The step of a line; None where the log has none."""
    value = next((line[name] for name in STEP if name in line), None)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < LARGEST else None


def _row(line: LogLine, columns: Columns) -> RewardRow:
    paid = {name: _number(name, line.get(name)) for name in columns.terms}
    weighted = [value and value * columns.weights.get(name, 1.0) for name, value in paid.items()]
    known = [value for value in weighted if value is not None]
    total = _number(columns.total, line.get(columns.total)) if columns.total else (sum(known) if known else None)
    return RewardRow(
        terms=tuple(value or 0.0 for value in weighted),
        total=total,
        correct=_flag(line.get(columns.correct)) if columns.correct else None,
        truncated=_truncated(line.get(columns.truncated)) if columns.truncated else None,
        opponent=_key(line.get(columns.opponent)) if columns.opponent else None,
        advantage=_number(columns.advantage, line.get(columns.advantage)) if columns.advantage else None,
    )


def _number(name: str | None, value: object) -> float | None:
    """A reward as a float; None and NaN are both "not graded"."""
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise _not_a_number(name, value)
    if value != value:
        return None
    if abs(value) > LARGEST:
        raise DataError(f"column {name} holds a number beyond {LARGEST:g}", fix="log finite rewards, or leave it out")
    return float(value)


def _not_a_number(name: str | None, value: object) -> DataError:
    fix = PER_TERM if isinstance(value, list | dict) else "name numeric columns only"
    return DataError(f"column {name} holds {shorten(repr(value), 80)}, which is not a number", fix=fix)


def _flag(value: object) -> bool | None:
    return None if value is None else bool(value)


def _truncated(value: object) -> bool | None:
    return value in {"length", "max_tokens"} if isinstance(value, str) else _flag(value)


def _key(value: object) -> Hashable:
    """A value that can name a group: chat messages and other nested values by their JSON."""
    return value if isinstance(value, Hashable) else json.dumps(value, sort_keys=True, default=str)


def _agon(lines: Sequence[LogLine]) -> list[GroupLog]:
    """The standalone and the competitive stream of Agon's bouts; a challenge's opponent is the draft that pays it."""
    drafts = {(line["step"], line["problem_id"], line["index"]): line["draft_correct"] for line in lines}
    against = _rivals(lines)
    logs = [group_log(f"standalone{against}", _taught(lines, "draft"), _stream("draft_", ("correctness", "format")))]
    challenges = [
        {**line, "opponent": drafts.get((line["step"], line["problem_id"], line["rival"]))}
        for line in _taught(lines, "challenge")
        if line["challenger"] is not None
    ]
    if challenges:
        bonus = tuple(name for name in ("conversion", "margin", "tiebreak") if _pays(challenges, name))
        columns = replace(_stream("challenge_", ("correctness", "format", *bonus)), opponent="opponent")
        log = group_log(f"competitive{against}", challenges, columns)
        reading = _reading(challenges, bonus)
        logs.append(replace(log, correctness=columns.terms[0], bonus=columns.terms[2:], reading=reading))
    return logs


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
        bonus_weight=_bonus_weight(known) if tuple(bonus) == ("conversion",) else None,
    )


def _bonus_weight(lines: Sequence[LogLine]) -> float | None:
    """As the game counts it; what a right answer would be paid is what the log's right answers were."""
    correctness, conversion = (max(line[f"challenge_reward_{name}"] for line in lines) for name in PAID_TERMS)
    groups = defaultdict[Hashable, list[Context]](list)
    for line in lines:
        paid = sum(line[f"challenge_reward_{name}"] for name in PAID_TERMS)
        if_right = correctness + conversion * (not line["opponent"])
        context = Context(bool(line["draft_correct"]), paid, if_right, 0.0)
        groups[line["step"], line["problem_id"]].append(context)
    return bonus_weight(groups.values())


PAID_TERMS = ("correctness", "conversion")


ROLES = {"draft": "drafter", "challenge": "challenger"}


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


def _stream(prefix: str, terms: tuple[str, ...]) -> Columns:
    return Columns(
        group=("step", "problem_id"),
        terms=tuple(f"{prefix}reward_{term}" for term in terms),
        total=f"{prefix}reward",
        correct=f"{prefix}correct",
        truncated=f"{prefix}finish",
        advantage=f"{prefix}advantage",
    )


def _pays(lines: Iterable[LogLine], bonus: str) -> bool:
    return any(line[f"challenge_reward_{bonus}"] for line in lines)
