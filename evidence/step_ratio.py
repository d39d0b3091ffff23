"""What two policies cost the learner: seconds of a step that moves both, divided by a stock TRL GRPO step.

The same rows of equal length in both (`_learner_steps.py`); the two alternate.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import torch

from _learner_steps import Ours, Stock, Work
from _lib import arguments, ratio_interval, verdict
from agon.engine.synthetic import random_tokens
from agon.protocols import Tokens

AIM = 1.05
VOCABULARY, GROUPS, SIZE, MICRO = 2048, 4, 4, 8
PROMPT, COMPLETION = 32, 64
SIZES: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 48, "max_position_embeddings": 512},
}


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    pairs, work = 3 if args.quick else 120, Work(GROUPS, SIZE, COMPLETION, SIZES, group)
    ours, stock = Ours(work, MICRO * (PROMPT + COMPLETION), pairs + 1), Stock(work, MICRO, pairs + 1)
    rows = [alternate(ours, stock, n) for n in range(pairs + 1)][1:]  # the first warms up
    ratio, low, high = ratio_interval([a for a, _ in rows], [b for _, b in rows])
    print(f"{pairs} pairs of steps on {GROUPS * SIZE} rows of {PROMPT} + {COMPLETION} tokens: ", end="")
    print(f"both policies {sum(a for a, _ in rows) / pairs:.2f} s, stock {sum(b for _, b in rows) / pairs:.2f} s")
    print(f"ratio {ratio:.3f} (95% interval {low:.3f} to {high:.3f})")
    verdict(
        "learner seconds for both streams against a stock TRL GRPO step on the same rows of equal length, float32, CPU",
        round(ratio, 4),
        f"upper end of the interval at most {AIM}",
        holds=high <= AIM,
        interval=[round(low, 4), round(high, 4)],
        n=pairs,
        rows=f"{GROUPS * SIZE} of {PROMPT} + {COMPLETION} tokens",
        base=f"random, {SIZES['num_hidden_layers']} layers of {SIZES['hidden_size']}, float32",
    )


def alternate(ours: Ours, stock: Stock, n: int) -> tuple[float, float]:
    if n % 2:
        second = stock.step(n)
        return ours.step(n), second
    return ours.step(n), stock.step(n)


def group(step: int, index: int) -> list[Tokens]:
    """One problem's completions: equal prompts, full lengths."""
    rng = random.Random(f"{step}/{index}")
    prompt = random_tokens(rng, VOCABULARY, PROMPT, 0).prompt_ids
    return [Tokens(prompt, random_tokens(rng, VOCABULARY, 0, COMPLETION).completion_ids) for _ in range(SIZE)]


if __name__ == "__main__":
    main()
