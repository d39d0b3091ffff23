"""A result of an evaluation, which may have been edited or forged: typed, complete and in agreement with itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agon.errors import RunDirError
from agon.rundir.records import write_record
from agon.rundir.results import read_result
from tests.eval.helpers import result_of

GOOD = result_of({"p": [True, False], "q": [None, True]})


def put(*keys: str, value: Any) -> Callable[[dict[str, Any]], object]:
    """Write a value under a key."""

    def change(raw: dict[str, Any]) -> None:
        for key in keys[:-1]:
            raw = raw[key]
        raw[keys[-1]] = value

    return change


ODD: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a number as an outcome": (put("measures", "outcomes", "p", value=[7, False]), "outcomes.p.0"),
    "1 as an outcome": (put("measures", "outcomes", "p", value=[1, 0]), "outcomes.p.0"),
    "a word as an outcome": (put("measures", "outcomes", "p", value=["yes", "no"]), "outcomes.p.0"),
    "outcomes that are a list": (put("measures", "outcomes", value=[True]), "outcomes"),
    "outcomes of one problem that are none": (put("measures", "outcomes", "p", value=True), "outcomes.p"),
    "no outcomes": (lambda raw: raw["measures"].pop("outcomes"), "outcomes: Field required"),
    "no settings": (lambda raw: raw.pop("settings"), "settings: Field required"),
    "measures that are a list": (put("measures", value=[]), "measures"),
    "complete": (put("complete", value="no"), "complete: Extra inputs"),
    "a rate that is not a number": (put("measures", "pass_rate", "value", value=float("nan")), "not JSON compliant"),
    "a rate without end": (put("measures", "pass_rate", "high", value=float("inf")), "not JSON compliant"),
    "a seed that is a word": (put("run", "seed", value="x"), "run.seed"),
    "a seed that is a fraction": (put("run", "seed", value=0.5), "run.seed"),
    "a seed that is a list": (put("run", "seed", value=[1]), "run.seed"),
    "an arm that is a list": (put("run", "arm", value=["agon"]), "run.arm"),
    "more right answers than outcomes": (put("measures", "correct", value=9), "correct is 9, its outcomes have 2"),
    "fewer trials than outcomes": (put("measures", "trials", value=1), "trials is 1, its outcomes have 3"),
    "failures that are hidden": (put("measures", "ungraded", value=0), "ungraded is 0, its outcomes have 1"),
    "another outcome": (put("measures", "outcomes", "p", value=[True, True]), "correct is 2, its outcomes have 3"),
}


def test_a_result_comes_back_as_it_was(tmp_path: Path) -> None:
    write_record(tmp_path / "r.json", GOOD)
    assert read_result(tmp_path / "r.json") == GOOD


@pytest.mark.parametrize("name", ODD)
def test_an_odd_result_is_refused_with_what_to_name(name: str, tmp_path: Path) -> None:
    change, reason = ODD[name]
    raw = {"schema": 1, **GOOD.model_dump(mode="json")}
    change(raw)
    (tmp_path / "r.json").write_text(json.dumps(raw))
    with pytest.raises(RunDirError, match=reason) as refused:
        read_result(tmp_path / "r.json")
    assert "agon eval" in refused.value.fix


def test_a_result_that_is_not_finished_is_refused_with_how_to_finish_it(tmp_path: Path) -> None:
    write_record(tmp_path / "r.json", GOOD.model_copy(update={"measures": None}))
    with pytest.raises(RunDirError, match="not finished") as refused:
        read_result(tmp_path / "r.json")
    assert "resumes" in refused.value.fix
