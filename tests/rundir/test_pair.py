"""A pair that came from a stranger runs no code, leads nowhere else, and is what its hashes say."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agon.errors import RunDirError
from agon.rundir.pair import PairDir, read_pair, write_pair
from agon.types import Direction, Policy
from tests.rundir.helpers import runs

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def pair(tmp_path: Path) -> PairDir:
    adapters = [runs.write_adapter(tmp_path / "made" / name, [1.0, 2.0]) for name in "ab"]
    base = {"base": "Qwen/Qwen3-0.6B", "base_revision": "c1899de", "arm": "agon"}
    info = runs.info(3).model_copy(update=base)
    return read_pair(write_pair(tmp_path, *adapters, info))


def test_a_pair_comes_back_as_it_was_written(pair: PairDir, tmp_path: Path) -> None:
    assert pair.path == tmp_path / "pair"
    assert pair.info.direction is Direction.AB
    assert pair.info.versions == {Policy.A: "a@000003-5f3c9a1e", Policy.B: "b@000003-5f3c9a1e"}
    assert (pair.info.base, pair.info.base_revision) == ("Qwen/Qwen3-0.6B", "c1899de")
    assert sorted(path.name for path in pair.path.iterdir()) == ["README.md", "a", "agon.json", "b"]
    assert read_pair(tmp_path) == read_pair(pair.path) == pair


def test_a_second_pair_takes_the_place_of_the_first(pair: PairDir, tmp_path: Path) -> None:
    write_pair(
        tmp_path, tmp_path / "made" / "a", tmp_path / "made" / "b", pair.info.model_copy(update={"direction": None})
    )
    assert read_pair(tmp_path).info.direction is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "pair"]


def test_the_readme_names_the_base_and_claims_nothing(tmp_path: Path) -> None:
    adapters = [runs.write_adapter(tmp_path / "made" / name, [1.0]) for name in "ab"]
    odd = runs.info(1).model_copy(update={"base": "x\n---\nlicense: mit"})
    readme = (write_pair(tmp_path, *adapters, odd) / "README.md").read_text()
    front = yaml.safe_load(readme.split("---\n", 1)[1].rsplit("\n---\n", 1)[0])
    assert front == {"base_model": "x\n---\nlicense: mit", "library_name": "peft"}
    assert len(readme.splitlines()) < 16


def test_only_the_two_files_of_an_adapter_are_copied(tmp_path: Path) -> None:
    adapters = [runs.write_adapter(tmp_path / "made" / name, [1.0]) for name in "ab"]
    (adapters[0] / "training_args.bin").write_bytes(pickle.dumps({"secret": 1}))
    path = write_pair(tmp_path, *adapters, runs.info(1))
    assert sorted(file.name for file in (path / "a").iterdir()) == ["adapter_config.json", WEIGHTS]


def facts(path: Path, **changes: Any) -> None:
    raw = json.loads((path / "agon.json").read_text())
    (path / "agon.json").write_text(json.dumps({**raw, **changes}))


def link_weights(path: Path) -> None:
    (path / "a" / WEIGHTS).rename(path.parent / "elsewhere")
    (path / "a" / WEIGHTS).symlink_to(path.parent / "elsewhere")


def link_folder(path: Path) -> None:
    (path / "a").rename(path.parent / "elsewhere")
    (path / "a").symlink_to(path.parent / "elsewhere")


def link_facts(path: Path) -> None:
    (path / "agon.json").rename(path.parent / "elsewhere")
    (path / "agon.json").symlink_to(path.parent / "elsewhere")


def pickled(path: Path) -> None:
    (path / "a" / WEIGHTS).unlink()
    (path / "a" / "adapter_model.bin").write_bytes(pickle.dumps([1]))


def renamed_pickle(path: Path) -> None:
    (path / "a" / WEIGHTS).write_bytes(pickle.dumps([1] * 100))


def foreign_module(path: Path) -> None:
    mapping = {"base_model_class": "X", "parent_library": "evil.module"}
    settings = {"peft_type": "LORA", "auto_mapping": mapping}
    (path / "a" / "adapter_config.json").write_text(json.dumps(settings))


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a version that is a path": (lambda path: facts(path, versions={"a": "../../x", "b": "b@1-x"}), "not a version"),
    "a version that is hidden": (lambda path: facts(path, versions={"a": ".x", "b": "b@1-x"}), "not a version"),
    "a version that is a list": (lambda path: facts(path, versions={"a": ["x"], "b": "b@1-x"}), "cannot read"),
    "a missing version": (lambda path: facts(path, versions={"a": "a@1-x"}), "no version of adapter B"),
    "versions that are swapped": (
        lambda path: facts(path, versions={"a": "b@1-x", "b": "a@1-x"}),
        "no version of adapter A",
    ),
    "a base that is code": (lambda path: facts(path, base={"x": 1}), "base: Input should be a valid string"),
    "a base without a name": (lambda path: facts(path, base=""), "base: String should have at least 1 character"),
    "a base with an endless name": (lambda path: facts(path, base="a" * 10**6), "base: String should have at most"),
    "a base that no file system takes": (lambda path: facts(path, base="x/" + "a" * 300), "base: .*a part of it"),
    "an unknown direction": (lambda path: facts(path, direction="aa"), "direction: Input should be"),
    "a newer schema": (lambda path: facts(path, schema=2), "schema 2"),
    "facts that are a list": (lambda path: (path / "agon.json").write_text("[]") and None, "cannot read"),
    "facts without end": (lambda path: (path / "agon.json").write_text("[" * 99_999) and None, "cannot read"),
    "facts in no encoding": (lambda path: (path / "agon.json").write_bytes(b"\xff\xfe\xff") and None, "cannot read"),
    "linked weights": (link_weights, "is a link"),
    "a linked folder": (link_folder, "is a link"),
    "linked facts": (link_facts, "is a link"),
    "pickled weights": (pickled, "may run code"),
    "a pickle named safetensors": (renamed_pickle, "no safetensors header"),
    "a module to import": (foreign_module, "auto_mapping.parent_library.*evil.module"),
    "another kind of adapter": (
        lambda path: (path / "a" / "adapter_config.json").write_text('{"peft_type": "IA3"}') and None,
        "peft_type.*'IA3'",
    ),
    "other weights": (
        lambda path: (path / "b" / WEIGHTS).write_bytes(runs.safetensors([9.0, 9.0])) and None,
        "is damaged",
    ),
    "no adapter": (lambda path: (path / "b" / "adapter_config.json").unlink(), "needs adapter_config.json"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pair_is_refused(name: str, pair: PairDir) -> None:
    make, reason = HOSTILE[name]
    make(pair.path)
    with pytest.raises(RunDirError, match=reason) as refused:
        read_pair(pair.path)
    assert refused.value.fix


def test_a_hostile_version_is_never_written(tmp_path: Path) -> None:
    adapters = [runs.write_adapter(tmp_path / "made" / name, [1.0]) for name in "ab"]
    info = runs.info(1).model_copy(update={"versions": {Policy.A: "../a", Policy.B: "b@1-x"}})
    with pytest.raises(ValueError, match="not a version"):
        write_pair(tmp_path, *adapters, info)
    assert not (tmp_path / "pair").exists()
