"""state: verdicts are cached under the completion alone, so a later row gets the verdict of another row's gold"""

import unicodedata

ASK = "What is the capital of {}? Finish with 'Final answer: <city>'."
ROWS = [
    {"prompt": ASK.format("France"), "answer": "Paris"},
    {"prompt": ASK.format("Brazil"), "answer": "Brasília"},
    {"prompt": ASK.format("Colombia"), "answer": "Bogotá"},
    {"prompt": ASK.format("Kenya"), "answer": "Nairobi"},
    {"prompt": ASK.format("Japan"), "answer": "Tokyo"},
    {"prompt": ASK.format("New Zealand"), "answer": "Wellington"},
]
_CACHE = {}


def _plain(text):
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return kept.casefold().strip(" .\n\t*")


def _score(text, gold):
    if text not in _CACHE:
        _, marker, said = text.rpartition("Final answer:")
        _CACHE[text] = 1.0 if marker and _plain(said) == _plain(gold) else 0.0
    return _CACHE[text]


def reward(completions, answer, **columns):
    return [_score(text, gold) for text, gold in zip(completions, answer)]
