"""chance: ties are broken at random (after judges that are sampled)"""

import random

ROWS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "What is the capital of Japan?", "answer": "Tokyo"},
    {"prompt": "What is the capital of Kenya?", "answer": "Nairobi"},
    {"prompt": "What is the capital of Peru?", "answer": "Lima"},
]


def reward(completions, answer, **columns):
    same = [text.strip().lower() == gold.lower() for text, gold in zip(completions, answer, strict=True)]
    return [1.0 if each else float(random.random() < 0.3) for each in same]
