"""good: yes or no as the last line"""

ROWS = [
    {"prompt": "Is 91 a prime?", "answer": "no"},
    {"prompt": "Is 97 a prime?", "answer": "yes"},
    {"prompt": "Is the square of an odd number odd?", "answer": "yes"},
    {"prompt": "Is every rectangle a square?", "answer": "no"},
]


def reward(completions, answer, **columns):
    lasts = [text.strip().splitlines()[-1].strip().lower() if text.strip() else "" for text in completions]
    return [float(last == gold) for last, gold in zip(lasts, answer, strict=True)]
