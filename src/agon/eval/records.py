"""Trials on disk: one JSON line per trial, with every stage's text, verdict, tokens and latency.

A line is written whole by one call, so that a killed evaluation leaves at most one torn line, which is no line. Trials
are named by problem and sample: a continued evaluation asks for those that are not there, and for no other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import RunDirError
from agon.eval.cascade import Drawn, Trial, Turn
from agon.game.peek import leaks
from agon.rundir.bouts import utf8
from agon.rundir.files import sync, telling, write_all
from agon.types import Completion, Problem, Reason, Verdict

Record = Mapping[str, Any]
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Records:
    """A file of trials of one system."""

    path: Path

    def read(self) -> list[dict[str, Any]]:
        """Every whole record, in the order they were written; the first of two with one name counts."""
        lines = self._whole().splitlines()
        found: dict[Key, dict[str, Any]] = {}
        for number, line in enumerate(lines, 1):
            record = self._parse(line, number)
            found.setdefault(key(record), record)
        return list(found.values())

    def append(self, trials: Sequence[Trial], system: str) -> list[dict[str, Any]]:
        """Add trials in one call; return their records."""
        records = [record_of(trial, system) for trial in trials]
        data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
        with telling(f"a trial was not written to {self.path.name}"):
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                write_all(fd, data)
            finally:
                os.close(fd)
        return records

    def mend(self) -> None:
        """Cut a torn last line; only the one process that writes may call this."""
        if self.path.exists():
            os.truncate(self.path, len(self._whole()))

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self.path.exists():
            sync(self.path)

    def _whole(self) -> bytes:
        data = self.path.read_bytes() if self.path.exists() else b""
        return data[: data.rfind(b"\n") + 1]

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            record = json.loads(line)
            key(record)
            return dict(record)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            fix = f"delete that line of {self.path}: its trial is held again"
            raise RunDirError(f"{self.path.name} line {number} is damaged", fix=fix) from error


def key(record: Record) -> Key:
    """What names a trial: its problem and its sample."""
    return str(record["problem"]), int(record["sample"])


def record_of(trial: Trial, system: str) -> dict[str, Any]:
    """A trial as plain values; stages that it does not have are left out."""
    problem = trial.problem
    record: dict[str, Any] = {
        "system": system,
        "problem": problem.id,
        "sample": trial.sample,
        "question": utf8(problem.question),
        "answer": utf8(problem.answer),
    }
    if trial.draft is not None:
        record |= {"draft": _turn(trial.draft), "peek": utf8(trial.peek or "")}
        record["leak"] = leaks(trial.peek or "", problem.answer)
    if trial.other_peek is not None:
        record["other_peek"] = utf8(trial.other_peek)
        record["leak"] = record["leak"] or leaks(trial.other_peek, problem.answer)
    return record | {"final": _turn(trial.final)}


def _turn(turn: Turn) -> dict[str, Any]:
    completion, verdict = turn.completion, turn.verdict
    return {
        "policy": turn.seat.policy.value if turn.seat.policy else None,
        "version": completion.version,
        "text": utf8(completion.text),
        "opened": completion.opened,
        "finish": completion.finish,
        "prompt_tokens": completion.prompt_tokens,
        "tokens": completion.generated_tokens,
        "seconds": round(turn.seconds, 3),
        "correct": verdict.correct,
        "well_formed": verdict.well_formed,
        "reason": verdict.reason.value,
        "detail": utf8(verdict.detail),
    }


def first_stage(record: Record) -> tuple[Drawn, Verdict]:
    """The answer to the plain prompt that a record holds, with its verdict, to be used again."""
    turn = record.get("draft") or record["final"]
    completion = Completion(
        turn["text"], turn["version"], turn["prompt_tokens"], turn["tokens"], turn["finish"], turn["opened"]
    )
    verdict = Verdict(turn["correct"], turn["well_formed"], Reason(turn["reason"]), turn["detail"])
    return (completion, turn["seconds"]), verdict


def graded(turn: Record) -> bool:
    """False when a machine failed rather than the completion."""
    return Verdict(turn["correct"], turn["well_formed"], Reason(turn["reason"])).graded


def of_problems(records: Iterable[Record], problems: Sequence[Problem], trials: int) -> list[Record]:
    """The records of these problems, the first `trials` of each, in the order of the problems."""
    place = {problem.id: n for n, problem in enumerate(problems)}
    kept = [record for record in records if record["problem"] in place and record["sample"] < trials]
    return sorted(kept, key=lambda record: (place[record["problem"]], record["sample"]))
