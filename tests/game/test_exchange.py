"""What challenges made of drafts: counted by hand, once."""

from __future__ import annotations

from dataclasses import replace

from agon.game.exchange import Exchange, echoed, exchange, leaked, outcome
from agon.types import Bout, Completion, Policy, Problem, Prompt, Reason, Rollout, Verdict, Version
from tests.game.helpers import INFRA

PROBLEM = Problem("p", "why", "42")


def rollout(policy: Policy, correct: bool) -> Rollout:
    verdict = Verdict(correct, True, Reason.CORRECT if correct else Reason.WRONG)
    return Rollout(PROBLEM, 0, policy, Prompt(()), Completion("", Version.of(policy, 0, "x"), 1, 1), verdict)


def bout(draft: bool, challenge: bool, peek: str | None = "recap") -> Bout:
    return Bout(rollout(Policy.A, draft), rollout(Policy.B, challenge), peek)


def test_the_four_outcomes() -> None:
    assert outcome(bout(False, True)) == "converted"
    assert outcome(bout(True, False)) == "regressed"
    assert outcome(bout(True, True)) == "kept"
    assert outcome(bout(False, False)) == "lost"


def test_a_bout_without_both_verdicts_has_no_outcome() -> None:
    whole = bout(False, True)
    assert whole.challenge is not None
    assert outcome(replace(whole, draft=replace(whole.draft, verdict=INFRA))) is None
    assert outcome(replace(whole, challenge=replace(whole.challenge, verdict=INFRA))) is None
    assert outcome(Bout(whole.draft)) is None


def test_counts_by_hand() -> None:
    bouts = [
        bout(False, True),
        bout(False, False, peek=""),
        bout(True, False, peek="it must be 42"),
        bout(True, True, peek=None),
        Bout(rollout(Policy.A, True)),
    ]
    assert exchange(bouts) == Exchange(
        draft_right=2, draft_wrong=2, conversions=1, regressions=1, shown=3, empty_peeks=1, leaks=1, echoes=0
    )


def test_a_leak_in_either_peek_counts() -> None:
    clean = bout(True, True)
    assert not leaked(clean)
    assert leaked(replace(clean, other_peek="the answer is 42"))
    assert leaked(replace(clean, peek="the answer is 42"))


def test_a_drafts_own_answer_is_a_leak_too_right_or_wrong() -> None:
    wrong = bout(False, False, peek="so it is 41")
    assert not leaked(wrong)
    answered = replace(wrong.draft.completion, text="<think>t</think>so it is 41<answer>41</answer>")
    assert leaked(replace(wrong, draft=replace(wrong.draft, completion=answered)))


def answering(draft: str, challenge: str, *, challenge_right: bool = False) -> Bout:
    made = bout(False, challenge_right)
    assert made.challenge is not None
    texts = ((made.draft, draft), (made.challenge, challenge))
    first, second = (replace(r, completion=replace(r.completion, text=f"<think></think>{t}")) for r, t in texts)
    return replace(made, draft=first, challenge=second)


def test_an_echo_is_the_same_wrong_answer_again() -> None:
    assert echoed(answering("<answer>x  + 1</answer>", "<answer> x +\n1</answer>"))
    assert not echoed(answering("<answer>41</answer>", "<answer>40</answer>"))
    assert not echoed(answering("nothing", "nothing")), "no answer is no echo"
    assert not echoed(answering("<answer>41</answer>", "<answer>41</answer>", challenge_right=True))


def test_planted_copying_shows_in_the_rates() -> None:
    copied = [answering("<answer>41</answer>", "<answer>41</answer>")] * 3
    counts = exchange([*copied, answering("<answer>41</answer>", "<answer>42</answer>", challenge_right=True)])
    assert (counts.echoes, counts.echoed, counts.converted, counts.kept) == (3, 0.75, 0.25, None)
