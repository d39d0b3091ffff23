"""Every gold is tried on its own verifier, and the refused ones are listed."""

from __future__ import annotations

import pytest

from agon.config import Source
from agon.data import load
from agon.data.check import (
    GOLD_SHARE,
    cases_per_problem,
    check_forms,
    forms,
    gold_check,
    gold_completion,
    guessable,
    lengths,
)
from agon.data.normalise import make_problem
from agon.game.parse import parse, well_formed
from agon.types import Reason, UnitTests, Verdict
from agon.verify import load_verifier
from tests.data.helpers import NO_REAL_DATA, REAL, Exact, numbered


def test_rejected_golds_are_listed_with_their_reason() -> None:
    problems = [*numbered(3), make_problem("odd", "?4")]
    check = gold_check(problems, Exact())
    assert (check.accepted, check.of, check.passed) == (3, 4, False)
    (rejected,) = check.rejected
    assert (rejected.id, rejected.answer, rejected.reason) == (problems[3].id, "?4", "bad_gold")


def test_an_accepted_gold_that_can_only_be_compared_as_text_is_a_remark() -> None:
    problems = [make_problem("size", r"\aleph_0"), make_problem("sum", "x+1")]
    with load_verifier("math", workers=1) as judge:
        check = gold_check(problems, judge)
    assert (check.accepted, check.rejected, check.passed) == (2, (), True)
    assert [(gold.id, gold.reason) for gold in check.remarks] == [(problems[0].id, "correct")]
    assert "does not parse" in check.remarks[0].detail


@pytest.mark.parametrize(("bad", "passed"), [(0, True), (5, True), (6, False)])
def test_the_check_fails_below_its_threshold(bad: int, passed: bool) -> None:
    problems = numbered(100 - bad) + [make_problem(f"odd {n}", f"?{n}") for n in range(bad)]
    assert GOLD_SHARE == 0.95
    assert gold_check(problems, Exact()).passed is passed


def test_problems_judged_by_tests_have_no_gold_to_check() -> None:
    check = gold_check([make_problem("code", "", tests=UnitTests((("1", "1"),)))], Exact())
    assert (check.of, check.share, check.passed) == (0, None, True)


def test_tests_that_one_constant_passes_are_found() -> None:
    weak = make_problem("weak", "", tests=UnitTests((("1", "YES"), ("2", " YES\n"))))
    sound = make_problem("sound", "", tests=UnitTests((("1", "YES"), ("2", "NO"), ("3", "YES"))))
    assert guessable([weak, sound, *numbered(2)]) == [weak]
    assert cases_per_problem([weak, sound, *numbered(2)])["max"] == 3
    assert cases_per_problem(numbered(2)) == {}


def test_lengths_are_quantiles_of_characters_and_words() -> None:
    found = lengths(["a" * n for n in range(1, 102)])
    assert found["chars"] == {"min": 1, "median": 51, "p90": 91, "p99": 100, "max": 101}
    assert found["words"]["max"] == 1
    assert lengths([]) == {"chars": {}, "words": {}}


def test_a_gold_completion_is_well_formed() -> None:
    completion = gold_completion(make_problem("q", r"\frac{1}{2}"))
    assert well_formed(completion)
    assert parse(completion).answers == (r"\frac{1}{2}",)


@pytest.mark.skipif(not REAL.is_dir(), reason=NO_REAL_DATA)
def test_real_golds_are_accepted_by_the_math_verifier() -> None:
    problems = load(Source(preset="math-500", path=str(REAL / "math500"), take=40))
    judge = load_verifier("math", workers=1)
    try:
        check = gold_check(problems, judge)
    finally:
        judge.close()
    assert check.of == 40
    assert check.passed


def test_a_gold_is_dead_when_no_form_of_it_is_accepted() -> None:
    dead, boxed = (make_problem(f"question {gold}", gold) for gold in ("42", "43"))

    class Boxes(Exact):
        """Accepts 43 in a box and nothing else."""

        def verify_many(self, pairs):  # type: ignore[no-untyped-def]
            right = [completion.text.endswith(r"<answer>\boxed{43}</answer>") for _, completion in pairs]
            return [Verdict(each, True, Reason.CORRECT if each else Reason.WRONG) for each in right]

    verifier = Boxes()
    check = gold_check([dead, boxed], verifier)
    assert check.accepted == 0
    found = check_forms([dead, boxed], check, verifier, verifier)
    assert (found.rejected, found.never_paid) == (2, (dead.id,))


def test_forms_on_which_math_and_math_verify_differ_are_counted() -> None:
    problems = [make_problem("one", "42"), make_problem("two", "{{{")]
    with load_verifier("math", workers=1) as ours, load_verifier("math-verify", workers=1) as plain:
        found = check_forms(problems, gold_check(problems, ours), ours, plain)
    assert found.texts == sum(1 + len(forms(problem.answer)) for problem in problems)
    assert {gold for gold, _, _, _ in found.differ} == {"{{{"}


def test_many_golds_are_tried_in_their_forms_as_a_sample_that_stays_the_same() -> None:
    class Asked(Exact):
        """Rejects everything, and keeps the problems that it is asked about."""

        def verify_many(self, pairs):  # type: ignore[no-untyped-def]
            self.problems = {problem.id for problem, _ in pairs}
            return [Verdict(False, True, Reason.WRONG) for _ in pairs]

    problems, rejecting = numbered(30), Asked()
    check = gold_check(problems, rejecting)
    samples = []
    for _ in range(2):
        other = Asked()
        found = check_forms(problems, check, rejecting, other, 10)
        assert (found.rejected, len(found.never_paid), found.golds) == (10, 10, 10)
        samples.append(other.problems)
    assert samples[0] == samples[1] != {problem.id for problem in problems[:10]}
    assert check_forms(problems, check, rejecting, rejecting, None).golds == 30
