"""Names of what ships with the package lead into it, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.config import Init
from agon.engine.shipped import folder_of, init_folders, init_hashes
from agon.errors import ConfigError, RunDirError
from agon.types import Policy


def test_a_name_of_ours_is_a_folder_of_the_package_and_any_other_a_path() -> None:
    assert folder_of("agon:tiny") == folder_of("agon:tiny")
    assert folder_of("some/folder") == Path("some/folder")


@pytest.mark.parametrize("name", ["agon:huge", "agon:../cli", "agon:/etc"])
def test_other_names_are_refused_with_those_that_ship(name: str) -> None:
    with pytest.raises(ConfigError, match="does not ship") as caught:
        folder_of(name)
    assert "agon:tiny" in str(caught.value.fix)


def test_without_folders_nothing_is_read() -> None:
    assert init_folders(Init()) == init_hashes(Init()) == {}


def test_a_folder_that_is_no_adapter_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match=r"adapter_config\.json"):
        init_hashes(Init(a=str(tmp_path)))


def test_hashes_follow_the_weights(tmp_path: Path) -> None:
    from tests.rundir.helpers.runs import write_adapter

    one, two = (write_adapter(tmp_path / name, [value]) for name, value in (("one", 1.0), ("two", 2.0)))
    hashes = init_hashes(Init(a=str(one), b=str(two)))
    assert set(hashes) == set(Policy)
    assert hashes[Policy.A] != hashes[Policy.B]
    assert init_hashes(Init(a=str(two))) == {Policy.A: hashes[Policy.B]}
