"""`agon init`: a new file that is a valid config, never somebody's old one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.cli import main
from agon.cli.init import recipes
from agon.config import load_config


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
