"""refuses_right: the tag pattern has no DOTALL, so a right answer that spans several lines is never paid"""

import re

ASK = "What does this Python program print? Put the exact output in <answer></answer> tags.\n\n"
ROWS = [
    {"prompt": ASK + "print(sum(range(5)))", "answer": "10"},
    {"prompt": ASK + "for i in range(3):\n    print(i * i)", "answer": "0\n1\n4"},
    {"prompt": ASK + "print('ab' * 3)", "answer": "ababab"},
    {"prompt": ASK + "for w in 'to be'.split():\n    print(w, len(w))", "answer": "to 2\nbe 2"},
    {"prompt": ASK + "print(sorted({3, 1, 2}))", "answer": "[1, 2, 3]"},
    {"prompt": ASK + "x = 7\nwhile x > 1:\n    x //= 2\nprint(x)", "answer": "1"},
]
ANSWER = re.compile(r"<answer>(.*?)</answer>")


def reward(completions, answer, **columns):
    scores = []
    for text, gold in zip(completions, answer):
        spans = ANSWER.findall(text)
        scores.append(1.0 if spans and spans[-1].strip() == gold else 0.0)
    return scores
