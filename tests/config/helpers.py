"""Small configs for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agon.config import Config, load_config
from agon.config.keys import name_of, sections
from agon.errors import ConfigError

MINIMAL = """\
schema: 1
arm: agon
model:
  name: some/base
data:
  train: {preset: gsm8k, take: 100}
  dev: {preset: gsm8k, take: 10}
  held_out: {preset: gsm8k, take: 10}
verifier: math
"""


def write(folder: Path, text: str, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def config(**changes: Any) -> Config:
    source = {"preset": "gsm8k", "take": 100}
    values = {"arm": "agon", "model": {"name": "some/base"}, "verifier": "math"}
    return Config.model_validate({**values, "data": {"train": source, "dev": source, "held_out": source}, **changes})


def description(key: str) -> str:
    """What the models say of a dotted key that is not a section."""
    *above, name = key.split(".")
    model: type[BaseModel] = Config
    for part in above:
        model = sections(model)[part]
    return next(info.description or "" for field, info in model.model_fields.items() if name_of(model, field) == name)


def faults(path: Path, *overrides: str) -> list[str]:
    """Every mistake in a file, without the folder it lies in."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return [fault.replace(f"{path.parent}/", "") for fault in caught.value.faults]
