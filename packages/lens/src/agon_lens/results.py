"""Files of per-problem results: lm-eval, inspect, verifiers, CSV or JSONL as one score per problem and sample."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from agon_lens.columns import is_recognised
from agon_lens.errors import LensError
from agon_lens.lines import LogLines, Survey
from agon_lens.rows import key_of
from agon_lens.texts import plain_text

PROBLEM = (
    "problem", "problem_id", "doc_id", "example_id", "question_id", "task_id", "prompt_id", "id", "question", "prompt",
    "input",
)  # fmt: skip
"""Columns that name a problem, the first that is there."""
WITHIN = ("file", "filter", "seat", "task")
"""Columns that tell problems of one name apart."""
METRIC = ("correct", "is_correct", "acc", "exact_match", "passed", "score", "reward")
"""Columns that hold the score, the first that is there."""
SEED = ("seed", "run_seed")


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one file: samples by problem, for every seed that the file names (None where it names none)."""

    name: str
    by_seed: Mapping[int | str | None, Mapping[Hashable, list[float]]]
    metric: str
    tokens: float | None
    """Mean tokens generated per answer, where the file says it."""
    limit: float | None
    """The limit of tokens per answer, where the file says one and the same for all."""
    truncated: float | None
    """Share of answers that were truncated, where the file says it."""
    ungraded: int
    """Answers without a score, which are left out."""


def read_scores(path: Path, metric: str | None = None, where: Mapping[str, str] | None = None) -> Scores:
    """The scores in a file or folder: of the rows that have these values, by the metric of that name."""
    lines = LogLines([path])
    wanted = _metric(lines.survey, metric, path)
    names = lines.survey.names
    if (problem := next((name for name in PROBLEM if name in names), None)) is None:
        fix = f"name the column of problems one of: {', '.join(PROBLEM[:6])}"
        raise LensError(f"{path} has no column that names the problem", fix=fix)
    if missing := [name for name in where or {} if name not in names]:
        raise LensError(f"{path} has no column {missing[0]}", fix=f"choose among its columns: {', '.join(names)}")
    seed = next((name for name in SEED if name in names), None)
    fixed = {*(where or {}), *(("file",) if len(lines.files) == 1 else ())}  # a renamed file holds the same problems
    within = [name for name in WITHIN if name in names and name not in fixed]
    found = defaultdict[int | str | None, dict[Hashable, list[float]]](lambda: defaultdict(list))
    tokens, limits, cut, ungraded = list[float](), set[float](), list[bool](), 0
    seen = defaultdict[str, set[str]](set)
    for line in lines:
        if any(plain_text(line.get(name)) != value for name, value in (where or {}).items()):
            continue
        for name in within:
            seen[name].add(plain_text(line.get(name)))
        value = line.get(wanted)
        if not isinstance(value, int | float) or value != value:
            ungraded += 1
            continue
        key = tuple(key_of(line.get(name)) for name in (problem, *within))
        found[line.get(seed) if seed else None][key].append(float(value))
        if isinstance(used := line.get("tokens"), int | float):
            tokens.append(used)
        if isinstance(limit := line.get("limit"), int | float):
            limits.add(limit)
        if isinstance(line.get("truncated"), bool):
            cut.append(bool(line["truncated"]))
    if not found:
        chosen = " ".join(f"{name}={value}" for name, value in (where or {}).items())
        raise LensError(f"{path} has no row with a number in {wanted} {chosen}".rstrip(), fix="choose other values")
    if len(seen.get("filter", ())) > 1:  # the same answers, scored twice
        one = sorted(seen["filter"])[0]
        message = f"{path} scores every answer by several filters: {', '.join(sorted(seen['filter']))}"
        raise LensError(message, fix=f"choose one: --where filter={one}")
    return Scores(
        name=path.stem if path.is_file() else path.name,
        by_seed={each: dict(problems) for each, problems in found.items()},
        metric=wanted,
        tokens=fmean(tokens) if tokens else None,
        limit=limits.pop() if len(limits) == 1 else None,
        truncated=fmean(cut) if cut else None,
        ungraded=ungraded,
    )


def _metric(survey: Survey, metric: str | None, path: Path) -> str:
    """The column of scores: as named, or the only one that can be meant."""
    numbers = [name for name in survey.names if name in survey.numeric]
    if metric is not None:
        named = [name for name in numbers if name in (metric, f"score.{metric}", f"reward.{metric}")]
        if not named:
            raise LensError(
                f"{path} has no column of numbers named {metric}", fix=f"choose among: {', '.join(numbers)}"
            )
        return named[0]
    known = next((name for name in METRIC if name in numbers), None)
    whole = survey.format is None or "total" in survey.format.columns or "terms" in survey.format.columns
    if known and whole:
        return known
    scores = [name for name in numbers if name.startswith(("score.", "reward."))]
    if len(scores) == 1:
        return scores[0]
    named = scores or [name for name in numbers if not is_recognised(name)]
    fix = f"name it: --metric NAME, one of {', '.join(name.partition('.')[2] or name for name in named)}"
    raise LensError(f"{path} has {'several scores' if scores else 'no score that is known by its name'}", fix=fix)


def samples_per_problem(scores: Mapping[Hashable, list[float]]) -> int:
    """The usual number of samples."""
    ((size, _),) = Counter(map(len, scores.values())).most_common(1)
    return size
