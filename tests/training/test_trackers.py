"""Trackers are imported only when named, and a run does not die of one.

The fakes below have the shape of the packages' public calls (checked by hand against trackio 0.43, wandb 0.31 and
tensorboard 2.21); the packages themselves are not part of the development environment.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agon.errors import CheckpointError, InputError
from agon.rundir import RunDir
from agon.training.display import open_display
from agon.training.trackers import TRACKERS, Trackers, check, numbers
from tests.rundir.helpers import runs
from tests.training.helpers.records import POINT, record, timing
from tests.training.helpers.runs import config, directory, training

Calls = list[tuple[Any, ...]]


class FakeRun:
    def __init__(self, calls: Calls, broken: bool = False) -> None:
        self.calls, self.broken = calls, broken

    def log(self, values: dict[str, float], step: int) -> None:
        if self.broken:
            raise ConnectionError("no route to host")
        self.calls.append(("log", step, values))


def fake_package(monkeypatch: pytest.MonkeyPatch, name: str, broken: bool = False) -> Calls:
    calls: Calls = []

    def init(**given: Any) -> FakeRun:
        print("a greeting")
        calls.append(("init", given))
        return FakeRun(calls, broken)

    def finish() -> None:
        print("a farewell")
        calls.append(("finish",))

    package = types.ModuleType(name)
    package.init, package.finish = init, finish  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, package)
    return calls


class FakeWriter:
    calls: Calls

    def __init__(self, logdir: str) -> None:
        self.calls.append(("writer", logdir))

    def add_scalar(self, tag: str, data: float, step: int) -> None:
        self.calls.append(("scalar", tag, data, step))

    def flush(self) -> None:
        self.calls.append(("flush",))

    def close(self) -> None:
        self.calls.append(("close",))


def fake_tensorboard(monkeypatch: pytest.MonkeyPatch) -> Calls:
    FakeWriter.calls = []
    summary = types.ModuleType("tensorboard.summary")
    summary.Writer = FakeWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "tensorboard.summary", summary)
    return FakeWriter.calls


def opened(names: Sequence[str], folder: Path, config: Mapping[str, Any] | None = None) -> Trackers:
    trackers = Trackers(names, "first", folder, config or {})
    trackers.open()
    return trackers


def test_a_run_is_reported_only_once_its_checkpoint_has_been_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake_package(monkeypatch, "wandb")
    settings = config()
    run = directory(tmp_path, "run", settings)
    tracked = training(run, settings)
    tracked.display = open_display(6, json=False, trackers=["wandb"], run=run)
    assert not calls
    tracked.go()
    assert calls[0][0] == "init"
    calls.clear()
    for state in run.checkpoints.rglob("state.json"):
        state.write_text("{}")
    damaged = training(run, settings)
    damaged.display = open_display(6, json=False, trackers=["wandb"], run=run)
    with pytest.raises(CheckpointError):
        damaged.go()
    assert not calls


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_every_number_of_a_step_is_sent(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_package(monkeypatch, name)
    trackers = opened([name], tmp_path, {"arm": "agon"})
    assert trackers.log(3, record(3).model_dump(), {"timing": timing(3).model_dump()}) == []
    assert trackers.close() == []
    given = calls[0][1]
    assert (given["project"], given["name"], given["config"]) == ("agon", "first", {"arm": "agon"})
    assert ("dir" in given) == (name == "wandb")
    kind, step, values = calls[1]
    assert (kind, step, values["standalone/pass_rate"]) == ("log", 3, 0.4)
    assert values["update/a/grad_norm"] == 0.2
    assert values["timing/seconds/play"] == 6.0
    assert calls[2] == ("finish",)


def test_tensorboard_writes_into_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_tensorboard(monkeypatch)
    trackers = opened(["tensorboard"], tmp_path)
    trackers.log(3, record(3).model_dump())
    trackers.close()
    assert calls[0] == ("writer", str(tmp_path / "tensorboard"))
    assert ("scalar", "exchange/conversions", 9.0, 3) in calls
    assert calls[-2:] == [("flush",), ("close",)]


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_told_with_what_to_type(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (name, f"{name}.summary"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=f"report_to names {name}") as refused:
        opened([name], tmp_path)
    assert refused.value.fix.startswith(f"pip install {name}")
    with pytest.raises(InputError, match=f"report_to names {name}"):
        check([name])


def test_a_tracker_that_cannot_start_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(monkeypatch, "wandb")
    monkeypatch.setattr(sys.modules["wandb"], "init", lambda **given: 1 / 0)
    with pytest.raises(InputError, match="wandb did not start"):
        opened(["wandb"], tmp_path)


def test_a_run_goes_on_without_a_tracker_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(monkeypatch, "wandb", broken=True)
    calls = fake_package(monkeypatch, "trackio")
    trackers = opened(["wandb", "trackio"], tmp_path)
    assert trackers.log(0, record(0).model_dump()) == [
        "wandb failed and was dropped; the run continues: no route to host"
    ]
    assert trackers.log(1, record(1).model_dump()) == []
    assert [call[1] for call in calls if call[0] == "log"] == [0, 1]


def test_no_tracker_writes_on_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_package(monkeypatch, "trackio")
    run: RunDir = runs.new_run(tmp_path)
    display = open_display(5, json=True, trackers=["trackio"], run=run)
    display.open()
    display.step(record(0), timing(0))
    display.point(POINT)
    display.close()
    out, err = capsys.readouterr()
    assert [list(json.loads(line)) for line in out.splitlines()] == [["step", "timing"], ["point"]]
    assert "a greeting" in err
    assert "a farewell" in err


def test_numbers_are_named_by_their_path_and_words_are_left_out() -> None:
    tree = {"step": 3, "drafter": "a", "none": None, "in": {"x": 1, "deep": {"y": 0.5, "step": 2}}, "list": [1]}
    assert numbers(tree) == {"in/x": 1.0, "in/deep/y": 0.5, "in/deep/step": 2.0}
