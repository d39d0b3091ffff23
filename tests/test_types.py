"""A version is a value with one grammar; a verdict of a judge becomes one of the game."""

from __future__ import annotations

import pickle

import pytest

from agon.types import BASE, Policy, Reason, Verdict, Version
from agon_judge import verdict as judge


def test_a_version_says_whose_weights_and_which() -> None:
    version = Version.of(Policy.B, 123, "5f3c9a1e")
    assert version == "b@000123-5f3c9a1e" == Version("b@000123-5f3c9a1e")
    assert (version.policy, version.digest) == (Policy.B, "5f3c9a1e")


def test_the_base_is_a_version_without_a_policy() -> None:
    assert (BASE, BASE.policy, BASE.digest) == ("base", None, "")


@pytest.mark.parametrize(
    "name", ["", "a", "c@1-x", "a@1", "a@-x", "a@1-", "../a@1-x", "a@1-x/..", "a@1-X", "a@1-x\n", "A@1-x", "a@٣-x"]
)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        Version(name)


def test_a_version_survives_pickling_between_processes() -> None:
    assert type(pickle.loads(pickle.dumps(Version("a@1-x")))) is Version  # noqa: S301 - our own bytes


@pytest.mark.parametrize("reason", Reason)
def test_a_judges_verdict_gets_the_form_of_its_completion(reason: Reason) -> None:
    verdict = Verdict.of(judge.Verdict(reason, "so"), well_formed=False)
    assert verdict == Verdict(reason is Reason.CORRECT, False, reason, "so")
    assert verdict.graded is judge.Verdict(reason).graded
