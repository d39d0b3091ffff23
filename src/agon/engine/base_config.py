"""Where a base is published, and its config.json, without torch: ours, a folder's, or the Hub's."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from agon.config import Model
from agon.engine.published import RECIPES, TEXT
from agon.engine.shipped import SHIPPED, folder_of
from agon.errors import ConfigError, EngineError

FILE = "config.json"
COMMIT = re.compile("[0-9a-f]{40}")
OTHER_FORMATS = ["*.gguf", "*.onnx", "*.pth", "*.h5", "*.msgpack", "original/*", "onnx/*"]
"""Files of a repository that no engine reads."""
TOKENIZER_FILES = ["*.json", "*.jinja", "*.model", "*.txt"]


def base_path(model: Model) -> str:
    """Where transformers and vLLM find the base: a folder for our own, else the name itself."""
    return str(folder_of(model.name)) if model.name.startswith(SHIPPED) else model.name


def published_files(model: Model, *, weights: bool = True) -> str:
    """The base as it is published: a folder, where the config names a revision on the Hub; else its path or name."""
    path = base_path(model)
    if model.revision is None or Path(path).is_dir():
        return path
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    wanted = None if weights else TOKENIZER_FILES
    try:
        return snapshot_download(path, revision=model.revision, allow_patterns=wanted, ignore_patterns=OTHER_FORMATS)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is not available at revision {model.revision}: {error}",
            fix="check model.name, model.revision and the network",
        ) from error


def read_base_config(model: Model) -> dict[str, Any]:
    """What a base is published with; the bases of the paper's tables and of recipes are known without a network."""
    if known := (TEXT | RECIPES).get(model.name):
        return known
    try:
        folder = Path(base_path(model))
        file = folder / FILE if folder.is_dir() else _from_hub(model)
        config: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError, ImportError) as error:
        raise EngineError(f"cannot read the config of {model.name}", fix="check model.name and the network") from error
    return config


def hub_answers(timeout: float = 5.0) -> bool:
    """Whether the model hub can be reached; its own client retries for half a minute, with warnings."""
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    try:
        urllib.request.urlopen(urllib.request.Request(constants.ENDPOINT, method="HEAD"), timeout=timeout)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def check_on_hub(name: str, revision: str | None = None) -> None:
    """Refuse a base that is neither a folder nor in the Hub's cache where the Hub cannot be reached."""
    from huggingface_hub import constants, try_to_load_from_cache

    try:
        known = Path(name).is_dir() or isinstance(try_to_load_from_cache(name, FILE, revision=revision), str)
    except ValueError:  # not a name of the Hub: a path
        return
    if known or hub_answers():
        return
    offline = constants.is_offline_mode()
    why = "HF_HUB_OFFLINE is set" if offline else f"{constants.ENDPOINT} cannot be reached from here"
    first = "unset HF_HUB_OFFLINE" if offline else "connect to the network"
    raise ConfigError(
        f"the base {name} is neither a folder nor in the cache of this machine, and {why}",
        fix=f"{first}, or copy the base to this machine and set model.name to its folder",
    )


def revision_of(model: Model) -> str | None:
    """The revision that the config names, or the commit on the Hub that is loaded without one; None for a folder, a
    base of ours, or where the commit is not known."""
    if model.revision is not None:
        return model.revision
    if Path(base_path(model)).is_dir():
        return None
    try:
        found = _from_hub(model).parent.name  # .../snapshots/COMMIT/config.json
    except (OSError, ValueError, ImportError):  # loading it reports why
        return None
    return found if COMMIT.fullmatch(found) else None


def _from_hub(model: Model) -> Path:
    """The file in the Hub's cache, or downloaded."""
    from huggingface_hub import hf_hub_download

    local = not hub_answers()
    return Path(hf_hub_download(model.name, FILE, revision=model.revision, local_files_only=local))
