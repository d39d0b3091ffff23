"""Equality of two answers, decided by math-verify. Runs only inside a worker process, never in the caller's.

Numbers are compared as rationals; tuples item by item; sets and lists as multisets, so that `42, 42` is not 42.
Everything else goes to math-verify with its SIGALRM timers off, because the worker has a CPU timer of its own. Letters
keep their case (math-verify's default makes `R` and `r` one symbol), and units are parsed by us (its list takes the `d`
off `3d`).
"""

from __future__ import annotations

import logging
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from latex2sympy2_extended import NormalizationConfig, latex2sympy, normalize_latex
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import verify
from math_verify.grader import should_treat_as_complex
from sympy import Expr, Float, N, SympifyError, Tuple

from agon_judge.math.notation import Group, Leaf, Node, as_words, leaves, read
from agon_judge.math.rationals import NEAR, Rational, approximates, same_number
from agon_judge.math.restated import contains
from agon_judge.math.simplicity import unfinished

_NORMALIZE = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_CONVERT = ConversionConfig(lowercase_symbols=False)
ROUNDING = Float("1e-50")
"""How far two numbers of 60 digits may be apart, relative to their size, that are one number."""
ZERO = Float("1e-100")
"""What is left of a zero that was not simplified."""
_POWER_OF_T = re.compile(r"\^\s*(?:T|\{T\})")
_INDEX = r"(?:\s*_\s*(?:\{\s*([A-Za-z0-9]+)\s*\}|([A-Za-z0-9])))?"
_PRIMES = re.compile(rf"([A-Za-z]){_INDEX}\s*('+){_INDEX}(?!\s*_)")

logging.getLogger("math_verify").setLevel(logging.ERROR)

_TYPICAL = (
    (r"\frac{1}{2}+\sqrt{3}", r"\frac{1+2\sqrt{3}}{2}"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\cot x", r"\frac{\cos x}{\sin x}"),
    ("y = 2x - 3", "y - 2x = -3"),
    (r"(-\infty, 2) \cup [3, \infty)", r"[3,\infty) \cup (-\infty,2)"),
    (r"\begin{pmatrix} 1 \\ -2 \end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
    (r"11\pi", r"12\pi"),
)


class ParseFailure(Exception):
    """An expression does not parse."""


def compare(gold: str, answer: str | None, *suspects: str) -> tuple[str, str]:
    """(`correct`, `wrong`, `unparsable` or `bad_gold`, detail); without an answer, `good` or `bad_gold`.

    `suspects` are the expressions of the question that a correct answer must not be a disguise of.
    """
    try:
        check(read(gold), gold)
    except ParseFailure as error:
        return "bad_gold", str(error)
    if answer is None:
        for leaf in leaves(read(gold)):  # one that cannot even be told from 1 in time is no gold
            if leaf.number is None and not leaf.base and as_words(gold) is None:
                _equal(leaf.text, "1")
        return "good", ""
    try:
        if not same(read(gold), read(answer)):
            return "wrong", ""
    except ParseFailure as error:
        return "unparsable", str(error)
    flaw = next(filter(None, (_restated(gold, answer, part) for part in suspects)), "")
    return ("unparsable", flaw) if flaw else ("correct", "")


def warm_up() -> None:
    """Fill the parser's tables before workers are forked, so that a new worker is as fast as an old one."""
    for gold, answer in _TYPICAL:
        compare(gold, answer)


def check(node: Node, text: str) -> None:
    """Raise ParseFailure unless every value of a gold parses."""
    if as_words(text) is not None:
        return
    if isinstance(node, Group):
        for item in node.items:
            check(item, "")
    elif node.number is None and not node.base:
        expression(node.text)


def same(gold: Node, answer: Node) -> bool:
    """Whether an answer states what the gold states."""
    if isinstance(gold, Group) and isinstance(answer, Group):
        return _same_groups(gold, answer)
    gold, answer = _only(gold), _only(answer)
    if isinstance(gold, Leaf) and isinstance(answer, Leaf):
        return _same_leaves(gold, answer)
    return _equal(_source(gold), _source(answer))


@lru_cache(maxsize=2_000)
def expression(text: str, real: bool = True) -> Any:
    """The sympy object that a LaTeX text denotes; its letters stand for real numbers unless told otherwise.

    The parser drops primes, and takes a power of T for a transposed value, which it then drops of all but matrices.
    """
    text = _PRIMES.sub(_prime_as_index, text if "matrix}" in text else _POWER_OF_T.sub("^{ T }", text))
    try:
        parsed = latex2sympy(
            normalize_latex(text, _NORMALIZE),
            is_real=real,
            convert_degrees=False,
            normalization_config=None,
            conversion_config=_CONVERT,
        )
    except (MemoryError, RecursionError) as error:
        raise ParseFailure(type(error).__name__) from None
    except Exception as error:
        raise ParseFailure(" ".join(str(error).split())[:80] or type(error).__name__) from None
    if parsed is None:
        raise ParseFailure("nothing to compare")
    return parsed


def _restated(gold: str, answer: str, part: str) -> str:
    """Why an answer that equals the gold is only `part`: it has its ingredients or its tree, or is half worked out."""
    texts = (gold, answer, part)
    try:
        if contains(*texts):
            return "repeats the question" if same(read(gold), read(part)) else ""
        if unfinished(texts, [as_written(text) for text in texts]) and same(read(gold), read(part)):
            return "leaves work to do that the gold has done"
        trees = [_evaluated(text) for text in (answer, part, gold)]
    except ParseFailure:
        return ""
    return "repeats the question" if trees[0] == trees[1] != trees[2] else ""


def as_written(text: str) -> Tuple:
    """The trees of the values in a text, nothing evaluated."""
    try:
        values = leaves(read(text))
        return Tuple(*(v.number.value if v.number else expression(v.text) for v in values))
    except (SympifyError, TypeError) as error:
        raise ParseFailure(type(error).__name__) from None


def _evaluated(text: str) -> list[Any]:
    try:
        return [expression(leaf.text).doit() for leaf in leaves(read(text))]
    except Exception as error:
        raise ParseFailure(type(error).__name__) from None


def _prime_as_index(match: re.Match[str]) -> str:
    """`x'`, `x_1'` and `x'_1` as `x_{prime}` and `x_{1prime}`: a symbol has one index."""
    letter, *before, primes, braced, bare = match.groups(default="")
    return f"{letter}_{{{''.join(before)}{braced}{bare}{'prime' * len(primes)}}}"


def _same_groups(gold: Group, answer: Group) -> bool:
    if len(gold.items) != len(answer.items):
        return False
    if gold.ordered:
        return gold.brackets == answer.brackets and all(map(same, gold.items, answer.items))
    unmatched = list(answer.items)
    for item in gold.items:
        match = next((other for other in unmatched if same(item, other) and not _is_anothers(gold, item, other)), None)
        if match is None:
            return False
        unmatched.remove(match)
    return True


def _is_anothers(gold: Group, item: Node, other: Node) -> bool:
    """Whether an answer has the name or the unit of a different item: `AB = 4, BC = 3` for `AB = 3, BC = 4`.

    Indices are no names: of two roots either may be `x_1`.
    """
    known = list(zip(*map(_labels, gold.items), strict=True))
    labels = zip(_labels(item), _labels(other), known, strict=True)
    return any(theirs != mine and theirs in all_of_them for mine, theirs, all_of_them in labels if theirs)


def _labels(node: Node) -> tuple[str, str]:
    return node.symbol.partition("_")[0], node.unit if isinstance(node, Leaf) else ""


def _same_leaves(gold: Leaf, answer: Leaf) -> bool:
    if gold.base or answer.base:
        return gold.text == answer.text
    if gold.number and answer.number:
        return same_number(gold.number, answer.number)
    if answer.number and answer.number.decimal:
        return _approximates(answer.number, gold.text)
    if ("=" in answer.text and gold.symbol) or ("=" in gold.text and answer.symbol and not gold.symbol):
        return _equal(gold.whole, answer.whole)
    return _equal(gold.text, answer.text)


def _approximates(decimal: Rational, gold: str) -> bool:
    """Whether a decimal is the value of a gold that is not a plain number, to the places that it gives."""
    value = expression(gold)
    if not isinstance(value, Expr) or not value.is_number or not (value := N(value, 60)).is_real:
        return False
    exact = Fraction(str(value))
    return exact == decimal.value or approximates(decimal, exact)


def _equal(gold: str, answer: str) -> bool:
    """math-verify's verdict, and for floats also ours: six places alone would pay 0.0000671 for 0.0000672."""
    real = not (should_treat_as_complex(gold) or should_treat_as_complex(answer))
    one, other = expression(gold, real), expression(answer, real)
    if not verify(one, other, timeout_seconds=None, allow_set_relation_comp=True):
        return False
    if isinstance(one, Float) or isinstance(other, Float):
        try:
            return bool(abs(one - other) <= float(NEAR) * abs(one))
        except TypeError:
            return True
    return not _are_apart(one, other)


def _are_apart(one: Any, other: Any) -> bool:
    """Whether exact numbers differ although math-verify says not: it takes a gap below 1e-15 for none."""
    if one == other or not all(isinstance(each, Expr) and each.is_number for each in (one, other)):
        return False
    if one.has(Float) or other.has(Float):  # a decimal inside has 15 digits: sqrt(0.1)
        return False
    try:
        gap = (one - other).doit()
        return bool(gap != 0 if gap.is_Rational else abs(N(gap, 60)) > max(ROUNDING * abs(N(one, 60)), ZERO))
    except TypeError:
        return False


def _only(node: Node) -> Node:
    """The only value of a set with one value; a set of the empty set stays one."""
    if not isinstance(node, Group) or node.brackets != "{}" or len(node.items) != 1:
        return node
    item = node.items[0]
    return node if isinstance(item, Leaf) and item.text == "\\emptyset" else item


def _source(node: Node) -> str:
    """A group as LaTeX again, for comparison with something that is not a group (an inequality, a named set)."""
    if isinstance(node, Leaf):
        return node.text
    inner = ", ".join(_source(item) for item in node.items)
    opening, closing = (r"\{", r"\}") if node.brackets in ("", "{}") else (node.brackets[0], node.brackets[-1])
    return f"{opening}{inner}{closing}"
