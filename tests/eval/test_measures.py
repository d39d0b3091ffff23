"""Measures from bouts: counted by hand on a small table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agon.eval import intervals, measures
from agon.rundir.records import Joint
from agon.rundir.results import TokenCounts
from agon.types import Bout, Completion, Policy, Problem, Prompt, Reason, Rollout, Verdict, Version


def rollout(problem: Problem, policy: Policy, correct: bool, tokens: int) -> Rollout:
    verdict = Verdict(correct, True, Reason.CORRECT if correct else Reason.WRONG)
    completion = Completion("", Version.of(policy, 0, "x"), prompt_tokens=5, generated_tokens=tokens)
    return Rollout(problem, 0, policy, Prompt(()), completion, verdict, seconds=1.0)


def bout(n: int, draft: bool, final: bool, peek: str = "recap", tokens: int = 10) -> Bout:
    problem = Problem(f"p{n}", "why", "42")
    return Bout(rollout(problem, Policy.A, draft, 20), rollout(problem, Policy.B, final, tokens), peek)


BOUTS = [
    bout(0, False, True, peek="so it is 42", tokens=4),
    bout(1, False, False, tokens=30),
    bout(2, False, False, peek=""),
    bout(3, True, True, tokens=6),
    bout(4, True, False, tokens=20),
]


def test_conversions_are_of_wrong_drafts_and_regressions_of_right_ones() -> None:
    shares = measures.exchange_shares(BOUTS)
    assert (shares.conversion.count, shares.conversion.of) == (1, 3)
    assert (shares.regression.count, shares.regression.of) == (1, 2)
    assert shares.conversion.rate == intervals.clopper_pearson(1, 3)
    assert shares.empty_peek.count == 1


def test_a_leak_is_counted_and_the_pass_rate_is_given_with_and_without_it() -> None:
    shares = measures.leak_shares(BOUTS)
    assert shares.pass_with.rate is not None
    assert shares.pass_without.rate is not None
    assert (shares.rate.count, shares.pass_with.rate.value, shares.pass_without.rate.value) == (1, 1.0, 0.25)


def test_what_a_machine_failed_on_is_in_no_table() -> None:
    first = BOUTS[0]
    assert first.challenge is not None
    failed = replace(first, challenge=replace(first.challenge, verdict=Verdict(False, True, Reason.INFRA)))
    assert measures.exchange_shares([failed, *BOUTS[1:]]).conversion.of == 2
    measured = measures.measure([failed, *BOUTS[1:]])
    assert (measured.trials, measured.ungraded, measured.outcomes["p0"]) == (4, 1, [None])


def test_tokens_of_both_stages_are_paid_by_right_answers() -> None:
    use = measures.token_use(BOUTS)
    assert use.draft == TokenCounts(generated=100, prefilled=25)
    assert use.per_correct == TokenCounts(generated=(100 + 70) / 2, prefilled=50 / 2)


def test_a_single_pass_has_one_stage() -> None:
    measured = measures.measure([Bout(each.draft) for each in BOUTS])
    assert (measured.exchange, measured.leak, measured.tokens.draft) == (None, None, None)
    assert measured.tokens.total == measured.tokens.final == TokenCounts(generated=100, prefilled=25)
    assert measured.correct == 2


def test_lengths_by_outcome_and_by_what_was_read() -> None:
    final = measures.lengths(BOUTS).final
    assert {name: final[name].mean for name in ("right", "wrong", "converted", "kept", "regressed", "lost")} == {
        "right": 5, "wrong": 20, "converted": 4, "kept": 6, "regressed": 20, "lost": 20,
    }  # fmt: skip
    assert (final["read_right"].mean, final["read_wrong"].n) == (13, 3)


def test_complementarity_by_hand() -> None:
    joint = Joint.count([(True, True)] * 3 + [(True, False)] * 2 + [(False, True)] + [(False, False)] * 4)
    assert (joint.error_overlap, joint.yule_q) == (4 / 7, (12 - 2) / (12 + 2))
    alike = {f"p{k}": [k < 5] for k in range(10)}
    apart = {f"p{k}": [k >= 5] for k in range(10)}
    assert measures.complementarity(alike, alike)[0].yule_q == 1
    opposite, either = measures.complementarity(alike, apart)
    assert opposite.yule_q == -1
    assert either is not None
    assert either.value == 1


def test_a_share_over_repeated_problems_covers_at_its_level() -> None:
    rng, hits = np.random.default_rng(0), 0
    for _ in range(400):
        chance = rng.beta(1, 1, 100)
        sizes = rng.integers(1, 6, 100)
        found = intervals.rate([(rng.random(n) < p).tolist() for n, p in zip(sizes, chance, strict=True)])
        hits += found.low <= 0.5 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_a_share_without_spread_is_not_certain() -> None:
    found = intervals.rate([[False, False]] * 20)
    assert (found.low, found.value) == (0, 0)
    assert found.high > 0.1


@pytest.mark.parametrize(("right", "of", "problems"), [(3, 8, 1), (1, 2, 5), (15, 22, 1), (15, 22, 2)])
def test_a_share_that_is_the_same_in_every_problem_is_stated_as_it_is(right: int, of: int, problems: int) -> None:
    found = intervals.rate([[True] * right + [False] * (of - right)] * problems)
    assert found is not None
    assert found.value == pytest.approx(right / of)
    assert found.high is not None
    assert found.low is not None
    assert found.high - found.low > 0.5
