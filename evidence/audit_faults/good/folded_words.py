"""good: the same without regard to case"""

ROWS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "What is the capital of Japan?", "answer": "Tokyo"},
    {"prompt": "What is the capital of Kenya?", "answer": "Nairobi"},
    {"prompt": "What is the capital of Peru?", "answer": "Lima"},
]


def reward(completions, answer, **columns):
    return [float(text.strip().casefold() == gold.casefold()) for text, gold in zip(completions, answer, strict=True)]
