"""What packing saves: learner seconds for both streams on rows of very different lengths, against stock TRL.

32 rows with the lengths that the plan assumes (log-normal, their mean 40% of the limit), on layers of SmolLM2-135M's
shape: four of thirty, with a vocabulary cut until the head has its share of the whole model's arithmetic. Stock gets
the same rows, in two sizes of batch: the largest whose padded tokens fit in what our learner computes at once, and one
row at a time. In both it pads every row to the longest of the step, so our own
learner with one row at a time, which pads nothing, is measured too, without an aim: on a CPU a row alone stays in the
cache, on a GPU it would leave most of it idle. All of them alternate (`_learner_steps.py`).
"""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import torch

from _learner_steps import Ours, Stock, Work
from _lib import arguments, ratio_interval, verdict
from agon.engine.synthetic import random_tokens
from agon.plan.hours import Assumptions
from agon.protocols import Tokens

AIMS = {"stock": 0.7, "stock, one row": 1.0}
UNPADDED = "one row, not padded"
ASSUMED = Assumptions()
LAYERS, GROUPS, SIZE, TOKENS = 4, 4, 8, 4_800
VOCABULARY = 49_152 * LAYERS // 30
LONGEST, PROMPTS = 512, (40, 120)
SMOLLM2: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": LAYERS},
    **{"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "max_position_embeddings": 4096},
}
QUICK: dict[str, Any] = {
    **{"vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 4096},
}


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1 if args.quick else 2)
    rounds, groups = (2, 2) if args.quick else (5, GROUPS)
    work = Work(groups, SIZE, LONGEST, QUICK if args.quick else SMOLLM2, group)
    batch = largest_batch(groups)
    trainers: dict[str, Ours | Stock] = {
        "ours": Ours(work, TOKENS, rounds),
        "stock": Stock(work, batch, rounds),
        "stock, one row": Stock(work, 1, rounds),
        UNPADDED: Ours(work, 1, rounds),
    }
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for n in range(rounds):
        names = list(trainers)
        for name in names[n:] + names[:n]:
            times[name].append(trainers[name].step(n))
        print(f"round {n + 1}: " + ", ".join(f"{name} {found[-1]:.1f} s" for name, found in times.items()), flush=True)
    ratios = {name: ratio_interval(times["ours"], times[name]) for name in (*AIMS, UNPADDED)}
    verdict(
        "learner seconds for both streams, packed, against stock TRL on the same rows in padded batches and with one "
        "row at a time, and against one row at a time without padding",
        {name: round(found[0], 3) for name, found in ratios.items()},
        {name: f"upper end of the interval at most {aim}" for name, aim in AIMS.items()},
        holds=args.quick or all(ratios[name][2] <= aim for name, aim in AIMS.items()),
        intervals={name: [round(found[1], 3), round(found[2], 3)] for name, found in ratios.items()},
        n=rounds,
        rows=f"{groups * SIZE} of at most {LONGEST} tokens; {ASSUMED.rows()['completions']}",
        batch=batch,
        padding=round(padding(groups), 2),
        quick=args.quick,
    )


def group(step: int, index: int) -> list[Tokens]:
    """One problem's completions: one prompt, log-normal lengths."""
    rng = random.Random(f"{step}/{index}")
    prompt = random_tokens(rng, 512, rng.randint(*PROMPTS), 0).prompt_ids
    middle = ASSUMED.mean * LONGEST * math.exp(-(ASSUMED.spread**2) / 2)
    lengths = [min(max(int(rng.lognormvariate(0, ASSUMED.spread) * middle), 1), LONGEST) for _ in range(SIZE)]
    return [Tokens(prompt, random_tokens(rng, 512, 0, length).completion_ids) for length in lengths]


def rows_of(groups: int) -> tuple[list[Tokens], int]:
    """The rows of the first step, and how wide stock makes each of them."""
    rows = [row for index in range(groups) for row in group(0, index)]
    return rows, max(len(row.prompt_ids) for row in rows) + max(len(row.completion_ids) for row in rows)


def largest_batch(groups: int) -> int:
    """Rows of the largest batch that divides a step and fits."""
    _, width = rows_of(groups)
    return max(size for size in (1, 2, 4, 8, 16) if size * width <= TOKENS)


def padding(groups: int) -> float:
    """Tokens that stock computes for each token of a row."""
    rows, width = rows_of(groups)
    return width * len(rows) / sum(len(row.prompt_ids) + len(row.completion_ids) for row in rows)


if __name__ == "__main__":
    main()
