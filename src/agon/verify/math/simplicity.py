"""How far an expression is worked out, judged on its tree as it is written. Runs only inside a worker process.

Where a part of the question equals the gold, the task is to rewrite it, and an answer has to be about as simple as the
gold. Three things are compared with the gold: the number of operands; the work that is left to do (`20-1`, `7x+8x`,
`r^2r`, `\\frac{12}{2}`); and the form, where an answer in the question's form, or half way from it, is not done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import Literal

from sympy import Add, Basic, Mul, Pow, Rational, Tuple

from agon.verify.math.notation import Leaf, read
from agon.verify.math.restated import ingredients, operands, unreduced

Form = Literal["sum", "product", "mixed"]
SLACK = 2
"""Operands that an answer may have more than the gold, as long as the part of the question has more still."""


def unfinished(texts: Sequence[str], trees: Sequence[Tuple]) -> bool:
    """Whether an answer leaves work to do that the gold has done; given are gold, answer and part of the question."""
    if ingredients(texts[0]) == ingredients(texts[2]):
        return False
    asked, given, known = map(operands, texts)
    if given > asked and (given > asked + SLACK or given >= known):
        return True
    if left_to_do(trees[1]) > left_to_do(trees[0]) or _has_more_to_reduce(*texts):
        return True
    wanted, form, old = map(form_of, trees)
    if form == wanted:
        return form == "product" and _degree(trees[1]) < _degree(trees[0])
    return form in ("mixed", old) and given >= min(asked, known)


def left_to_do(values: Tuple) -> int:
    """Like terms and factors that are not combined, powers of powers, and fractions that are not reduced."""
    found = 0
    for node in _nodes(values):
        if isinstance(node, Add):
            terms = [frozenset(factor for factor in _factors(term) if not _is_numeric(factor)) for term in node.args]
            found += len(terms) - len(set(terms))
        elif isinstance(node, Mul):
            factors = list(_factors(node))
            bases = [base for factor in factors if factor.free_symbols and not isinstance(base := _base(factor), Add)]
            numbers = [factor for factor in factors if isinstance(factor, Rational) and abs(factor) != 1]
            common = gcd(prod(map(_content, factors)), prod(map(_divisor, factors)))
            found += len(bases) - len(set(bases)) + max(0, len(numbers) - 1) + (common > 1)
        elif isinstance(node, Pow):
            found += isinstance(node.base, Pow)
    return found


def form_of(values: Tuple) -> Form:
    """Whether values are products of sums, contain one (`a(b+2)+5b`), or neither; denominators aside."""
    if all(map(_is_product, values)):
        return "product"
    return "mixed" if any(map(_is_product, _nodes(values))) else "sum"


def _has_more_to_reduce(gold: str, answer: str, part: str) -> bool:
    """Whether an answer has fractions to reduce; a number may have them, unless the part of the question is one too."""
    plain, was_plain = (isinstance(node := read(text), Leaf) and node.number is not None for text in (answer, part))
    return unreduced(answer) > unreduced(gold) and (was_plain or not plain)


def _nodes(tree: Basic) -> Iterator[Basic]:
    """The nodes of a tree, without denominators."""
    if isinstance(tree, Basic) and not _is_reciprocal(tree):
        yield tree
        for part in tree.args:
            yield from _nodes(part)


def _factors(node: Basic) -> Iterator[Basic]:
    """The factors of a product and of products in it; anything else is its own only factor."""
    if isinstance(node, Mul):
        for part in node.args:
            yield from _factors(part)
    else:
        yield node


def _numerator(node: Basic) -> list[Basic]:
    return [factor for factor in _factors(node) if factor.free_symbols and not _is_reciprocal(factor)]


def _is_product(node: Basic) -> bool:
    """Whether a sum with letters is multiplied by something with letters, itself included."""
    factors = _numerator(node)
    if len(factors) == 1:
        return isinstance(factors[0], Pow) and isinstance(factors[0].base, Add)
    return any(isinstance(_base(factor), Add) for factor in factors)


def _degree(values: Tuple) -> int:
    """The number of factors with letters, each as often as its power says."""
    factors = [factor for value in values for factor in _numerator(value)]
    return sum(int(f.exp) if isinstance(f, Pow) and f.exp.is_Integer else 1 for f in factors)


def _is_reciprocal(node: Basic) -> bool:
    return isinstance(node, Pow) and bool(node.exp.is_number and node.exp.is_negative)


def _is_numeric(factor: Basic) -> bool:
    return isinstance(factor, Rational) or (isinstance(factor, Pow) and all(map(_is_numeric, factor.args)))


def _base(factor: Basic) -> Basic:
    return _base(factor.base) if isinstance(factor, Pow) else factor


def _content(factor: Basic) -> int:
    """The whole number that can be taken out of a factor: 2 of `4x+6`."""
    if isinstance(factor, Add):
        return gcd(*(prod(map(_content, _factors(term))) for term in factor.args))
    return int(factor.p) if isinstance(factor, Rational) else 1


def _divisor(factor: Basic) -> int:
    """The whole number that a factor divides by."""
    if isinstance(factor, Rational):
        return int(factor.q)
    return prod(map(_content, _factors(factor.base))) if _is_reciprocal(factor) else 1
