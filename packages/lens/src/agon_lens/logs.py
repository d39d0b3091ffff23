"""A log from its files: groups of rewards (`read`), or the same with their texts (`read_rollouts`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agon_lens.agon_bouts import streams
from agon_lens.columns import Columns, guessed, recognise
from agon_lens.errors import LensError, Place
from agon_lens.files import is_agons
from agon_lens.formats import LogLine
from agon_lens.groups import GroupLog
from agon_lens.lines import LogLines, Progress, Source, step_of
from agon_lens.rows import group_log
from agon_lens.texts import Turns, plain_text, turns

TITLE = 160
"""Characters of a prompt that name it in a list."""
CHARACTERS = 100_000_000
"""Characters of a log that one page can hold."""


@dataclass(frozen=True, slots=True)
class StepRange:
    """Steps to keep, both ends included."""

    first: int = 0
    last: int | None = None

    @classmethod
    def parse(cls, text: str) -> StepRange:
        """`40`, `0:99`, `100:` or `:99`."""
        head, colon, tail = text.partition(":")
        try:
            first = int(head) if head else 0
            return cls(first, (int(tail) if tail else None) if colon else first)
        except ValueError as error:
            fix = "write --steps 0:99, --steps 100: or --steps 40"
            raise LensError(f"cannot parse --steps {text}", fix=fix) from error

    @property
    def name(self) -> str:
        """As a part of a file name."""
        last = "" if self.last is None else f"{self.last}"
        return f"step-{last}" if self.first == self.last else f"steps-{self.first}-{last}"

    def __contains__(self, step: float) -> bool:
        return step >= self.first and (self.last is None or step <= self.last)


def read(source: Source | LogLines, columns: Columns | None = None, progress: Progress | None = None) -> list[GroupLog]:
    """The logs in `source` (files, folders, a run directory, rows, a DataFrame), as one: a single log, or one for each
    stream of an Agon run.

    Files are read twice, and of their texts nothing stays in memory: a row takes about 350 bytes of it, however long
    its texts are. `progress(read, total)` is called with bytes.
    """
    lines = source if isinstance(source, LogLines) else LogLines(source, progress)
    if columns is None and lines.are_bouts:
        return [replace(log, notes=tuple(lines.notes)) for log in streams(list(lines))]
    known = recognise(lines.survey, columns or Columns())
    log = group_log(lines.name, lines.placed(), known)
    notes = (*lines.notes, *guessed(lines.survey, known, columns or Columns()), *log.notes)
    return [replace(log, notes=notes)]


@dataclass(frozen=True, slots=True)
class GroupTexts:
    """What was asked and answered in one group; a text that the log does not hold is empty."""

    name: str
    """What the log calls the group within its step: an id, or the prompt itself."""
    prompt: str
    gold: str
    completions: tuple[str | Turns, ...]


@dataclass(frozen=True, slots=True)
class RolloutLog:
    """A log, and the texts of those groups that a page can hold."""

    log: GroupLog
    shown: tuple[int, ...]
    """Which groups of the log have texts, in order: all of them, or an even sample of a log that is too long."""
    texts: tuple[GroupTexts, ...]
    """The texts of these groups, in the same order."""

    def titles(self) -> list[str]:
        """The prompts without what all of them begin with, such as a system message: a line that tells them apart."""
        prompts = [texts.prompt for texts in self.texts]
        shared = _shared(min(prompts), max(prompts)) if len(set(prompts)) > 1 else 0
        named = [_from_word(prompt, shared)[:TITLE] for prompt in prompts]
        return [title or texts.name[:TITLE] for title, texts in zip(named, self.texts, strict=True)]


def read_rollouts(
    source: Source,
    columns: Columns | None = None,
    steps: StepRange | None = None,
    progress: Progress | None = None,
) -> RolloutLog:
    """One log, or some of its steps, with the texts of as many groups as a page can hold."""
    lines = LogLines(source, progress)
    if columns is None and (bouts := next(filter(is_agons, lines.paths), None)):
        raise LensError(f"{bouts} holds bouts of Agon, which have a viewer of their own", fix=f"agon view {bouts}")
    known, (low, high) = recognise(lines.survey, columns or Columns()), lines.survey.steps or (0, 0)
    if steps and lines.survey.steps is None:
        raise LensError(f"{lines.name} has no column of steps", fix="leave --steps out")

    def kept() -> Iterator[tuple[Place, LogLine]]:
        placed = lines.placed()
        return (each for each in placed if steps is None or ((step := step_of(each[1])) is not None and step in steps))

    log = group_log(lines.name, kept(), known)
    if not log.groups:
        fix = f"choose among the steps of the log: --steps {low:g}:{high:g}"
        raise LensError(f"{lines.name} has no rows of these steps", fix=fix)
    every = 1
    while sum(log.characters[::every]) > CHARACTERS and every < len(log.characters):
        every += 1
    shown = tuple(range(0, len(log.groups), every))
    texts = read_texts(kept(), log, shown, known)
    notes = [*lines.notes, *guessed(lines.survey, known, columns or Columns()), *log.notes]
    if every > 1:
        size = sum(log.characters) / 1e6
        notes.append(
            f"{size:,.0f} million characters are too many for one page: {len(shown):,} of {len(log.groups):,} groups "
            "are shown, evenly spread; the findings count all (show all of some steps with --steps FIRST:LAST)"
        )
    return RolloutLog(replace(log, notes=tuple(notes)), shown, texts)


def read_texts(
    placed: Iterable[tuple[Place, LogLine]], log: GroupLog, wanted: Sequence[int], columns: Columns
) -> tuple[GroupTexts, ...]:
    """The texts of some groups of a log, from its rows."""
    places = {number: (group, k) for group in wanted for k, number in enumerate(log.numbers[group])}
    found: dict[int, list[str | Turns]] = {group: [""] * len(log.numbers[group]) for group in wanted}
    heads = dict[int, tuple[str, str, str]]()
    last = max(places, default=-1)
    for number, (place, line) in enumerate(placed):
        if number in places:
            group, k = places[number]
            with place:
                found[group][k] = turns(line.get(columns.completion)) if columns.completion else ""
                if k == 0:
                    named = (columns.group[-1], columns.prompt, columns.gold)
                    name, prompt, gold = (plain_text(line.get(each)) if each else "" for each in named)
                    heads[group] = (name, prompt, gold)
        if number >= last:
            break
    return tuple(GroupTexts(*heads[group], tuple(found[group])) for group in wanted)


def _shared(first: str, last: str) -> int:
    """How many characters two texts begin with; the first and the last in order share what all between them do."""
    return next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def _from_word(prompt: str, start: int) -> str:
    """The prompt from a place on, moved back to the beginning of its word."""
    while start > 0 and not prompt[start - 1].isspace():
        start -= 1
    return " ".join(prompt[start : start + 4 * TITLE].split()) or " ".join(prompt[: 4 * TITLE].split())
