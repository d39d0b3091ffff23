"""A run of a few steps whose every byte is a function of the step, and what must be true of it after a crash."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from agon.rundir import RunDir, checkpoint, files
from agon.rundir.pair import PairInfo, read_pair
from agon.types import Direction, Policy

STEPS, KEEP, PINNED = 4, 2, (2,)
CONFIG = {"schema": 1, "arm": "agon", "train": {"seed": 0, "learning_rate": 5e-5}, "save": {"keep": 2}, "report_to": []}


def new_run(root: Path, base: str | None = None) -> RunDir:
    """A fresh run as `RunDir.create` leaves it, without asking git and the machine."""
    path = root / "run"
    path.mkdir(parents=True)
    manifest = {"schema": 1, "seeds": {"run": 0}, "data": {"train": "1f"}, "versions": {"torch": "2.13.0"}}
    manifest["base"] = {"sha256": base}
    (path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    (path / "manifest.json").write_text(json.dumps(manifest))
    return RunDir.open(path)


def safetensors(values: list[float]) -> bytes:
    data = struct.pack(f"<{len(values)}f", *values)
    tensor = {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(data)]}
    header = json.dumps({"lora_A": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + data


def write_adapter(folder: Path, values: list[float]) -> Path:
    folder.mkdir(parents=True)
    settings = {"peft_type": "LORA", "r": 2, "base_model_name_or_path": "tiny"}
    files.write_new(folder / "adapter_config.json", json.dumps(settings).encode())
    files.write_new(folder / "adapter_model.safetensors", safetensors(values))
    return folder


def fill(step: int) -> Callable[[Path], None]:
    """A writer of a checkpoint, as a learner would be; it leaves syncing to the caller."""

    def write(folder: Path) -> None:
        for policy in Policy:
            write_adapter(folder / policy.value, [float(step), float(len(policy.value))])
        (folder / "trainer_state").mkdir()
        (folder / "trainer_state" / "optimizer.bin").write_bytes(hashlib.sha256(str(step).encode()).digest() * 40)

    return write


def record(step: int) -> dict[str, Any]:
    return {"step": step, "reward": step / 7, "note": "é\u2028\ud800"}


def info(step: int) -> PairInfo:
    versions = {policy: f"{policy.value}@{step:06d}-5f3c9a1e" for policy in Policy}
    direction = Direction.AB if step % 2 else None
    return PairInfo(versions, "tiny", "p" * 64, "c" * 64, direction=direction, facts={"step": step})


def play(run: RunDir, first: int, last: int, say: Callable[[str], None] = lambda word: None) -> None:
    """Some steps of a run; says a step once its checkpoint is promised to be on disk."""
    for step in range(first, last + 1):
        run.steps.append(record(step))
        run.timings.append({"step": step, "seconds": 1.5})
        run.save(step, fill(step), {"versions": step})
        say(str(step))
        settle(run, step)
        say(f"pair{step}")


def settle(run: RunDir, step: int) -> None:
    """What follows a save. The last step prunes: one checkpoint goes, a pinned one is brought down to its adapters."""
    folder = run.checkpoint(step)
    assert folder is not None
    if step == STEPS:
        run.prune(KEEP, PINNED)
    run.write_pair(folder / "a", folder / "b", info(step))


def resume_and_finish(run: RunDir) -> int:
    """Resume after a crash, check all that was found, play to the end; return the step it went on from."""
    with run.lock():
        for folder in checkpoint.folders(run.checkpoints):
            checkpoint.read(folder)
        found = run.resume()
        assert not (run.path / "pair").exists() or pair_step(run) <= STEPS
        assert not found.skipped, found.skipped
        step = found.state.get("step", 0)
        assert [entry["step"] for entry in run.steps.records()] == list(range(1, step + 1))
        assert [entry["step"] for entry in run.timings.records()] == list(range(1, step + 1))
        assert not [path for path in run.path.rglob("*") if path.name.startswith((files.TEMPORARY, files.ASIDE))]
        if step:
            settle(run, step)
        play(run, step + 1, STEPS)
    return int(step)


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a run by name; the lock is not part of it."""
    found = {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    found.pop(".lock", None)
    return found


def pair_step(run: RunDir) -> int:
    return int(read_pair(run.path).info.facts["step"])
