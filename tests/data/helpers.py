"""Small sources that the tests of this folder share: files, and data sets of the published schemas, written by us."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agon.config import Data, Source
from agon.data.normalise import make_problem
from agon.types import Completion, Problem, Reason, Verdict

ROOT = Path(__file__).resolve().parents[2]
REAL = Path(os.environ.get("AGON_DATA") or ROOT.parent / "shared" / "data")
NO_REAL_DATA = f"the real GSM8K and MATH-500 rows are not in {REAL.name}; set AGON_DATA"

Rows = Iterable[Mapping[str, Any]]


def write_jsonl(path: Path, rows: Rows) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_parquet(path: Path, rows: Rows) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return str(path)


def numbered(count: int, start: int = 0) -> list[Problem]:
    """Problems that have nothing in common but their first words."""
    return [make_problem(f"How much is {n} plus {n * n}?", str(n + n * n)) for n in range(start, start + count)]


def rows_of(problems: Iterable[Problem]) -> list[dict[str, str]]:
    return [{"question": problem.question, "answer": problem.answer} for problem in problems]


def data(train: Source, dev: Source, held_out: Source, seed: int = 0) -> Data:
    return Data(train=train, dev=dev, held_out=held_out, split_seed=seed)


def one_file(path: str, *, train: int | None, dev: int | None, held_out: int | None, seed: int = 0) -> Data:
    """Three splits of one file."""
    sizes = (train, dev, held_out)
    return data(*(Source(path=path, take=take) for take in sizes), seed=seed)


def deepmath_rows() -> list[dict[str, Any]]:
    """DeepMath-103K's columns; three usable rows of difficulty 8."""

    def row(question: str, answer: str, difficulty: float) -> dict[str, Any]:
        solutions = {f"r1_solution_{n}": "long" for n in (1, 2, 3)}
        return {"question": question, "final_answer": answer, "difficulty": difficulty, "topic": "Algebra"} | solutions

    return [
        row("Evaluate the limit of n sin(1/n).", "1", 8.0),
        row("Find the order of the group.", r"\frac{7}{2}", 8.0),
        row("How many solutions are there?", "No solution", 8.0),
        row("Is the group abelian?", "Yes", 8.0),
        row("Is the ring a field?", r"$\text{False}$.", 8.0),
        row("Does it converge?", "No, because it oscillates", 8.0),
        row("An easier one.", "5", 7.5),
        row("A harder one.", "6", 8.5),
    ]


def code_row(**changes: Any) -> dict[str, Any]:
    """One row of CodeContests' columns that is usable as it stands."""
    row = {
        "name": "1_A. Sum",
        "description": "Read two numbers and print their sum.",
        "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
        "private_tests": {"input": ["5 5\n"], "output": ["10\n"]},
        "generated_tests": {"input": ["0 0\n"], "output": ["0\n"]},
        "source": 2,
        "difficulty": 1,
        "solutions": {"language": [3], "solution": ["print(sum(map(int, input().split())))"]},
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 256_000_000,
        "input_file": "",
        "output_file": "",
    }
    return row | changes


class Exact:
    """A verifier that accepts the gold word for word, and no gold that begins with a question mark."""

    closed = False

    def verify_many(self, pairs: Sequence[tuple[Problem, Completion]]) -> list[Verdict]:
        return [self._verdict(problem, completion) for problem, completion in pairs]

    def _verdict(self, problem: Problem, completion: Completion) -> Verdict:
        if problem.answer.startswith("?"):
            return Verdict(False, True, Reason.BAD_GOLD, "not a number")
        right = f"<answer>{problem.answer}</answer>" in completion.text
        return Verdict(right, True, Reason.CORRECT if right else Reason.WRONG)

    def close(self) -> None:
        self.closed = True
