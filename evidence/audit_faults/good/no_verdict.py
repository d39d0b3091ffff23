"""good: None where the text is too long to be judged"""

ROWS = [
    {"prompt": "What is the capital of France?", "answer": "Paris"},
    {"prompt": "What is the capital of Japan?", "answer": "Tokyo"},
    {"prompt": "What is the capital of Kenya?", "answer": "Nairobi"},
    {"prompt": "What is the capital of Peru?", "answer": "Lima"},
]


def reward(completions, answer, **columns):
    return [
        None if len(text) > 5000 else float(text.strip() == gold)
        for text, gold in zip(completions, answer, strict=True)
    ]
