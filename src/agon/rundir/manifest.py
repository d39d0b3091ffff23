"""What a run was started on: `manifest.json`. A resumed run must have the same base, data and seeds.

No machine or person is named in it, so that it can be shared.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from agon.config import Config, flat, resolved
from agon.config.read import with_paths
from agon.rundir.files import to_json
from agon.rundir.records import Record
from agon.types import Policy

PACKAGES = (
    *("agon-rl", "torch", "transformers", "peft", "trl", "accelerate", "vllm", "safetensors"),
    *("bitsandbytes", "tokenizers", "datasets", "math-verify", "sympy", "pyarrow", "pydantic"),
)
MAY_CHANGE = (
    "report_to",
    "save.every",
    "save.keep",
    "save.pair",
    "eval.curve",
    "train.tokens_per_pass",
    "train.gradient_checkpointing",
    "train.gpus",
    "model.attention",
    "sampler.replicas",
    "sampler.urls",
    "sampler.sleep",
    "sampler.gpu_memory_utilization",
    "sampler.max_loras",
    "sampler.max_model_len",
    "sampler.options",
    "sampler.canary",
    "sampler.canary_limit",
    "sandbox.backend",
    "sandbox.memory",
    "sandbox.workers",
)
"""Keys that a resumed run may change: they cost memory, disk or time, and change rounding at most."""


def may_change(key: str) -> bool:
    """Whether a resumed run may change this dotted key; of a mapping also its entries."""
    return any(key == allowed or key.startswith(f"{allowed}.") for allowed in MAY_CHANGE)


class Revision(Record):
    """A revision of Agon's own source tree."""

    revision: str
    """The commit."""
    changed: bool
    """Whether the tree had changes on top of it."""


class Hardware(Record):
    """What a measured time depends on."""

    system: str
    """Operating system."""
    machine: str
    """Architecture of the CPU."""
    cpu: str
    """Model of the CPU."""
    cores: int | None
    """Logical cores."""
    memory_gib: float
    """Memory of the machine."""
    gpus: list[str]
    """Name and memory of each GPU."""


class Seeds(Record):
    """The seeds of a run."""

    train: int
    """Order of problems and every draw."""
    split: int
    """Which problem falls in which split."""


class SplitFacts(Record):
    """The problems of a run, by split."""

    hashes: dict[str, str] = {}
    """Names the content of each split."""
    counts: dict[str, int] = {}
    """Problems in each split."""
    revisions: dict[str, str | None] = {}
    """Revision of each data set on the Hub, where it has one."""


class Change(Record):
    """A key of the config that a resumed run changed."""

    key: str
    """The key, with dots."""
    old: str
    """Its value before, as JSON."""
    new: str
    """Its value from then on, as JSON."""
    step: int
    """Steps in the log when the run was resumed."""


class RunManifest(Record):
    """What a run was started on."""

    arm: str
    """The arm."""
    seeds: Seeds
    """Its seeds."""
    base_hash: str | None
    """SHA-256 over the weights of the base, where it is a folder."""
    init_hashes: dict[Policy, str] = {}
    """SHA-256 over the weights of each adapter that a policy started from, where `model.init` names one."""
    loss: dict[str, Any] = {}
    """The loss and the optimizer in full: each constant, and the form of each term."""
    data: SplitFacts
    """Its problems."""
    config_hash: str
    """Names the config by all that must not change while the run lives."""
    git: Revision | None
    """Revision of Agon's own source tree; null when it is installed from a package."""
    packages: dict[str, str]
    """Python, and the packages that a result may depend on."""
    hardware: Hardware
    """System, cores, memory and GPUs; no name of a machine."""
    changed: tuple[Change, ...] = ()
    """What resumed runs changed in the config, in order; `config.yaml` holds the values of the last."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a run starts from, beside its config and data."""

    base: str | None = None
    """SHA-256 over the weights of the base, where it is in a folder."""
    init: Mapping[Policy, str] = field(default_factory=dict)
    """SHA-256 over the weights of each adapter that `model.init` names."""
    loss: Mapping[str, Any] = field(default_factory=dict)
    """The loss and the optimizer in full."""


def manifest_of(config: Config, data: SplitFacts, start: Start) -> RunManifest:
    """The manifest of a run that starts now, on this machine."""
    return RunManifest(
        arm=config.arm,
        seeds=Seeds(train=config.train.seed, split=config.data.split_seed),
        base_hash=start.base,
        init_hashes=dict(start.init),
        loss=to_json(start.loss),
        data=data,
        config_hash=config_hash(config),
        git=git_revision(),
        packages=packages(),
        hardware=hardware(),
    )


def config_hash(config: Config) -> str:
    """Names a config by all that must not change while a run lives; of a path its last name, as a run may be moved."""
    values = flat(to_json(with_paths(resolved(config), lambda path: Path(path).name)))
    kept = {key: value for key, value in values.items() if not may_change(key)}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def changes(old: Config | Record, new: Config | Record) -> dict[str, tuple[str, str]]:
    """The dotted keys in which two trees differ, each with both values as JSON; an empty mapping has no keys."""
    trees = (flat(to_json(tree.model_dump(mode="json", by_alias=True))) for tree in (old, new))
    before, after = ({key: value for key, value in tree.items() if value != {}} for tree in trees)
    differ = [key for key in sorted(before.keys() | after.keys()) if before.get(key, ...) != after.get(key, ...)]
    return {key: tuple(json.dumps(tree.get(key), sort_keys=True) for tree in (before, after)) for key in differ}  # type: ignore[misc]


# -- this machine ---------------------------------------------------------------------------------------------------


def packages() -> dict[str, str]:
    """Python and the packages that a result may depend on; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_revision() -> Revision | None:
    """The revision of Agon's own source tree and whether it was changed; None when installed from a package."""
    package = Path(__file__).resolve().parents[1]
    top = _output("git", "-C", str(package), "rev-parse", "--show-toplevel")
    # an environment may stand inside a user's own repository, whose revision says nothing about us
    if not top or Path(top).resolve() / "src" / "agon" != package:
        return None
    changed = _output("git", "-C", top, "status", "--porcelain", "--untracked-files=no")
    return Revision(revision=_output("git", "-C", top, "rev-parse", "HEAD"), changed=bool(changed))


def hardware() -> Hardware:
    """System, cores, memory and GPUs."""
    return Hardware(
        system=platform.system(),
        machine=platform.machine(),
        cpu=_cpu_model(),
        cores=os.cpu_count(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        gpus=_output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader").splitlines(),
    )


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _output(*command: str) -> str:
    """What a command prints; nothing when it is not there or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
