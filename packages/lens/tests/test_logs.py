"""Logs of many trainers are read without naming their columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agon_lens import Columns, Diagnosis, diagnose, read, read_rollouts
from agon_lens.errors import LensError
from lens_logs import EXAMPLE, ROOT, jsonl, trl_rows


def one(path: Path, columns: Columns | None = None) -> Diagnosis:
    (log,) = read(path, columns)
    return diagnose(log)


def test_a_trl_completions_folder_is_understood(tmp_path: Path) -> None:
    (tmp_path / "completions").mkdir()
    for step in (1, 2):
        rows = trl_rows(step, "one", [1, 0, 1, 0], [1, 1, 1, 1]) + trl_rows(step, "two", [0, 0, 0, 0], [0, 0, 0, 0])
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "completions" / f"completions_{step:05d}.parquet")
    found = one(tmp_path)
    assert (found.groups, found.rows, found.group_sizes) == (4, 16, (4, 4))
    assert found.advantages_agree
    assert [(term.name, term.kind) for term in found.terms] == [
        ("accuracy_reward", "signal"),
        ("think_format", "group-constant"),
    ]
    assert found.dead == {"floored": 2}


def repeated(sizes: list[int]) -> list[dict[str, Any]]:
    """Rows of TRL in one step, of groups of these sizes; a size above 4 is one prompt whose groups of 4 follow."""
    rows = []
    for n, size in enumerate(sizes):
        for part in range(0, size, 4):
            right, form = [1.0, 0.0, 1.0, 0.0], [0.5, 0.5, float(part == 0), 0.5]
            rows += trl_rows(1, f"question {n}", right[:size], form[:size])
    return rows


def test_a_prompt_that_occurs_twice_in_a_step_is_two_groups(tmp_path: Path) -> None:
    found = one(jsonl(tmp_path / "log.jsonl", repeated([4, 8, 4, 12, 4])))
    assert (found.groups, found.group_sizes) == (8, (4, 4))
    assert found.advantages_agree, "it would be false of a group of 8"
    assert "2 prompts" in found.notes[-1]
    assert "groups of 4" in found.notes[-1]


def test_repeats_that_cannot_be_told_from_groups_of_other_sizes_are_only_said(tmp_path: Path) -> None:
    found = one(jsonl(tmp_path / "log.jsonl", repeated([4, 8, 4, 3, 4])))
    assert (found.groups, found.group_sizes) == (5, (3, 8))
    assert "1 group of a multiple of the usual 4 rows" in found.notes[-1]
    assert "--group" in found.notes[-1]


def test_a_column_that_names_groups_is_never_split(tmp_path: Path) -> None:
    rows = [row | {"uid": row["prompt"][0]["content"]} for row in repeated([4, 8, 4])]
    found = one(jsonl(tmp_path / "log.jsonl", rows))
    assert (found.groups, found.group_sizes) == (3, (4, 8))


def test_a_row_that_no_reward_function_scored_is_ungraded(tmp_path: Path) -> None:
    nan = float("nan")
    rows = trl_rows(1, "one", [1, 0, nan, nan], [1, 1, nan, nan])
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    found = one(tmp_path / "log.parquet")
    assert found.ungraded_rows == 2
    assert found.dead_groups == 0


def test_weights_that_trl_does_not_log_are_missed_and_can_be_given(tmp_path: Path) -> None:
    rows = trl_rows(1, "one", [1, 0, 1, 0], [1, 1, 0, 0])
    for row in rows:
        row["accuracy_reward"] *= 2
    path = jsonl(tmp_path / "log.jsonl", rows)
    assert one(path).advantages_agree is False
    assert one(path, Columns(weights={"accuracy_reward": 0.5})).advantages_agree is True


def test_a_reward_that_says_what_is_right_stays_a_reward(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", trl_rows(1, "one", [1, 0, 1, 0], [1, 1, 0, 0]))
    found = one(path, Columns(correct="accuracy_reward"))
    assert "accuracy_reward" in {term.name for term in found.terms}
    assert found.advantages_agree


def test_a_verl_rollout_dump_is_understood(tmp_path: Path) -> None:
    rows = [
        {
            "input": q,
            "output": str(i),
            "gts": "4",
            "score": float(i == 0 and q == "one"),
            "step": 7,
            "acc": i == 0 and q == "one",
        }
        for q in ("one", "two")
        for i in range(4)
    ]
    jsonl(tmp_path / "7.jsonl", rows)
    found = one(tmp_path)
    assert found.groups == 2
    assert [term.name for term in found.terms] == ["score"]
    assert found.dead == {"all wrong": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("{\n", "log.jsonl:1 is not JSON"),
        ("[1]\n", "log.jsonl:1 is not a JSON object"),
        ("\udcff\n", "log.jsonl:1 is not valid UTF-8"),
        ('{"reward": 1}\n', "no group column"),
        ('{"group": 1, "tokens": 3}\n', "no reward column"),
        ('{"group": 1, "reward": "much"}\n', "not a number"),
        ('{"group": 1, "reward": 1}\n{"group"\n{"group": 1, "reward": 1}\n', "log.jsonl:2 is not JSON"),
        ('{"group": 1, "reward": 1}\n{"group"\n', "log.jsonl:2 is not JSON"),
        ('{"group": 1, "rew', "holds no rows: skipped the last line"),
        ('{"group": 1, "reward": Infinity}\n', "beyond 1e.100"),
        ('{"group": 1, "reward": 1' + "0" * 400 + "}\n", "beyond 1e.100"),
    ],
)
def test_a_log_that_cannot_be_used_says_why(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LensError, match=message) as error:
        read(path)
    assert error.value.fix


def test_an_incomplete_last_line_is_skipped_and_that_is_said(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", [{"group": 1, "reward": k} for k in range(4)])
    path.write_text(path.read_text() + '{"group": 1, "rew')
    found = one(path)
    assert found.rows == 4
    assert found.notes[0] == "skipped the last line of log.jsonl, line 5: it is incomplete"
    path.write_text(path.read_text().removesuffix('{"group": 1, "rew').removesuffix("\n"))
    assert (one(path).rows, len(one(path).notes)) == (4, 1), "a last line that only lacks its end is whole"


def test_columns_that_were_guessed_are_named_with_the_option_that_changes_them(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "prompt": "p", "completion": "c", "accuracy": k, "length_reward": k, "num_tokens": 9, "length": k}
        | {"epoch": 0.1, "numTurns": k, "completion_length": 3}
        for k in range(4)
    ]
    path = jsonl(tmp_path / "log.jsonl", rows)
    found = one(path)
    assert [term.name for term in found.terms] == ["accuracy", "length_reward"]
    left = "num_tokens, length, epoch, numTurns, completion_length"
    assert found.notes == (f"taken as rewards: accuracy, length_reward; not: {left} (name others with --terms)",)
    assert one(path, Columns(terms=("length",))).notes == ()
    verl = jsonl(tmp_path / "verl.jsonl", [{"input": "p", "score": k, "a_reward": k} for k in range(2)])
    assert one(verl).notes == ("taken as rewards: a_reward; total: score (name others with --terms and --total)",)


@pytest.mark.parametrize("column", ["reward", "rewards", "score", "Scores"])
def test_rewards_in_a_dict_are_terms(tmp_path: Path, column: str) -> None:
    rows = [{"group": 1, column: {"correct": k, "format": 0.5} if k else None} for k in (0, 1, 2, 3)]
    found = one(jsonl(tmp_path / "log.jsonl", rows))
    assert {term.name: term.kind for term in found.terms} == {
        f"{column}.correct": "signal",
        f"{column}.format": "group-constant",
    }
    assert (found.rows, found.ungraded_rows) == (4, 1)


def test_a_dict_of_other_numbers_is_named_by_its_parts(tmp_path: Path) -> None:
    rows = [{"group": {"id": "a"}, "metrics": {"correct": k, "words": 3}} for k in (0, 1)]
    path = jsonl(tmp_path / "log.jsonl", rows)
    with pytest.raises(LensError, match="no reward column") as error:
        read(path)
    assert "columns of numbers: metrics.correct, metrics.words" in error.value.fix
    assert [term.name for term in one(path, Columns(terms=("metrics.correct",))).terms] == ["metrics.correct"]


@pytest.mark.parametrize("value", [[1.0, 0.5], {"correct": 1.0, "why": "equal"}])
@pytest.mark.parametrize("column", ["reward", "rewards"])
def test_rewards_without_names_are_refused_with_what_to_log(tmp_path: Path, column: str, value: object) -> None:
    with pytest.raises(LensError, match=rf"column {column} holds .*not a number") as error:
        read(jsonl(tmp_path / "log.jsonl", [{"group": 1, column: value}] * 2))
    assert '{"correct": 1.0, "format": 0.5}' in error.value.fix


def test_a_step_that_is_no_number_is_no_step(tmp_path: Path) -> None:
    rows = [{"step": step, "uid": 1, "reward": k} for k, step in enumerate(["x", 10**400, float("inf"), True, 3])]
    (log,) = read(jsonl(tmp_path / "log.jsonl", rows))
    assert log.steps == (None, None, None, None, 3.0)


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    lines = [{"group": 1, "reward": reward, "output": "one\u2028two\x85three"} for reward in (0, 1)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    assert one(path).rows == 2


def test_a_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(LensError, match="no column named reward") as error:
        read(EXAMPLE, Columns(terms=("reward",)))
    assert "accuracy_reward" in error.value.fix


def test_the_example_log_is_what_its_script_writes(tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__file__": str(tmp_path / "make_grpo_log.py"), "__name__": "example"}
    exec((ROOT / "examples" / "make_grpo_log.py").read_text(), namespace)  # noqa: S102
    namespace["main"]()
    assert (tmp_path / "grpo_log.jsonl").read_text() == EXAMPLE.read_text()


def test_a_reward_of_trl_that_is_called_correct_is_a_reward(tmp_path: Path) -> None:
    rows = trl_rows(1, "one", [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0])
    named = [{name.replace("accuracy_reward", "correct"): value for name, value in row.items()} for row in rows]
    (log,) = read(jsonl(tmp_path / "log.jsonl", named))
    found = diagnose(log)
    assert "correct" in {term.name for term in found.terms}
    assert found.advantages_agree
    for row in named:  # a truth value is a remark of log_extra
        row["correct"] = bool(row["correct"])
    assert "correct" not in read(jsonl(tmp_path / "flag.jsonl", named))[0].terms


@pytest.mark.parametrize("column", ["answer", "ground_truth", "target"])
def test_a_gold_that_is_a_number_is_no_reward(tmp_path: Path, column: str) -> None:
    rows = [
        {
            "step": 1,
            "prompt": f"q{k // 4}",
            "completion": f"try {k}",
            column: 5_000_000 + k // 4,
            "reward": float(k % 2),
        }
        for k in range(12)
    ]
    (log,) = read(jsonl(tmp_path / "log.jsonl", rows))
    assert log.terms == ("reward",)
    assert not diagnose(log).dead_groups
    assert read_rollouts(tmp_path / "log.jsonl").texts[1].gold == "5000001"


def test_a_reward_of_trl_that_is_called_like_a_gold_is_a_reward(tmp_path: Path) -> None:
    rows = trl_rows(1, "one", [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0])
    named = [{name.replace("accuracy_reward", "solution"): value for name, value in row.items()} for row in rows]
    assert "solution" in read(jsonl(tmp_path / "log.jsonl", named))[0].terms


def test_a_reward_of_ones_own_log_that_is_called_like_a_gold_is_a_reward(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"q{k // 4}", "completion": f"try {k}", "format": float(k % 2), "answer": float(k % 3 == 0)}
        for k in range(12)
    ]
    assert read(jsonl(tmp_path / "log.jsonl", rows))[0].terms == ("format", "answer")
