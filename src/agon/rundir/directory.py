"""The run directory: an API of plain files, described file by file and column by column in docs/rundir.md.

One process writes, under a lock; any number may read at any time. Logs grow by whole lines, everything else appears
atomically, and `resume` takes the directory back to the newest checkpoint that verifies, so that no step is lost or
written twice. Nothing here is in the paper.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from agon.config import Config, resolved
from agon.config.read import Written, anchored, parse, portable
from agon.errors import CheckpointError, InputError, RunDirError, upgrade
from agon.rundir import bouts as bouts_file
from agon.rundir import checkpoint
from agon.rundir.adapter import check_adapter, plain_file
from agon.rundir.files import (
    NAME,
    PRIVATE,
    TEMPORARY,
    check_no_links,
    clean_up,
    disk_errors_as,
    locked,
    make_folder,
    sync,
    sync_tree,
    temporary_folder,
    to_json,
    write,
    write_json,
    write_new,
)
from agon.rundir.find import check_one_run, no_run
from agon.rundir.log import StepLog
from agon.rundir.manifest import (
    Change,
    RunManifest,
    SplitFacts,
    Start,
    changes,
    config_hash,
    manifest_of,
    may_change,
)
from agon.rundir.pair import PairDir, PairInfo, read_pair, write_pair
from agon.rundir.records import (
    Mark,
    Point,
    RunState,
    SavedState,
    StepRecord,
    Timing,
    best_point,
    first_fault,
    read_record,
    write_record,
)
from agon.types import Bout, Policy

CONFIG, MANIFEST, ROWS = "config.yaml", "manifest.json", "rows"
RESTORE = "restore the file from a copy of the run"
LARGEST = 1 << 20
"""Bytes of a config."""
Step = int | Literal["last", "best"]


def _not_created(path: Path, error: OSError) -> RunDirError:
    if path.exists():
        fix = f"choose a different --name, or resume with: agon train {path} --resume"
        return RunDirError(f"{path} already exists", fix=fix)
    fix = "make room or choose a different disk" if error.errno == errno.ENOSPC else "choose a place with --out DIR"
    return RunDirError(f"cannot create {path}: {error.strerror}", fix=fix)


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a run resumes: the checkpoint (None: at the start), its state, and which were skipped and why."""

    folder: Path | None
    state: RunState
    skipped: Sequence[tuple[Path, str]]


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run on disk."""

    path: Path

    def __post_init__(self) -> None:
        """Take a path that is written as text."""
        object.__setattr__(self, "path", Path(self.path))

    def __fspath__(self) -> str:
        return str(self.path)

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        config: Config,
        data: SplitFacts | None = None,
        start: Start | None = None,
        rows: Path | None = None,
    ) -> RunDir:
        """Make a new run directory atomically; one that exists is never touched.

        `rows` is a folder of which it keeps a copy.
        """
        if not NAME.fullmatch(name):
            raise RunDirError(f"{name!r} is not a valid run name", fix="use letters, digits and ._@=+- in --name")
        try:
            make_folder(root)
            with temporary_folder(root / f"{TEMPORARY}{name}-{os.getpid()}", PRIVATE) as temporary:
                write_new(temporary / CONFIG, _as_yaml(config, root / name))
                manifest = manifest_of(config, data or SplitFacts(), start or Start())
                write_record(temporary / MANIFEST, manifest)
                if rows:
                    shutil.copytree(rows, temporary / ROWS)
                sync_tree(temporary)
                temporary.rename(root / name)
            sync(root)
        except OSError as error:
            raise _not_created(root / name, error) from error
        return cls(root / name)

    @classmethod
    def open(cls, path: str | Path) -> RunDir:
        """An existing run directory."""
        path = Path(path)
        if not path.is_dir():
            raise no_run(path)
        missing = [name for name in (CONFIG, MANIFEST) if not (path / name).is_file()]
        if missing:
            check_one_run(path)
            fix = "name a folder that `agon train` made, such as runs/NAME"
            raise RunDirError(f"{path} is not a run directory: no {' and no '.join(missing)}", fix=fix)
        check_no_links(path.iterdir())
        run = cls(path)
        _ = run.manifest
        return run

    @property
    def config(self) -> Config:
        """The resolved config of the run, as it was last started or resumed: complete, without aliases or tags."""
        path, written = self.path / CONFIG, Written()
        try:
            if path.stat().st_size > LARGEST:
                raise ValueError(f"it is larger than {LARGEST} bytes")
            values = parse(path.read_text(encoding="utf-8"), str(path), written)
            if written.faults or not isinstance(values, dict):
                raise ValueError(written.faults[0][1] if written.faults else "it holds no keys")
            return Config.model_validate(anchored(values, self.path))
        except ValidationError as error:
            raise RunDirError(f"cannot read {path}: {first_fault(error)}", fix=RESTORE) from error
        except (ValueError, TypeError, OSError, RecursionError) as error:
            raise RunDirError(f"cannot read {path}: {error}", fix=RESTORE) from error

    @property
    def manifest(self) -> RunManifest:
        """What the run was started on: seeds, data, base, revision, packages, hardware."""
        return read_record(self.path / MANIFEST, RunManifest, RESTORE)

    @property
    def steps(self) -> StepLog[StepRecord]:
        """One line per step, deterministic fields only; `.records()` reads them."""
        return StepLog(self.path / "steps.jsonl", StepRecord)

    @property
    def timings(self) -> StepLog[Timing]:
        """One line per step: seconds by part, tokens per second, memory."""
        return StepLog(self.path / "timings.jsonl", Timing)

    @property
    def points(self) -> tuple[Point, ...]:
        """The evaluations on dev, in order; none before the first."""
        return read_points(self.path / "points.json")

    def write_points(self, points: Sequence[Point]) -> None:
        """Replace `points.json` atomically."""
        values = [point.model_dump(mode="json") for point in points]
        # sorted keys: points that come back from a checkpoint must give the same bytes
        with disk_errors_as("points.json was not written"):
            write_json(self.path / "points.json", json.loads(json.dumps(values, sort_keys=True)))

    @property
    def bouts(self) -> Path:
        return self.path / "bouts"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def lock(self) -> AbstractContextManager[None]:
        """Hold the directory for writing; a second trainer is refused with the pid of the first."""
        return locked(self.path / ".lock")

    def change_config(self, config: Config) -> list[Change]:
        """Take over the keys that a resumed run may change; refuse a config that differs in others, naming each."""
        changed = changes(self.config, config)
        fixed = [f"{key}: {old} -> {new}" for key, (old, new) in changed.items() if not may_change(key)]
        if fixed:
            fix = "resume with the old values, or start a new run under a different --name"
            raise RunDirError(f"{self.path} was started with a different config: {'; '.join(fixed)}", fix=fix)
        step = len(self.steps.records())
        made = [Change(key=key, old=old, new=new, step=step) for key, (old, new) in changed.items()]
        if made:
            manifest = self.manifest
            write_record(self.path / MANIFEST, manifest.model_copy(update={"changed": (*manifest.changed, *made)}))
            write(self.path / CONFIG, _as_yaml(config, self.path))
        return made

    def check_manifest(self, manifest: RunManifest) -> list[str]:
        """Refuse a different base, start, data or seeds than the run was started with; return what else has changed."""
        changed = [
            key for key in changes(self.manifest, manifest) if not key.startswith(("arm", "config_hash", "changed"))
        ]
        hard = [key for key in changed if key.startswith(("base_hash", "init_hashes", "loss", "data", "seeds"))]
        if hard:
            fix = "restore what the run was started with, or start a new run under a different --name"
            message = f"{self.path} was started on something else: {', '.join(hard)} changed"
            raise RunDirError(message, fix=fix)
        return [f"changed since the start, so the last bits may differ: {', '.join(changed)}"] if changed else []

    def write_bouts(self, step: int, bouts: Sequence[Bout], arm: str, staleness: int = 0) -> Path:
        """Write every bout of a step to `bouts/` atomically."""
        return bouts_file.write(self.bouts, step, bouts, arm, staleness)

    def write_pair(self, a: Path, b: Path, info: PairInfo) -> Path:
        """Put two adapters in `pair/` atomically."""
        return write_pair(self.path, a, b, info)

    def save(self, step: int, write: Callable[[Path], None], state: RunState) -> Path:
        """Save a checkpoint that knows where the logs stood. Log the step before saving it."""
        marks = {"steps": self.steps.mark(), "timings": self.timings.mark()}
        saved = SavedState(step=step, config_hash=config_hash(self.config), **marks, run=state)
        return checkpoint.save(self.checkpoints, step, write, saved.model_dump(mode="json"))

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

    def saved_state(self, step: int) -> SavedState:
        """What the checkpoint of a step remembers, once every file of it has been hashed."""
        folder = checkpoint.folder_of(self.checkpoints, step)
        return self._saved(folder, checkpoint.read(folder).state)

    def step_number(self, step: Step) -> int:
        """The number of a step that has a checkpoint; any other is refused with those that have one."""
        steps, best = checkpoint.steps_in(self.checkpoints), best_point(self.points)
        if not steps:
            raise InputError(f"{self.path} has no checkpoint", fix=f"train it first: agon train {self.path} --resume")
        number = steps[-1] if step == "last" else best and best.step if step == "best" else step
        if number not in steps:
            none = "best step: nothing was evaluated on dev (eval.points 0)"
            what = none if number is None else f"checkpoint of step {number}"
            raise InputError(f"{self.path} has no {what}", fix=f"choose from: {_named(steps, best)}")
        return int(number)

    def pair_at(self, step: Step) -> PairDir:
        """The pair of a step, from its checkpoint; `pair/` says what it was trained on."""
        number = self.step_number(step)
        folder = checkpoint.folder_of(self.checkpoints, number)
        plain_file(folder, checkpoint.MANIFEST)
        try:
            saved = self.saved_state(number)
        except CheckpointError as error:
            others = _named(checkpoint.steps_in(self.checkpoints), None)
            fix = f"restore it from a copy of the run, or choose from: {others}"
            raise CheckpointError(f"{folder}: {error.message}", fix=fix) from error
        for policy in Policy:
            check_adapter(folder / policy.value)
        return PairDir(folder, read_pair(self.path).info.at(number, saved.run.versions, self.points))

    def resume(self) -> Resume:
        """Take the directory back to the newest checkpoint that verifies. The caller holds the lock."""
        clean_up(self.path)
        clean_up(self.bouts)
        clean_up(self.checkpoints)
        path, state, skipped = checkpoint.newest(self.checkpoints)
        if path is None and skipped:
            reasons = "; ".join(f"{folder.name}: {reason}" for folder, reason in skipped)
            fix = f"restore one of them, or move {self.checkpoints} away to start again from step 0"
            raise CheckpointError(f"no checkpoint in {self.checkpoints} verifies: {reasons}", fix=fix)
        saved = self._saved(path, state) if path else None
        self.steps.rewind(saved.steps if saved else Mark())
        self.timings.rewind(saved.timings if saved else Mark())
        self._drop_bouts_after(saved.steps.last if saved else None)
        return Resume(path, saved.run if saved else RunState(), skipped)

    def _saved(self, path: Path, state: Mapping[str, Any]) -> SavedState:
        try:
            saved = SavedState.model_validate(state)
        except ValidationError as error:
            raise CheckpointError(f"{path} holds a state that this Agon cannot read", fix=upgrade()) from error
        if saved.config_hash != config_hash(self.config):
            raise RunDirError(f"{path} was saved under a different config than {CONFIG} says", fix=f"restore {CONFIG}")
        return saved

    def _drop_bouts_after(self, last: int | None) -> None:
        for step, path in bouts_file.files_in(self.bouts).items():
            if last is None or step > last:
                path.unlink()


def _named(steps: Sequence[int], best: Point | None) -> str:
    """Steps for a person: 0, 12 (best), 24 (last)."""
    names = {best.step: "best"} if best else {}
    names[steps[-1]] = ", ".join(filter(None, [names.get(steps[-1]), "last"]))
    return ", ".join(f"{step} ({names[step]})" if step in names else str(step) for step in steps)


def _as_yaml(config: Config, folder: Path) -> bytes:
    return yaml.safe_dump(to_json(portable(resolved(config), folder)), sort_keys=False, allow_unicode=True).encode()


def read_points(path: Path) -> tuple[Point, ...]:
    """The points of a `points.json`; none where there is no file."""
    try:
        return TypeAdapter(tuple[Point, ...]).validate_json(path.read_bytes()) if path.is_file() else ()
    except (OSError, ValueError) as error:
        raise RunDirError(f"cannot read {path}: {error}", fix=RESTORE) from error


def read_bouts(source: RunDir | Path, columns: Sequence[str] | None = None) -> Any:
    """The bouts of a run, of a folder of bouts, or of one parquet file, as a pyarrow Table."""
    path = source.path if isinstance(source, RunDir) else source
    if path.is_file():
        return bouts_file.read([path], columns)
    folder = path / "bouts" if (path / "bouts").is_dir() else path
    return bouts_file.read(list(bouts_file.files_in(folder).values()), columns)
