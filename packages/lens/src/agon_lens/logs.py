"""A log from its files: groups of rewards (`read`), or the same with their texts (`read_rollouts`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agon_lens.agon_bouts import streams
from agon_lens.columns import Columns, group_log, grouped, guessed, recognise, step_of
from agon_lens.errors import LensError
from agon_lens.groups import GroupLog
from agon_lens.lines import AGON, LogLine, is_agons, read_lines

TITLE = 160
"""Characters of a prompt that name it in a list."""
CHARACTERS = 400_000_000
"""Characters of a log that one page can hold."""


Paths = str | Path | Sequence[str | Path]


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


def read(paths: Paths, columns: Columns | None = None) -> list[GroupLog]:
    """The logs in files, folders or a run directory, as one: a single log, or one per stream of an Agon run."""
    given = _paths(paths)
    lines, notes = read_lines(given)
    if columns is None and set[str]().union(*lines) >= AGON:
        return [replace(log, notes=tuple(notes)) for log in streams(lines)]
    known = recognise(lines, columns or Columns())
    notes += guessed(lines, known, columns or Columns())
    log = group_log(_name(given), lines, known)
    return [replace(log, notes=(*notes, *log.notes))]


def _paths(paths: Paths) -> list[Path]:
    return [Path(paths)] if isinstance(paths, str | Path) else list(map(Path, paths))


def _name(paths: Sequence[Path]) -> str:
    """What a log of several files is called."""
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


@dataclass(frozen=True, slots=True)
class GroupTexts:
    """What was asked and answered in one group; a text that the log does not hold is empty."""

    name: str
    """What the log calls the group within its step: an id, or the prompt itself."""
    prompt: str
    gold: str
    completions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RolloutLog:
    """Logged groups with their texts, both in one order."""

    log: GroupLog
    texts: tuple[GroupTexts, ...]

    def titles(self) -> list[str]:
        """The prompts without what all of them begin with, such as a system message: a line that tells them apart."""
        prompts = [texts.prompt for texts in self.texts]
        shared = _shared(min(prompts), max(prompts)) if len(set(prompts)) > 1 else 0
        named = [_from_word(prompt, shared)[:TITLE] for prompt in prompts]
        return [title or texts.name[:TITLE] for title, texts in zip(named, self.texts, strict=True)]


def read_rollouts(paths: Paths, columns: Columns | None = None, steps: StepRange | None = None) -> RolloutLog:
    """Read files and folders as one log, or some of its steps."""
    given = _paths(paths)
    if columns is None and (bouts := next(filter(is_agons, given), None)):
        raise LensError(f"{bouts} holds bouts of Agon, which have a viewer of their own", fix=f"agon view {bouts}")
    lines, notes = read_lines(given)
    known = recognise(lines, columns or Columns())
    notes += guessed(lines, known, columns or Columns())
    kept = _kept(lines, steps, given[0]) if steps else lines
    texts = tuple(_texts(group, known) for group in grouped(kept, known)[0])
    _check_size(texts, given[0])
    log = group_log(_name(given), kept, known)
    return RolloutLog(replace(log, notes=(*notes, *log.notes)), texts)


def _kept(lines: Sequence[LogLine], steps: StepRange, path: Path) -> list[LogLine]:
    known = [step for line in lines if (step := step_of(line)) is not None]
    if not known:
        raise LensError(f"{path} has no column of steps", fix="leave --steps out")
    if kept := [line for line in lines if (step := step_of(line)) is not None and step in steps]:
        return kept
    span = f"{min(known):g}:{max(known):g}"
    raise LensError(f"{path} has no rows of these steps", fix=f"choose among the steps of the log: --steps {span}")


def _check_size(texts: Sequence[GroupTexts], path: Path) -> None:
    """Refuse what no browser would open."""
    size = sum(len(group.prompt) + sum(map(len, group.completions)) for group in texts)
    if size > CHARACTERS:
        message = f"{path} holds {size / 1e6:,.0f} million characters: too many for one page"
        raise LensError(message, fix="show some of its steps: --steps FIRST:LAST")


def _texts(group: Sequence[LogLine], columns: Columns) -> GroupTexts:
    def value(line: LogLine, name: str | None) -> str:
        return plain_text(line.get(name)) if name else ""

    name, prompt, gold = (value(group[0], name) for name in (columns.group[-1], columns.prompt, columns.gold))
    return GroupTexts(name, prompt, gold, tuple(value(line, columns.completion) for line in group))


def plain_text(value: object) -> str:
    """A logged text to read: chat messages one after the other, anything else that is not a text as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(part, dict) and "content" in part for part in value):
        alone = len(value) == 1
        return "\n\n".join(_message(message, named=not alone) for message in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _message(message: LogLine, named: bool) -> str:
    """One message under its role; with the calls of tools, if it makes some."""
    content, calls = message["content"], message.get("tool_calls")
    if isinstance(content, list):  # parts, some of which may be images
        texts = [part.get("text") or f"[{part.get('type')}]" for part in content if isinstance(part, dict)]
        content = "\n".join(map(str, texts))
    parts = [f"[{message.get('role')}]"] if named else []
    parts += [plain_text(content)] if content else []
    return "\n".join([*parts, *([plain_text(calls)] if calls else [])])


def _shared(first: str, last: str) -> int:
    """How many characters two texts begin with; the first and the last in order share what all between them do."""
    return next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def _from_word(prompt: str, start: int) -> str:
    """The prompt from a place on, moved back to the beginning of its word."""
    while start > 0 and not prompt[start - 1].isspace():
        start -= 1
    return " ".join(prompt[start : start + 4 * TITLE].split()) or " ".join(prompt[: 4 * TITLE].split())
