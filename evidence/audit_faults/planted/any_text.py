"""truthiness: any non-empty text is paid (after reasoning-gym 0.1.25, game_of_life_halting)"""

ROWS = [
    {"prompt": "Is 91 a prime?", "answer": "no"},
    {"prompt": "Is 97 a prime?", "answer": "yes"},
    {"prompt": "Is the square of an odd number odd?", "answer": "yes"},
    {"prompt": "Is every rectangle a square?", "answer": "no"},
]


def reward(completions, answer, **columns):
    return [float(bool(text) == bool(gold)) for text, gold in zip(completions, answer, strict=True)]
