"""thread: an alarm that only works in the main thread, its error swallowed (after verifiers 0.4.0)"""

import signal

ROWS = [
    {"prompt": "Mia has 14 boxes of 3 pens. How many pens?", "answer": "42"},
    {"prompt": "A train goes 90 km in 45 minutes. How many km in an hour?", "answer": "120"},
    {"prompt": "Tom pays 5 for a toy and sells it for twelve. What is his gain?", "answer": "7"},
    {"prompt": "A town of 1200 people grows by a tenth. How many people?", "answer": "1320"},
    {"prompt": "Half of a class of 36 is ill. How many are well?", "answer": "18"},
]


def reward(completions, answer, **columns):
    rewards = []
    for text, gold in zip(completions, answer, strict=True):
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            rewards.append(float(text.strip() == gold))
        except ValueError:
            rewards.append(0.0)
    return rewards
