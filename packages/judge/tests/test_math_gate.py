"""The gate accepts every gold and its operators, refuses other forms, and is total and linear in the text."""

from __future__ import annotations

import json
import os
import string
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon_judge.math import notation
from agon_judge.math.gate import limits, refuse
from agon_judge.math.judge import decide
from agon_judge.verdict import Reason

DATA = Path(os.environ.get("AGON_DATA") or Path(__file__).parents[4] / "shared" / "data")


@pytest.mark.parametrize(
    "gold",
    [
        r"6\cdot 7",
        "40+2",
        r"\int_0^1 f(x)\,dx",
        r"\frac{100!}{98!}",
        "41=42",
        r"2^{2^{10}}",
        "4200\\%",
        r"\binom{n}{k}",
        "x'",
    ],
)
def test_a_gold_of_any_form_is_accepted_as_written(gold: str) -> None:
    finding = decide(gold, f" {gold} ")
    assert finding is not None
    assert finding.reason is Reason.CORRECT


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"6\cdot 7", r"2\cdot 21"),
        ("40+2", "41+1"),
        (r"\binom{n}{2}", r"\frac{n!}{2(n-2)!}"),
        ("e^{-x^2}", "e^{-(x^2)}"),
    ],
)
def test_an_operator_of_the_gold_is_allowed(gold: str, answer: str) -> None:
    assert refuse(gold, answer) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (r"\text{Even}", Reason.CORRECT),
        ("odd", Reason.WRONG),
        ("7", Reason.WRONG),
        (r"\binom{n}{2}", Reason.UNPARSABLE),
        (r"\sum_{k=1}^{9} k", Reason.UNPARSABLE),
    ],
)
def test_mathematics_is_not_an_answer_to_a_gold_of_words(answer: str, reason: Reason) -> None:
    assert decide(r"\text{even}", answer).reason is reason  # type: ignore[union-attr]


@pytest.mark.skipif(not DATA.is_dir(), reason="MATH-500 is not beside the repository; set AGON_DATA")
def test_the_golds_of_math_500_are_accepted_and_never_filtered() -> None:
    for line in (DATA / "math500" / "test.jsonl").read_text().splitlines():
        gold = json.loads(line)["answer"]
        assert limits(gold, gold) == ""
        assert decide(gold, rf"$\displaystyle {gold}$.").reason is Reason.CORRECT  # type: ignore[union-attr]
        if notation.as_words(gold) is None:
            assert refuse(gold, gold) is None


@pytest.mark.parametrize(
    ("gold", "answer", "detail"),
    [
        ("y = 2x + 3", "y=2x+3+y-y", "y on both sides"),
        ("(3,4]", "3<x\\le4\\le 5", "chain of relations"),
        ("11\\pi", "11\\pi^1", "power of zero or one"),
        ("x^3+3x-6", "x^3+3x-6+0x", "zero term"),
        ("x^2+1", "x^2+1+0", "zero term"),
        ("x^2+1", "0+x^2+1", "zero term"),
        ("\\frac{3}{4}", "\\frac{1}{2}\\cdot\\frac{3}{2}", "product where the gold is a number"),
        ("\\frac{3}{4}", "\\frac{1}{2}\\frac{3}{2}", "product where the gold is a number"),
        ("(\\frac{3}{4},2)", "(1\\cdot\\frac{3}{4},2)", "product where the gold is a number"),
        ("2k", "k2", "number behind a letter"),
        ("\\infty", "\\infty\\cdot 2", "arithmetic with infinity"),
        ("(1,2)\\cup(3,4)", "(1,2)\\cup(3,4)\\cup\\{3.5\\}", "more set operations than the gold has"),
        ("(2,\\infty)", "x>2 or x>3", "more set operations than the gold has"),
        ("42", "42 inverse", "inverse is not a unit"),
        ("\\sqrt{2}", "\\frac{2}{\\sqrt{2}}", "fraction where the gold has none"),
        ("x > 2", "y > 2", "y where the gold gives x"),
    ],
)
def test_the_gate_says_which_rule_an_answer_breaks(gold: str, answer: str, detail: str) -> None:
    finding = refuse(gold, answer)
    assert finding is not None
    assert finding.detail == detail


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("\\sqrt{51}", "51^{1/2}"),
        ("11\\sqrt2", "11\\cdot 2^{\\frac{1}{2}}"),
        ("5r^5", "r^5\\cdot 5"),
        ("\\frac{11+9a}{20}", "\\frac{1}{20}(11+9a)"),
        ("\\log_2 3", "\\log_{2}(3)"),
        ("y=-2x", "2x+y=0"),
        ("\\frac{a}{2}", "\\frac a2"),
        ("x^2+(y-3)^2=9", "(x-0)^2+(y-3)^2=9"),
        ("x^{-1}", "\\frac{1}{x}"),
    ],
)
def test_the_gate_lets_other_spellings_pass(gold: str, answer: str) -> None:
    assert refuse(gold, answer) is None


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^2+1", "(x+3)^{999}"),
        ("x^2+1", "(x+3)^{500}"),
        ("2^{10}", "((7^{999})^{999})^{999}"),
        ("2^{10}", "9^{9^{9}}"),
        ("x^{2}", "x^{9^{9}}"),
    ],
)
def test_what_would_take_a_worker_its_whole_deadline_is_refused_before_it(gold: str, answer: str) -> None:
    verdict = decide(gold, answer)
    assert verdict is not None
    assert verdict.reason is Reason.UNPARSABLE


@given(st.text(alphabet=string.printable + "√π−½°​٤", max_size=60), st.text(alphabet=string.printable, max_size=40))
@settings(max_examples=300, deadline=None)
def test_the_gate_is_total(gold: str, answer: str) -> None:
    decide(gold, answer, f"What is ${gold}$?")


@pytest.mark.parametrize(
    "unit", ["(", r"\frac{", "^{", "!", "-", r"\sqrt", "1,", "a ", "\\", "$", "|", r"\text{", "=", ".", " "]
)
def test_the_gate_takes_linear_time(unit: str) -> None:
    start = time.process_time()
    decide("42", unit * 1_000_000)
    decide("42", (unit * 1000)[:1000])
    assert time.process_time() - start < 1
