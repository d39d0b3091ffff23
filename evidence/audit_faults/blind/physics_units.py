"""unit: a unit must be written but is never compared, so 5 mm is paid for 5 km"""

import re

ASK = " Give the final result as a number and a unit in \\boxed{}, for example \\boxed{3 m}."
ROWS = [
    {"prompt": "A cyclist rides at 20 km/h for 15 minutes. How far, in kilometres?" + ASK, "answer": "5 km"},
    {"prompt": "A 2 kg mass accelerates at 6 m/s^2. What is the net force?" + ASK, "answer": "12 N"},
    {"prompt": "A lamp of 60 W burns for 30 s. How much energy does it use?" + ASK, "answer": "1800 J"},
    {"prompt": "A runner covers 100 m in 12.5 s. What is the mean speed?" + ASK, "answer": "8 m/s"},
    {"prompt": "A resistor of 4 ohm carries 1.5 A. What is the voltage?" + ASK, "answer": "6 V"},
]
QUANTITY = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+(?:/[A-Za-z]+)?)")


def _quantity(text):
    match = QUANTITY.fullmatch(text.strip())
    return (float(match.group(1)), match.group(2)) if match else None


def reward(completions, answer, **columns):
    scores = []
    for text, gold in zip(completions, answer):
        boxes = re.findall(r"\\boxed\{([^{}]*)\}", text)
        found, wanted = _quantity(boxes[-1]) if boxes else None, _quantity(gold)
        scores.append(1.0 if found and abs(found[0] - wanted[0]) < 1e-6 else 0.0)
    return scores
