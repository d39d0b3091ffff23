"""process: the first element of a set decides (after scorers that depend on PYTHONHASHSEED)"""

import re

ROWS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "What is the capital of Japan?", "answer": "Tokyo"},
    {"prompt": "What is the capital of Kenya?", "answer": "Nairobi"},
    {"prompt": "What is the capital of Peru?", "answer": "Lima"},
]


def reward(completions, answer, **columns):
    chosen = [next(iter({*re.findall(r"[A-Za-z]+", text)} or {""})) for text in completions]
    return [float(each == gold) for each, gold in zip(chosen, answer, strict=True)]
