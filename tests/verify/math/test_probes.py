"""The known answers: those that must be paid are paid, and no forbidden one is."""

from __future__ import annotations

import pytest

from agon.types import Reason
from agon.verify.math.probes import forbidden, paid, row
from agon.verify.math.verifier import MathVerifier

from .helpers import reasons


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
