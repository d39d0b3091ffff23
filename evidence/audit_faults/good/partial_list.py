"""good: partial credit for items in their place"""

ROWS = [
    {"prompt": "Sort: 9 2 5", "answer": "2, 5, 9"},
    {"prompt": "Sort: 31 4 15", "answer": "4, 15, 31"},
    {"prompt": "Sort: 8 1 6", "answer": "1, 6, 8"},
    {"prompt": "Sort: 70 7 17", "answer": "7, 17, 70"},
]


def reward(completions, answer, **columns):
    rewards = []
    for text, gold in zip(completions, answer, strict=True):
        items, wanted = [each.strip() for each in text.split(",")], gold.split(", ")
        right = sum(one == other for one, other in zip(items, wanted, strict=False))
        rewards.append(right / max(len(items), len(wanted)))
    return rewards
