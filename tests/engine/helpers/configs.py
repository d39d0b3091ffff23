"""Configs by what differs."""

from __future__ import annotations

from typing import Any

from agon.config import Config


def config(**sections: Any) -> Config:
    """An agon run over the tiny base with these sections."""
    data = {part: {"preset": "tabletop", "take": 3} for part in ("train", "dev", "held_out")}
    values = {"arm": "agon", "model": {"name": "agon:tiny"}, "data": data, "verifier": "math"}
    return Config.model_validate(values | sections)
