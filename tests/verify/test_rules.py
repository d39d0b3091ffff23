"""What is paid and what is not: the probes, one by one, and the rules that they do not show."""

from __future__ import annotations

import json
import os
import random
import string
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.types import Reason
from agon.verify.math import notation, units
from agon.verify.math.gate import limits, refuse
from agon.verify.math.probes import forbidden, paid, row
from agon.verify.math.verifier import MathVerifier, decide

DATA = Path(os.environ.get("AGON_DATA") or Path(__file__).parents[3] / "shared" / "data")


def reasons(verifier: MathVerifier, *probes: tuple[str, str, str]) -> list[Reason]:
    return [verdict.reason for verdict in verifier.verify_many(row(*probe) for probe in probes)]


def test_every_other_spelling_of_the_gold_is_paid(verifier: MathVerifier) -> None:
    probes = paid()
    unpaid = [p for p, reason in zip(probes, reasons(verifier, *probes), strict=True) if reason is not Reason.CORRECT]
    assert not unpaid


def test_no_forbidden_form_is_paid_and_each_gets_a_graded_verdict(verifier: MathVerifier) -> None:
    probes = forbidden()
    safe = {Reason.WRONG, Reason.UNPARSABLE, Reason.AMBIGUOUS}
    assert len(probes) >= 60
    assert not [p for p, reason in zip(probes, reasons(verifier, *probes), strict=True) if reason not in safe]


def test_a_verifier_that_pays_for_everything_fails_its_self_test(
    verifier: MathVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verifier.self_test() == []
    generous = verifier.verify_many([row("", "1", "1")])
    monkeypatch.setattr(verifier, "verify_many", lambda pairs: generous * len(list(pairs)))
    assert len(verifier.self_test()) == len(forbidden())


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
    found = decide(gold, f" {gold} ")
    assert found is not None
    assert found.reason is Reason.CORRECT


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
def test_where_the_gold_is_words_mathematics_is_no_answer(answer: str, reason: Reason) -> None:
    assert decide(r"\text{even}", answer).reason is reason  # type: ignore[union-attr]


@pytest.mark.skipif(not DATA.is_dir(), reason="MATH-500 is not beside the repository; set AGON_DATA")
def test_the_golds_of_math_500_are_accepted_and_never_filtered() -> None:
    for line in (DATA / "math500" / "test.jsonl").read_text().splitlines():
        gold = json.loads(line)["answer"]
        assert limits(gold, gold) == ""
        assert decide(gold, rf"$\displaystyle {gold}$.").reason is Reason.CORRECT  # type: ignore[union-attr]
        if notation.words(gold) is None:
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


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
@settings(max_examples=200, deadline=None)
def test_numbers_are_read_exactly(top: int, bottom: int) -> None:
    read = notation.number(rf"{'-' if top < 0 else ''}\frac{{{abs(top)}}}{{{bottom}}}")
    assert read is not None
    assert read.value * bottom == top
    integer = notation.number(f"{top:,}")
    assert integer is not None
    assert integer.value == top


def test_a_decimal_stands_for_a_fraction_only_to_six_digits() -> None:
    rng = random.Random(0)
    for _ in range(200):
        gold = notation.number(f"{rng.randint(1, 999)}/{rng.randint(1, 999) * 7 + 1}")
        assert gold is not None
        value = float(gold.value)
        assert gold.value.denominator == 1 or notation.same_number(gold, notation.number(f"{value:.9f}"))  # type: ignore[arg-type]
        assert not notation.same_number(gold, notation.number(f"{value * 1.001:.9f}"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("cm", "cm", False),
        ("cm", "m", True),
        ("cm", "", False),
        ("cm^2", "cm", True),
        ("dollar", "cent", True),
        ("apple", "m", False),
    ],
)
def test_units_clash_only_when_both_are_known(one: str, other: str, clash: bool) -> None:
    assert units.clash(one, other) is clash


def test_percent_counts_only_if_somebody_spoke_of_it(verifier: MathVerifier) -> None:
    asked = "What percent is it?"
    assert reasons(verifier, (asked, "42", r"42\%"), ("How many?", "42", r"42\%")) == [Reason.CORRECT, Reason.WRONG]
    assert reasons(verifier, ("How many?", r"42\%", "42"), (asked, "42", r"4200\%")) == [Reason.CORRECT, Reason.WRONG]


def test_the_unevaluated_question_is_not_an_answer(verifier: MathVerifier) -> None:
    question = r"Simplify $\frac{x^2-1}{x-1} + 0$ for all $x \ne 1$."
    assert reasons(verifier, (question, "x+1", r"\frac{x^2-1}{x-1} + 0"), (question, "x+1", "1+x")) == [
        Reason.UNPARSABLE,
        Reason.CORRECT,
    ]
