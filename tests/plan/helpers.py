"""Configs of the paper's recipe, for the plan's tests."""

from __future__ import annotations

from pathlib import Path

from agon.config import Config, load_config

RECIPE = Path(__file__).resolve().parents[2] / "configs" / "paper" / "main" / "agon.yaml"


def recipe(*overrides: str) -> Config:
    return load_config(RECIPE, overrides)
