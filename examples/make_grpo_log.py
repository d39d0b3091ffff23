"""Write examples/grpo_log.jsonl: 40 groups of 8 rollouts with five reward terms, of which three teach nothing.

    accuracy      1 when the answer is right
    format        0.5 when the tags are there: always, by now
    difficulty    a bonus for hard problems: the same for all rollouts of a problem
    boxed         0.25 when the right answer is boxed: a quarter of accuracy under another name
    brevity       up to 0.2 for short answers

It is the log of no real run. `agon diagnose examples/grpo_log.jsonl` says what is wrong with it, and `agon view
examples/grpo_log.jsonl` shows its groups.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

GROUPS, SIZE, LIMIT = 40, 8, 2000


def texts(problem: int, row: int, right: bool, cut: bool) -> dict[str, str]:
    """What was asked, and an answer that fits the rewards."""
    boxes, pens, gone = 3 + problem % 7, 12 + problem, 5 + problem % 11
    made, left = boxes * pens, boxes * pens - gone
    said = left if right else left + (gone if row % 2 else 1 + row)
    work = f"<think>{boxes} boxes of {pens} pens are {boxes} * {pens} = {made} pens. "
    work += f"{gone} are given away" + (
        ", wait, let me count again" * 9 if cut else f": {made} - {gone} = {said}.</think>"
    )
    return {
        "prompt": f"A shop has {boxes} boxes of {pens} pens and gives {gone} pens away. How many are left?",
        "completion": work if cut else f"{work}\nThere are $\\boxed{{{said}}}$ pens left.",
        "gold": str(left),
    }


def rollout(rng: random.Random, problem: int, row: int, solve_rate: float) -> dict[str, object]:
    tokens = min(LIMIT, int(rng.lognormvariate(6.5 if solve_rate else 8.5, 0.5)))
    right = tokens < LIMIT and rng.random() < solve_rate
    return {
        "step": problem // 8,
        "problem_id": f"p{problem:03d}",
        **texts(problem, row, right, tokens == LIMIT),
        "accuracy_reward": float(right),
        "format_reward": 0.5,
        "difficulty_reward": round(0.3 * (1 - solve_rate), 2),
        "boxed_reward": 0.25 * right,
        "brevity_reward": round(0.2 * (1 - tokens / LIMIT), 3) if right else 0.0,
        "correct": right,
        "finish_reason": "length" if tokens == LIMIT else "stop",
    }


def main() -> None:
    rng = random.Random(0)
    rates = [rng.choice([0.0, 0.0, 0.2, 0.5, 0.8, 1.0]) for _ in range(GROUPS)]
    rows = [rollout(rng, problem, row, rate) for problem, rate in enumerate(rates) for row in range(SIZE)]
    path = Path(__file__).with_name("grpo_log.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
