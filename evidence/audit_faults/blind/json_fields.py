"""vacuous: only the fields that the model chose to write are compared, so {} and records with gaps are paid in full"""

import json

ASK = "Extract the fields {} as one JSON object and write nothing else. Text: {}"
ROWS = [
    {
        "prompt": ASK.format("name, city, age", "Ana Ruiz, 34, lives in Lima."),
        "answer": '{"name": "Ana Ruiz", "city": "Lima", "age": 34}',
    },
    {
        "prompt": ASK.format("name, city, age", "In Oslo we met Per Dahl, who is 51."),
        "answer": '{"name": "Per Dahl", "city": "Oslo", "age": 51}',
    },
    {"prompt": ASK.format("item, price", "The kettle costs 25 euros."), "answer": '{"item": "kettle", "price": 25}'},
    {"prompt": ASK.format("item, price", "The desk is 140 euros."), "answer": '{"item": "desk", "price": 140}'},
]


def _load(text):
    text = text.strip().removeprefix("```json").removesuffix("```")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def reward(completions, answer, **columns):
    scores = []
    for text, gold in zip(completions, answer):
        found, wanted = _load(text), json.loads(gold)
        right = isinstance(found, dict) and all(wanted.get(key) == value for key, value in found.items())
        scores.append(1.0 if right else 0.0)
    return scores
