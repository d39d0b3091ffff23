"""Presets: published problem sets at a pinned revision, with the rule that turns their rows into problems.

A preset loads from the Hub through `datasets`, or from a local copy (a file, or a folder laid out as on the Hub), and
reads only the columns it needs. The paper names the sets and the two filters marked so; the other rules are ours:

    deepmath-hard       difficulty 8.0, binary answers removed (paper); what counts as binary: `is_binary`
    gsm8k, gsm8k-test   gold after the last ####, thousands separators removed
    math-500            as published
    codecontests-easy   difficulty EASY (paper); what tests can judge: `code_contests.py`

A row that lacks what the published schema promises is left out and counted; past 1% of rows the data is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.data.code_contests import COLUMNS, EASY, code_problem
from agon.data.local import LeftOut, Numbered, RawRow, collect, files, rows
from agon.data.normalise import gold_text, make_problem, question_text
from agon.data.split import ProblemPool
from agon.doors import door, places
from agon.errors import DataError, install
from agon.types import Problem

if TYPE_CHECKING:
    from agon.config import Scalar

UNUSABLE_SHARE = 0.01
BINARY = ("yes", "no", "true", "false", "correct", "incorrect")
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boxed)\s*\{([^{}]*)\}")
_SIGNS = re.compile(r"[$\\()\[\]{}*\"]")
_BINARY = re.compile(rf"(?:{'|'.join(BINARY)})(?:\s*[.!]?|\s*[,;:].*)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3})")


@dataclass(frozen=True, slots=True)
class Preset:
    """A data set on the Hub and the rule that turns rows into problems; `difficulty` keeps that difficulty alone."""

    hub_id: str
    revision: str
    split: str
    columns: tuple[str, ...]
    problem: Callable[[RawRow], Problem | LeftOut]
    config: str | None = None
    difficulty: float | None = None
    parquet: bool = True
    size: int | None = None
    """Problems after the rule, where we have counted them: `agon plan` needs no download to know."""


def is_binary(gold: str) -> bool:
    """Whether a gold is yes, no, true, false, correct or incorrect, bare or wrapped, or begins with one and a comma."""
    bare, before = gold, ""
    while bare != before:
        bare, before = _WRAPPER.sub(r"\1", bare), bare
    return _BINARY.fullmatch(_SIGNS.sub("", bare).strip().casefold()) is not None


def deepmath_problem(row: RawRow) -> Problem | LeftOut:
    """A binary answer is left out: guessing would be right half the time."""
    gold = gold_text(row["final_answer"])
    return "with a binary answer" if is_binary(gold) else make_problem(question_text(row["question"]), gold)


def gsm8k_problem(row: RawRow) -> Problem:
    solution = gold_text(row["answer"])
    if "####" not in solution:
        raise ValueError("answer has no ####")
    gold = gold_text(solution.rpartition("####")[2])
    return make_problem(question_text(row["question"]), _SEPARATOR.sub("", gold))


def math_500_problem(row: RawRow) -> Problem:
    meta = {"unique_id": row["unique_id"]}
    return make_problem(question_text(row["problem"]), gold_text(row["answer"]), meta)


# The revisions are the commits that public code pins for these data sets.
GSM8K = Preset(
    hub_id="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    config="main",
    split="train",
    columns=("question", "answer"),
    problem=gsm8k_problem,
    size=7473,
)

PRESETS: dict[str, Preset] = {
    "deepmath-hard": Preset(
        hub_id="zwhe99/DeepMath-103K",
        revision="5cf055d1fe3d7a2eb19719ac020211469736ae44",
        split="train",
        columns=("question", "final_answer", "difficulty"),
        problem=deepmath_problem,
        difficulty=8.0,
    ),
    "gsm8k": GSM8K,
    "gsm8k-test": replace(GSM8K, split="test", size=1319),
    "math-500": Preset(
        hub_id="HuggingFaceH4/MATH-500",
        revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
        split="test",
        columns=("problem", "answer", "unique_id"),
        problem=math_500_problem,
        parquet=False,
        size=500,
    ),
    "codecontests-easy": Preset(
        hub_id="deepmind/code_contests",
        revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
        split="train",
        columns=COLUMNS,
        problem=code_problem,
        difficulty=EASY,
    ),
}


def read_preset(name: str, path: str | None, options: Mapping[str, Scalar]) -> ProblemPool:
    """The problems of a preset, from the Hub or from a local copy."""
    preset = _known(name)
    if unknown := sorted(set(options) - {"revision"}):
        raise DataError(f"preset {name} has no option {', '.join(unknown)}", fix="its only option is revision")
    revision = None if path else _commit(str(options.get("revision", preset.revision)))
    numbered = _local_rows(preset, path) if path else _hub_rows(preset, revision)
    origin = f"{name} in {path}" if path else f"{name} ({preset.hub_id})"

    def problem(row: RawRow) -> Problem | LeftOut:
        if preset.difficulty is not None and row["difficulty"] != preset.difficulty:
            return "of a different difficulty"
        return preset.problem(row)

    return collect(numbered, problem, origin=origin, revision=revision, allowed=UNUSABLE_SHARE)


def _known(name: str) -> Preset:
    if preset := PRESETS.get(name):
        return preset
    if name in (added := places("agon.presets")):
        found: Preset = door("agon.presets", name)
        return found
    near = difflib.get_close_matches(name, [*PRESETS, *added], n=1)
    known = ", ".join([*PRESETS, *added, "tabletop", "reasoning-gym:TASK"])
    raise DataError(f"unknown preset {name!r}", fix=f"did you mean {near[0]}?" if near else f"use one of: {known}")


def _commit(revision: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise DataError(f"revision {revision} is not a commit", fix="give its 40 hex digits: a branch or tag can move")
    return revision


def _local_rows(preset: Preset, path: str) -> Numbered:
    folder = Path(path)
    if preset.config and (folder / preset.config).is_dir():
        folder = folder / preset.config
    return rows(files(folder, preset.split), preset.columns)


def _hub_rows(preset: Preset, revision: str | None) -> Numbered:
    """Rows of the Hub's data set; rows of a different difficulty are never decoded, as a row of tests can be large."""
    table = _hub_table(preset, revision)
    for index, difficulty in enumerate(table["difficulty"] if preset.difficulty is not None else [None] * len(table)):
        yield str(index + 1), table[index] if difficulty == preset.difficulty else {"difficulty": difficulty}


def _hub_table(preset: Preset, revision: str | None) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise DataError("presets need the datasets package", fix=install("data")) from error
    only = {"columns": list(preset.columns)} if preset.parquet else {}
    try:
        table = datasets.load_dataset(preset.hub_id, preset.config, split=preset.split, revision=revision, **only)
        return table.select_columns(list(preset.columns))
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise DataError(
            f"cannot load {preset.hub_id} at {revision}: {reason}",
            fix="connect once to fill the cache, or name a local copy: path beside preset",
        ) from error
