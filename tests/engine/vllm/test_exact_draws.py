"""Draws that are the same to the last bit: an alarm where the learner tells two sets of weights apart, else none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agon.engine.vllm.exact_draws import ExactDraws
from agon.engine.vllm.suspects import Suspect
from agon.protocols import Stretch, Tokens
from agon.types import BASE, Policy, Version

A, B, OLD = Version("a@2-x"), Version("b@2-x"), Version("a@1-x")
OTHERS = {Suspect.RIVAL: B, Suspect.BASE: BASE, Suspect.BEFORE: OLD}


class Learner:
    """Log-probs of the weights of A, B, the base and the version before; `differing` of ten tokens know them apart."""

    def __init__(self, differing: int = 10, rival: float = -2.0) -> None:
        self.differing, self.rival = differing, rival

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        name = stretch.origin.name if stretch and stretch.origin else policy.value if policy else "base"
        value = {"a": -1.0, "b": self.rival, "base": -3.0, "before": -4.0}[name]
        assert not stretch or stretch.factor == 0, "the version before, as it is"
        return [[value] * self.differing + [-9.0] * (10 - self.differing) for _ in rows]


def drawn(logprob: float) -> list[Tokens]:
    return [Tokens((1, 2), (7,) * 10, (logprob,) * 10)]


def engine(learner: Learner, **draws: list[Tokens]) -> ExactDraws:
    exact = ExactDraws(learner)  # type: ignore[arg-type]
    exact.keep({B: drawn(-2.1), BASE: drawn(-3.1), OLD: drawn(-4.1)}, ())
    exact.keep({A: draws["a"]}, [B, BASE, OLD])
    return exact


@pytest.mark.parametrize(("suspect", "served"), [("rival", -2.1), ("base", -3.1), ("before", -4.1), (None, -1.1)])
def test_the_weights_that_were_served_are_named(suspect: str | None, served: float) -> None:
    exact = engine(Learner(), a=drawn(served))
    assert exact.same(Policy.A, A, OTHERS, Path("before")) == suspect


def test_a_last_bit_is_a_difference() -> None:
    exact = engine(Learner(), a=drawn(-4.1000000000000005))
    assert exact.same(Policy.A, A, OTHERS, Path("before")) is None


@pytest.mark.parametrize(("differing", "alarm"), [(0, False), (5, False), (6, True)])
def test_weights_that_the_learner_hardly_tells_apart_are_no_alarm(differing: int, alarm: bool) -> None:
    """A step may change nothing: its rate was zero, its groups were dead, or rounding swallowed it."""
    exact = engine(Learner(differing), a=drawn(-4.1))
    assert (exact.same(Policy.A, A, OTHERS, Path("before")) is Suspect.BEFORE) == alarm


def test_policies_that_have_not_moved_apart_draw_the_same() -> None:
    exact = engine(Learner(rival=-1.0), a=drawn(-2.1))
    assert exact.same(Policy.A, A, OTHERS, Path("before")) is None


def test_a_version_before_that_is_gone_is_no_alarm() -> None:
    assert engine(Learner(), a=drawn(-4.1)).same(Policy.A, A, OTHERS, None) is None


def test_an_engine_that_does_not_repeat_itself_gives_no_alarm() -> None:
    exact = engine(Learner(), a=drawn(-4.1))
    exact.repeats = False
    assert exact.same(Policy.A, A, OTHERS, Path("before")) is None


def test_old_draws_are_forgotten() -> None:
    exact = engine(Learner(), a=drawn(-4.1))
    exact.keep({A: drawn(-4.1)}, [BASE])
    assert exact.same(Policy.A, A, OTHERS, Path("before")) is None
