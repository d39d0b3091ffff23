"""Paths in a config are relative to the file that writes them; a run keeps them so that a project can be moved."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agon.config import Config, load_config
from agon.config.read import anchored, portable
from agon.rundir import RunDir

from .helpers import MINIMAL, write


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "configs"
    inside.mkdir()
    path = write(inside, MINIMAL)
    values = yaml.safe_load(path.read_text())
    values["data"]["train"] = {"path": "../problems.jsonl"}
    values |= {"verifier": "judge.py:correct"}
    values["model"] = {"name": "./base", "init": {"a": "adapters/a", "b": "noise"}}
    path.write_text(yaml.safe_dump(values))
    monkeypatch.chdir(tmp_path)
    config = load_config("configs/run.yaml")
    assert config.data.train.path == str(tmp_path / "problems.jsonl")
    assert config.verifier == f"{inside / 'judge.py'}:correct"
    assert config.model.name == str(inside / "base")
    assert (config.model.init.a, config.model.init.b) == (str(inside / "adapters" / "a"), "noise")


def test_names_that_are_no_paths_stay(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, MINIMAL), ["model.name=Qwen/Qwen3-0.6B", "verifier=package.module:judge"])
    assert (config.model.name, config.verifier) == ("Qwen/Qwen3-0.6B", "package.module:judge")
    assert load_config(write(tmp_path, MINIMAL), ["model.init.a=agon:halves/a"]).model.init.a == "agon:halves/a"


def test_a_path_on_the_command_line_is_relative_to_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    write(tmp_path / "configs", MINIMAL)
    monkeypatch.chdir(tmp_path)
    config = load_config("configs/run.yaml", ["verifier=judge.py:correct"])
    assert config.verifier == f"{tmp_path / 'judge.py'}:correct"


def test_a_run_names_files_of_its_project_relative_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(write(tmp_path, MINIMAL), ["verifier=judge.py:correct"])
    run = RunDir.create(tmp_path / "runs", "one", config)
    stored = (run.path / "config.yaml").read_text()
    assert "verifier: ../../judge.py:correct" in stored
    assert str(tmp_path) not in stored
    assert run.config == config
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert RunDir.open(tmp_path / "elsewhere" / "one").config == config


def test_paths_outside_of_the_project_stay_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"verifier": "/judges/one.py:correct", "data": {"dev": {"path": "/data/dev.jsonl"}}}
    assert portable(values, tmp_path / "runs") == values == anchored(values, tmp_path)


@pytest.mark.parametrize("values", [{}, {"data": None}, {"data": {"train": 3}}, {"model": []}, {"verifier": 7}])
def test_what_is_no_config_stays_for_the_validator_to_report(values: dict[str, object], tmp_path: Path) -> None:
    assert anchored(values, tmp_path) == values


def test_a_config_made_in_python_is_not_changed_by_a_second_anchoring(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, MINIMAL))
    assert Config.model_validate(anchored(config.model_dump(by_alias=True), tmp_path)) == config
