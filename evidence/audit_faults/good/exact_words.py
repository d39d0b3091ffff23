"""good: the stripped text equals the gold"""

ROWS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "What is the capital of Japan?", "answer": "Tokyo"},
    {"prompt": "What is the capital of Kenya?", "answer": "Nairobi"},
    {"prompt": "What is the capital of Peru?", "answer": "Lima"},
]


def reward(completions, answer, **columns):
    return [float(text.strip() == gold) for text, gold in zip(completions, answer, strict=True)]
