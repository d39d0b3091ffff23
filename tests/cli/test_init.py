"""`agon init`: a new file that is a valid config, never somebody's old one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.cli import main
from agon.cli.init import recipes
from agon.config import load_config
from agon.data import splits


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("recipe", recipes())
def test_a_recipe_becomes_a_config(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", recipe]) == 0
    wrote, following = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote {recipe}.yaml"
    check = "put your problems into problems.jsonl, then: agon data check custom.yaml"
    assert following == f"next: {check if recipe == 'custom' else f'agon plan {recipe}.yaml'}"
    assert Path(f"{recipe}.yaml").read_text() == recipes()[recipe]
    load_config(f"{recipe}.yaml")


def test_out_names_the_file() -> None:
    assert main(["init", "gsm8k", "-o", "mine.yaml"]) == 0
    assert Path("mine.yaml").exists()


def test_a_dash_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "gsm8k", "-o", "-"]) == 0
    assert capsys.readouterr().out == recipes()["gsm8k"]
    assert not list(Path().iterdir())


def test_an_existing_file_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gsm8k.yaml").write_text("mine")
    Path("gsm8k-2.yaml").write_text("mine too")
    assert main(["init", "gsm8k"]) == 2
    assert capsys.readouterr().err == "error: gsm8k.yaml already exists\nfix: name a different file: -o gsm8k-3.yaml\n"
    assert Path("gsm8k.yaml").read_text() == "mine"


def test_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "gsm8k", "-o", "no/such/folder.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: cannot write no/such/folder.yaml: No such file")


def test_an_unknown_recipe_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "deepmath"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: there is no recipe 'deepmath'\nfix: did you mean deepmath-day? choose one of: ")


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is {n} + 1?"}]


@pytest.mark.parametrize(
    ("row", "columns", "verifier"),
    [
        ({"problem": "{n} + 1 = ?", "solution": "5", "id": "x"}, {"question": "problem", "answer": "solution"}, "math"),
        ({"prompt": "Print {n}", "tests": [["", "5"]]}, {"question": "prompt", "tests": "tests"}, "code"),
        ({"prompt": CHAT, "answer": "5"}, {"question": "prompt", "answer": "answer"}, "math"),
    ],
    ids=["math", "code", "chat"],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_a_file_of_problems_is_written_into_the_config(
    suffix: str, row: dict[str, object], columns: dict[str, str], verifier: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [json.loads(json.dumps(row).replace("{n}", str(n))) for n in range(40)]
    Path("data").mkdir()
    file = Path("data", "my problems").with_suffix(suffix)
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text(json.dumps(rows) if suffix == ".json" else "\n".join(map(json.dumps, rows)))
    Path("configs").mkdir()
    assert main(["init", "custom", "--data", str(file), "-o", "configs/mine.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "next: agon data check configs/mine.yaml"
    config = load_config("configs/mine.yaml")
    assert config.verifier == verifier
    for part in (config.data.train, config.data.dev, config.data.held_out):
        assert part.columns == columns
        assert Path(part.path or "").samefile(file)
    assert {name: len(part) for name, part in splits(config.data).parts.items()} == {
        "train": 28,
        "dev": 4,
        "held_out": 8,
    }


def test_the_columns_of_a_csv_file_are_those_of_its_header() -> None:
    Path("a.csv").write_text("query,label\n" + "".join(f"What is {n} + 1?,{n + 1}\n" for n in range(10)))
    assert main(["init", "custom", "--data", "a.csv"]) == 0
    assert load_config("custom.yaml").data.dev.columns == {"question": "query", "answer": "label"}


def test_columns_of_other_names_are_named_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"frage": f"What is {n} + 1?", "antwort": str(n + 1)} for n in range(10)]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", "custom", "--data", "q.jsonl"]) == 2
    words = "agon init custom --data q.jsonl columns.question=NAME columns.answer=NAME"
    assert words in capsys.readouterr().err
    words = words.replace("question=NAME", "question=frage").replace("answer=NAME", "answer=antwort")
    assert main(words.split()[1:]) == 0
    assert load_config("custom.yaml").data.dev.columns == {"question": "frage", "answer": "antwort"}


@pytest.mark.parametrize("words", [["columns.question=frage"], ["--data", "q.jsonl", "question=frage"]])
def test_columns_without_a_file_or_their_name_write_no_config(words: list[str]) -> None:
    assert main(["init", "custom", *words]) == 2
    assert not Path("custom.yaml").exists()


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["custom"], "", "has no rows"),
        (["custom"], '{"frage": "1", "antwort": "2"}', "none is named like the question and answer"),
        (["custom"], '{"question": "1", "answer": "2"}', "too few to split in three"),
        (["custom"], '{"question": "1", "answer": "2"}\n{"question": "2"}', "no field answer"),
        (["gsm8k"], "", "gsm8k has its own problems"),
    ],
)
def test_a_file_that_cannot_be_used_writes_no_config(
    words: list[str], text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.jsonl").write_text(text)
    assert main(["init", *words, "--data", "a.jsonl"]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["a.jsonl"]
