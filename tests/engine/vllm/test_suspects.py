"""Whose samples these are, on a learner of three numbers per token: the base's log-odds, and what each policy adds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agon.engine.synthetic import rollout, stream
from agon.engine.vllm.slope import RESOLVED
from agon.engine.vllm.suspects import FEWEST, MOST, PARTS, PREFIX, Suspect, Suspects, parts, samples_of
from agon.protocols import Stretch, Tokens
from agon.types import Policy

LENGTH, VOCABULARY = 60, 40
STEP, SMALL = 0.15, 0.02
"""Moves of a weight; a token's log-odds move by as much times a number of its own."""


class LinearLearner:
    """Log-odds of a token are linear in its policy's weight; rounding is new in every score."""

    def __init__(self, noise: float = 0.07, **weights: float) -> None:
        self.weights, self.noise = {Policy(name): weight for name, weight in weights.items()}, noise
        self.rng = np.random.default_rng(0)
        self.effects = {policy: self.rng.normal(0, 1, VOCABULARY) for policy in Policy}
        self.base = self.rng.normal(-1, 1.5, VOCABULARY)
        self.scored = 0

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        weight = self.weights[policy] if policy else 0.0
        if stretch:
            origin = json.loads(stretch.origin.read_text()) if stretch.origin else 0.0
            weight = origin + stretch.factor * (weight - origin)
        self.scored += sum(len(row.completion_ids) for row in rows)
        return [self.logps(policy, weight, row.completion_ids) for row in rows]

    def logps(self, policy: Policy | None, weight: float, ids: Sequence[int]) -> list[float]:
        odds = self.base[list(ids)] + (weight * self.effects[policy][list(ids)] if policy else 0.0)
        return (-np.log1p(np.exp(-(odds + self.rng.normal(0, self.noise, len(ids)))))).tolist()

    def sample(self, policy: Policy | None, weight: float, count: int) -> list[Tokens]:
        """Rows as an engine would return them that holds this weight."""
        ids = [tuple(self.rng.integers(0, VOCABULARY, LENGTH).tolist()) for _ in range(count)]
        return [Tokens((0,), row, tuple(self.logps(policy, weight, row))) for row in ids]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    (tmp_path / "before").write_text("1.0")
    return tmp_path / "before"


def learner(**options: float) -> LinearLearner:
    return LinearLearner(a=1.0 + STEP, b=-0.5, **options)


def wrong(suspects: Suspects) -> set[Suspect]:
    return {suspect for (_, suspect), slope in suspects.slopes.items() if slope.wrong}


@pytest.mark.parametrize(
    ("policy", "weight", "guilty"),
    [
        (Policy.A, 1.0 + STEP, set()),
        (Policy.A, 1.0, {Suspect.BEFORE}),
        (Policy.B, -0.5, {Suspect.RIVAL}),
        (None, 0.0, {Suspect.BASE}),
    ],
    ids=["right", "late", "swapped", "ignored"],
)
@pytest.mark.parametrize("noise", [0.07, 1e-6])
def test_the_weights_that_drew_are_found(
    before: Path, policy: Policy | None, weight: float, guilty: set[Suspect], noise: float
) -> None:
    machine = learner(noise=noise)
    suspects = Suspects(machine, tokens=4000)  # type: ignore[arg-type]
    differences = suspects.check(Policy.A, machine.sample(policy, weight, 100), before)
    assert wrong(suspects) >= guilty
    assert bool(wrong(suspects)) == bool(guilty)
    assert guilty or suspects.slopes[Policy.A, Suspect.BEFORE].resolved
    assert 1000 <= len(differences) <= 4000 + PARTS * LENGTH


def test_a_healthy_engine_is_never_accused(before: Path) -> None:
    machine = learner()
    suspects = Suspects(machine, tokens=1000)  # type: ignore[arg-type]
    for _ in range(100):
        suspects.check(Policy.A, machine.sample(Policy.A, 1.0 + STEP, 20), before)
        assert not wrong(suspects)


class DeafLearner(LinearLearner):
    """Rounding swallows most of a small move of A's weight, and none of a large one."""

    def logps(self, policy: Policy | None, weight: float, ids: Sequence[int]) -> list[float]:
        move = weight - 1.0
        heard = move if abs(move) > 3 * STEP else 0.4 * move
        return LinearLearner.logps(self, policy, 1.0 + heard if policy is Policy.A else weight, ids)


@pytest.mark.parametrize(("weight", "late"), [(1.0, True), (1.0 + SMALL, False)])
def test_a_move_that_is_mostly_rounded_away_counts_as_far_as_it_shows(before: Path, weight: float, late: bool) -> None:
    """By the effect that is measured far out, wrong weights would read 0.6."""
    machine = DeafLearner(a=1.0 + SMALL, b=-0.5)
    suspects = Suspects(machine, tokens=40_000)  # type: ignore[arg-type]
    suspects.check(Policy.A, machine.sample(Policy.A, weight, 700), before)
    slope = suspects.slopes[Policy.A, Suspect.BEFORE]
    assert slope.value == pytest.approx(0.0 if late else 1.0, abs=0.25)
    assert slope.wrong == late


def test_small_steps_are_pooled_until_they_resolve_and_then_begin_anew(before: Path) -> None:
    machine = learner()
    suspects, found = Suspects(machine, tokens=120), list[bool]()  # type: ignore[arg-type]
    for _ in range(40):
        suspects.check(Policy.A, machine.sample(Policy.A, 1.0, 2), before)
        found.append(suspects.slopes[Policy.A, Suspect.BEFORE].wrong)
    assert not found[0]
    assert any(found)
    tokens = [suspects.slopes[key].tokens for key in suspects.slopes]
    assert max(tokens) < 40 * 120, "resolved slopes are dropped"


def test_without_a_version_before_the_others_are_tested_with_a_part(before: Path) -> None:
    found = {}
    for folder in (None, before):
        machine = learner(noise=1.0)
        suspects = Suspects(machine, tokens=4000)  # type: ignore[arg-type]
        found[folder] = suspects.check(Policy.A, machine.sample(Policy.A, 1.0 + STEP, 100), folder)
        assert {Suspect.BASE, Suspect.RIVAL} <= {suspect for _, suspect in suspects.slopes}
        assert bool(suspects.slopes[Policy.A, Suspect.BEFORE].tokens) == bool(folder)
    assert 1000 <= len(found[None]) < 1000 + LENGTH
    assert len(found[before]) > 2000


def test_an_adapter_of_zeros_is_no_evidence_for_the_base() -> None:
    machine = LinearLearner(noise=0.0, a=0.0, b=0.4)
    suspects = Suspects(machine, tokens=2000)  # type: ignore[arg-type]
    suspects.check(Policy.A, machine.sample(Policy.A, 0.0, 50), None)
    assert not suspects.slopes[Policy.A, Suspect.BASE].resolved
    assert suspects.slopes[Policy.A, Suspect.RIVAL].value == pytest.approx(1.0)
    machine.weights[Policy.A] = 0.3
    suspects.check(Policy.A, machine.sample(None, 0.0, 50), None)
    assert suspects.slopes[Policy.A, Suspect.BASE].wrong, "the next version is tested as usual"


def test_the_stretch_grows_until_the_effect_shows_over_the_noise(before: Path) -> None:
    """A step of a thousandth: scored at a factor of 16, its effect would be noise, and any engine would look right."""
    before.write_text(str(1.0 + STEP - 1e-3))
    machine = learner()
    suspects = Suspects(machine, tokens=4000)  # type: ignore[arg-type]
    suspects.check(Policy.A, machine.sample(Policy.A, 1.0 + STEP, 100), before)
    slope = suspects.slopes[Policy.A, Suspect.BEFORE]
    assert slope.error > 4 * RESOLVED


def test_a_step_spends_a_share_of_its_tokens_within_bounds() -> None:
    row = Tokens((0,), (1,) * 1000, (-1.0,) * 1000)
    suspects = Suspects(learner())  # type: ignore[arg-type]
    assert suspects._budget([row]) == FEWEST
    assert suspects._budget([row] * 100) == 2000
    assert suspects._budget([row] * 10_000) == MOST


def test_parts_are_prefixes_of_rows_and_none_is_lost() -> None:
    rows = [Tokens((n,), (1,) * length, (-1.0,) * length) for n, length in enumerate([30, 3 * PREFIX, 50, 10])]
    found = list(parts(rows, 60))
    assert [[row.prompt_ids[0] for row in part] for part in found] == [[0, 1], [2, 3]]
    longest = found[0][1]
    assert len(longest.completion_ids) == len(longest.logprobs or ()) == PREFIX
    assert list(parts([], 60)) == []


def test_samples_are_those_of_the_policy_with_log_probs_in_a_fixed_order_that_mixes_problems() -> None:
    tokens = [Tokens((n,), (1, 2), (-1.0, -1.0)) for n in range(40)]
    groups = [[rollout(Policy.A, i, tokens[8 * g + i], None) for i in range(8)] for g in range(5)]
    bare = rollout(Policy.A, 0, Tokens((99,), (1,)), 1.0)
    streams = [stream(Policy.A, groups), stream(Policy.A, [[bare]]), stream(Policy.B, groups)]
    samples = samples_of(streams, Policy.A)
    assert sorted(row.prompt_ids for row in samples) == [(n,) for n in range(40)]
    assert samples == samples_of(streams, Policy.A)
    assert [row.prompt_ids for row in samples] != [row.prompt_ids for row in tokens]
