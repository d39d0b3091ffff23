"""Which versions are live: names and folders are used once, old versions go, pinned ones stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.engine.versions import KEPT, Versions
from agon.errors import EngineError
from agon.types import BASE, Policy, Version

from .helpers.engines import adapter_folders


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    return adapter_folders(tmp_path, *"012345")


class Engine:
    """Remembers what it was asked to load and unload."""

    def __init__(self, refuses: bool = False) -> None:
        self.loaded: list[Version] = []
        self.refuses = refuses

    def load(self, version: Version, folder: Path) -> None:
        if self.refuses:
            raise EngineError("refused")
        self.loaded.append(version)

    def unload(self, version: Version) -> None:
        self.loaded.remove(version)


def published(folders: Path, count: int, engine: Engine | None = None) -> Versions:
    """Versions of policy A, one per step."""
    engine = engine or Engine()
    versions = Versions(engine.load, engine.unload)
    for step in range(count):
        versions.publish(Version(f"a@{step}-x"), folders / str(step))
    return versions


def test_a_policy_means_its_latest_version_and_a_version_itself(folders: Path) -> None:
    versions = published(folders, 2)
    assert versions.resolve(Policy.A) == "a@1-x"
    assert versions.resolve(Version("a@0-x")) == "a@0-x"
    assert versions.resolve(BASE) == BASE


@pytest.mark.parametrize("seat", [Policy.B, Version("a@7-x")])
def test_what_is_not_live_is_refused_with_what_is(folders: Path, seat: Policy | Version) -> None:
    with pytest.raises(EngineError, match=rf"{seat} is live \(live: base, a@0-x\)"):
        published(folders, 1).resolve(seat)


def test_neither_a_name_nor_a_folder_is_published_twice(folders: Path) -> None:
    versions = published(folders, 1)
    for version, name in ((Version("a@0-x"), "1"), (Version("a@1-x"), "0"), (BASE, "2")):
        with pytest.raises(EngineError, match="published before"):
            versions.publish(version, folders / name)
    with pytest.raises(EngineError, match="published before"):
        versions.publish(Version("a@1-x"), folders / "1" / ".." / "0")


def test_a_name_stays_used_after_its_version_was_unloaded(folders: Path) -> None:
    versions = published(folders, KEPT + 1)
    assert "a@0-x" not in versions.live
    with pytest.raises(EngineError, match="published before"):
        versions.publish(Version("a@0-x"), folders / "5")


def test_a_refused_version_is_neither_live_nor_the_latest_and_stays_used(folders: Path) -> None:
    engine = Engine()
    versions = published(folders, 1, engine)
    engine.refuses = True
    for enter in (versions.publish, versions.pin):
        with pytest.raises(EngineError, match="refused"):
            enter(Version("a@1-x"), folders / "1")
        assert versions.resolve(Policy.A) == "a@0-x"
    engine.refuses = False
    with pytest.raises(EngineError, match="published before"):
        versions.publish(Version("a@1-x"), folders / "2")
    for step in (2, 3, 4):
        versions.publish(Version(f"a@{step}-x"), folders / str(step))
    assert engine.loaded == ["a@3-x", "a@4-x"]


def test_the_latest_the_pinned_and_those_in_use_stay_loaded(folders: Path) -> None:
    engine = Engine()
    versions = published(folders, 2, engine)
    versions.pin(Version("a@0-x"), folders / "0")
    for step in (2, 3):
        versions.publish(Version(f"a@{step}-x"), folders / str(step), in_use={Version("a@1-x")})
    versions.publish(Version("b@0-x"), folders / "5", in_use={Version("a@1-x")})
    assert engine.loaded == ["a@0-x", "a@1-x", "a@2-x", "a@3-x", "b@0-x"]
    versions.publish(Version("a@4-x"), folders / "4")
    assert engine.loaded == [*versions.live] == ["a@0-x", "a@3-x", "b@0-x", "a@4-x"]


def test_a_pinned_version_is_loaded_only_if_it_is_not_live(folders: Path) -> None:
    engine = Engine()
    versions = published(folders, KEPT + 1, engine)
    versions.pin(Version("a@2-x"), folders / "2")
    assert engine.loaded == ["a@1-x", "a@2-x"]
    versions.pin(Version("a@0-x"), folders / "0")
    assert engine.loaded == ["a@1-x", "a@2-x", "a@0-x"]
    with pytest.raises(EngineError, match="a different version"):
        versions.pin(Version("b@0-x"), folders / "0")


def test_a_folder_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="has no adapter_config"):
        published(tmp_path, 1)
