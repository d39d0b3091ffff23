"""A base with one LoRA adapter merged into its weights, as a plain checkpoint with its tokenizer."""

from __future__ import annotations

from pathlib import Path


def merge(base: str, adapter: Path, folder: Path) -> None:
    """Write `base` plus `adapter` to `folder`, summed in float32 and rounded once, to the base's own dtype."""
    import torch
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    dtype = getattr(AutoConfig.from_pretrained(base), "dtype", None) or torch.float32
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, use_safetensors=True)
    merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload(safe_merge=True)
    merged.to(dtype).save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
