"""Whether an answer is an expression of the question again, in whatever disguise.

Spelling says nothing: brackets, `x=`, `+0`, `/1`, a unit or a new order make another text of the same expression. So
expressions are compared by their ingredients, the bag of numbers (0 and 1 left out), letters and functions that they
are written with. An answer with all ingredients of an expression of the question is that expression, if the expression
equals the gold, unless the gold has them too. A number or power that is spelled differently makes another bag, and
longer: so an answer is also suspicious if it has more operands than the gold. What it equals, and whether it is worked
out as far as the gold, is for a worker to say (`equality.compare`), so this is only a list of suspects.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from math import gcd

from agon.verify.math.gate import limits
from agon.verify.math.notation import Leaf, leaves, read
from agon.verify.math.operators import profile
from agon.verify.math.spelling import clean

MOST = 16
"""Suspects per answer; a question with more is not searched further."""

_MATHEMATICS = re.compile(
    r"(?<!\\)\$\$?([^$]{1,1000})\$|\\\[(.{1,1000}?)\\\]|\\\((.{1,1000}?)\\\)"
    r"|\\begin\{(?:align|equation|gather)\*?\}(.{1,1000}?)\\end\{(?:align|equation|gather)",
    re.DOTALL,
)
_SIDES = re.compile(r"=|\\\\|&|\\(?:approx|equiv|quad|qquad)(?![A-Za-z])")
_TOKEN = re.compile(r"\\[A-Za-z]+|\d+(?:\.\d+)?|\.\d+|[A-Za-z]")
_ARITHMETIC = frozenset(("sum of terms", "product of numbers", "power", "power of a symbol", "fraction", "root"))
_ELEMENTARY = _ARITHMETIC | {"trigonometric", "logarithm", "exponential", "hyperbolic", "absolute value"}
_NO_OPERANDS = frozenset((r"\cdot", r"\times", r"\div", r"\frac", r"\text", r"\begin", r"\end"))
_NO_INGREDIENTS = _NO_OPERANDS | {"0", "1"}
_LITERAL = r"(\(\s*-?\s*\d+(?:\.\d+)?\s*\)|\{\s*-?\s*\d+(?:\.\d+)?\s*\}|\d+(?:\.\d+)?)"
_QUOTIENT = re.compile(rf"\\frac\s*{_LITERAL}\s*{_LITERAL}|(?<![\w.^\])}}]){_LITERAL}\s*/\s*{_LITERAL}(?![\d.])")


def suspects(gold: str, answer: str, question: str) -> tuple[str, ...]:
    """The expressions of the question that the answer may be a disguise of."""
    found = [part for part in expressions(question) if _may_be(gold, answer, part) and not limits(part, gold)]
    return tuple(found[:MOST])


def contains(gold: str, answer: str, part: str) -> bool:
    """Whether an answer has all ingredients of an expression, and not because the gold has them too."""
    asked, given, known = ingredients(gold), ingredients(answer), ingredients(part)
    return bool(known) and known <= given and not known <= asked <= given


@lru_cache(maxsize=4_000)
def expressions(question: str) -> tuple[str, ...]:
    """The mathematics of a question, cleaned: what stands between delimiters, and the sides of its equations."""
    texts = [part for groups in _MATHEMATICS.findall(question) for part in groups if part]
    parts = [side for text in texts for side in (text, *_SIDES.split(text))]
    cleaned = (clean(part.strip().rstrip("=?.,;: ")) for part in parts)
    return tuple(dict.fromkeys(part for part in cleaned if part))


@lru_cache(maxsize=20_000)
def ingredients(text: str) -> Counter[str]:
    """The numbers, letters and functions of the values in a text, and how often each occurs."""
    tokens = (token for leaf in leaves(read(text)) for token in _TOKEN.findall(_digits(leaf)))
    values = (str(Fraction(token)) if token[-1].isdigit() else token for token in tokens)
    return Counter(value for value in values if value not in _NO_INGREDIENTS)


@lru_cache(maxsize=20_000)
def operands(text: str) -> int:
    """How many numbers, letters and functions a text is written with; a fraction of two numbers is one number."""
    return sum(1 if leaf.number else len(_operands(leaf)) for leaf in leaves(read(text)))


@lru_cache(maxsize=20_000)
def unreduced(text: str) -> int:
    """How many fractions of two numbers in a text could be reduced: `\\frac{12}{2}`, `6/8`, `\\frac{1.5}{2}`."""
    found = (match for leaf in leaves(read(text)) for match in _QUOTIENT.finditer(_digits(leaf)))
    pairs = ([part.strip("(){}- ") for part in match.groups() if part] for match in found)
    return sum("." in top + bottom or gcd(int(top), int(bottom)) > 1 or int(bottom) == 1 for top, bottom in pairs)


def _operands(leaf: Leaf) -> list[str]:
    text = re.sub(r"\\(?:begin|end)\s*\{\w+\}", " ", _QUOTIENT.sub(" 1 ", _digits(leaf)))
    return [token for token in _TOKEN.findall(text) if token not in _NO_OPERANDS]


def _may_be(gold: str, answer: str, part: str) -> bool:
    """Suspicious: all ingredients, arithmetic in the gold's own letters, or more operands than the gold has."""
    if contains(gold, answer, part):
        return True
    letters, variables, operators = profile(gold).variables, profile(part).variables, profile(part).operators
    if letters and letters == variables and operators and operators <= _ARITHMETIC:
        return True
    more = operands(answer) > operands(gold) or unreduced(answer) > unreduced(gold)
    return more and operators <= _ELEMENTARY and (letters <= variables if letters else not variables)


def _digits(leaf: Leaf) -> str:
    """The text of a value, without thousands separators and words."""
    text = re.sub(r"(?<=\d)[, ](?=\d{3})", "", leaf.text) if leaf.number else leaf.text
    return re.sub(r"\\text\s*\{[^{}]*\}", " ", text)
