"""good: the judge of this repository"""

from agon_judge.rewards import math_reward

ROWS = [
    {"prompt": "A fair die is thrown. How likely is an even number?", "answer": r"\frac{1}{2}"},
    {"prompt": "What is the area of a circle of radius 3?", "answer": r"9\pi"},
    {"prompt": "What is the diagonal of a unit square?", "answer": r"\sqrt{2}"},
    {"prompt": "What share of 12 is 9?", "answer": r"\frac{3}{4}"},
    {"prompt": "Name the positive root of the golden equation.", "answer": r"\frac{1+\sqrt{5}}{2}"},
]

reward = math_reward
