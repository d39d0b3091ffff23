"""The known answers: those that must be paid are paid, and no forbidden one is."""

from __future__ import annotations

import pytest

from agon_judge.math.judge import MathJudge
from agon_judge.math.probes import forbidden, paid, row
from agon_judge.verdict import Reason
from judge_helpers import reasons


def test_every_other_spelling_of_the_gold_is_paid(judge: MathJudge) -> None:
    probes = paid()
    unpaid = [p for p, reason in zip(probes, reasons(judge, *probes), strict=True) if reason is not Reason.CORRECT]
    assert not unpaid


def test_no_forbidden_form_is_paid_and_each_gets_a_graded_verdict(judge: MathJudge) -> None:
    probes = forbidden()
    safe = {Reason.WRONG, Reason.UNPARSABLE, Reason.AMBIGUOUS}
    assert len(probes) >= 60
    assert not [p for p, reason in zip(probes, reasons(judge, *probes), strict=True) if reason not in safe]


def test_a_judge_that_pays_for_everything_fails_its_self_test(
    judge: MathJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge.self_test() == []
    generous = judge.judge_many([row("", "1", "1")])
    monkeypatch.setattr(judge, "judge_many", lambda rows: generous * len(list(rows)))
    assert len(judge.self_test()) == len(forbidden())
