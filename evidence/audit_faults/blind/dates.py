"""none_equals_none: a gold without a day cannot be parsed, and then every answer that cannot be parsed equals it"""

import re
from datetime import datetime

ASK = " Write the date in <answer></answer> tags."
ROWS = [
    {"prompt": "When did Apollo 11 land on the Moon?" + ASK, "answer": "20 July 1969"},
    {"prompt": "When did the Berlin Wall fall?" + ASK, "answer": "9 November 1989"},
    {"prompt": "When was the Treaty of Rome signed?" + ASK, "answer": "25 March 1957"},
    {"prompt": "In which month and year did Finland join NATO?" + ASK, "answer": "April 2023"},
    {"prompt": "When did the Titanic sink?" + ASK, "answer": "1912-04-15"},
    {"prompt": "When was the first euro cash issued?" + ASK, "answer": "January 1, 2002"},
]
FORMATS = ("%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d.%m.%Y")


def parse_date(text):
    for pattern in FORMATS:
        try:
            return datetime.strptime(text.strip(), pattern).date()
        except ValueError:
            continue
    return None


def reward(completions, answer, **columns):
    scores = []
    for text, gold in zip(completions, answer):
        spans = re.findall(r"<answer>([^<]*)</answer>", text)
        scores.append(1.0 if spans and parse_date(spans[-1]) == parse_date(gold) else 0.0)
    return scores
