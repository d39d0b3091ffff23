"""Random checkpoints on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agon.engine.tiny.checkpoint import load_tokenizer, save, tiny_base, token_settings
from tests.engine.helpers.bases import random_base


def random_checkpoint(folder: Path, architecture: str = "qwen3", seed: int = 0, **sizes: Any) -> Path:
    """A random checkpoint of a family's architecture (qwen3, qwen3_5, gemma4, llama) with the tiny tokenizer."""
    tokenizer = load_tokenizer(tiny_base())
    settings = token_settings(tokenizer)
    if architecture == "gemma4":
        settings["vocab_size_per_layer_input"] = settings["vocab_size"]
    save(folder, random_base(architecture, seed, **settings | sizes), tokenizer)
    return folder
