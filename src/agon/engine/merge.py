"""A base with one LoRA adapter merged into its weights, as a plain checkpoint with its tokenizer."""

from __future__ import annotations

from pathlib import Path

from agon.engine.base_config import check_on_hub
from agon.engine.safe_load import add_adapter, cannot_load, load_model


def merge(base: str, adapter: Path, folder: Path) -> None:
    """Write `base` plus `adapter` to `folder`, summed in float32 and rounded once, to the base's own dtype."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    check_on_hub(base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False)
        config = AutoConfig.from_pretrained(base, trust_remote_code=False)
    except Exception as error:  # a damaged file makes transformers raise nearly anything
        raise cannot_load(base, error) from error
    # a composite, such as Qwen3.5, may name it for its text model alone
    dtype = getattr(config, "dtype", None) or getattr(config.get_text_config(), "dtype", None) or torch.float32
    merged = add_adapter(load_model(base, torch.float32), adapter, "default").merge_and_unload(safe_merge=True)
    merged.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
