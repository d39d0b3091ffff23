"""What is deployed: `pair/` with adapters `a/` and `b/`, `agon.json`, and a short README.

A pair may come from a stranger. Reading one imports no code, unpickles nothing and follows no link: adapters are
safetensors or they are refused, every file is hashed against `agon.json`, and versions are names, never paths.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agon.config.bases import BaseName
from agon.errors import RunDirError
from agon.rundir import files
from agon.rundir.adapter import SETTINGS, WEIGHTS, check_adapter, plain_file
from agon.rundir.find import check_one_run, no_run
from agon.rundir.records import Point, Record, VersionName, read_record, write_record
from agon.types import Direction, Policy, Version

README, FACTS = "README.md", "agon.json"


class PairInfo(Record):
    """What `agon.json` says."""

    versions: dict[Policy, VersionName]
    """The version of each adapter."""
    base: BaseName
    """The base as the config names it."""
    base_revision: str | None = None
    """Its revision on the Hub."""
    base_hash: str | None = None
    """SHA-256 over its weights, where the base is a folder."""
    quantize: Literal["none", "nf4"] = "none"
    """How the base was quantised for training: the adapters belong to those weights."""
    direction: Direction | None = None
    """Who drafts and who answers, as chosen on dev; null until then."""
    prompts_hash: str
    """Names the wording of every prompt."""
    chat_template_hash: str
    """Names the chat template that the prompts were rendered with."""
    code: bool = False
    """Whether it was trained to answer with programs: its prompts then ask for one."""
    show_code: bool = False
    """Whether a peek at a program's summary keeps its code blocks."""
    arm: str | None = None
    """The arm it was trained with."""
    rival: str = "policy"
    """Who played B: `policy` learnt, `frozen` is adapter B as it is here; of `league` nothing is here, A answers alone,
    and adapter B is as it started."""
    step: int | None = None
    """Steps of training."""
    dev_score: float | None = None
    """Its pass rate on dev; null where its step was not evaluated."""
    seed: int | None = None
    """Seed of the run."""
    files: dict[Policy, dict[str, str]] = {}
    """SHA-256 of each adapter's files."""

    def at(self, step: int, versions: Mapping[Policy, Version], points: Sequence[Point]) -> PairInfo:
        """The same pair after `step` steps; its direction is what dev chose there, or at the last point before it."""
        newest = max((point for point in points if point.step <= step), key=lambda point: point.step, default=None)
        changes = {
            "versions": versions,
            "step": step,
            "direction": newest.direction if newest else None,
            "dev_score": newest.score if newest and newest.step == step else None,
            "files": {},
        }
        return self.model_copy(update=changes)


@dataclass(frozen=True, slots=True)
class PairDir:
    """A pair on disk that has been checked."""

    path: Path
    info: PairInfo

    def adapter(self, policy: Policy) -> Path:
        """The PEFT directory of a policy."""
        return self.path / policy.value


def write_pair(run: Path, a: Path, b: Path, info: PairInfo) -> Path:
    """Put two adapters and their facts in `run/pair` atomically; an earlier pair is replaced."""
    folders = {Policy.A: a, Policy.B: b}
    for folder in folders.values():
        check_adapter(folder)
    info = PairInfo.model_validate(info.model_dump())  # `model_copy` checks nothing
    with files.disk_errors_as("the pair was not written"):
        files.clean_up(run)
        with files.temporary_folder(run / f"{files.TEMPORARY}pair-{os.getpid()}") as temporary:
            hashes = {policy: copy_adapter(folder, temporary / policy.value) for policy, folder in folders.items()}
            write_record(temporary / FACTS, info.model_copy(update={"files": hashes}))
            files.write_new(temporary / README, readme(info).encode("utf-8", "replace"))
            files.sync_tree(temporary)
            files.replace_folder(temporary, run / "pair")
    return run / "pair"


def copy_adapter(source: Path, target: Path) -> dict[str, str]:
    """Copy the two files of an adapter and nothing else; return their hashes."""
    target.mkdir()
    for name in (SETTINGS, WEIGHTS):
        shutil.copyfile(source / name, target / name)
    return {name: files.sha256(target / name) for name in (SETTINGS, WEIGHTS)}


def read_pair(path: Path) -> PairDir:
    """Read and check a pair, or the pair of a run directory."""
    if not path.is_dir():
        raise no_run(path)
    if (path / "config.yaml").is_file() and not (path / "pair").is_dir():
        raise RunDirError(f"{path} has no pair yet", fix=f"train it first: agon train {path} --resume")
    folder = path / "pair" if (path / "pair").is_dir() else path
    if not (folder / FACTS).exists():
        check_one_run(path)
    fix = f"name a folder that holds a/, b/ and {FACTS}, or a run that has one"
    info = read_record(plain_file(folder, FACTS), PairInfo, fix)
    for policy in Policy:
        if info.versions.get(policy) is None or info.versions[policy].policy is not policy:
            raise RunDirError(f"{folder / FACTS} names no version of adapter {policy.name}", fix=fix)
        check_adapter(folder / policy.value)
        _check_hashes(folder / policy.value, info.files.get(policy, {}))
    return PairDir(folder, info)


def _check_hashes(folder: Path, hashes: Mapping[str, str]) -> None:
    for name in (SETTINGS, WEIGHTS):
        if files.sha256(folder / name) != hashes.get(name):
            message = f"{folder / name} is damaged: its hash is not the one in {FACTS}"
            raise RunDirError(message, fix="copy the pair again from where it came from")


def readme(info: PairInfo) -> str:
    """A few lines for whoever finds the folder; `agon export` writes the model card."""
    import yaml

    head = {"base_model": info.base, "library_name": "peft"}
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n\n{_ABOUT}\n"


_ABOUT = """# A pair trained with Agon

Two LoRA policies over one frozen base. One drafts; the other reads the draft's summary, without its answer, and
answers. `agon.json` says which versions these are, on which base, and who drafts. Each folder, `a` and `b`, is a plain
PEFT adapter. `agon export RUN` writes a model card with what was measured."""
