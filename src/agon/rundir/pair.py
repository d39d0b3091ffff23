"""What is deployed: `pair/` with adapters `a/` and `b/`, `agon.json`, and a model card of the facts it was given.

A pair may come from a stranger. Reading one imports no code, unpickles nothing and follows no link: adapters are
safetensors or they are refused, every file is hashed against `agon.json`, and versions are names, never paths.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agon.errors import RunDirError, upgrade
from agon.rundir import files
from agon.types import Direction, Policy

SCHEMA = 1
WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"
CARD, FACTS = "README.md", "agon.json"


@dataclass(frozen=True, slots=True)
class PairInfo:
    """What `agon.json` says. `direction` is None until dev has chosen one; `facts` are the rows of the model card."""

    versions: Mapping[Policy, str]
    base: str
    prompts_hash: str
    chat_template_hash: str
    base_revision: str | None = None
    base_hash: str | None = None
    direction: Direction | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    chat_template: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair on disk that has been checked."""

    path: Path
    info: PairInfo

    def adapter(self, policy: Policy) -> Path:
        """The PEFT directory of a policy."""
        return self.path / policy.value


def write_pair(run: Path, a: Path, b: Path, info: PairInfo) -> Path:
    """Put two adapters and their facts in `run/pair`, in one move; an earlier pair is replaced."""
    for version in info.versions.values():
        _name(version)
    folders = {Policy.A: a, Policy.B: b}
    for folder in folders.values():
        check_adapter(folder)
    with files.telling("the pair was not written"):
        files.recover(run)
        with files.building(run / f"{files.TEMPORARY}pair-{os.getpid()}") as temporary:
            hashes = {policy: _copy(folder, temporary / policy.value) for policy, folder in folders.items()}
            files.write_json(temporary / FACTS, _facts(info, hashes))
            files.write_new(temporary / CARD, card(info).encode("utf-8", "replace"))
            files.sync_tree(temporary)
            files.replace_folder(temporary, run / "pair")
    return run / "pair"


def _copy(source: Path, target: Path) -> dict[str, str]:
    """Copy the two files of an adapter and nothing else; return their hashes."""
    target.mkdir()
    for name in (SETTINGS, WEIGHTS):
        shutil.copyfile(source / name, target / name)
    return {name: files.sha256(target / name) for name in (SETTINGS, WEIGHTS)}


def _facts(info: PairInfo, hashes: Mapping[Policy, Mapping[str, str]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "direction": info.direction.value if info.direction else None,
        "versions": {policy.value: version for policy, version in info.versions.items()},
        "base": {"name": info.base, "revision": info.base_revision, "sha256": info.base_hash},
        "prompts": {"sha256": info.prompts_hash, "texts": dict(info.prompts)},
        "chat_template": {"sha256": info.chat_template_hash, "text": info.chat_template},
        "files": {policy.value: dict(names) for policy, names in hashes.items()},
        "facts": dict(info.facts),
    }


def read_pair(path: Path) -> Pair:
    """Read and check a pair, or the pair of a run directory."""
    folder = path / "pair" if (path / "pair").is_dir() else path
    try:
        raw = json.loads(_inside(folder, FACTS).read_text(encoding="utf-8"))
        info = _info(raw)
        for policy in Policy:
            check_adapter(folder / policy.value)
            _check_hashes(folder / policy.value, raw["files"][policy.value])
    except (KeyError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
        fix = f"name a folder that holds a/, b/ and {FACTS}, or a run that has one"
        raise RunDirError(f"{folder} is not a pair: {type(error).__name__}: {error}", fix=fix) from error
    return Pair(folder, info)


def _info(raw: Mapping[str, Any]) -> PairInfo:
    if raw["schema"] != SCHEMA:
        raise RunDirError(f"the pair has schema {raw['schema']!r}, this Agon reads {SCHEMA}", fix=upgrade())
    return PairInfo(
        versions={policy: _name(raw["versions"][policy.value]) for policy in Policy},
        base=_text(raw["base"]["name"]),
        base_revision=_optional(raw["base"]["revision"]),
        base_hash=_optional(raw["base"].get("sha256")),
        direction=None if raw["direction"] is None else Direction(raw["direction"]),
        prompts_hash=_text(raw["prompts"]["sha256"]),
        prompts={_text(name): _text(text) for name, text in raw["prompts"]["texts"].items()},
        chat_template_hash=_text(raw["chat_template"]["sha256"]),
        chat_template=_optional(raw["chat_template"]["text"]),
        facts=dict(raw["facts"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _name(version: object) -> str:
    """A version becomes the name of a folder and of an adapter in an engine: letters, digits and `@._=+-` only."""
    if not files.NAME.fullmatch(_text(version)):
        raise RunDirError(f"{version!r} is not the name of a version", fix="a version reads like a@000123-5f3c9a1e")
    return _text(version)


def _check_hashes(folder: Path, hashes: Mapping[str, str]) -> None:
    for name in (SETTINGS, WEIGHTS):
        if files.sha256(folder / name) != hashes[name]:
            message = f"{folder / name} is damaged: its hash is not the one in {FACTS}"
            raise RunDirError(message, fix="copy the pair again from where it came from")


def _inside(folder: Path, name: str) -> Path:
    """A plain file in `folder`; a link could lead anywhere."""
    path = folder / name
    if path.is_symlink() or folder.is_symlink():
        raise RunDirError(f"{path} is a link", fix="copy the files themselves: cp -rL")
    return path


def check_adapter(folder: Path) -> None:
    """Refuse an adapter that is not a plain LoRA directory with safetensors weights."""
    weights, settings = _inside(folder, WEIGHTS), _inside(folder, SETTINGS)
    if not weights.is_file() or not settings.is_file():
        found = sorted(path.name for path in folder.glob("adapter_model*"))
        have = f" (found {', '.join(found)}, which may run code when loaded)" if found and not weights.is_file() else ""
        fix = "save the adapter again with save_pretrained(..., safe_serialization=True)"
        raise RunDirError(f"{folder} needs {SETTINGS} and {WEIGHTS}{have}", fix=fix)
    try:
        _check_safetensors(weights)
        _check_settings(json.loads(settings.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RunDirError(f"{folder} is not a LoRA adapter: {error}", fix="save the adapter again with PEFT") from error


def _check_safetensors(path: Path) -> None:
    """The header's tensors lie within the file and fill it: then the file holds numbers and nothing else."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, 100_000_000):
            raise ValueError(f"{path.name} has no safetensors header")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    end = 0
    for start, stop in sorted(tuple(tensor["data_offsets"]) for tensor in header.values()):
        if start != end or stop < start:
            raise ValueError(f"{path.name} has tensors that overlap or leave gaps")
        end = stop
    if end != size - 8 - length:
        raise ValueError(f"{path.name} holds {size - 8 - length} bytes of tensors, its header says {end}")


def _check_settings(settings: Mapping[str, Any]) -> None:
    """`auto_mapping` names a module that PEFT may import: only transformers' own are accepted."""
    if settings["peft_type"] != "LORA":
        raise ValueError(f"{SETTINGS} says peft_type {settings['peft_type']!r}")
    library = (settings.get("auto_mapping") or {}).get("parent_library") or "transformers"
    if library.split(".")[0] != "transformers":
        raise ValueError(f"{SETTINGS} would import {library!r}")


def card(info: PairInfo) -> str:
    """A model card that says what it was told and nothing more."""
    import yaml

    head = {"base_model": info.base, "library_name": "peft", "tags": ["agon", "lora", "reasoning"]}
    way = info.direction
    rows = {
        "base": info.base + (f" at {info.base_revision}" if info.base_revision else ""),
        "adapter A": info.versions[Policy.A],
        "adapter B": info.versions[Policy.B],
        "direction": f"{way.drafter.name} drafts, {way.challenger.name} answers" if way else "not chosen yet",
        "prompts (SHA-256)": info.prompts_hash,
        "chat template (SHA-256)": info.chat_template_hash,
        **info.facts,
    }
    table = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items())
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n\n{_ABOUT}\n\n| fact | value |\n| --- | --- |\n{table}\n\n{_USE}\n"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


_ABOUT = """# A pair trained with Agon

Two LoRA policies over one frozen base. One drafts; the other reads the draft's summary, without its answer, and
answers. Each folder, `a` and `b`, is also a plain PEFT adapter."""
_USE = """Serve the cascade with `agon serve FOLDER`, or load one adapter with
`PeftModel.from_pretrained(base, FOLDER, subfolder="a")`."""
