"""A run of a few steps whose every byte is a function of the step, and what must be true of it after a crash."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import yaml

from agon.config import Config, resolved
from agon.game.budget import Entry
from agon.rundir import RunDir, checkpoint, files
from agon.rundir.manifest import Hardware, RunManifest, Seeds, SplitFacts, config_hash
from agon.rundir.pair import PairInfo, read_pair
from agon.rundir.records import RunState, StepRecord, StreamStats, Timing, write_record
from agon.types import Direction, Policy, Version

STEPS, KEEP, PINNED = 4, 2, (2,)
SOURCE = {"path": "/unused.jsonl"}
CONFIG = Config.model_validate(
    {
        "arm": "agon",
        "model": {"name": "tiny"},
        "data": {"train": SOURCE, "dev": SOURCE, "held_out": SOURCE},
        "verifier": "math",
        "save": {"keep": 2},
    }
)
MANIFEST = RunManifest(
    arm="agon",
    seeds=Seeds(train=0, split=0),
    base_hash=None,
    data=SplitFacts(hashes={"train": "1f"}),
    config_hash=config_hash(CONFIG),
    git=None,
    packages={"torch": "2.13.0"},
    hardware=Hardware(system="Linux", machine="x86_64", cpu="", cores=2, memory_gib=8.0, gpus=[]),
)


def new_run(root: Path, base: str | None = None) -> RunDir:
    """A fresh run as `RunDir.create` leaves it, without asking git and the machine."""
    path = root / "run"
    path.mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(resolved(CONFIG)))
    write_record(path / "manifest.json", MANIFEST.model_copy(update={"base_hash": base}))
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


def record(step: int, loss: float | None = 0.5) -> StepRecord:
    stream = StreamStats(
        n=4,
        graded=4,
        pass_rate=step / 7,
        reward_mean=None,
        groups=1,
        live_groups=1,
        well_formed=1.0,
        truncated=0.0,
        tokens_mean=9.0,
    )
    return StepRecord(
        step=step,
        drafter=Policy.A,
        challenger=Policy.B,
        standalone=stream,
        versions={policy: Version.of(policy, step, "5f3c9a1e") for policy in Policy},
        ledger={"draft/a": Entry(4, 36, 40)},
        update={Policy.A: {"loss": loss}},
        ungraded=0,
    )


def timing(step: int) -> Timing:
    return Timing(step=step, seconds={"play": 1.5}, tokens_per_second=None, memory={}, canary={})


def info(step: int) -> PairInfo:
    return PairInfo(
        versions={policy: Version.of(policy, step, "5f3c9a1e") for policy in Policy},
        base="tiny",
        prompts_hash="p" * 64,
        chat_template_hash="c" * 64,
        direction=Direction.AB if step % 2 else None,
        step=step,
    )


def play(run: RunDir, first: int, last: int, say: Callable[[str], None] = lambda word: None) -> None:
    """Some steps of a run; says a step once its checkpoint is promised to be on disk."""
    for step in range(first, last + 1):
        run.steps.append(record(step))
        run.timings.append(timing(step))
        run.save(step, fill(step), RunState(versions=record(step).versions))
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
        step = checkpoint.read(found.folder).step if found.folder else 0
        assert [entry.step for entry in run.steps.records()] == list(range(1, step + 1))
        assert [entry.step for entry in run.timings.records()] == list(range(1, step + 1))
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
    step = read_pair(run.path).info.step
    assert step is not None
    return step
