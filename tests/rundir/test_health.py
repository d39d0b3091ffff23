"""A sick run is told what it has and what to do; a healthy one is left alone."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agon.rundir.health import CHECKS, Symptom, dev_change, symptoms
from agon.rundir.records import Point, StepRecord
from agon.types import Policy, Version
from tests.training.helpers.records import POINT, counts, record

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


def echoing(entry: StepRecord) -> StepRecord:
    return changed(entry, exchange=replace(entry.exchange, echoes=30))  # type: ignore[type-var]


def leaking(entry: StepRecord) -> StepRecord:
    return changed(entry, exchange=replace(entry.exchange, leaks=64))  # type: ignore[type-var]


def same_weights(entry: StepRecord) -> StepRecord:
    return changed(entry, versions={policy: Version.of(policy, 1, f"{entry.step:08x}") for policy in Policy})


def unmoved(entry: StepRecord) -> StepRecord:
    return changed(entry, versions=entry.versions | {Policy.B: Version.of(Policy.B, 1, "5f3c9a1e")})


def no_number(entry: StepRecord) -> StepRecord:
    return changed(entry, update=entry.update | {Policy.A: entry.update[Policy.A] | {"loss": None}})


def failing(entry: StepRecord) -> StepRecord:
    return changed(entry, ungraded=2)


def names(records: list[StepRecord]) -> list[str]:
    return [symptom.name for symptom in symptoms(records)]


def one_policy(entry: StepRecord) -> StepRecord:
    """B's groups are dead in both of its roles."""
    return draft(live_groups=0)(entry) if entry.drafter is Policy.B else challenge(live_groups=0)(entry)


SICK: dict[str, Change] = {
    "too-hard": draft(live_groups=0, pass_rate=0.0),
    "too-easy": draft(live_groups=0, pass_rate=1.0),
    "dead-drafts": draft(live_groups=0),
    "dead-challenges": challenge(live_groups=0),
    "one-sided": one_policy,
    "idle-bonus": lambda entry: changed(entry, bonus_groups=0),
    "truncated": both(truncated=0.8),
    "empty-summaries": empty_peeks,
    "copying": echoing,
    "leaks": leaking,
    "shapeless": both(well_formed=0.02),
    "ungraded": failing,
    "identical": same_weights,
    "unmoved": unmoved,
    "not-finite": no_number,
}


@pytest.mark.parametrize("name", SICK)
def test_a_symptom_is_reported_while_it_lasts(name: str) -> None:
    assert names(history(30, SICK[name])) == [name]
    assert names(history(39, SICK[name], since=10))[:1] == [name]


def test_the_numbers_of_a_symptom_are_in_its_sentence() -> None:
    numbers = {
        "truncated": ["80%"],
        "empty-summaries": ["100", "320"],
        "copying": ["150", "155"],
        "leaks": ["320", "320"],
        "shapeless": ["2%"],
        "ungraded": ["10", "640"],
    }
    for name, told in numbers.items():
        (symptom,) = symptoms(history(30, SICK[name]))
        assert re.findall(r"\d+%?", symptom.message) == told


@pytest.mark.parametrize("name", [name for name in SICK if name != "not-finite"])
def test_a_few_bad_steps_are_not_a_sickness(name: str) -> None:
    change = SICK[name]
    records = history(30)
    records[10], records[-1] = change(records[10]), change(records[-1])
    assert names(records) == []


@pytest.mark.parametrize("name", SICK)
def test_what_has_passed_is_not_told(name: str) -> None:
    records = history(20, SICK[name])
    records += [record(step) for step in range(20, 29)]
    assert names(records) == []


def test_a_run_that_has_just_begun_is_healthy() -> None:
    assert names([]) == []
    assert names(history(1, both(live_groups=0, truncated=1.0, well_formed=0.0))) == []


def test_small_batches_are_given_time_before_they_are_called_dead() -> None:
    small = history(23, both(groups=1, live_groups=0))
    assert names(small) == []
    assert len(names([*small, *history(24, both(groups=1, live_groups=0))[23:]])) == 2


def test_arms_with_one_stage_are_checked_too() -> None:
    def alone(entry: StepRecord) -> StepRecord:
        versions = {Policy.A: Version.of(Policy.A, 1, "5f3c9a1e")}
        update = {Policy.A: entry.update[Policy.A]}
        return changed(entry, competitive=None, exchange=None, versions=versions, update=update)

    assert names(history(40, alone)) == []
    assert len(names([draft(live_groups=0)(entry) for entry in history(40, alone)])) == 1


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
    told = [names(wave(fall, 110, seed)) for seed in range(20)]
    assert all("collapsed" in found for found in told)


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
            alarms += sum(bool(names(records[:end])) for end in range(5, 151, 5))
    assert alarms == 0


def bonus(groups: int | None) -> Change:
    return lambda entry: changed(entry, bonus_groups=groups)


def test_a_bonus_that_is_normalised_away_is_reported_after_a_hundred_groups() -> None:
    assert not names(history(12, bonus(0)))
    (symptom,) = symptoms(history(13, bonus(0)))
    assert symptom.name == "idle-bonus"
    assert names(history(13, bonus(0))) == ["idle-bonus"]
    told = {base: symptoms(history(13, bonus(0)), base=base)[0].fix for base in ("agon:halves", "Qwen/Qwen3-0.6B")}
    assert ["Expected" in fix for fix in told.values()] == [True, False]
    assert not names(history(13, bonus(1)))
    assert not names(history(13, bonus(None)))


def test_a_run_without_one_right_answer_is_reported_from_the_start() -> None:
    wrong = history(20, both(pass_rate=0.0))
    assert not names(wrong[:1])
    (symptom,) = symptoms(wrong[:2])
    assert (symptom.name, "0 of 256" in symptom.message) == ("never-right", True)
    assert not names([record(0), *wrong[1:]])


def test_a_run_that_ended_without_one_right_answer_is_reported_however_short_it_was() -> None:
    wrong = history(1, both(pass_rate=0.0))
    (symptom,) = symptoms(wrong, ended=True)
    assert symptom.name == "never-right"
    assert "0 of 128" in symptom.message
    assert [found.name for found in symptoms(history(20, both(pass_rate=0.0)), ended=True)] == ["never-right"]
    assert symptoms([record(0)], ended=True) == symptoms([], ended=True) == []


def test_lengths_that_explode_are_reported() -> None:
    records = [both(tokens_mean=100.0 + 10 * step)(record(step)) for step in range(30)]
    (symptom,) = symptoms(records)
    assert (symptom.name, re.findall(r"\d+", symptom.message)) == ("exploding", ["370", "120"])
    assert not names(records[:14])
    assert not names(history(30, both(tokens_mean=900.0)))


def point(step: int, score: float, n: int = 128) -> Point:
    systems = {"ab": counts(n, round(score * n)), "first-ab": counts(9 * n, 0)}
    return POINT.model_copy(update={"step": step, "score": score, "systems": systems})


def test_dev_without_a_change_beyond_noise_is_reported_with_both_numbers() -> None:
    (symptom,) = symptoms([], [point(0, 0.35), point(24, 0.38)])
    assert symptom.message == "dev shows no change beyond noise: 0.35 -> 0.38 (128 answers)."
    assert symptoms([], [point(0, 0.35), point(24, 0.61)]) == []
    (symptom,) = symptoms([], [point(0, 0.61), point(24, 0.35)])
    assert symptom.message == "dev fell: 0.61 -> 0.35 (128 answers)."
    assert str(dev_change([point(0, 0.35), point(24, 0.61)])) == "dev rose: 0.35 -> 0.61 (128 answers)"
    assert str(dev_change([point(0, 0.61), point(24, 0.35)])) == "dev fell: 0.61 -> 0.35 (128 answers)"
    assert dev_change([point(0, 0.35)]) is None


def test_no_finding_is_without_something_to_do() -> None:
    found = [symptom for name in SICK for symptom in symptoms(history(30, SICK[name]))]
    assert {symptom.name for symptom in found} <= {check.name for check in CHECKS}
    assert all(isinstance(symptom, Symptom) and symptom.fix.endswith(".") for symptom in found)
