"""Small groups of rewards, and logs as TRL and verl write them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agon_lens import RewardRow
from agon_lens.groups import Group

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "grpo_log.jsonl"
ALIVE = (RewardRow((2.0, 0.5), 2.5, True, False), RewardRow((0.0, 0.0), 0.0, False, False))


def rows(*terms: tuple[float, ...], correct: bool | None = None, truncated: bool | None = None) -> Group:
    return tuple(RewardRow(paid, sum(paid), correct, truncated) for paid in terms)


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trl_rows(step: int, question: str, accuracy: list[float], format_: list[float]) -> list[dict[str, Any]]:
    """Rows as TRL 1.16 writes them with log_completions: unweighted rewards, NaN where a function gave None."""
    known = [a + f for a, f in zip(accuracy, format_, strict=True) if not math.isnan(a)]
    mean = sum(known) / len(known)
    std = (sum((value - mean) ** 2 for value in known) / (len(known) - 1)) ** 0.5
    prompt = [{"role": "user", "content": question}]
    return [
        {
            **{"step": step, "prompt": prompt, "completion": [{"role": "assistant", "content": f"try {i}"}]},
            **{"accuracy_reward": a, "think_format": f},
            "advantage": 0.0 if math.isnan(a) else (a + f - mean) / (std + 1e-4),
        }
        for i, (a, f) in enumerate(zip(accuracy, format_, strict=True))
    ]


def trl(folder: Path) -> Path:
    """A folder as TRL leaves it, with prompts as chat messages."""
    (folder / "completions").mkdir(parents=True)
    for step in (1, 2):
        rows = trl_rows(step, "What is 1 + 1?", [1, 0], [1, 1]) + trl_rows(step, "What is 2 + 2?", [0, 0], [0, 0])
        pq.write_table(pa.Table.from_pylist(rows), folder / "completions" / f"completions_{step:05d}.parquet")
    return folder


def verl(folder: Path, steps: tuple[int, ...] = (9, 10)) -> Path:
    """A folder as verl leaves it: one file per step, named by its number."""
    folder.mkdir()
    for step in steps:
        asked = [f"system\nBe brief.\nuser\nWhat is {n} + {n}?\nassistant\n" for n in (1, 2)]
        rows = [
            {"input": text, "output": f"try {k}", "gts": "2", "score": float(k), "step": step}
            for text in asked
            for k in range(2)
        ]
        jsonl(folder / f"{step}.jsonl", rows)
    return folder
