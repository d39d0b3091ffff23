"""`math-verify`: the plain library beside our judge, for numbers that others can compare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agon.protocols import Verifier
from agon.types import BASE, Completion, Problem, Reason
from agon.verify import load_verifier


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with load_verifier("math-verify", workers=2) as opened:
        yield opened


@pytest.mark.parametrize(
    ("gold", "text", "reason"),
    [
        ("42", r"so \boxed{42}", Reason.CORRECT),
        ("42", r"<think>\boxed{42}</think> so \boxed{41}", Reason.WRONG),
        (r"\frac{1}{2}", r"\boxed{0.5}", Reason.CORRECT),
        ("42", r"\boxed{6\cdot 7}", Reason.CORRECT),  # our judge does not pay the question again
        ("42", "I cannot say", Reason.UNPARSABLE),
        ("42", "<think>42", Reason.UNPARSABLE),
    ],
)
def test_it_says_what_the_library_says(gold: str, text: str, reason: Reason, verifier: Verifier) -> None:
    (verdict,) = verifier.verify_many([(Problem("x", "", gold), Completion(text, BASE, 0, 0))])
    assert verdict.reason is reason


def test_a_form_that_hangs_the_library_ends_as_timeout(verifier: Verifier) -> None:
    problem = Problem("x", "", "42")
    texts = [r"\boxed{10**10**8}", r"\boxed{42}"]
    slow, right = verifier.verify_many([(problem, Completion(text, BASE, 0, 0)) for text in texts])
    assert slow.reason in (Reason.TIMEOUT, Reason.WRONG, Reason.UNPARSABLE)
    assert right.correct


def test_it_passes_its_own_test(verifier: Verifier) -> None:
    assert verifier.self_test() == []
