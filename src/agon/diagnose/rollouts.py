"""The texts of logged groups beside their rewards: prompt, completions, and the gold where the log has one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agon.diagnose.groups import GroupLog
from agon.diagnose.lines import LogLine, read_lines
from agon.diagnose.read import Columns, group_log, grouped, guessed, name_of, recognise, step_of
from agon.errors import DataError

TITLE = 160
"""Characters of a prompt that name it in a list."""
CHARACTERS = 400_000_000
"""Characters of a log that one page can hold."""


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


def read_rollouts(
    paths: Sequence[Path], columns: Columns | None = None, keep: Callable[[float], bool] | None = None
) -> RolloutLog:
    """Read files and folders as one log; with `keep`, only the steps for which it is true."""
    lines, notes = read_lines(paths)
    known = recognise(lines, columns or Columns())
    notes += guessed(lines, known, columns or Columns())
    kept = _kept(lines, keep, paths[0]) if keep else lines
    texts = tuple(_texts(group, known) for group in grouped(kept, known)[0])
    _check_size(texts, paths[0])
    log = group_log(name_of(paths), kept, known)
    return RolloutLog(replace(log, notes=(*notes, *log.notes)), texts)


def _kept(lines: Sequence[LogLine], keep: Callable[[float], bool], path: Path) -> list[LogLine]:
    known = [step for line in lines if (step := step_of(line)) is not None]
    if not known:
        raise DataError(f"{path} has no column of steps", fix="leave --steps out")
    if kept := [line for line in lines if (step := step_of(line)) is not None and keep(step)]:
        return kept
    span = f"{min(known):g}:{max(known):g}"
    raise DataError(f"{path} has no rows of these steps", fix=f"agon view {path} --steps {span}")


def _check_size(texts: Sequence[GroupTexts], path: Path) -> None:
    """Refuse what no browser would open."""
    size = sum(len(group.prompt) + sum(map(len, group.completions)) for group in texts)
    if size > CHARACTERS:
        message = f"{path} holds {size / 1e6:,.0f} million characters: too many for one page"
        raise DataError(message, fix=f"show some steps: agon view {path} --steps FIRST:LAST")


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
