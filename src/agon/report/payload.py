"""Bouts in the format of the match viewer: columns for filters and the list, and blocks of texts opened one at a time.

Both are gzipped JSON in base64: text from a model cannot become markup, and a page with thousands of long traces
opens at once, since a block is inflated only when one of its bouts is opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agon.game.exchange import outcome
from agon.game.parse import parse
from agon.report.rows import BoutSource, LoggedBout
from agon.types import PARTS, THINK_CLOSE, Rollout
from agon_judge.answers import Parsed
from agon_lens.page import compress, rounded

SCHEMA = 1
BLOCK = 32
OUTCOMES = ("converted", "regressed", "kept", "lost", "disagree", "right", "wrong")
"""What became of a draft that was challenged; the last two are of those that were not."""
MARKS = ("leak", "empty peek", "infra", "truncated", "dead")
SIDES = ("draft", "challenge")
LOGGED = ("reward", "advantage", *(f"reward_{part}" for part in PARTS))
"""Columns of a side that are taken from the row as they are."""
DERIVED = ("graded", "correct", "reason", "version", "well_formed", "truncated", "prompt_tokens", "tokens")
"""Columns of a side that are taken from the bout."""


@dataclass(slots=True)
class Names:
    """Numbers values that occur many times, in the order of their first use."""

    numbers: dict[Any, int] = field(default_factory=dict)

    def __call__(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


@dataclass(slots=True)
class Index:
    """Everything but the texts."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    problems: Names = field(default_factory=Names)
    versions: Names = field(default_factory=Names)
    reasons: Names = field(default_factory=Names)
    size: int = 0
    best: int | None = None
    """The conversion to look at first: no leak, something to read, the largest advantage, the newest of these."""
    _best: tuple[float, int] = (0.0, -1)

    def add(self, logged: LoggedBout, parsed: Sequence[Parsed]) -> None:
        """Add one bout as a value in every column."""
        bout, row, columns = logged.bout, logged.row, self.columns
        self.size += 1
        columns["problem"].append(self.problems((bout.problem.id, bout.problem.question, bout.problem.answer)))
        for name in ("step", "index", "rival", "drafter", "challenger"):
            columns[name].append(row.get(name))
        columns["shown"].append(int(bout.peek is not None))
        found, marked = list(outcomes(logged, parsed)), list(marks(logged))
        columns["outcomes"].append(_bits(OUTCOMES, found))
        columns["marks"].append(_bits(MARKS, marked))
        rank = (rounded(row.get("challenge_advantage")) or 0.0, row.get("step") or 0)
        if "converted" in found and bout.peek and "leak" not in marked and rank >= self._best:
            self.best, self._best = self.size - 1, rank
        for side, rollout in zip(SIDES, (bout.draft, bout.challenge), strict=True):
            values = {} if rollout is None else self._side(side, rollout, logged)
            for name in (*DERIVED, *LOGGED):
                columns[f"{side}_{name}"].append(values.get(name))

    def _side(self, side: str, rollout: Rollout, logged: LoggedBout) -> dict[str, Any]:
        completion, verdict = rollout.completion, rollout.verdict
        return {
            "graded": int(verdict.graded),
            "correct": int(verdict.correct),
            "reason": self.reasons(verdict.reason),
            "version": self.versions(completion.version),
            "well_formed": int(verdict.well_formed),
            "truncated": int(completion.finish == "length"),
            "prompt_tokens": completion.prompt_tokens,
            "tokens": completion.generated_tokens,
            **{name: rounded(logged.row.get(f"{side}_{name}")) for name in LOGGED},
        }

    def as_dict(self, source: BoutSource) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": source.name,
            "facts": list(source.facts),
            "rewarded": source.rewarded,
            "size": self.size,
            "best": self.best,
            "block_size": BLOCK,
            "problems": list(self.problems.numbers),
            "versions": list(self.versions.numbers),
            "reasons": list(self.reasons.numbers),
            "columns": dict(self.columns),
        }


@dataclass(frozen=True, slots=True)
class Packed:
    """A source ready to embed in a page: its index, its blocks of texts, and the bout to look at first."""

    index: str
    blocks: list[str]
    best: int | None


def pack(source: BoutSource) -> Packed:
    """A source in the format of the page."""
    index, blocks, block = Index(), list[str](), list[dict[str, Any]]()
    for logged in source.bouts:
        parsed = [parse(rollout.completion) for rollout in logged.bout.rollouts]
        index.add(logged, parsed)
        block.append(texts(logged, parsed))
        if len(block) == BLOCK:
            blocks.append(compress(block))
            block = []
    if block:
        blocks.append(compress(block))
    return Packed(compress(index.as_dict(source)), blocks, index.best)


def texts(logged: LoggedBout, parsed: Sequence[Parsed]) -> dict[str, Any]:
    """What is read of a bout: [trace, what came after it, detail of the verdict] of both sides, peek and prompt."""
    block: dict[str, Any] = {"peek": logged.bout.peek, "prompt": logged.row.get("challenge_prompt")}
    for side, rollout, read in zip(SIDES, logged.bout.rollouts, parsed, strict=False):
        text = rollout.completion.text
        end = (text.rfind(THINK_CLOSE) + len(THINK_CLOSE) if THINK_CLOSE in text else 0) if read.closed else len(text)
        block[side] = [text[:end], text[end:], rollout.verdict.detail or ""]
    return block


def outcomes(logged: LoggedBout, parsed: Sequence[Parsed]) -> Iterator[str]:
    """What became of a draft; none where a side has no verdict."""
    bout, result = logged.bout, outcome(logged.bout)
    if bout.challenge is None and bout.draft.verdict.graded:
        yield "right" if bout.draft.verdict.correct else "wrong"
    if result is None:
        return
    yield result
    answers = {_answer(read) for read in parsed}
    if result in ("converted", "regressed") or (result == "lost" and len(answers) > 1):
        yield "disagree"


def marks(logged: LoggedBout) -> Iterator[str]:
    """What a reader may want to find again."""
    bout, row = logged.bout, logged.row
    if row.get("peek_leak"):
        yield "leak"
    if bout.peek == "":
        yield "empty peek"
    if not all(rollout.verdict.graded for rollout in bout.rollouts):
        yield "infra"
    if any(rollout.completion.finish == "length" for rollout in bout.rollouts):
        yield "truncated"
    if "draft_advantage" in row and all(row.get(f"{side}_advantage") is None for side in SIDES):
        yield "dead"


def _bits(names: Sequence[str], present: Iterable[str]) -> int:
    return sum(1 << names.index(name) for name in present)


def _answer(parsed: Parsed) -> str | None:
    return "".join(parsed.answers[-1].split()) if parsed.answers else None
