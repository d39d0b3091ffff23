"""One spelling for each sign, in linear time."""

from __future__ import annotations

import time

import pytest

from agon_judge.math.spelling import clean, written_alike


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("√52", r"\sqrt{52}"),
        ("sqrt 52", r"\sqrt{52}"),
        ("2√x", r"2\sqrt x"),
        ("sqrt(x+1)", r"\sqrt{x+1}"),
        (r"{3 \over 4}", r"\frac{3 }{ 4}"),
        ("10^-5", "10^{-5}"),
        (r"20{,}000/\pi", r"20000/\pi"),
        (r"\frac{20,000}{\pi}", r"\frac{20000}{\pi}"),
        (r"3{,}5", "3,5"),
        (r"0.\bar{3}", r"0.\overline{3}"),
        ("0.8333...", r"0.8\overline{3}"),
        ("0.833...", "0.833..."),
        (r"\exp(2x)", "e^{2x}"),
        (r"\log_e 2", r"\ln  2"),
        (r"\frac{\ln 3}{\ln 2}", r"\log_{2}(3)"),
        (r"\frac{\ln 3}{\log 2}", r"\frac{\ln 3}{\log 2}"),
        (r"\varnothing", r"\emptyset"),
        (r"\{ \}", r"\emptyset"),
        (r"\mathrm{cm^{2}}", r"\text{cm}^2"),
        (r"204_{\text{five}}", "204_{five}"),
        (r"204 \text{ (base 5)}", "204 _{5}"),
        ("x<=2", r"x\le 2"),
    ],
)
def test_a_sign_has_one_spelling(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("gold", "answer", "alike"),
    [
        ("58,500", "58, 500", False),
        ("58,500", "58,500", True),
        ("100, 200", "100,200", True),
        ("3, 5, 7", "3,5,7", True),
        ("3,5,7", "3, 5, 7", True),
    ],
)
def test_a_space_makes_two_values_of_one_number(gold: str, answer: str, alike: bool) -> None:
    assert written_alike(gold, answer) is alike


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        r"{\over",
        r"\text{",
        r"\text{a^",
        r"\frac{\ln ",
        r"\frac{1}",
        r"\sqrt",
        "sqrt 5",
        r"\exp(",
        r"\log_",
        "^-",
        "333",
        "333 ",
        "1,000",
        r"1{,}",
        r"\overline{.",
        r"(\begin{array}{c",
        "base ",
        r"_{\text{",
        r"\{ ",
        "1 ",
        '"',
    ],
)
def test_cleaning_takes_linear_time(unit: str) -> None:
    def seconds(length: int) -> float:
        start = time.process_time()
        clean((unit * length)[:length])
        return time.process_time() - start

    assert seconds(100_000) < 1


@pytest.mark.parametrize(
    ("gold", "answer", "alike"),
    [
        (r"\aleph_0", r"\aleph_{0}", True),
        (r"\mathbb{Z}_2 \times \mathbb{Z}_2", r"\mathbb{Z}_{2}\times\mathbb{Z}_{2}", True),
        (r"2^{\aleph_0}", r"2^{\aleph_{0}}", True),
        (r"\mathbb{Q}", r"\mathbb Q", True),
        (r"\omega^\omega", r"\omega^{\omega}", True),
        (r"\aleph_{10}", r"\aleph_10", False),
        ("2^{1}0", "2^10", False),
        (r"\mathbb{Z}_2", r"\mathbb{Z}_3", False),
    ],
)
def test_braces_around_one_sign_are_typesetting(gold: str, answer: str, alike: bool) -> None:
    assert written_alike(gold, answer) is alike
