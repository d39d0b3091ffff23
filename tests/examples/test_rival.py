"""The example of a rival by the door: installed, it is chosen by name, plays B in every step and never learns."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agon.config import Config, resolved
from agon.doors import places
from agon.errors import ConfigError
from agon.rundir import read_bouts
from agon.rundir.pair import read_pair
from agon.types import Policy
from tests.training.helpers.runs import config, directory, training

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rival"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As `pip install -e` leaves it."""
    facts = tmp_path / "agon_start_rival-0.1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: agon-start-rival\nVersion: 0.1.0\n")
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]["agon.rivals"]
    lines = [f"{name} = {place}" for name, place in declared.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[agon.rivals]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    places.cache_clear()
    yield
    places.cache_clear()


def against_the_start() -> Config:
    return Config.model_validate({**resolved(config()), "rival": {"kind": "start"}})


@pytest.mark.usefixtures("installed")
def test_the_start_of_a_plays_b_and_only_a_learns(tmp_path: Path) -> None:
    settings = against_the_start()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    first = one.state.first[Policy.A]
    bouts = read_bouts(run).to_pylist()
    side = {"a": "challenge_version", "b": "draft_version"}
    assert {row[side[row["drafter"]]] for row in bouts} == {first}
    assert one.state.versions[Policy.A] != first
    assert all(set(record.update) == {Policy.A} for record in run.steps.records())
    assert read_pair(run.path).info.rival == "start"
    with pytest.raises(ValueError, match=r"eval\.direction"):
        Config.model_validate({**resolved(settings), "eval": {"direction": "both"}})


def test_without_the_package_its_name_is_refused() -> None:
    with pytest.raises((ConfigError, ValueError), match="there is no rival 'start'"):
        against_the_start()
