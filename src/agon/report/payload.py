"""Bouts as the match viewer wants them: columns for filters and the list, and blocks of texts opened one at a time.

Both are gzipped JSON in base64: nothing a model wrote can pass for markup, and a page of thousands of long traces still
opens at once, since a block is inflated only when one of its bouts is looked at.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agon.game.parse import CLOSE, Parsed, parse
from agon.report.rows import Row, Source
from agon.types import UNGRADED, Completion

SCHEMA = 1
BLOCK = 32
OUTCOMES = ("converted", "regressed", "disagree", "both right", "both wrong")
MARKS = ("leak", "empty peek", "infra", "cut off", "dead")
SIDES = ("draft", "challenge")
TERMS = ("correctness", "format", "conversion", "margin", "tiebreak")
NUMBERS = ("prompt_tokens", "tokens", "reward", "advantage")


@dataclass(slots=True)
class Names:
    """Strings that come again and again, by number."""

    places: dict[Any, int] = field(default_factory=dict)

    def __call__(self, value: Any) -> int:
        return self.places.setdefault(value, len(self.places))


@dataclass(slots=True)
class Index:
    """Everything but the texts."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    problems: Names = field(default_factory=Names)
    versions: Names = field(default_factory=Names)
    reasons: Names = field(default_factory=Names)
    size: int = 0

    def add(self, row: Row, parsed: dict[str, Parsed]) -> None:
        """One bout as a value in every column."""
        self.size += 1
        columns = self.columns
        columns["problem"].append(self.problems((row["problem_id"], row["question"], row["answer"])))
        for name in ("step", "index", "rival", "drafter", "challenger"):
            columns[name].append(row.get(name))
        columns["shown"].append(int(row.get("peek") is not None))
        columns["outcomes"].append(_bits(OUTCOMES, outcomes(row, parsed)))
        columns["marks"].append(_bits(MARKS, marks(row)))
        for side in SIDES:
            self._add_side(side, row)

    def _add_side(self, side: str, row: Row) -> None:
        reason = row.get(f"{side}_reason")
        there = reason is not None
        found = {
            "graded": int(_graded(row, side)) if there else None,
            "correct": int(_right(row, side)) if there else None,
            "reason": self.reasons(reason) if there else None,
            "version": self.versions(row[f"{side}_version"]) if there else None,
            "well_formed": int(bool(row.get(f"{side}_well_formed"))) if there else None,
            "cut": int(row.get(f"{side}_finish") == "length") if there else None,
        }
        found |= {name: _short(row.get(f"{side}_{name}")) for name in NUMBERS}
        found |= {f"reward_{term}": _short(row.get(f"{side}_reward_{term}")) for term in TERMS}
        for name, value in found.items():
            self.columns[f"{side}_{name}"].append(value)

    def as_dict(self, source: Source) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": source.name,
            "facts": list(source.facts),
            "graded_by_reward": source.rewarded,
            "size": self.size,
            "block_size": BLOCK,
            "problems": list(self.problems.places),
            "versions": list(self.versions.places),
            "reasons": list(self.reasons.places),
            "columns": dict(self.columns),
        }


def pack(source: Source) -> tuple[str, list[str]]:
    """The index and the blocks of a source, each ready to stand in a page."""
    index, blocks, waiting = Index(), [], []
    for row in source.rows:
        parsed = {side: _parsed(row, side) for side in SIDES if row.get(f"{side}_text") is not None}
        index.add(row, parsed)
        waiting.append(texts(row, parsed))
        if len(waiting) == BLOCK:
            blocks.append(squeeze(waiting))
            waiting = []
    if waiting:
        blocks.append(squeeze(waiting))
    return squeeze(index.as_dict(source)), blocks


def squeeze(value: Any) -> str:
    """JSON, gzipped, in base64; the same value gives the same text."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode("ascii")


def texts(row: Row, parsed: dict[str, Parsed]) -> dict[str, Any]:
    """What is read of a bout: [trace, what came after it, detail of the verdict] of both sides, peek and prompt."""
    found: dict[str, Any] = {"peek": row.get("peek"), "prompt": row.get("challenge_prompt")}
    for side, read in parsed.items():
        text = row[f"{side}_text"]
        cut = (text.rfind(CLOSE) + len(CLOSE) if CLOSE in text else 0) if read.closed else len(text)
        found[side] = [text[:cut], text[cut:], row.get(f"{side}_detail") or ""]
    return found


def outcomes(row: Row, parsed: dict[str, Parsed]) -> Iterator[str]:
    """What became of a draft that was challenged; nothing is said where either has no verdict."""
    if row.get("challenge_reason") is None or not (_graded(row, "draft") and _graded(row, "challenge")):
        return
    before, after = _right(row, "draft"), _right(row, "challenge")
    yield {(0, 1): "converted", (1, 0): "regressed", (1, 1): "both right", (0, 0): "both wrong"}[before, after]
    if before != after or (not before and _answer(parsed["draft"]) != _answer(parsed["challenge"])):
        yield "disagree"


def marks(row: Row) -> Iterator[str]:
    """What a reader may want to find again."""
    sides = [side for side in SIDES if row.get(f"{side}_reason") is not None]
    if row.get("peek_leak"):
        yield "leak"
    if row.get("peek") == "":
        yield "empty peek"
    if not all(_graded(row, side) for side in sides):
        yield "infra"
    if any(row.get(f"{side}_finish") == "length" for side in sides):
        yield "cut off"
    if "draft_advantage" in row and all(row[f"{side}_advantage"] is None for side in sides):
        yield "dead"


def _bits(names: tuple[str, ...], found: Iterable[str]) -> int:
    return sum(1 << names.index(name) for name in found)


def _parsed(row: Row, side: str) -> Parsed:
    return parse(Completion(row[f"{side}_text"], "", 0, 0, opened=bool(row.get(f"{side}_opened"))))


def _answer(parsed: Parsed) -> str | None:
    return "".join(parsed.answers[-1].split()) if parsed.answers else None


def _graded(row: Row, side: str) -> bool:
    return row[f"{side}_reason"] not in UNGRADED


def _right(row: Row, side: str) -> bool:
    return bool(row[f"{side}_correct"])


def _short(value: Any) -> Any:
    """A float in as many digits as anybody reads; a number that is not finite is none."""
    if not isinstance(value, float):
        return value
    return None if value != value or abs(value) == float("inf") else round(value, 4)
