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

from agon.types import Reason
from agon.verify.math import notation
from agon.verify.math.gate import limits, refuse
from agon.verify.math.verifier import decide

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
