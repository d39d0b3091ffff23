"""Two students who were taught different things: disjoint halves, and a rest that nobody knows."""

from __future__ import annotations

from collections import Counter

from agon.data.tabletop.halves import KnownTo, beliefs_of, known_to
from agon.data.tabletop.lessons import Beliefs, LessonMixture
from agon.types import Policy

BASE = Beliefs(0, LessonMixture(misconceived=0.5))


def test_two_fifths_each_and_a_fifth_for_nobody() -> None:
    counts = Counter(known_to(BASE).values())
    share = 2 * len(BASE.wrong) // 5
    assert counts == {KnownTo.A: share, KnownTo.B: share, KnownTo.NOBODY: len(BASE.wrong) - 2 * share}
    assert known_to(BASE) == known_to(Beliefs(0, LessonMixture(misconceived=0.5)))


def test_a_policy_is_wrong_about_what_it_was_not_taught_and_nothing_else() -> None:
    wrong = {policy: set(beliefs_of(policy, BASE).wrong) for policy in Policy}
    nobody = {fact for fact, who in known_to(BASE).items() if who is KnownTo.NOBODY}
    assert wrong[Policy.A] & wrong[Policy.B] == nobody
    assert wrong[Policy.A] | wrong[Policy.B] == set(BASE.wrong)
    assert len(wrong[Policy.A]) == len(wrong[Policy.B]) < len(BASE.wrong)
    for policy in Policy:
        mine = beliefs_of(policy, BASE).wrong
        assert all(mine[fact] == BASE.wrong[fact] for fact in mine)
