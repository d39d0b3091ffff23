"""crash: a fraction with a zero denominator raises ZeroDivisionError, as only ValueError is caught"""

import re
from fractions import Fraction

ASK = " End with a line 'Answer: p', where p is a fraction or a decimal."
ROWS = [
    {"prompt": "Two fair coins are tossed. What is the probability of two heads?" + ASK, "answer": "1/4"},
    {"prompt": "A fair die is rolled. What is the probability of more than 4?" + ASK, "answer": "1/3"},
    {"prompt": "Two fair dice are rolled. What is the probability of a sum of 7?" + ASK, "answer": "1/6"},
    {"prompt": "A card is drawn from 52. What is the probability of an ace?" + ASK, "answer": "1/13"},
    {"prompt": "Of 10 balls 3 are red. What is the probability of drawing one not red?" + ASK, "answer": "7/10"},
]


def to_fraction(text):
    text = text.replace(" ", "").rstrip(".")
    if not re.fullmatch(r"[-+0-9./]+", text):
        return None
    try:
        return Fraction(text)
    except ValueError:
        return None


def reward(completions, answer, **columns):
    scores = []
    for text, gold in zip(completions, answer):
        lines = re.findall(r"^Answer:(.*)$", text, re.MULTILINE)
        found = to_fraction(lines[-1]) if lines else None
        scores.append(1.0 if found is not None and found == Fraction(gold) else 0.0)
    return scores
