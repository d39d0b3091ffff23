"""A run is one's own if its config is, byte for byte; nothing that the run itself says makes it so."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.rundir.own import is_own, remember, state_file


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config.yaml").write_text("verifier: mine:judge\n")
    return tmp_path / "config.yaml"


def test_a_config_is_ones_own_after_it_was_run_and_until_it_changes(config: Path) -> None:
    assert not is_own(config)
    remember(config)
    remember(config)
    assert is_own(config)
    assert len(state_file().read_text().splitlines()) == 1
    config.write_text("verifier: yours:judge\n")
    assert not is_own(config)
    remember(config)
    assert is_own(config)


def test_a_state_folder_that_cannot_be_used_is_no_error(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("a file")
    remember(config)
    assert not is_own(config)
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setattr(Path, "home", no_home)
    remember(config)
    assert not is_own(config)


def test_a_link_in_the_state_folder_is_not_followed(config: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    state_file().parent.mkdir(parents=True)
    state_file().symlink_to(tmp_path / "precious")
    remember(config)
    assert (tmp_path / "precious").read_text() == "mine"


def no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")
