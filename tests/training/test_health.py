"""A sick run is told what it has and what to do; a healthy one is left alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from agon.training.health import diagnose

from .records import record

Change = Callable[[dict[str, Any]], None]


def history(steps: int, change: Change | None = None, since: int = 0, rate: float = 0.4) -> list[dict[str, Any]]:
    records = [record(step, rate) for step in range(steps)]
    for entry in records[since:] if change else []:
        change(entry)  # type: ignore[misc]
    return records


def both(**values: Any) -> Change:
    return lambda entry: [entry[name].update(values) for name in ("standalone", "competitive")] and None


def draft(**values: Any) -> Change:
    return lambda entry: entry["standalone"].update(values)


def challenge(**values: Any) -> Change:
    return lambda entry: entry["competitive"].update(values)


def same_weights(entry: dict[str, Any]) -> None:
    entry["versions"] = {"a": "a@000001-5f3c9a1e", "b": "b@000001-5f3c9a1e"}


def unmoved(entry: dict[str, Any]) -> None:
    entry["update"]["b"]["updated"] = 0.0


def no_number(entry: dict[str, Any]) -> None:
    entry["update"]["a"]["loss"] = None


def failing(entry: dict[str, Any]) -> None:
    entry["infra_rows"] = 2


SICK: dict[str, tuple[Change, str, str]] = {
    "dead, too hard": (draft(live_groups=0, solo_rate=0.0), "No draft is right", "easier problems"),
    "dead, too easy": (draft(live_groups=0, solo_rate=1.0), "Every draft is right", "harder problems"),
    "dead, all alike": (draft(live_groups=0), "all agree", "game.group_size"),
    "dead challenges": (challenge(live_groups=0), "group of challenges was dead", "agon diagnose"),
    "truncated": (both(truncated=0.8), "cut at the cap", "train.max_completion_tokens"),
    "empty peeks": (challenge(empty_peeks=20), "empty peek", "agon view"),
    "shapeless": (both(well_formed=0.02), "well-formed", "chat template"),
    "verifier": (failing, "verifier failed", "agon doctor"),
    "identical": (same_weights, "identical", "b_noise_std"),
    "unmoved": (unmoved, "Adapter B has not moved", "Stop the run"),
    "not finite": (no_number, "adapter A is not a finite number", "train.learning_rate"),
}


@pytest.mark.parametrize("name", SICK)
def test_a_sickness_is_told_with_what_to_do(name: str) -> None:
    change, told, cure = SICK[name]
    [sentence] = diagnose(history(20, change))
    assert told in sentence
    assert cure in sentence


@pytest.mark.parametrize("name", SICK)
def test_a_sentence_stays_the_same_while_the_sickness_lasts(name: str) -> None:
    change = SICK[name][0]
    assert diagnose(history(20, change)) == diagnose(history(29, change, since=10))


@pytest.mark.parametrize("name", [name for name in SICK if name != "not finite"])
def test_a_few_bad_steps_are_not_a_sickness(name: str) -> None:
    change = SICK[name][0]
    records = history(30)
    change(records[10])
    change(records[-1])
    assert diagnose(records) == []


@pytest.mark.parametrize("name", SICK)
def test_what_has_passed_is_not_told(name: str) -> None:
    records = history(20, SICK[name][0])
    records += [record(step) for step in range(20, 29)]
    assert diagnose(records) == []


def test_a_run_that_has_just_begun_is_healthy() -> None:
    assert diagnose([]) == []
    assert diagnose(history(1, both(live_groups=0, truncated=1.0, well_formed=0.0))) == []


def test_small_batches_are_given_time_before_they_are_called_dead() -> None:
    small = history(23, both(groups=1, live_groups=0))
    assert diagnose(small) == []
    assert len(diagnose([*small, *history(24, both(groups=1, live_groups=0))[23:]])) == 2


def test_arms_with_one_stage_are_diagnosed_too() -> None:
    def alone(entry: dict[str, Any]) -> None:
        entry["competitive"] = None
        entry["versions"] = {"a": "a@000001-5f3c9a1e"}
        entry["update"] = {"a": entry["update"]["a"]}

    assert diagnose(history(40, alone)) == []
    dead = history(40, alone)
    for entry in dead:
        entry["standalone"]["live_groups"] = 0
    assert len(diagnose(dead)) == 1


def test_records_without_versions_or_shown_are_read() -> None:
    records = history(20)
    for entry in records:
        del entry["versions"]
        del entry["competitive"]["shown"]
    assert diagnose(records) == []


def wave(level: Callable[[int], float], steps: int, seed: int) -> list[dict[str, Any]]:
    """Solo rates of 8 problems of uneven difficulty, 8 drafts each, around a level."""
    rng = random.Random(seed)
    rates = []
    for step in range(steps):
        problems = [rng.betavariate(4 * level(step), 4 * (1 - level(step))) for _ in range(8)]
        rates.append(sum(rng.random() < rate for rate in problems for _ in range(8)) / 64)
    return [record(step, rate) for step, rate in enumerate(rates)]


def fall(step: int) -> float:
    return 0.2 + min(step, 60) / 150 if step < 80 else 0.15


def test_a_collapse_after_a_peak_is_told() -> None:
    told = [diagnose(wave(fall, 110, seed)) for seed in range(20)]
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
            alarms += sum(bool(diagnose(records[:end])) for end in range(5, 151, 5))
    assert alarms == 0
