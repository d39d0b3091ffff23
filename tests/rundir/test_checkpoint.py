"""Checkpoints are believed only after every byte has been hashed; what is passed over is named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agon.errors import CheckpointError
from agon.rundir import checkpoint
from agon.rundir.checkpoint import MANIFEST, Manifest
from tests.rundir.helpers import runs
from tests.rundir.helpers.damages import damage


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("three") / "checkpoints"
    for step in (10, 20, 30):
        checkpoint.save(root, step, runs.fill(step), {"seen": step})
    return root


@pytest.fixture
def root(three: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(three, tmp_path / "checkpoints"))


@pytest.mark.parametrize("case", range(56))
def test_a_damaged_newest_checkpoint_falls_back_and_says_so(case: int, root: Path) -> None:
    newest = root / "step_000030"
    victim = damage(newest, case)
    found = checkpoint.newest(root)
    assert found.path == root / "step_000020"
    assert found.state == {"seen": 20, "step": 20}
    [(skipped, reason)] = found.skipped
    assert skipped == newest
    assert victim.name in reason or "extra-" in reason, reason


def test_no_single_bit_of_a_manifest_can_flip_unseen(root: Path) -> None:
    data = (root / "step_000030" / MANIFEST).read_bytes()
    believed = 0
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            Manifest.decode(bytes(damaged))
            believed += 1
        except CheckpointError:
            continue
    assert believed == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"step": 1}', "[" * 100_000, '{"files": 3, "step": "x"}']
)
def test_a_manifest_of_any_shape_is_refused_in_words(text: str, root: Path) -> None:
    (root / "step_000030" / MANIFEST).write_text(text)
    [(_, reason)] = checkpoint.newest(root).skipped
    assert MANIFEST in reason


def test_a_renamed_checkpoint_is_not_taken_for_a_newer_one(root: Path) -> None:
    (root / "step_000010").rename(root / "step_000090")
    found = checkpoint.newest(root)
    assert found.path == root / "step_000030"
    assert found.skipped == [(root / "step_000090", f"{MANIFEST} is of step 10")]


def test_all_damaged_is_told_for_each(root: Path) -> None:
    for folder in checkpoint.folders(root):
        (folder / MANIFEST).unlink()
    found = checkpoint.newest(root)
    assert found.path is None
    assert [reason for _, reason in found.skipped] == [f"{MANIFEST} is missing"] * 3


def test_looking_for_the_newest_changes_nothing(root: Path) -> None:
    (root / ".tmp-step-000040-1").mkdir()
    before = sorted(root.rglob("*"))
    checkpoint.newest(root)
    assert sorted(root.rglob("*")) == before


def test_a_second_save_of_a_step_changes_nothing(root: Path) -> None:
    before = runs.contents(root)
    checkpoint.save(root, 30, runs.fill(31), {"seen": 31})
    assert runs.contents(root) == before


def test_a_save_replaces_a_damaged_checkpoint_of_its_step(root: Path) -> None:
    before = runs.contents(root)
    (root / "step_000030" / "a" / "adapter_model.safetensors").write_bytes(b"")
    checkpoint.save(root, 30, runs.fill(30), {"seen": 30})
    assert runs.contents(root) == before


def test_a_save_clears_what_a_dead_process_left(root: Path) -> None:
    (root / ".tmp-step-000040-1" / "a").mkdir(parents=True)
    checkpoint.save(root, 40, runs.fill(40), {})
    assert sorted(path.name for path in root.iterdir()) == [f"step_0000{step}" for step in (10, 20, 30, 40)]


def test_a_writer_that_fails_is_told_and_leaves_nothing(root: Path) -> None:
    def write(folder: Path) -> None:
        runs.fill(40)(folder)
        raise RuntimeError("PytorchStreamWriter failed writing file data/7")

    with pytest.raises(CheckpointError, match="step 40 was not saved: PytorchStreamWriter"):
        checkpoint.save(root, 40, write, {})
    assert checkpoint.newest(root).path == root / "step_000030"
    assert len(list(root.iterdir())) == 3


def test_pruning_keeps_the_newest_and_the_adapters_of_pinned_steps(root: Path) -> None:
    for step in (40, 50):
        checkpoint.save(root, step, runs.fill(step), {"seen": step})
    removed = checkpoint.prune(root, 2, pinned=(20, 50))
    assert sorted(path.name for path in removed) == ["step_000010", "step_000030"]
    assert sorted(path.name for path in root.iterdir()) == ["step_000020", "step_000040", "step_000050"]
    slim = root / "step_000020"
    assert sorted(path.name for path in slim.iterdir()) == [MANIFEST, "a", "b"]
    assert checkpoint.read(slim).resumable is False
    assert checkpoint.read(slim).state["seen"] == 20


def test_pruning_twice_changes_nothing(root: Path) -> None:
    checkpoint.prune(root, 2, pinned=(10,))
    before = runs.contents(root)
    assert checkpoint.prune(root, 2, pinned=(10,)) == []
    assert runs.contents(root) == before


def test_adapters_alone_are_never_resumed_from(root: Path) -> None:
    checkpoint.prune(root, 2, pinned=(10,))
    for step in (20, 30):
        shutil.rmtree(root / f"step_0000{step}")
    assert checkpoint.newest(root) == (None, {}, [(root / "step_000010", "only its adapters were kept")])


def test_damaged_checkpoints_do_not_count_and_stay_until_enough_are_whole(root: Path) -> None:
    (root / "step_000030" / MANIFEST).unlink()
    assert checkpoint.prune(root, 3) == []
    assert checkpoint.prune(root, 2) == [root / "step_000030"]
    assert checkpoint.newest(root).path == root / "step_000020"


def test_fewer_than_two_are_never_kept(root: Path) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        checkpoint.prune(root, 1)


def test_the_manifest_lists_every_file_with_its_hash(root: Path) -> None:
    folder = root / "step_000030"
    listed = json.loads((folder / MANIFEST).read_text())["files"]
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert listed.keys() == names - {MANIFEST}
    assert all(len(file["sha256"]) == 64 for file in listed.values())


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to("a"), lambda path: os.mkfifo(path)], ids=["link", "fifo"]
)
def test_only_files_and_folders_can_be_saved(make: Callable[[Path], None], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="odd is neither a file nor a folder"):
        checkpoint.save(tmp_path, 1, lambda folder: make(folder / "odd"), {})
