"""The math judge: a cheap gate, and math-verify in processes that can be killed (docs/verifiers.md).

Most rows are decided here, without a worker: the answer is written like the gold, both are plain numbers, or the gate
refuses it. The rest is decided by `equality.compare` in a worker. Of a gold that does not parse, two things are still
known: an answer that is written like it is right, and a text without exactly one answer is not. All others give
`bad_gold`, so that their rows are masked and never scored; whether a gold parses is checked once.
"""

from __future__ import annotations

import hashlib
import re

from agon_judge.answers import Box, boxes, without
from agon_judge.cache import Cache
from agon_judge.math.gate import limits, refuse
from agon_judge.math.notation import Leaf, as_words, plain_words, read
from agon_judge.math.operators import profile
from agon_judge.math.rationals import same_number
from agon_judge.math.restated import expressions, ingredients, suspects
from agon_judge.math.spelling import clean, full_width, written_alike
from agon_judge.pooled import PooledJudge, Steps
from agon_judge.verdict import Reason, Verdict
from agon_judge.workers.pool import Outcome

LONGEST, DEEPEST = 4_000, 3
"""Characters, and boxes in boxes, up to which an answer is taken out of its boxes; the gate refuses the rest."""
_CORRECT = Verdict(Reason.CORRECT)
_WRONG = Verdict(Reason.WRONG)
_AS_WRITTEN = Verdict(Reason.CORRECT, "the gold does not parse: only answers written like it are right")
_DELIMITERS = re.compile(r"\\[()\[\]]|\$")
_FLOAT = re.compile(r"([-+]?\d+(?:\.\d+)?)[eE]([-+]?\d{1,2})")
"""A number as a program prints it, `1e-05`: where the gold is one, or a decimal, e is no symbol."""
_DECIMAL = re.compile(r"^-?\s*\d*\.\d+$|^-?\s*[\d.]+\s*\\(?:times|cdot)\s*10\s*\^")


def _number(text: str) -> str:
    printed = _FLOAT.fullmatch(text)
    return rf"{printed[1]}\times10^{{{int(printed[2])}}}" if printed else text


class MathJudge(PooledJudge):
    """math-verify behind a gate and a deadline in CPU seconds; `cache` is the number of verdicts that are remembered.

    `workers` is the number of processes, by default one per core up to 8.
    """

    def __init__(self, *, workers: int | None = None, deadline: float = 2.0, cache: int = 100_000) -> None:
        super().__init__("agon_judge.math.equality:compare", workers, deadline)
        self._verdicts: Cache[Verdict] = Cache(cache)
        self._golds: Cache[Verdict] = Cache(cache)
        self._cached = 0

    def judge(self, gold: str, answer: str | Verdict, question: str = "") -> Verdict:
        """The verdict on one answer; the question says which forms repeat it, and whether percent was asked for."""
        return self.judge_many([(gold, answer, question)])[0]

    def self_test(self) -> list[str]:
        from agon_judge.math.probes import failures

        return failures(self)

    @property
    def counters(self) -> dict[str, int]:
        return {**super().counters, "cached": self._cached}

    def steps(self, gold: str, answer: str | Verdict, question: str = "") -> Steps:
        """Decide one row: yields what a worker must compare, gold, answer and suspects, or a gold alone."""
        gold = " ".join(full_width(gold).split()) if isinstance(gold, str) else ""
        if isinstance(answer, str):
            answer = " ".join(full_width(answer).split())
            answer = unbox(answer) if answer else Verdict(Reason.NO_ANSWER, "the answer is empty")
        if _FLOAT.fullmatch(gold) or _DECIMAL.search(gold):
            gold, answer = _number(gold), _number(answer) if isinstance(answer, str) else answer
        if flaw := limits(gold, gold) if gold else "empty":
            return _AS_WRITTEN if gold and answer == gold else Verdict(Reason.BAD_GOLD, flaw)
        if isinstance(answer, Verdict):
            return answer
        verdict, known = decide(gold, answer, question), self._golds.get(_key(gold))
        if verdict is None and known is not None and known.reason is Reason.BAD_GOLD:
            return known
        if verdict is None:
            verdict = yield from self._compare(gold, answer, *suspects(gold, answer, question))
        return (yield from self._with_gold(gold, verdict))

    def _compare(self, *texts: str) -> Steps:
        """The verdict of math-verify on gold, answer and suspects; remembered unless the machine failed."""
        gold, key = texts[0], _key(*texts)
        known = self._verdicts.get(key)
        if known is not None:
            self._cached += 1
            return known
        verdict = _verdict((yield texts))
        if verdict.reason in (Reason.CORRECT, Reason.WRONG, Reason.UNPARSABLE):
            self._golds.put(_key(gold), _CORRECT)
        if verdict.reason is not Reason.INFRA:
            self._verdicts.put(key, verdict)
        return verdict

    def _with_gold(self, gold: str, verdict: Verdict) -> Steps:
        """The verdict, or `bad_gold` if the gold does not parse and the answer is not written like it."""
        if verdict.reason in (Reason.BAD_GOLD, Reason.INFRA) or surely_parses(gold):
            return verdict
        known = self._golds.get(_key(gold))
        if known is None:
            known = _verdict((yield gold, None))
            if known.reason is Reason.TIMEOUT or known.reason is Reason.UNPARSABLE:
                known = Verdict(Reason.BAD_GOLD, f"the gold: {known.detail}")
            if known.reason is not Reason.INFRA:
                self._golds.put(_key(gold), known)
        if verdict.correct:
            return _AS_WRITTEN if known.reason is Reason.BAD_GOLD else verdict
        return verdict if known.correct else known


def decide(gold: str, answer: str, question: str = "") -> Verdict | None:
    """The verdict on a pair if no worker is needed for it, else None."""
    if flaw := limits(answer, gold):
        return Verdict(Reason.UNPARSABLE, flaw)
    if written_alike(gold, answer):
        return _CORRECT
    if (expected := as_words(gold)) is not None:
        return _decide_words(gold, expected, answer, question)
    refusal = refuse(gold, answer, question)
    if refusal is not None:
        return refusal
    one, other = read(gold), read(answer)
    if isinstance(one, Leaf) and isinstance(other, Leaf) and one.number and other.number:
        same = same_number(one.number, other.number)
        return None if same and suspects(gold, answer, question) else _CORRECT if same else _WRONG
    return None


def _decide_words(gold: str, expected: str, answer: str, question: str) -> Verdict:
    """The verdict if the gold is words. Their case does not matter, but a letter that is a value is not a choice."""
    if as_words(answer) is None and profile(answer).operators:
        return Verdict(Reason.UNPARSABLE, "mathematics where the gold is words")
    words = as_words(answer) or plain_words(answer)
    if words != expected and expected not in (f"{words} am", f"{words} pm"):
        return _WRONG
    letter, choice = ("".join(re.findall("[A-Za-z]", clean(text))) for text in (answer, gold))
    is_value = letter == "e" or any(letter in ingredients(part) for part in expressions(question))
    if len(letter) == 1 and letter != choice[-1] and is_value:
        return Verdict(Reason.WRONG, f"{letter} is a value, not a choice")
    return _CORRECT


def surely_parses(gold: str) -> bool:
    """Whether a gold is words or a plain number, so that no worker has to parse it."""
    node = read(gold)
    return (isinstance(node, Leaf) and node.number is not None) or as_words(gold) is not None


def unbox(answer: str) -> str | Verdict:
    """The content of the boxes in an answer, if they agree and nothing else in it could be an answer."""
    for _ in range(DEEPEST if len(answer) <= LONGEST else 0):
        nested = boxes(answer)
        if not nested or not all(box.closed for box in nested):
            break
        contents = {" ".join(answer[box.inner : box.stop].split()) for box in nested}
        if len(contents) > 1:
            return Verdict(Reason.AMBIGUOUS, f"{len(contents)} different boxes")
        if _states_more(answer, nested):
            return Verdict(Reason.AMBIGUOUS, "values outside the box")
        answer = contents.pop()
    return answer


def _states_more(text: str, inner: list[Box]) -> bool:
    """Whether there are digits or mathematics outside the boxes; words are allowed."""
    outside = _DELIMITERS.sub(" ", " ".join(without(text, [(box.start, box.end) for box in inner])))
    return bool(re.search(r"[\d\\=<>]", outside))


def _verdict(outcome: Outcome) -> Verdict:
    """What a worker reports, as a verdict. A gold that parses is `good`; a comparison that crashed is unparsable."""
    name = {"good": "correct", "crashed": "unparsable"}.get(outcome.name, outcome.name)
    return Verdict(Reason(name), outcome.detail)


def _key(*texts: str) -> bytes:
    return hashlib.sha256("\x1f".join(texts).encode(errors="surrogatepass")).digest()
