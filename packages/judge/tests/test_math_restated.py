"""The question in disguise is not an answer; an answer that shares its letters is."""

from __future__ import annotations

import pytest

from agon_judge.math.judge import MathJudge
from agon_judge.math.restated import contains, expressions, ingredients
from agon_judge.verdict import Reason
from judge_helpers import reasons

SIMPLIFY = (r"Simplify $\frac{(10r^3)(4r^6)}{8r^4}$.", "5r^5", r"\frac{(10r^3)(4r^6)}{8r^4}")
FACTOR = ("Factor $ab+5b+2a+10$.", "(a+5)(b+2)", "ab+5b+2a+10")
EVALUATE = ("Evaluate $(1+2i)6-3i$.", "6+9i", "(1+2i)6-3i")
DISGUISES = ["%s", "(%s)", "((%s))", "[%s]", "{%s}", "x=%s", "f(x)=%s", r"%s\text{ units}", "%s+0", "1(%s)", "(%s)/1"]


@pytest.mark.parametrize("disguise", DISGUISES)
def test_the_question_in_disguise_is_not_an_answer(judge: MathJudge, disguise: str) -> None:
    probes = [(question, gold, disguise % text) for question, gold, text in (SIMPLIFY, FACTOR, EVALUATE)]
    assert Reason.CORRECT not in reasons(judge, *probes)


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        (r"Simplify $(-k + 4) + (-2 + 3k)$.", "2k+2", "[4-k] + [3k-2]"),
        (r"Expand $(x+1)^2$.", "x^2+2x+1", "(1+x)(x+1)"),
        (r"Expand \[(x+1)^2 = ?\]", "x^2+2x+1", "(1+x)^{2}"),
        (r"Write \begin{align*} f(x) &= (x+1)^2 \end{align*} without brackets.", "x^2+2x+1", "(x+1)^2"),
        (r"Simplify $x^{100} \cdot x^{200}$.", "x^{300}", r"(x^{100})(x^{200})"),
        (r"Write $0.75$ as a fraction.", r"\frac{3}{4}", "0.750"),
        (r"Write $\frac{3}{4}$ as a decimal.", "0.75", "(3)/(4)"),
    ],
)
def test_order_and_notation_are_disguises_too(judge: MathJudge, question: str, gold: str, answer: str) -> None:
    assert reasons(judge, (question, gold, answer)) == [Reason.UNPARSABLE]


@pytest.mark.parametrize(
    ("question", "gold", "answer"),
    [
        (SIMPLIFY[0], SIMPLIFY[1], r"r^5 \cdot 5"),
        (FACTOR[0], FACTOR[1], "(2+b)(5+a)"),
        (EVALUATE[0], EVALUATE[1], "9i + 6"),
        (r"Expand $(x+1)^2$.", "x^2+2x+1", "1 + x^2 + 2x"),
        (r"Let $f(x) = x^2+1$. Find $f(x)+2x$.", "(x+1)^2", "x^2+2x+1"),
        (r"Is $\frac{4}{3}$ more than $1$? Find its inverse.", "0.75", "3/4"),
        (r"A share of $\frac{3}{4}$ or of $\frac{2}{3}$?", r"\frac{3}{4}", "3/4"),
        (r"Of $58{,}500$ people, how many vote?", "58500", "58,500"),
    ],
)
def test_an_answer_may_share_what_the_question_has(judge: MathJudge, question: str, gold: str, answer: str) -> None:
    assert reasons(judge, (question, gold, answer)) == [Reason.CORRECT]


def test_a_verdict_depends_on_the_question_also_when_it_is_cached(judge: MathJudge) -> None:
    gold, answer = "x^2+8x+16", "(x+4)^2"
    asked = [(question, gold, answer) for question in ("", "Expand $(x+4)^2$.", "", "Expand $(x+4)^2$.")]
    assert reasons(judge, *asked) == [Reason.CORRECT, Reason.UNPARSABLE] * 2
    assert reasons(judge, *asked) == [Reason.CORRECT, Reason.UNPARSABLE] * 2


def test_ingredients_are_numbers_by_value_letters_and_functions() -> None:
    assert ingredients(r"x = \frac{2.0 a b}{1} + \sin 0.50 \text{ cm}") == {
        "2": 1,
        "a": 1,
        "b": 1,
        "\\sin": 1,
        "1/2": 1,
    }


def test_the_gold_may_have_the_ingredients_of_the_question() -> None:
    assert contains("5", "4+3", "3+4")
    assert not contains("3+4", "4+3", "3+4")
    assert not contains("5", "4+3", "1+0")


def test_expressions_are_what_stands_between_delimiters_and_their_sides() -> None:
    question = r"It costs \$5. If $x=2+3$, find \[y = ?\] and \(z\)."
    assert expressions(question) == ("x=2+3", "x", "2+3", "y", "z")
