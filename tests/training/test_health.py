"""A sick run is told what it has and what to do; a healthy one is left alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agon.rundir.records import StepRecord
from agon.training.health import warnings
from agon.types import Policy, Version
from tests.training.helpers.records import record

Change = Callable[[StepRecord], StepRecord]


def history(steps: int, change: Change | None = None, since: int = 0, rate: float = 0.4) -> list[StepRecord]:
    records = [record(step, rate) for step in range(steps)]
    return [change(entry) if change and n >= since else entry for n, entry in enumerate(records)]


def changed(entry: StepRecord, **values: Any) -> StepRecord:
    return entry.model_copy(update=values)


def both(**values: Any) -> Change:
    return lambda entry: challenge(**values)(draft(**values)(entry))


def draft(**values: Any) -> Change:
    return lambda entry: changed(entry, standalone=entry.standalone.model_copy(update=values))


def challenge(**values: Any) -> Change:
    return lambda entry: changed(entry, competitive=entry.competitive.model_copy(update=values))  # type: ignore[union-attr]


def empty_peeks(entry: StepRecord) -> StepRecord:
    return changed(entry, exchange=replace(entry.exchange, empty_peeks=20))  # type: ignore[type-var]


def same_weights(entry: StepRecord) -> StepRecord:
    return changed(entry, versions={policy: Version.of(policy, 1, "5f3c9a1e") for policy in Policy})


def unmoved(entry: StepRecord) -> StepRecord:
    return changed(entry, update=entry.update | {Policy.B: entry.update[Policy.B] | {"updated": 0.0}})


def no_number(entry: StepRecord) -> StepRecord:
    return changed(entry, update=entry.update | {Policy.A: entry.update[Policy.A] | {"loss": None}})


def cheating(entry: StepRecord) -> StepRecord:
    return changed(entry, suspicious=6)


def failing(entry: StepRecord) -> StepRecord:
    return changed(entry, ungraded=2)


SICK: dict[str, tuple[Change, str, str]] = {
    "dead, too hard": (draft(live_groups=0, pass_rate=0.0), "No draft is right", "easier problems"),
    "dead, too easy": (draft(live_groups=0, pass_rate=1.0), "Every draft is right", "harder problems"),
    "dead, all alike": (draft(live_groups=0), "all agree", "game.group_size"),
    "dead challenges": (challenge(live_groups=0), "group of challenges was dead", "agon diagnose"),
    "truncated": (both(truncated=0.8), "cut at the token limit", "train.max_completion_tokens"),
    "empty peeks": (empty_peeks, "empty peek", "agon view"),
    "shapeless": (both(well_formed=0.02), "well-formed", "chat template"),
    "verifier": (failing, "verifier failed", "agon doctor"),
    "cheats": (cheating, "looks as if it cheats", "agon view RUN"),
    "identical": (same_weights, "identical", "b_noise_std"),
    "unmoved": (unmoved, "Adapter B has not moved", "Stop the run"),
    "not finite": (no_number, "adapter A is not a finite number", "train.learning_rate"),
}


@pytest.mark.parametrize("name", SICK)
def test_a_sickness_is_told_with_what_to_do(name: str) -> None:
    change, told, cure = SICK[name]
    [sentence] = warnings(history(20, change))
    assert told in sentence
    assert cure in sentence


@pytest.mark.parametrize("name", SICK)
def test_a_sentence_stays_the_same_while_the_sickness_lasts(name: str) -> None:
    change = SICK[name][0]
    assert warnings(history(20, change)) == warnings(history(29, change, since=10))


@pytest.mark.parametrize("name", [name for name in SICK if name != "not finite"])
def test_a_few_bad_steps_are_not_a_sickness(name: str) -> None:
    change = SICK[name][0]
    records = history(30)
    records[10], records[-1] = change(records[10]), change(records[-1])
    assert warnings(records) == []


@pytest.mark.parametrize("name", SICK)
def test_what_has_passed_is_not_told(name: str) -> None:
    records = history(20, SICK[name][0])
    records += [record(step) for step in range(20, 29)]
    assert warnings(records) == []


def test_a_run_that_has_just_begun_is_healthy() -> None:
    assert warnings([]) == []
    assert warnings(history(1, both(live_groups=0, truncated=1.0, well_formed=0.0))) == []


def test_small_batches_are_given_time_before_they_are_called_dead() -> None:
    small = history(23, both(groups=1, live_groups=0))
    assert warnings(small) == []
    assert len(warnings([*small, *history(24, both(groups=1, live_groups=0))[23:]])) == 2


def test_arms_with_one_stage_are_checked_too() -> None:
    def alone(entry: StepRecord) -> StepRecord:
        versions = {Policy.A: Version.of(Policy.A, 1, "5f3c9a1e")}
        update = {Policy.A: entry.update[Policy.A]}
        return changed(entry, competitive=None, exchange=None, versions=versions, update=update)

    assert warnings(history(40, alone)) == []
    assert len(warnings([draft(live_groups=0)(entry) for entry in history(40, alone)])) == 1


def wave(level: Callable[[int], float], steps: int, seed: int) -> list[StepRecord]:
    """Pass rates of 8 problems of uneven difficulty, 8 drafts each, around a level."""
    rng = random.Random(seed)
    rates = []
    for step in range(steps):
        problems = [rng.betavariate(4 * level(step), 4 * (1 - level(step))) for _ in range(8)]
        rates.append(sum(rng.random() < rate for rate in problems for _ in range(8)) / 64)
    return [record(step, rate) for step, rate in enumerate(rates)]


def fall(step: int) -> float:
    return 0.2 + min(step, 60) / 150 if step < 80 else 0.15


def test_a_collapse_after_a_peak_is_told() -> None:
    told = [warnings(wave(fall, 110, seed)) for seed in range(20)]
    assert all("collapsing" in " ".join(sentences) for sentences in told)


def test_noise_growth_and_plateaus_are_not_a_collapse() -> None:
    levels: list[Callable[[int], float]] = [
        lambda step: 0.3,
        lambda step: 0.05,
        lambda step: 0.9,
        lambda step: 0.2 + step / 250,
        lambda step: min(0.2 + step / 100, 0.7),
        lambda step: 0.5 - step / 1500,
    ]
    alarms = 0
    for seed in range(8):
        for level in levels:
            records = wave(level, 150, seed)
            alarms += sum(bool(warnings(records[:end])) for end in range(5, 151, 5))
    assert alarms == 0


def bonus(groups: int | None) -> Change:
    return lambda entry: changed(entry, bonus_groups=groups)


def test_a_bonus_that_is_normalised_away_is_reported_after_a_hundred_groups() -> None:
    assert not warnings(history(12, bonus(0)))
    (sentence,) = warnings(history(13, bonus(0)))
    assert sentence.startswith("The bonus changes the advantages of fewer than one group in twenty")
    assert not warnings(history(13, bonus(1)))
    assert not warnings(history(13, bonus(None)))
