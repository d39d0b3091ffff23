"""good: the letter in the last answer block, which must be alone"""

import re

ROWS = [
    {"prompt": "Which is a prime? (A) 4 (B) 7 (C) 9 (D) 15", "answer": "B"},
    {"prompt": "Which is a mammal? (A) whale (B) shark (C) trout (D) eel", "answer": "A"},
    {"prompt": "Which is a gas? (A) iron (B) gold (C) salt (D) neon", "answer": "D"},
    {"prompt": "Which is red? (A) grass (B) sky (C) blood (D) snow", "answer": "C"},
]


def reward(completions, answer, **columns):
    found = [re.findall(r"<answer>([^<]*)</answer>", text) for text in completions]
    return [float(bool(f) and f[-1].strip(" ()\n") == gold) for f, gold in zip(found, answer, strict=True)]
