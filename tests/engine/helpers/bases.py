"""Bases of random weights, without a download: the architectures of the families that the paper trains, at any size.

A cut copy has the architecture of a published checkpoint at a size that a CPU can run: fewer layers, narrower ones, a
small vocabulary. Every kind of layer stays, in the published order, and the copy is written as the original is
published: text and towers in one composite checkpoint where the original is one, with the tensors that a loader has to
skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agon.engine.published import TEXT
from agon.engine.shipped import folder_of
from tests.engine.helpers.checkpoints import load_tokenizer, save, token_settings

FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3": {"model_type": "qwen3"},
    "qwen3_5": {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
    },
    "gemma4": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "sliding_window": 16,
        "global_head_dim": 16,
        "vocab_size_per_layer_input": 64,
        "hidden_size_per_layer_input": 8,
        "final_logit_softcapping": 30.0,
    },
    "llama": {"model_type": "llama"},
}
"""What makes each family itself: linear attention between full attention, per-layer inputs, shared keys, soft caps."""

TINY: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}


def random_base(family: str = "qwen3", seed: int = 0, **sizes: Any) -> Any:
    """A causal language model of a family's architecture with random weights; tiny unless `sizes` say otherwise."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {**TINY, **FAMILIES[family], **sizes}
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config)


def random_checkpoint(folder: Path, architecture: str = "qwen3", seed: int = 0, **sizes: Any) -> Path:
    """A random checkpoint of a family's architecture with the tokenizer of `agon:tiny`."""
    tokenizer = load_tokenizer(folder_of("agon:tiny"))
    settings = token_settings(tokenizer)
    if architecture == "gemma4":
        settings["vocab_size_per_layer_input"] = settings["vocab_size"]
    save(folder, random_base(architecture, seed, **settings | sizes), tokenizer)
    return folder


CUT: dict[str, dict[str, Any]] = {
    "qwen3": {"num_hidden_layers": 3, "head_dim": 32},
    "qwen3_5_text": {
        **{"num_hidden_layers": 4, "head_dim": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 2},
        "mrope_section": [3, 3, 2],
    },
    "gemma4_text": {
        **{"num_hidden_layers": 12, "num_kv_shared_layers": 6, "head_dim": 32, "global_head_dim": 64},
        **{"hidden_size_per_layer_input": 16, "sliding_window": 64},
    },
}
"""What a cut changes in each architecture besides its width: layers to the first whole periods, half of Gemma 4's with
shared keys and values; heads narrower, or fewer where a kernel has one width; a window that short prompts fill."""
WIDTH = 16
"""How many times narrower a cut is."""
SPREAD = 0.1
"""Standard deviation of the random weights: large enough that every adapter shows in the log-probs. In bfloat16 Gemma 4
needs less: rounding alone would exceed what the canary accepts."""

_VISION: dict[str, dict[str, Any]] = {
    "qwen3_5_text": {
        **{"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2},
        **{"num_position_embeddings": 16, "patch_size": 4},
    },
    "gemma4_text": {
        **{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2},
        **{"num_key_value_heads": 2, "head_dim": 16, "position_embedding_size": 64},
    },
}
_AUDIO: dict[str, Any] = {
    **{"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "output_proj_dims": 32},
    "subsampling_conv_channels": [8, 4],
}


def cut_text(name: str, **settings: Any) -> dict[str, Any]:
    """The text config of a base, cut; `settings` come from a tokenizer, or are of your own."""
    published = TEXT[name]
    cut = CUT[published["model_type"]]
    narrow = {key: published[key] // WIDTH for key in ("hidden_size", "intermediate_size")}
    config = published | narrow | {key: value for key, value in cut.items() if key != "mrope_section"}
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][: config["num_hidden_layers"]]
    if "mrope_section" in cut:
        config["rope_parameters"] = config["rope_parameters"] | {"mrope_section": cut["mrope_section"]}
    if "vocab_size_per_layer_input" in config and "vocab_size" in settings:
        config["vocab_size_per_layer_input"] = settings["vocab_size"]
    return config | settings


def write_cut(name: str, folder: Path, tokenizer: Any, *, composite: bool = True, spread: float = SPREAD) -> Path:
    """Write a cut copy of a base with a tokenizer; `composite=False` writes the text model alone."""
    import torch

    config = cut_text(name, **token_settings(tokenizer), initializer_range=spread)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _composite(config) if composite and config["model_type"] in _VISION else _text(config)
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms start as constants, which any mistake in loading them would leave alike
                parameter.data += spread * torch.randn_like(parameter)
        save(folder, model, tokenizer)
        _add_skipped(folder / "model.safetensors", config)
    return folder


def _text(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))


def _composite(config: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForImageTextToText

    kind = config["model_type"]
    towers: dict[str, Any] = {"vision_config": dict(_VISION[kind])}
    if kind == "qwen3_5_text":
        towers["vision_config"]["out_hidden_size"] = config["hidden_size"]
    else:
        towers["audio_config"] = _AUDIO
    whole = AutoConfig.for_model(
        kind.removesuffix("_text"), text_config=config, tie_word_embeddings=config["tie_word_embeddings"], **towers
    )
    return AutoModelForImageTextToText.from_config(whole)


def _add_skipped(file: Path, config: dict[str, Any]) -> None:
    """Add what published checkpoints carry and no loader uses: Qwen3.5's layer that predicts further tokens, and the
    projections of Gemma 4's layers whose keys and values are shared."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(file)
    for name, shape in _skipped(config, "model.language_model." in "".join(tensors)):
        tensors[name] = torch.randn(shape)
    save_file(tensors, file, metadata={"format": "pt"})


def _skipped(config: dict[str, Any], composite: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden = config["hidden_size"]
    if config["model_type"] == "qwen3_5_text":
        yield "mtp.fc.weight", (hidden, 2 * hidden)
        yield "mtp.layers.0.mlp.down_proj.weight", (hidden, config["intermediate_size"])
    if config["model_type"] == "gemma4_text":
        layers = "model.language_model.layers" if composite else "model.layers"
        for number in range(config["num_hidden_layers"] - config["num_kv_shared_layers"], config["num_hidden_layers"]):
            full = config["layer_types"][number] == "full_attention"
            width = config["global_head_dim" if full else "head_dim"]
            yield f"{layers}.{number}.self_attn.k_norm.weight", (width,)
            for projection in ("k_proj", "v_proj"):
                shape = (width * config["num_key_value_heads"], hidden)
                yield f"{layers}.{number}.self_attn.{projection}.weight", shape
