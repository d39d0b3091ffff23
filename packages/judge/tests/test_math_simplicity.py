"""Where a part of the question equals the gold, an answer must be about as simple as the gold."""

from __future__ import annotations

import pytest

from agon_judge.math.equality import as_written
from agon_judge.math.judge import MathJudge
from agon_judge.math.restated import operands, unreduced
from agon_judge.math.simplicity import form_of, left_to_do
from agon_judge.verdict import Reason
from judge_helpers import forms, reasons

REWRITING = [form for form in forms("math_forms") if form.question]


@pytest.mark.parametrize("paid", [True, False])
def test_an_answer_is_paid_if_it_is_worked_out_as_far_as_the_gold(judge: MathJudge, paid: bool) -> None:
    probes = [(form.question, form.gold, form.answer) for form in REWRITING if form.right == paid]
    found = reasons(judge, *probes)
    assert len(probes) > 50
    assert [p for p, reason in zip(probes, found, strict=True) if (reason is Reason.CORRECT) != paid] == []


def test_an_answer_may_be_less_simple_where_nothing_was_to_be_rewritten(judge: MathJudge) -> None:
    asked = "Let $f(x)=3x$. Find $f(5x)-80$."
    assert reasons(judge, (asked, "15x-80", "20x-5x-80"), ("", "(a+5)(b+2)", "a(b+2)+5b+10")) == [Reason.CORRECT] * 2


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("15x-80", 3),
        ("(20-1)x+1-4x-81", 7),
        (r"\frac{9}{20}a+\frac{11}{20}", 3),
        (r"\frac{9a+11}{20}", 4),
        ("rrr", 3),
        (r"11\cdot 2^{1/2}", 3),
        (r"\sqrt{3}/3", 3),
        (r"\frac{\cos x}{\sin x}", 4),
        (r"3\frac{1}{5}", 1),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & x \end{pmatrix}", 4),
        (r"12\text{ cm}", 1),
    ],
)
def test_operands_are_numbers_letters_and_functions(text: str, count: int) -> None:
    assert operands(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (r"\frac{12}{2}x", 1),
        ("6/8", 1),
        (r"\frac{1.5}{2}", 1),
        (r"(12)/(2)", 1),
        (r"\frac{3}{1}", 1),
        (r"\frac{3}{4}", 0),
        ("x^4/2", 0),
        ("x^{4}/2", 0),
        (r"\sqrt{6}/3", 0),
        (r"\frac{6x}{3}", 0),
    ],
)
def test_fractions_of_two_numbers_can_be_reduced(text: str, count: int) -> None:
    assert unreduced(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("15x-80", 0),
        ("(20-1)x", 1),
        ("7x+8x-80", 1),
        ("15x+1-81", 1),
        ("r^2r", 1),
        ("rrr", 2),
        ("(r^2)^2", 1),
        (r"\frac{5r^9}{r^4}", 1),
        (r"\frac{6a}{12}", 1),
        (r"\frac{22+18a}{40}", 1),
        (r"\frac{11+9a}{20}", 0),
        ("(x+1)(x+1)", 0),
        (r"-\frac{3}{4}x", 0),
        (r"\frac{\sqrt{3}}{3}", 0),
    ],
)
def test_work_that_is_left_is_counted_on_the_treeas_written(text: str, count: int) -> None:
    assert left_to_do(as_written(text)) == count


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x^2-5x+6", "sum"),
        ("(x-2)(x-3)", "product"),
        ("2(x+1)^2", "product"),
        ("x(x-5)+6", "mixed"),
        ("2(x+1)", "sum"),
        (r"\frac{x+1}{x-1}", "sum"),
        (r"1+\frac{2}{(x-1)(x+1)}", "sum"),
    ],
)
def test_a_product_of_sums_is_told_from_a_sum_and_from_half_of_it(text: str, form: str) -> None:
    assert form_of(as_written(text)) == form
