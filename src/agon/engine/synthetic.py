"""Rollouts of random tokens and bases of random weights: what a step costs, and whether it fits, without a download.

Used by tests, evidence scripts, the GPU acceptance kit and the rehearsal of a run. Random bases have the architectures
of the families that the paper trains, at any size.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from agon.protocols import Tokens
from agon.types import Completion, Policy, Problem, Prompt, Reason, Rollout, Stream, StreamName, Verdict, Version

PROBLEM = Problem(id="synthetic", question="", answer="")
VERDICT = Verdict(correct=False, well_formed=False, reason=Reason.WRONG)


def rollout(policy: Policy, index: int, tokens: Tokens, advantage: float | None) -> Rollout:
    """A rollout that a learner treats like any other."""
    sizes = len(tokens.prompt_ids), len(tokens.completion_ids)
    completion = Completion("", Version.of(policy, 0, "synthetic"), *sizes, tokens=tokens)
    return Rollout(PROBLEM, index, policy, Prompt(()), completion, VERDICT, advantage=advantage)


def random_tokens(rng: random.Random, vocabulary: int, prompt: int, completion: int) -> Tokens:
    """Random ids of the given lengths, without log-probabilities."""
    ids = [rng.randrange(1, vocabulary) for _ in range(prompt + completion)]
    return Tokens(tuple(ids[:prompt]), tuple(ids[prompt:]))


def stream(policy: Policy, groups: Iterable[Iterable[Rollout]], name: StreamName = "standalone") -> Stream:
    return Stream(name, policy, tuple(tuple(group) for group in groups))


def worst_case(policy: Policy, rows: int, vocabulary: int, prompt: int, completion: int, seed: int = 0) -> Stream:
    """`rows` live rollouts of the longest prompt and completion that a config allows."""
    rng = random.Random(seed)
    signs = [1.0 if i % 2 else -1.0 for i in range(rows)]
    drawn = [random_tokens(rng, vocabulary, prompt, completion) for _ in signs]
    return stream(policy, [[rollout(policy, i, drawn[i], sign) for i, sign in enumerate(signs)]])


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
