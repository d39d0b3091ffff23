"""The config of a run: read a YAML file with `load_config`, get a frozen, validated `Config`."""

from agon.config.models import (
    PRESETS,
    Config,
    Data,
    Eval,
    GameConfig,
    Init,
    Lora,
    Model,
    SamplerConfig,
    Save,
    Scalar,
    Source,
    Train,
    diff,
    flat,
    json_schema,
    resolved,
)
from agon.config.validate import load_config

__all__ = [
    "PRESETS",
    "Config",
    "Data",
    "Eval",
    "GameConfig",
    "Init",
    "Lora",
    "Model",
    "SamplerConfig",
    "Save",
    "Scalar",
    "Source",
    "Train",
    "diff",
    "flat",
    "json_schema",
    "load_config",
    "resolved",
]
