"""Bases and adapters that ship with the package, by name: `agon:tiny`, `agon:halves`, `agon:halves/a`.

`agon:tiny` is a Qwen3 of about a million parameters, pretrained on worked `tabletop` chains: it reasons, recaps and
answers, it reads a rival's recap, and it is wrong often enough to learn. `experiments/tabletop` made it.
"""

from __future__ import annotations

from pathlib import Path

from agon.config import Init
from agon.errors import ConfigError
from agon.rundir.adapter import check_adapter
from agon.rundir.files import weights_hash
from agon.types import Policy

SHIPPED = "agon:"
ASSETS = Path(__file__).resolve().parents[1] / "assets"


def folder_of(name: str) -> Path:
    """The folder behind a name of ours, or behind a path."""
    if not name.startswith(SHIPPED):
        return Path(name)
    folder = ASSETS / name.removeprefix(SHIPPED)
    if not folder.resolve().is_relative_to(ASSETS) or not folder.is_dir():
        bases = sorted(f"{SHIPPED}{path.parent.name}" for path in ASSETS.glob("*/tiny.json"))
        raise ConfigError(f"{name} does not ship with the package", fix=f"choose from: {', '.join(bases)}")
    return folder


def init_folders(init: Init) -> dict[Policy, Path]:
    """The folders that policies start from, checked: those of `model.init` that name one."""
    named = {Policy.A: init.a, Policy.B: init.b}
    folders = {policy: folder_of(name) for policy, name in named.items() if name not in ("zero", "noise")}
    for folder in folders.values():
        check_adapter(folder)
    return folders


def init_hashes(init: Init) -> dict[Policy, str]:
    """A hash of the weights of every adapter that a policy starts from."""
    return {policy: weights_hash(folder) or "" for policy, folder in init_folders(init).items()}
