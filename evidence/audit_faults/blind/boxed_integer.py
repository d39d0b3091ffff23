"""batch: the try block encloses the loop, so one box that is no integer sets the whole batch to zero"""

import re

ASK = " The result is an integer from 0 to 999. Write it in \\boxed{}."
ROWS = [
    {"prompt": "How many positive divisors does 360 have?" + ASK, "answer": "24"},
    {"prompt": "What is the remainder of 2^20 divided by 1000?" + ASK, "answer": "576"},
    {"prompt": "How many ways are there to choose 3 of 9 people?" + ASK, "answer": "84"},
    {"prompt": "What is the sum of the primes below 30?" + ASK, "answer": "129"},
    {"prompt": "What is the greatest common divisor of 462 and 1071?" + ASK, "answer": "21"},
]


def reward(completions, answer, **columns):
    scores = []
    try:
        for text, gold in zip(completions, answer):
            boxes = re.findall(r"\\boxed\{([^{}]*)\}", text)
            if not boxes:
                scores.append(0.0)
                continue
            scores.append(1.0 if int(boxes[-1]) == int(gold) else 0.0)
    except ValueError:
        return [0.0] * len(completions)
    return scores
