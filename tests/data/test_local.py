"""Local files: one meaning for three formats, and a refusal that names the rows."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agon.config import Source
from agon.data import load, read
from agon.errors import DataError
from tests.data.helpers import numbered, rows_of, write_jsonl, write_parquet


def refusal(path: Path | str, **columns: str) -> DataError:
    with pytest.raises(DataError) as caught:
        read(Source(path=str(path), columns=columns))
    assert caught.value.fix
    return caught.value


def test_jsonl_parquet_and_csv_give_the_same_problems(tmp_path: Path) -> None:
    rows = rows_of(numbered(5))
    csv = tmp_path / "a.csv"
    csv.write_text("question,answer\n" + "".join(f"{row['question']},{row['answer']}\n" for row in rows))
    paths = [write_jsonl(tmp_path / "a.jsonl", rows), write_parquet(tmp_path / "a.parquet", rows), str(csv)]
    first, *others = [load(Source(path=path)) for path in paths]
    assert len(first) == 5
    assert all(problems == first for problems in others)


def test_a_column_map_names_question_answer_and_meta_and_the_rest_is_ignored(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"problem": "q", "gold": 4, "level": 3, "noise": {"x": [1]}}])
    columns = {"question": "problem", "answer": "gold", "level": "level"}
    (problem,) = load(Source(path=path, columns=columns))
    assert (problem.question, problem.answer, problem.meta) == ("q", "4", {"level": 3})


def test_bad_rows_are_listed_by_reason_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        '{"question": "q", "answer": null}',
        "",
        '{"question": "q"}',
        "[1]",
        "{oops",
        '{"question": "a", "answer": NaN}',
    ]
    path.write_text("\n".join([*lines, '{"question": "q", "answer": null}']))
    message = refusal(path).message
    assert message.startswith("6 of 6 rows")
    for reason in (
        "null: rows 1, 7",
        "no field answer (it has question): row 3",
        "not a JSON object: row 4",
        "JSON: row 5",
    ):
        assert reason in message
    assert "answer is nan: row 6" in message


def test_a_long_list_of_bad_rows_is_cut(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": "", "answer": 1}] * 500)
    assert "rows 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 490 more" in refusal(path).message


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    plain, windows = tmp_path / "plain", tmp_path / "windows"
    for folder, mark, end in ((plain, "", "\n"), (windows, "\ufeff", "\r\n")):
        folder.mkdir()
        (folder / "a.jsonl").write_bytes((mark + '{"question": "q", "answer": "1"}' + end).encode())
        (folder / "a.csv").write_bytes((mark + "question,answer" + end + "q2,2" + end).encode())
    for name in ("a.jsonl", "a.csv"):
        assert load(Source(path=str(plain / name))) == load(Source(path=str(windows / name)))


def test_a_line_separator_inside_a_question_does_not_end_the_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question": "one\u2028two\x85three", "answer": "1"}\n', encoding="utf-8")
    assert load(Source(path=str(path)))[0].question == "one\u2028two\x85three"


def test_invalid_utf8_is_reported_with_its_line(tmp_path: Path) -> None:
    jsonl, csv = tmp_path / "a.jsonl", tmp_path / "a.csv"
    jsonl.write_bytes(b'{"question": "q", "answer": "1"}\n{"question": "\xff", "answer": "1"}\n')
    csv.write_bytes(b"question,answer\nq,1\n\xff,2\n")
    assert "not valid UTF-8: row 2" in refusal(jsonl).message
    assert "not valid UTF-8: line 3" in refusal(csv).message
    for path in (jsonl, csv):
        assert f"iconv -f latin1 -t utf-8 {path}" in refusal(path).fix


def test_csv_rows_keep_their_line_numbers_across_multi_line_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('question,answer\n"two\nlines",1\nshort\nlong,1,2\nempty,\n')
    message = refusal(path).message
    assert "has more or fewer cells than the header: rows 4, 5" in message
    assert "answer is empty: row 6" in message


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99])
def test_a_truncated_parquet_file_is_refused(tmp_path: Path, keep: float) -> None:
    path = Path(write_parquet(tmp_path / "a.parquet", rows_of(numbered(1_000))))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    assert "as parquet" in refusal(path).message


def test_a_flipped_byte_in_parquet_is_refused_or_read_but_never_a_crash(tmp_path: Path) -> None:
    path = Path(write_parquet(tmp_path / "a.parquet", rows_of(numbered(50))))
    whole = path.read_bytes()
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(DataError):
            read(Source(path=str(path)))


def test_a_missing_column_is_reported_with_the_columns_there_are(tmp_path: Path) -> None:
    rows = [{"problem": "q", "solution": "1"}]
    csv = tmp_path / "a.csv"
    csv.write_text("problem,solution\nq,1\n")
    for path in (write_parquet(tmp_path / "a.parquet", rows), csv):
        error = refusal(path)
        assert "no column question, answer; it has problem, solution" in error.message
        assert "columns: {question:" in error.fix


def test_the_columns_of_code_problems_are_mapped_as_such(tmp_path: Path) -> None:
    rows = [{"question": "print 1", "solution": "print(1)", "tests": [["", "1"]]}]
    assert (
        "{question: question, answer: solution, tests: tests}" in refusal(write_jsonl(tmp_path / "a.jsonl", rows)).fix
    )
    rows = [{"problem": "print 1", "tests": [["", "1"]]}]
    assert "{question: problem, tests: tests}" in refusal(write_jsonl(tmp_path / "b.jsonl", rows)).fix


def test_a_chat_is_asked_with_its_system_message_and_what_the_user_says(tmp_path: Path) -> None:
    system, user = ({"role": role, "content": f"{role} says"} for role in ("system", "user"))
    rows = [{"prompt": chat, "answer": str(n)} for n, chat in enumerate(([system, user], [{**user, "content": "2?"}]))]
    for path in (write_parquet(tmp_path / "a.parquet", rows), write_jsonl(tmp_path / "a.jsonl", rows)):
        pool = read(Source(path=str(path), columns={"question": "prompt"}))
        assert [problem.question for problem in pool.problems] == ["system says\n\nuser says", "2?"]
        assert pool.chats == 2
    turns = [user, {"role": "assistant", "content": "hm"}, user]
    several = write_jsonl(tmp_path / "b.jsonl", [{"prompt": turns, "answer": "1"}, {"prompt": [system], "answer": "1"}])
    assert "question is a chat of several turns; " in refusal(several, question="prompt").message


def test_an_array_of_json_is_read_and_one_named_as_lines_is_explained(tmp_path: Path) -> None:
    rows = rows_of(numbered(3))
    array, lines = tmp_path / "a.json", tmp_path / "b.json"
    array.write_text(json.dumps(rows, indent=1))
    write_jsonl(lines, rows)
    assert load(Source(path=str(array))) == load(Source(path=str(lines)))
    assert len(load(Source(path=str(array)))) == 3
    named = tmp_path / "a.jsonl"
    named.write_text(array.read_text())
    assert "is a JSON array" in refusal(named).message
    assert str(array) in refusal(named).fix
    array.write_text(json.dumps([*rows, 7]))
    assert "not a JSON object: row 4" in refusal(array).message
    (tmp_path / "d").mkdir()
    write_jsonl(tmp_path / "d" / "train.jsonl", rows)
    (tmp_path / "d" / "dataset_info.json").write_text("{}")
    assert len(load(Source(path=str(tmp_path / "d")))) == 3, "facts about a data set are not data"


def test_parquet_values_of_the_wrong_type_are_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"question": "q", "answer": [1]}, {"question": "r", "answer": None}])
    message = refusal(path).message
    assert "answer is a list, not text: row 1" in message
    assert "answer is null: row 2" in message


def test_a_folder_is_read_whole_and_names_the_file_of_a_bad_row(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "d" / "a.jsonl", rows_of(numbered(3)))
    write_parquet(tmp_path / "d" / "b.parquet", rows_of(numbered(3, start=3)))
    assert len(load(Source(path=str(tmp_path / "d")))) == 6
    write_jsonl(tmp_path / "d" / "c.jsonl", [{"question": "q", "answer": ""}])
    assert "answer is empty: row c.jsonl:1" in refusal(tmp_path / "d").message


def test_nothing_to_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "none").mkdir()
    assert "has no rows" in refusal(tmp_path / "empty.jsonl").message
    assert "is not a JSONL, JSON, parquet or CSV file" in refusal(tmp_path / "notes.txt").message
    assert "holds no" in refusal(tmp_path / "none").message
    assert "does not exist" in refusal(tmp_path / "absent.jsonl").message


def test_duplicates_are_dropped_and_questions_with_two_golds_left_out(tmp_path: Path) -> None:
    rows = [("What is 2 + 2?", 4), ("what is 2 + 2", 4), ("What is 1 - 3?", -2), ("Pick one.", 1), ("pick one", 2)]
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": q, "answer": a} for q, a in rows])
    pool = read(Source(path=path))
    assert (pool.rows, len(pool.problems), pool.duplicates, pool.conflicts) == (5, 2, 1, 2)
    assert pool.account() == "5 rows, 1 duplicate, 2 conflicting"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".jsonl", ".csv", ".parquet"]))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        read(Source(path=str(path)))


@pytest.mark.parametrize("line", ['{"question": ' + "[" * 100_000, '{"question": "q", "answer": ' + "9" * 5_000 + "}"])
def test_json_that_breaks_the_parser_is_one_bad_row(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line + "\n")
    assert "not valid JSON: row 1" in refusal(path).message
