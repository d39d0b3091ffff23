"""The bases of the paper's scaling table and of recipes: the text configs that they are published with."""

from __future__ import annotations

from typing import Any

_QWEN3: dict[str, Any] = {
    **{"model_type": "qwen3", "vocab_size": 151_936, "max_position_embeddings": 40_960, "tie_word_embeddings": True},
    **{"num_key_value_heads": 8, "head_dim": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
}
TEXT: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-0.6B": _QWEN3
    | {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16},
    "Qwen/Qwen3-1.7B": _QWEN3
    | {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16},
    "Qwen/Qwen3-4B": _QWEN3
    | {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32},
    "Qwen/Qwen3.5-2B": {
        **{"model_type": "qwen3_5_text", "vocab_size": 248_320, "max_position_embeddings": 262_144},
        **{"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "tie_word_embeddings": True},
        **{"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256},
        **{"linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_conv_kernel_dim": 4},
        **{"linear_key_head_dim": 128, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32"},
        **{"attn_output_gate": True, "mtp_num_hidden_layers": 1},
        "layer_types": [*["linear_attention"] * 3, "full_attention"] * 6,
        "rope_parameters": {
            **{"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
            **{"mrope_interleaved": True, "mrope_section": [11, 11, 10]},
        },
    },
    "google/gemma-4-E4B-it": {
        **{"model_type": "gemma4_text", "vocab_size": 262_144, "max_position_embeddings": 131_072},
        **{"hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 42, "tie_word_embeddings": True},
        **{"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512},
        **{"hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262_144, "num_kv_shared_layers": 18},
        **{"sliding_window": 512, "final_logit_softcapping": 30.0},
        "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 7,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
        },
    },
}
"""The text model of each base, by the name under which it is published."""
RECIPES: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-8B": _QWEN3
    | {"hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36, "num_attention_heads": 32}
    | {"tie_word_embeddings": False},
    "Qwen/Qwen3-14B": _QWEN3
    | {"hidden_size": 5120, "intermediate_size": 17_408, "num_hidden_layers": 40, "num_attention_heads": 40}
    | {"tie_word_embeddings": False},
    "Qwen/Qwen3-32B": _QWEN3
    | {"hidden_size": 5120, "intermediate_size": 25_600, "num_hidden_layers": 64, "num_attention_heads": 64}
    | {"tie_word_embeddings": False},
    "meta-llama/Llama-3.3-70B-Instruct": {
        **{"model_type": "llama", "vocab_size": 128_256, "max_position_embeddings": 131_072},
        **{"hidden_size": 8192, "intermediate_size": 28_672, "num_hidden_layers": 80, "tie_word_embeddings": False},
        **{"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128},
    },
}
"""Likewise of bases that only recipes and the table of hardware name."""
