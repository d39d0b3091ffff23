"""Bouts on disk: one row per bout, the same columns in training (parquet, one file per step) and evaluation (JSONL).

Columns: docs/rundir.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.formatting import utf8
from agon.game.exchange import leaked
from agon.rundir.files import atomic_replace, check_plain, disk_errors_as, make_folder
from agon.types import (
    BASE,
    BONUS_PARTS,
    OWN_PARTS,
    PARTS,
    Bout,
    Completion,
    Policy,
    Problem,
    Prompt,
    Reason,
    Reward,
    Rollout,
    Verdict,
    Version,
)

FILE = re.compile(r"step_(\d{6,})\.parquet")
OTHER_FILE = "name a run, or a parquet file in its bouts/ (copy it again if it is damaged)"

HEAD = {
    "step": "int64",
    "staleness": "int32",
    "arm": "string",
    "problem_id": "string",
    "question": "string",
    "answer": "string",
    "index": "int32",
    "rival": "int32",
    "drafter": "string",
    "challenger": "string",
}
ROLLOUT = {
    "text": "string",
    "opened": "bool_",
    "version": "string",
    "prompt_tokens": "int32",
    "tokens": "int32",
    "finish": "string",
    "reason": "string",
    "detail": "string",
    "correct": "bool_",
    "well_formed": "bool_",
    "reward": "float64",
    **dict.fromkeys((f"reward_{part}" for part in OWN_PARTS), "float64"),
    "advantage": "float64",
}
SEEN = {"peek": "string", "peek_leak": "bool_", "challenge_prompt": "string"}
BONUS = dict.fromkeys((f"reward_{part}" for part in BONUS_PARTS), "float64")
COLUMNS: dict[str, str] = {
    **HEAD,
    **{f"draft_{name}": kind for name, kind in ROLLOUT.items()},
    **SEEN,
    **{f"challenge_{name}": kind for name, kind in {**ROLLOUT, **BONUS}.items()},
}
"""Every column with the name of its pyarrow type, in order."""
PAID = frozenset(f"{side}_reward_{part}" for side in ("draft", "challenge") for part in PARTS)
"""Columns of parts of a reward: null in files of a run that did not know the part."""


def file_of(folder: Path, step: int) -> Path:
    """Where the bouts of a step stand."""
    return folder / f"step_{step:06d}.parquet"


def files_in(folder: Path) -> dict[int, Path]:
    """The files of bouts in a folder by step, in order; files with other names are not ours."""
    named = ((FILE.fullmatch(path.name), path) for path in folder.glob("step_*"))
    return dict(sorted((int(match.group(1)), path) for match, path in named if match))


def write(folder: Path, step: int, bouts: Sequence[Bout], arm: str, staleness: int = 0) -> Path:
    """Write the bouts of one step atomically; a second write of the same step replaces the first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [row(bout, step=step, staleness=staleness, arm=arm) for bout in bouts]
    table = pa.Table.from_pylist(rows, schema=schema())
    path = file_of(folder, step)
    with disk_errors_as(f"{path.name} was not written"):
        make_folder(folder)
        with atomic_replace(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    return path


def read(files: Sequence[Path], columns: Sequence[str] | None = None) -> Any:
    """The bouts of some files as one pyarrow Table, in the order of the files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(columns or COLUMNS)
    tables = [schema().empty_table().select(names)]
    for path in files:
        check_plain(path)
        try:
            with path.open("rb") as file:  # pyarrow takes no path that is not Unicode
                missing = _missing_columns(path, pq.read_schema(file).names, names)
                present = [name for name in names if name not in missing]
                table = pq.read_table(file, columns=present, partitioning=None)
            for name in missing:
                table = table.append_column(name, pa.nulls(len(table), schema().field(name).type))
            tables.append(table.select(names))
        except (pa.ArrowException, OSError) as error:
            raise RunDirError(f"{path} is not a whole parquet file: {_one_line(error)}", fix=OTHER_FILE) from error
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException as error:
        fix = "name a run, its bouts folder, or one file in it"
        raise RunDirError(f"these are not files of bouts: {error}", fix=fix) from error


def _missing_columns(path: Path, present: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The columns that an older file lacks; a file that lacks any other is refused."""
    missing = [name for name in wanted if name not in present]
    if foreign := [name for name in missing if name not in PAID]:
        message = f"{path} is not a file of bouts: it has no column {', '.join(foreign[:3])}"
        raise RunDirError(message, fix=f"{OTHER_FILE}; the log of a different trainer: agon diagnose {path}")
    return missing


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def schema() -> Any:
    """COLUMNS as a pyarrow schema."""
    import pyarrow as pa

    return pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])


def row(bout: Bout, **head: Any) -> dict[str, Any]:
    """One bout as a row, after the columns in `head`; a column that is not in it is null."""
    draft, challenge = bout.draft, bout.challenge
    values = head | {
        "problem_id": draft.problem.id,
        "question": utf8(draft.problem.question),
        "answer": utf8(draft.problem.answer),
        "index": draft.index,
        "rival": bout.rival,
        "drafter": _who(draft),
    }
    values |= _prefixed("draft_", _rollout(draft))
    if challenge is None:
        return values
    seen = {
        "challenger": _who(challenge),
        "peek": None if bout.peek is None else utf8(bout.peek),
        "peek_leak": None if bout.peek is None else leaked(bout),
        "challenge_prompt": text_of(challenge.prompt),
    }
    return values | seen | _prefixed("challenge_", _rollout(challenge) | _paid(challenge.reward, BONUS_PARTS))


def _who(rollout: Rollout) -> str:
    return rollout.policy.value if rollout.policy else BASE


def _prefixed(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in values.items()}


def _rollout(rollout: Rollout) -> dict[str, Any]:
    completion, verdict, reward = rollout.completion, rollout.verdict, rollout.reward
    return {
        "text": utf8(completion.text),
        "opened": completion.opened,
        "version": completion.version,
        "prompt_tokens": completion.prompt_tokens,
        "tokens": completion.generated_tokens,
        "finish": completion.finish,
        "reason": verdict.reason.value,
        "detail": utf8(verdict.detail),
        "correct": verdict.correct,
        "well_formed": verdict.well_formed,
        "reward": reward.total if reward else None,
        **_paid(reward, OWN_PARTS),
        "advantage": rollout.advantage,
    }


def _paid(reward: Reward | None, parts: Sequence[str]) -> dict[str, float | None]:
    return {f"reward_{part}": getattr(reward, part) if reward else None for part in parts}


def bout_of(row: Mapping[str, Any]) -> Bout:
    """The bout of a row, as far as a reader needs it: prompts, rewards and token ids are not rebuilt."""
    problem = Problem(row["problem_id"], row["question"], row["answer"])
    draft = _rollout_of(row, "draft", row["drafter"], problem)
    challenger = row.get("challenger")
    challenge = None if challenger is None else _rollout_of(row, "challenge", challenger, problem)
    return Bout(draft, challenge, row.get("peek"), row.get("rival"), row.get("other_peek"))


def _rollout_of(row: Mapping[str, Any], stage: str, who: str, problem: Problem) -> Rollout:
    value = {name: row[f"{stage}_{name}"] for name in ROLLOUT if f"{stage}_{name}" in row}
    completion = Completion(
        text=value["text"],
        version=Version(value["version"]),
        prompt_tokens=value["prompt_tokens"],
        generated_tokens=value["tokens"],
        finish=value["finish"],
        opened=value["opened"],
    )
    verdict = Verdict(value["correct"], value["well_formed"], Reason(value["reason"]), value["detail"])
    policy = None if who == BASE else Policy(who)
    seconds = row.get(f"{stage}_seconds") or 0.0
    return Rollout(problem, row["index"], policy, Prompt(()), completion, verdict, seconds=seconds)


def text_of(prompt: Prompt) -> str:
    """A prompt to read: its messages in order, each under its role."""
    return utf8("\n\n".join(f"[{message.role}]\n{message.text}" for message in prompt.messages))
