"""Log-probs of a learner for `agon-lens canary --learner examples/learner_scores.py:score`.

LEARNER_BASE names the base, and LEARNER_ADAPTERS the adapters, if any, by the names that the server gives them:
`policy=FOLDER,rival=FOLDER`. LEARNER_DTYPE is the type that your trainer computes in (default: bfloat16). It needs
torch, transformers and, for adapters, PEFT, which agon-lens does not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any


@cache
def learner() -> tuple[Any, Any]:
    """The base with its adapters, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if (base := os.environ.get("LEARNER_BASE")) is None:
        raise RuntimeError("set LEARNER_BASE to the base that your trainer starts from")
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=os.environ.get("LEARNER_DTYPE", "bfloat16"))
    named = [each.partition("=") for each in os.environ.get("LEARNER_ADAPTERS", "").split(",") if each]
    for number, (name, _, folder) in enumerate(named):
        if number:
            model.load_adapter(folder, adapter_name=name)
        else:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, folder, adapter_name=name)
    return model.eval(), AutoTokenizer.from_pretrained(base)


def score(name: str | None, draws: Sequence[Any]) -> list[list[float]]:
    """Log-probs of what the server drew, under the adapter of that name or, for None, under the base."""
    from contextlib import nullcontext

    model, tokenizer = learner()
    if name is not None:
        model.set_adapter(name)
    bare = name is None and hasattr(model, "disable_adapter")
    with model.disable_adapter() if bare else nullcontext():
        return [log_probs(model, tokenizer, draw) for draw in draws]


def log_probs(model: Any, tokenizer: Any, draw: Any) -> list[float]:
    """One row: the prompt as the server tokenizes it, then the ids that it drew."""
    import torch

    prompt = tokenizer(draw.prompt).input_ids
    drawn = list(draw.ids) or tokenizer(draw.text, add_special_tokens=False).input_ids
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *drawn]], device=model.device)).logits[0, len(prompt) - 1 : -1]
    return (
        logits.float()
        .log_softmax(-1)
        .gather(1, torch.tensor(drawn, device=model.device).unsqueeze(1))
        .squeeze(1)
        .tolist()
    )
