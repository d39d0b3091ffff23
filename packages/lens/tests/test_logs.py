"""Logs of many trainers are read without naming their columns."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agon_lens import Columns, Diagnoses, Diagnosis, diagnose, read, view
from agon_lens.cli import main
from agon_lens.errors import LensError
from lens_logs import EXAMPLE, ROOT, jsonl, trl_rows


def one(path: Path, columns: Columns | None = None) -> Diagnosis:
    (found,) = diagnose(path, columns)
    return found


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
    ("text", "place"),
    [
        ("", ""),
        ("{\n", ":1: "),
        ("[1]\n", ":1: "),
        ("\udcff\n", ":1: "),
        ('{"reward": 1}\n', ""),
        ('{"group": 1, "tokens": 3}\n', ""),
        ('{"group": 1, "reward": "much"}\n', ""),
        ('{"group": 1, "reward": 1}\n{"group"\n{"group": 1, "reward": 1}\n', ":2: "),
        ('{"group": 1, "reward": 1}\n{"group"\n', ":2: "),
        ('{"group": 1, "reward": 1}\n{"group": 1, "reward": "much"}\n', ":2: "),
        ('{"group": 1, "rew', ""),
        ('{"group": 1, "reward": Infinity}\n', ":1: "),
        ('{"group": 1, "reward": 1' + "0" * 400 + "}\n", ":1: "),
    ],
)
def test_a_log_that_cannot_be_used_says_why_and_where(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LensError) as error:
        read(path)
    assert f"log.jsonl{place}" in error.value.message or not place
    assert error.value.fix


@pytest.mark.parametrize(
    ("name", "data", "advice"),
    [
        ("log.jsonl", '{"group": 1}'.encode("utf-16"), "iconv -f utf-16 "),
        ("log.jsonl", '{"group": 1}'.encode("utf-16-le"), "iconv -f utf-16le"),
        ("log.csv", "group,reward\n1,2\n".encode("utf-16"), "iconv -f utf-16 "),
        ("log.csv", "group,reward,said\n1,2,é\n".encode("latin1"), "iconv -f latin1"),
        ("log.jsonl", '{"group": "é"}\n'.encode("latin1"), "iconv -f latin1"),
        ("log.jsonl", gzip.compress(b"{}", mtime=0), "gunzip"),
        ("log.jsonl.gz", gzip.compress(b"{}", mtime=0), "gunzip"),
    ],
)
def test_a_file_in_another_encoding_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, name: str, data: bytes, advice: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LensError) as error:
        read(tmp_path / name)
    assert advice in error.value.fix


def test_a_sample_that_unpacks_to_far_more_than_a_sample_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agon_lens.files.SAMPLE_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", " " * 1001)
    with pytest.raises(LensError, match=r"log\.eval:samples/1_epoch_1\.json"):
        read(tmp_path / "log.eval")


@pytest.mark.parametrize(("step", "missing"), [(float("nan"), 7), (None, 7)])
def test_rows_without_a_step_are_a_doubt_about_the_log(tmp_path: Path, step: float | None, missing: int) -> None:
    rows = [{"step": step if k else 1, "prompt": "p", "reward": k % 2} for k in range(8)]
    first, *_ = diagnose(jsonl(tmp_path / "log.jsonl", rows))[0].findings
    assert (first.kind, first.numbers["missing"]) == ("missing steps", missing)


# -- what people pass from Python --------------------------------------------------------------------------------------


class Frame:
    """A DataFrame of polars, as far as it is read."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def to_dicts(self) -> list[dict[str, Any]]:
        return self.rows


def sources(folder: Path) -> dict[str, Any]:
    rows = [{"step": 1, "prompt": f"q{k // 4}", "completion": f"c{k}", "reward": float(k % 3 == 0)} for k in range(8)]
    rows[5]["reward"] = None  # type: ignore[typeddict-item]
    pd, path = pytest.importorskip("pandas"), jsonl(folder / "log.jsonl", rows)
    return {
        "text": str(path),
        "path": path,
        "folder": folder,
        "paths": [str(path)],
        "rows": rows,
        "generator": (row for row in rows),
        "pandas": pd.DataFrame(rows),
        "pandas with an index": pd.DataFrame(rows).sample(frac=1, random_state=0).sort_index(),
        "polars": Frame(rows),
        "pyarrow": pa.Table.from_pylist(rows),
        "logs": read(path),
        "log": read(path)[0],
    }


def test_a_log_is_a_path_rows_or_a_table_and_all_are_diagnosed_alike(tmp_path: Path) -> None:
    found = {name: diagnose(source) for name, source in sources(tmp_path).items()}
    expected = found["path"][0]
    assert (expected.groups, expected.rows, expected.ungraded_rows) == (2, 8, 1)
    for name, each in found.items():
        assert each[0].terms == expected.terms, name
        assert each.dead == expected.dead, name
        assert [finding.kind for finding in each.findings] == [finding.kind for finding in expected.findings], name


def test_numbers_and_arrays_of_numpy_are_those_of_python() -> None:
    np = pytest.importorskip("numpy")
    chat = np.array([{"role": "user", "content": "q"}], dtype=object)
    rows = [{"step": np.int64(1), "prompt": chat, "completion": "c", "reward": np.float32(k % 2)} for k in range(4)]
    (found,) = diagnose(rows)
    assert (found.groups, found.terms[0].mean) == (1, 0.5)


@pytest.mark.parametrize("source", [None, 3, [], [1, 2], [{"reward": 1.0}, 3], {"reward": [1.0]}])
def test_what_is_no_log_is_answered_with_what_is_one(source: object) -> None:
    with pytest.raises(LensError) as refused:
        diagnose(source)
    assert refused.value.fix


def test_a_diagnosis_prints_as_the_command_does_and_is_a_table_in_a_notebook(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = diagnose(EXAMPLE)
    assert main(["diagnose", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out == f"{found}\n" == f"{found!r}\n"
    page = found._repr_html_()
    assert page.count("<table") == 2
    assert "<td>brevity_reward</td>" in page
    assert found.dead_groups == found[0].dead_groups == 12
    two = Diagnoses([*found, *found])
    with pytest.raises(AttributeError, match=r"diagnoses\[0\]\.dead_groups"):
        _ = two.dead_groups


def test_columns_are_named_by_keyword_and_one_name_may_be_text(tmp_path: Path) -> None:
    rows = [{"asked": 1, "paid": k} for k in range(4)]
    assert diagnose(rows, Columns(group="asked", terms="paid")).rows == 4  # type: ignore[arg-type]
    assert diagnose(rows, group="asked", terms=["paid"]).rows == 4
    assert view(rows, tmp_path / "page.html", group="asked", terms="paid").is_file()
    for wrong in ({"tems": ["paid"]}, {"scale": "std"}):
        with pytest.raises(LensError) as refused:
            diagnose(rows, **wrong)  # type: ignore[arg-type]
        assert refused.value.fix


def test_texts_are_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with path.open("w") as file:
        for k in range(200):
            file.write(json.dumps({"prompt": f"q{k // 8}", "completion": str(k) * 100_000, "reward": k % 2}) + "\n")
    tracemalloc.start()
    assert diagnose(path).rows == 200
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 5 * peak


def test_an_incomplete_last_line_is_skipped_and_that_is_said(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log.jsonl", [{"group": 1, "reward": k} for k in range(4)])
    path.write_text(path.read_text() + '{"group": 1, "rew')
    found = one(path)
    assert found.rows == 4
    assert found.notes[0] == "skipped the last line of log.jsonl, line 5: it is incomplete"
    path.write_text(path.read_text().removesuffix('{"group": 1, "rew').removesuffix("\n"))
    assert (one(path).rows, len(one(path).notes)) == (4, 1), "a last line that only lacks its end is whole"


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


TRL = {"step": 1, "prompt": "p", "completion": "c", "advantage": 0.0}
RECOGNISED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "rewards of TRL": (TRL | {"accuracy": 0.5, "think_format": 1.0}, ("accuracy", "think_format")),
    "a reward called correct": (TRL | {"correct": 0.5, "format": 1.0}, ("correct", "format")),
    "a truth value is no reward": (TRL | {"correct": True, "format": 1.0}, ("format",)),
    "a reward called like a gold": (TRL | {"solution": 0.5, "format": 1.0}, ("solution", "format")),
    "a whole number is a gold": (TRL | {"answer": 5_000_000, "reward": 1.0}, ("reward",)),
    "counts are no rewards": (
        TRL | {"accuracy": 0.5, "length_reward": 1, "num_tokens": 9, "length": 4, "epoch": 0.1, "numTurns": 2},
        ("accuracy", "length_reward"),
    ),
    "a log of one's own": ({"prompt": "p", "completion": "c", "format": 0.5, "answer": 1.0}, ("format", "answer")),
    "verl": ({"input": "q", "output": "o", "gts": "4", "score": 1.0, "acc": True, "step": 7}, ("score",)),
    "verl with parts": ({"input": "q", "score": 1.0, "a_reward": 0.5}, ("a_reward",)),
    "a dict of rewards": (
        {"group": 1, "rewards": {"correct": 1, "format": 0.5}},
        ("rewards.correct", "rewards.format"),
    ),
    "a dict of scores": ({"group": 1, "Scores": {"a": 1, "b": None}}, ("Scores.a",)),
}


@pytest.mark.parametrize("case", RECOGNISED)
def test_columns_are_recognised_by_name_and_value_and_told(case: str) -> None:
    row, terms = RECOGNISED[case]
    (found,) = diagnose([row, row])
    assert tuple(term.name for term in found.terms) == terms
    assert all(name in found.notes[0] and "--terms" in found.notes[0] for name in terms)
    assert diagnose([row, row], Columns(terms=terms[:1])).notes == (), "nothing was guessed"


def test_rewards_in_a_dict_that_is_missing_are_ungraded() -> None:
    rows = [{"group": 1, "reward": {"correct": k, "format": 0.5} if k else None} for k in (0, 1, 2, 3)]
    (found,) = diagnose(rows)
    assert {term.name: term.kind for term in found.terms} == {
        "reward.correct": "signal",
        "reward.format": "group-constant",
    }
    assert (found.rows, found.ungraded_rows) == (4, 1)
