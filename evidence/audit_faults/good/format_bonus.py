"""good: 1 for the answer and 0.2 for its form"""

import re

ROWS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "What is the capital of Japan?", "answer": "Tokyo"},
    {"prompt": "What is the capital of Kenya?", "answer": "Nairobi"},
    {"prompt": "What is the capital of Peru?", "answer": "Lima"},
]

FORM = re.compile(r"<think>.*?</think>\s*<answer>([^<>]*)</answer>\s*", re.DOTALL)


def reward(completions, answer, **columns):
    found = [FORM.fullmatch(text.strip()[:20_000]) for text in completions]
    return [(0.2 + (m[1].strip() == gold)) if m else 0.0 for m, gold in zip(found, answer, strict=True)]
