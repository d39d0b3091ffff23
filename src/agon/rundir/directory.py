"""The run directory: an API of plain files, described file by file and column by column in docs/rundir.md.

One process writes, under a lock; any number may read at any time. Logs grow by whole lines, everything else appears in
one move, and `resume` takes the directory back to the newest checkpoint that verifies, so that no step is lost or told
twice. Nothing here is in the paper.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agon.errors import CheckpointError, RunDirError, upgrade
from agon.rundir import bouts as bouts_file
from agon.rundir import checkpoint
from agon.rundir.files import NAME, TEMPORARY, building, make_folder, plain, recover, sync, sync_tree, write_new
from agon.rundir.lock import locked
from agon.rundir.pair import PairInfo, write_pair
from agon.rundir.step_log import Log
from agon.types import Bout

CONFIG, MANIFEST = "config.yaml", "manifest.json"
MAY_CHANGE = ("report_to", "save.keep", "sampler.url")
"""Keys that a resumed run may change: where it is watched, how much it keeps, where the same weights are sampled."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a run goes on: the checkpoint (None: from the beginning), its state, and what was skipped and why."""

    folder: Path | None
    state: Mapping[str, Any]
    skipped: Sequence[tuple[Path, str]]


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run on disk."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, config_resolved: Mapping[str, Any], manifest: Mapping[str, Any]) -> RunDir:
        """Make a new run directory, whole or not at all; one that exists is never touched.

        `manifest` holds what the caller knows (seeds, data hashes, engine); revision, versions and hardware are added.
        """
        from agon.rundir.provenance import facts

        if not NAME.fullmatch(name):
            raise RunDirError(f"{name!r} cannot name a run", fix="use letters, digits and ._@=+- in --name")
        text = yaml.safe_dump(plain(dict(config_resolved)), sort_keys=False, allow_unicode=True)
        told = {"schema": 1, "config_hash": config_hash(config_resolved), **facts(), **manifest}
        try:
            make_folder(root)
            with building(root / f"{TEMPORARY}{name}-{os.getpid()}") as temporary:
                write_new(temporary / CONFIG, text.encode())
                write_new(temporary / MANIFEST, (json.dumps(plain(told), indent=2) + "\n").encode())
                sync_tree(temporary)
                temporary.rename(root / name)
            sync(root)
        except OSError as error:
            fix = f"choose another --name, or go on with: agon train {root / name} --resume"
            raise RunDirError(f"cannot create {root / name}: {error.strerror}", fix=fix) from error
        return cls(root / name)

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """An existing run directory."""
        missing = [name for name in (CONFIG, MANIFEST) if not (path / name).is_file()]
        if missing:
            fix = "name a folder that `agon train` made, such as runs/NAME"
            raise RunDirError(f"{path} is not a run directory: no {' and no '.join(missing)}", fix=fix)
        run = cls(path)
        if (schema := run.manifest.get("schema")) != 1:
            raise RunDirError(f"{path} has schema {schema!r}, this Agon reads 1", fix=upgrade())
        return run

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config the run was started with."""
        return _mapping(self.path / CONFIG, yaml.safe_load)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the run was started on: revision, versions, seeds, data hashes, hardware."""
        return _mapping(self.path / MANIFEST, json.loads)

    @property
    def steps(self) -> Log:
        """One line per step, deterministic fields only."""
        return Log(self.path / "steps.jsonl")

    @property
    def timings(self) -> Log:
        """One line per step: seconds by part, tokens per second, memory."""
        return Log(self.path / "timings.jsonl")

    @property
    def bouts(self) -> Path:
        return self.path / "bouts"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def lock(self) -> AbstractContextManager[None]:
        """Hold the directory for writing; a second trainer is refused with the pid of the first."""
        return locked(self.path / ".lock")

    def check_config(self, resolved: Mapping[str, Any]) -> None:
        """Refuse a config that differs from the one the run was started with, naming every key."""
        changed = _changes(_completed(self.config), resolved)
        told = [f"{key}: {old} -> {new}" for key, (old, new) in changed.items() if key not in MAY_CHANGE]
        if told:
            fix = "resume with the old values, or start a new run under another --name"
            raise RunDirError(f"{self.path} was started with another config: {'; '.join(told)}", fix=fix)

    def check_manifest(self, manifest: Mapping[str, Any]) -> list[str]:
        """Refuse another base, other data or seeds than the run was started with; say what else has changed."""
        from agon.rundir.provenance import facts

        old, new = self.manifest, {**facts(), **manifest}
        if hard := _changes(*_parts(old, new, [key for key in ("base", "data", "seeds") if key in old])):
            fix = "bring back what the run was started with, or start a new run under another --name"
            told = "another base, or other data or seeds"
            raise RunDirError(f"{self.path} was started on {told}: {', '.join(hard)} changed", fix=fix)
        soft = _changes(*_parts(old, new, ("versions", "git", "hardware")))
        return [f"changed since the start, so the last bits may differ: {', '.join(soft)}"] if soft else []

    def write_bouts(self, step: int, bouts: Sequence[Bout], arm: str) -> Path:
        """Write every bout of a step to `bouts/`, in one move."""
        return bouts_file.write(self.bouts, step, bouts, arm)

    def write_pair(self, a: Path, b: Path, info: PairInfo) -> Path:
        """Put two adapters in `pair/`, in one move."""
        return write_pair(self.path, a, b, info)

    def save(self, step: int, write: Callable[[Path], None], state: Mapping[str, Any] | None = None) -> Path:
        """Save a checkpoint that knows where the logs stood. Log the step before saving it."""
        logs = {"steps": self.steps.mark(), "timings": self.timings.mark()}
        known = {"config_hash": config_hash(self.config), "logs": logs, **(state or {})}
        return checkpoint.save(self.checkpoints, step, write, known)

    def prune(self, keep: int, pinned: Collection[int] = ()) -> list[Path]:
        """Drop old checkpoints; those of pinned steps keep their adapters."""
        return checkpoint.prune(self.checkpoints, keep, pinned)

    def checkpoint(self, step: int) -> Path | None:
        """The checkpoint of a step, whole or down to its adapters; None when it is not there or does not verify."""
        folder = checkpoint.folder_of(self.checkpoints, step)
        try:
            checkpoint.read(folder)
        except CheckpointError:
            return None
        return folder

    def resume(self) -> Resume:
        """Take the directory back to the newest checkpoint that verifies. The caller holds the lock."""
        recover(self.path)
        recover(self.bouts)
        recover(self.checkpoints)
        path, state, skipped = checkpoint.newest(self.checkpoints)
        if path is None and skipped:
            told = "; ".join(f"{folder.name}: {reason}" for folder, reason in skipped)
            fix = f"restore one of them, or move {self.checkpoints} away to start again from step 0"
            raise CheckpointError(f"no checkpoint in {self.checkpoints} verifies: {told}", fix=fix)
        if path and state.get("config_hash") != config_hash(self.config):
            raise RunDirError(f"{path} was saved under another config than {CONFIG} says", fix=f"restore {CONFIG}")
        logs = state.get("logs", {})
        self.steps.rewind(logs.get("steps"))
        self.timings.rewind(logs.get("timings"))
        self._drop_bouts_after(logs.get("steps"))
        return Resume(path, state, skipped)

    def _drop_bouts_after(self, mark: Mapping[str, Any] | None) -> None:
        last = mark["last"] if mark and mark["last"] is not None else -1
        for step, path in bouts_file.files_in(self.bouts).items():
            if step > last:
                path.unlink()


def read_bouts(source: RunDir | Path, columns: Sequence[str] | None = None) -> Any:
    """The bouts of a run, of a folder of bouts, or of one parquet file, as a pyarrow Table."""
    path = source.path if isinstance(source, RunDir) else source
    if path.is_file():
        return bouts_file.read([path], columns)
    folder = path / "bouts" if (path / "bouts").is_dir() else path
    return bouts_file.read(list(bouts_file.files_in(folder).values()), columns)


def config_hash(resolved: Mapping[str, Any]) -> str:
    """Names a config by all that must not change while a run lives."""
    from agon.config import flat

    kept = {key: value for key, value in flat(plain(dict(resolved))).items() if key not in MAY_CHANGE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    """A stored config with the defaults of keys that a newer Agon has added since."""
    from pydantic import ValidationError

    from agon.config import Config, resolved

    try:
        return resolved(Config.model_validate(config))
    except ValidationError:
        return config


def _mapping(path: Path, load: Callable[[str], Any]) -> dict[str, Any]:
    try:
        value = load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError, OSError, RecursionError) as error:
        raise RunDirError(f"{path} cannot be read: {error}", fix="restore the file from a copy of the run") from error
    if not isinstance(value, dict):
        raise RunDirError(f"{path} does not hold keys and values", fix="restore the file from a copy of the run")
    return value


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The dotted keys in which two trees differ, each with both values as they are shown."""
    from agon.config import flat

    before, after = flat(plain(dict(old))), flat(plain(dict(new)))
    changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key, ...) != after.get(key, ...)]
    return {key: (_show(before, key), _show(after, key)) for key in changed}


def _show(tree: Mapping[str, Any], key: str) -> str:
    return json.dumps(tree[key], sort_keys=True) if key in tree else "not set"


def _parts(
    old: Mapping[str, Any], new: Mapping[str, Any], keys: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the keys that `new` speaks about, from both."""
    told = [key for key in keys if new.get(key) is not None]
    return {key: old.get(key) for key in told}, {key: new[key] for key in told}
