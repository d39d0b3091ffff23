"""Checkpoints that appear atomically.

    checkpoints/step_000100/
      a/ b/              plain PEFT directories
      trainer_state/     what the learner needs to resume exactly
      MANIFEST.json      size and SHA-256 of every file, the state of the run, and a hash of the manifest itself

A save fills a temporary folder, brings every file to the disk, writes the manifest, and renames. Whatever stops it, the
earlier checkpoints are untouched, and a folder with a checkpoint's name holds all of it. The loader believes nothing it
has not hashed. Nothing here is in the paper.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agon.errors import CheckpointError
from agon.rundir import files

MANIFEST = "MANIFEST.json"
ADAPTERS = ("a", "b")
SCHEMA = 1
FOLDER = re.compile(r"step_(\d{6,})")


class Newest(NamedTuple):
    """The newest checkpoint that verifies (None when there is none), its state, and which were skipped and why."""

    path: Path | None
    state: dict[str, Any]
    skipped: list[tuple[Path, str]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint says of itself. `resumable` is False once only the adapters are kept."""

    step: int
    state: dict[str, Any]
    files: dict[str, dict[str, Any]]
    resumable: bool = True

    def encode(self) -> bytes:
        """The bytes of MANIFEST.json: the body in one spelling only, then its own hash."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)
        return f'{text[:-2]},\n "self": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'.encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read the bytes of MANIFEST.json; anything but what `encode` wrote is refused."""
        try:
            body = json.loads(data)
            listed = {name: {key: file[key] for key in ("bytes", "sha256")} for name, file in body["files"].items()}
            manifest = cls(int(body["step"]), dict(body["state"]), listed, bool(body["resumable"]))
            whole = manifest.encode() == data
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"cannot parse {MANIFEST} ({type(error).__name__})") from error
        if not whole:
            raise CheckpointError(f"{MANIFEST} is damaged: it does not match its own hash")
        return manifest


def folder_of(root: Path, step: int) -> Path:
    """Where the checkpoint of a step stands."""
    return root / f"step_{step:06d}"


def save(root: Path, step: int, write: Callable[[Path], None], state: Mapping[str, Any]) -> Path:
    """Save a checkpoint: `write` fills a folder, `state` goes into the manifest. The caller holds the run's lock."""
    target = folder_of(root, step)
    with _save_errors_as(f"step {step} was not saved"):
        files.make_folder(root)
        files.clean_up(root)
        if _resumable(target):
            return target
        with files.temporary_folder(_temporary(root, step)) as temporary:
            write(temporary)
            _seal(temporary, step, {**state, "step": step})
            files.replace_folder(temporary, target)
    return target


def _save_errors_as(what: str) -> AbstractContextManager[None]:
    """Turn whatever stops a save (the disk, or the writer of a library) into an error that says what is untouched."""
    fix = "earlier checkpoints are untouched: make room or repair the disk, then `agon train RUN --resume`"
    return files.errors_as(what, Exception, CheckpointError, fix)


def _resumable(folder: Path) -> bool:
    """True when a whole checkpoint that can be resumed from already exists there: a second save changes nothing."""
    try:
        return folder.is_dir() and read(folder).resumable
    except CheckpointError:
        return False


def _temporary(root: Path, step: int) -> Path:
    return root / f"{files.TEMPORARY}step-{step:06d}-{os.getpid()}"


def _seal(folder: Path, step: int, state: Mapping[str, Any], resumable: bool = True) -> None:
    """Sync what `folder` holds and write the manifest last: a folder with a manifest is complete."""
    listed = _files(folder)
    files.sync_tree(folder)
    sums = {name: {"bytes": path.stat().st_size, "sha256": files.sha256(path)} for name, path in listed.items()}
    files.write_new(folder / MANIFEST, Manifest(step, files.to_json(dict(state)), sums, resumable).encode())
    files.sync(folder)


def _files(folder: Path) -> dict[str, Path]:
    """Every file below `folder` but the manifest, by its name in the manifest; anything else but folders is refused."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise CheckpointError(f"{name} is neither a file nor a folder")
        if path.is_file() and name != MANIFEST:
            found[name] = path
    return found


def read(folder: Path) -> Manifest:
    """The manifest of a checkpoint, after every file has been hashed; CheckpointError says what is wrong with it."""
    try:
        found = _files(folder)
        manifest = Manifest.decode((folder / MANIFEST).read_bytes())
        if folder_of(folder, manifest.step).name != folder.name:
            raise CheckpointError(f"{MANIFEST} is of step {manifest.step}")
        _compare(found, manifest.files)
    except FileNotFoundError as error:
        raise CheckpointError(f"{Path(error.filename).name} is missing") from error
    except OSError as error:
        raise CheckpointError(f"cannot be read: {error}") from error
    return manifest


def _compare(found: Mapping[str, Path], listed: Mapping[str, Mapping[str, Any]]) -> None:
    for name in sorted(found.keys() ^ listed.keys()):
        raise CheckpointError(f"{name} is missing" if name in listed else f"{name} is not in {MANIFEST}")
    for name, path in found.items():
        if (size := path.stat().st_size) != listed[name]["bytes"]:
            raise CheckpointError(f"{name} has {size} bytes, {MANIFEST} says {listed[name]['bytes']}")
    for name, path in found.items():
        if files.sha256(path) != listed[name]["sha256"]:
            raise CheckpointError(f"{name} is damaged: its hash is not the one in {MANIFEST}")


def folders(root: Path) -> list[Path]:
    """Everything that has a checkpoint's name, newest first, whole or not."""
    named = [path for path in root.iterdir() if FOLDER.fullmatch(path.name)] if root.is_dir() else []
    return sorted(named, key=lambda path: int(path.name[5:]), reverse=True)


def steps_in(root: Path) -> list[int]:
    """The steps that have a checkpoint, in order, whole or not."""
    return sorted(int(path.name[5:]) for path in folders(root))


def newest(root: Path) -> Newest:
    """The newest checkpoint to resume from, its state, and what was skipped and why. Changes nothing on disk."""
    skipped: list[tuple[Path, str]] = []
    for folder in folders(root):
        try:
            manifest = read(folder)
        except CheckpointError as error:
            skipped.append((folder, error.message))
            continue
        if manifest.resumable:
            return Newest(folder, manifest.state, skipped)
        skipped.append((folder, "only its adapters were kept"))
    return Newest(None, {}, skipped)


def prune(root: Path, keep: int, pinned: Collection[int] = ()) -> list[Path]:
    """Keep the newest `keep` whole checkpoints; of older pinned steps keep the adapters; return what was removed.

    Damaged checkpoints go once `keep` whole ones stand, and never before: until then they may be all there is.
    """
    if keep < 2:
        raise ValueError("keep at least 2: the newest may turn out damaged")
    whole = [path for path in folders(root) if _resumable(path)]
    removed = []
    with _save_errors_as("old checkpoints were not removed"):
        for folder in folders(root) if len(whole) >= keep else []:
            if folder not in whole[:keep] and not _settled(folder, pinned):
                files.remove_tree(folder)
                removed.append(folder)
    return removed


def _settled(folder: Path, pinned: Collection[int]) -> bool:
    """True when a pinned checkpoint is down to its adapters, which may happen now."""
    if int(folder.name[5:]) not in pinned:
        return False
    try:
        manifest = read(folder)
    except CheckpointError:
        return False
    if manifest.resumable:
        _keep_adapters(folder, manifest)
    return True


def _keep_adapters(folder: Path, manifest: Manifest) -> None:
    """Replace a checkpoint, atomically, by one that holds its adapters only."""
    with files.temporary_folder(_temporary(folder.parent, manifest.step)) as temporary:
        for name in ADAPTERS:
            if (folder / name).is_dir():
                shutil.copytree(folder / name, temporary / name)
        _seal(temporary, manifest.step, manifest.state, resumable=False)
        files.replace_folder(temporary, folder)
