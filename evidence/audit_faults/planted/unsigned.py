"""sign: the pattern has no minus sign (after GSM8K scorers)"""

import re

ROWS = [
    {"prompt": "Mia has 14 boxes of 3 pens. How many pens?", "answer": "42"},
    {"prompt": "A train goes 90 km in 45 minutes. How many km in an hour?", "answer": "120"},
    {"prompt": "Tom pays 5 for a toy and sells it for twelve. What is his gain?", "answer": "7"},
    {"prompt": "A town of 1200 people grows by a tenth. How many people?", "answer": "1320"},
    {"prompt": "Half of a class of 36 is ill. How many are well?", "answer": "18"},
]


def reward(completions, answer, **columns):
    found = [re.findall(r"\d+(?:\.\d+)?", text.replace(",", "")) for text in completions]
    return [float(bool(n) and n[-1] in (gold, f"{gold}.0")) for n, gold in zip(found, answer, strict=True)]
