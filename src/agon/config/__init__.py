"""The config of a run: read a YAML file with `load_config`, get a frozen, validated `Config`."""

from agon.config.bases import Init, Lora, Model
from agon.config.models import (
    PRESETS,
    Config,
    Data,
    Eval,
    GameConfig,
    RewardConfig,
    SamplerConfig,
    SandboxConfig,
    Save,
    Source,
    Train,
    diff,
    flat,
    resolved,
)
from agon.config.rival import Rival
from agon.config.section import Scalar
from agon.config.validate import anchored_config, load_config, overrides_of

__all__ = [
    "PRESETS",
    "Config",
    "Data",
    "Eval",
    "GameConfig",
    "Init",
    "Lora",
    "Model",
    "RewardConfig",
    "Rival",
    "SamplerConfig",
    "SandboxConfig",
    "Save",
    "Scalar",
    "Source",
    "Train",
    "anchored_config",
    "diff",
    "flat",
    "load_config",
    "overrides_of",
    "resolved",
]
