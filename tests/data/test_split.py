"""What a split is made of: a seeded order, a content hash, the overlap with train, and an account of lost rows."""

from __future__ import annotations

import dataclasses

import pytest

from agon.config import Source
from agon.data import load
from agon.data.normalise import make_problem, question_key
from agon.data.split import ProblemPool, content_hash, overlap, shuffled
from agon.types import UnitTests
from tests.data.helpers import NO_REAL_DATA, REAL, numbered


def test_the_hash_sees_every_change_but_not_the_order() -> None:
    problems = numbered(5)
    first = dataclasses.replace(problems[0], tests=UnitTests((("1", "2"),)))
    changed = [
        [*problems[1:]],
        [dataclasses.replace(problems[0], question="another"), *problems[1:]],
        [dataclasses.replace(problems[0], answer="another"), *problems[1:]],
        [first, *problems[1:]],
        [dataclasses.replace(first, tests=UnitTests((("1", "3"),))), *problems[1:]],
    ]
    assert content_hash(reversed(problems)) == content_hash(problems)
    assert len({content_hash(rows) for rows in [problems, *changed]}) == 6


def test_the_order_of_a_split_is_a_shuffle() -> None:
    problems = numbered(200)
    order = [problems.index(problem) for problem in shuffled(problems, seed=0)]
    assert order != sorted(order)
    assert sum(place < 100 for place in order[:100]) in range(35, 66)


class TestOverlap:
    LONG = "A farmer has a field of forty rows and plants seven seeds in each row before the rain comes again"

    def test_thirteen_words_in_a_row_are_found_and_twelve_are_not(self) -> None:
        words = self.LONG.split()
        held_out = [make_problem(self.LONG, "1")]
        for count, hits in ((13, 1), (12, 0)):
            train = [make_problem(f"Otherwise: {' '.join(words[:count]).upper()}, and something else entirely.", "2")]
            assert len(overlap(train, held_out).problems) == hits

    def test_the_share_and_the_words_are_reported(self) -> None:
        held_out, train = make_problem(self.LONG, "1"), make_problem(self.LONG + " and again", "2")
        (shared,) = overlap([*numbered(5), train], [held_out]).problems
        assert (shared.held_out, shared.train, shared.share) == (held_out.id, train.id, 1.0)
        assert shared.words in question_key(self.LONG)

    def test_a_short_question_counts_as_a_whole(self) -> None:
        held_out = [make_problem("How many legs has a spider?", "8"), make_problem("How many?", "8")]
        train = [make_problem("Ann asks: how many legs has a spider, and how many eyes?", "8")]
        assert [shared.held_out for shared in overlap(train, held_out).problems] == [held_out[0].id]

    @pytest.mark.skipif(not REAL.is_dir(), reason=NO_REAL_DATA)
    def test_real_gsm8k_hardly_overlaps_and_a_planted_copy_is_found(self) -> None:
        train = load(Source(preset="gsm8k", path=str(REAL / "gsm8k"), take=3_000))
        test = load(Source(preset="gsm8k-test", path=str(REAL / "gsm8k"), take=400))
        before = {shared.held_out for shared in overlap(train, test).problems}
        planted = [make_problem(f"Answer this: {problem.question} Thanks.", "0") for problem in test[:50]]
        after = {shared.held_out for shared in overlap([*train, *planted], test).problems}
        assert len(before) < 10
        assert after - before == {problem.id for problem in test[:50]} - before


def test_an_account_names_only_what_was_lost() -> None:
    pool = ProblemPool((), rows=9, filtered={"too easy": 2}, unusable={"answer is null": 1})
    assert pool.account() == "9 rows, 2 too easy, 1 answer is null"
