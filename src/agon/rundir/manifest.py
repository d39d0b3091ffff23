"""What a run was started on: `manifest.json`. A resumed run must have the same base, data and seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agon.config import Config, RewardConfig, Rival, flat, resolved
from agon.config.read import with_paths
from agon.config.rules import SPLITS
from agon.rundir import provenance
from agon.rundir.files import to_json
from agon.rundir.records import Record
from agon.types import Policy

MAY_CHANGE = (
    "report_to",
    "save.every",
    "save.keep",
    "save.pair",
    "eval.curve",
    "train.tokens_per_pass",
    "train.gradient_checkpointing",
    "train.shard",
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
    "cluster.engine",
    "cluster.address",
    "cluster.samplers",
    "cluster.gpus",
    "cluster.verifiers",
    "rival.url",
    "sandbox.backend",
    "sandbox.memory",
    "sandbox.workers",
    "sandbox.url",
)
"""Keys that a resumed run may change: they cost memory, disk or time, and change rounding at most."""
HASHED_AS_DEFAULTS: dict[str, object] = {
    "model.attention": "auto",
    "sampler.max_model_len": None,
    "sampler.options": {},
}
"""Keys that could not always change. They are hashed as their defaults, so that older runs keep their hash."""


def may_change(key: str) -> bool:
    """Whether a resumed run may change this dotted key; of a mapping also its entries."""
    return any(key == allowed or key.startswith(f"{allowed}.") for allowed in MAY_CHANGE)


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
    base_hash_b: str | None = None
    """The same of B's base, where `model.b` names one."""
    init_hashes: dict[Policy, str] = {}
    """SHA-256 over the weights of each adapter that a policy started from, where `model.init` names one."""
    data: SplitFacts
    """Its problems."""
    config_hash: str
    """Names the config by all that must not change while the run lives."""
    git: provenance.Revision | None
    """Revision of Agon's own source tree; null when it is installed from a package."""
    packages: dict[str, str]
    """Python, and the packages that a result may depend on."""
    hardware: provenance.Hardware
    """System, cores, memory and GPUs; no name of a machine."""
    changed: tuple[Change, ...] = ()
    """What resumed runs changed in the config, in order; `config.yaml` holds the values of the last."""


@dataclass(frozen=True, slots=True)
class WeightHashes:
    """SHA-256 over the weights that a run starts from, where they are in a folder: of the base (A's, where B has one of
    its own), of B's base, and of the adapters that `model.init` names."""

    base: str | None = None
    base_b: str | None = None
    init: Mapping[Policy, str] = field(default_factory=dict)


def manifest_of(config: Config, data: SplitFacts, weights: WeightHashes) -> RunManifest:
    """The manifest of a run that starts now, on this machine."""
    return RunManifest(
        arm=config.arm,
        seeds=Seeds(train=config.train.seed, split=config.data.split_seed),
        base_hash=weights.base,
        base_hash_b=weights.base_b,
        init_hashes=dict(weights.init),
        data=data,
        config_hash=config_hash(config),
        git=provenance.git_revision(),
        packages=provenance.packages(),
        hardware=provenance.hardware(),
    )


def config_hash(config: Config) -> str:
    """Names a config by all that must not change while a run lives; of a path its last name, as a run may be moved."""
    values = with_paths(resolved(config), lambda path: Path(path).name)
    if config.rival == Rival():
        del values["rival"]  # runs from before there was a choice keep their hash
    if not config.model.two_bases:
        del values["model"]["b"]
    if config.model.quantize == "none":
        del values["model"]["quantize"]
    if config.model.lora.layers is None:
        del values["model"]["lora"]["layers"]
    for source in (values["data"][part] for part in SPLITS):
        for key in ("env", "template"):
            if source[key] is None:
                del source[key]
    if config.reward == RewardConfig():
        del values["reward"]
    kept = {key: value for key, value in flat(to_json(values)).items() if not may_change(key)}
    return hashlib.sha256(json.dumps(kept | HASHED_AS_DEFAULTS, sort_keys=True).encode()).hexdigest()


def changes(old: Config | Record, new: Config | Record) -> dict[str, tuple[str, str]]:
    """The dotted keys in which two trees differ, each with both values as JSON; an empty mapping has no keys."""
    trees = (flat(to_json(tree.model_dump(mode="json", by_alias=True))) for tree in (old, new))
    before, after = ({key: value for key, value in tree.items() if value != {}} for tree in trees)
    differ = [key for key in sorted(before.keys() | after.keys()) if before.get(key, ...) != after.get(key, ...)]
    return {key: tuple(json.dumps(tree.get(key), sort_keys=True) for tree in (before, after)) for key in differ}  # type: ignore[misc]
