"""One canary per engine: a wrong one is put aside, a restarted one is checked before it draws for the game."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agon.engine import fleet
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw
from agon.engine.synthetic import rollout, stream
from agon.engine.vllm.canaries import Canaries
from agon.engine.vllm.sampler import VLLMSampler
from agon.errors import EngineError
from agon.interrupt import Interrupt
from agon.pool import State
from agon.protocols import Tokens
from agon.types import Policy, Sampling, Version
from tests.engine.helpers.engines import WEIGHTS, FakeEngine, save_tokenizer

from .helpers import FakeLearner, published, weighted_adapters


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    return weighted_adapters(tmp_path)


@pytest.fixture
def engines() -> list[FakeEngine]:
    return [FakeEngine(), FakeEngine()]


@pytest.fixture
def sampler(tmp_path: Path, engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch) -> Iterator[VLLMSampler]:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    made = VLLMSampler(str(save_tokenizer(tmp_path / "base")), Fleet(*engines))
    yield made
    made.close()


def states(sampler: VLLMSampler) -> list[State]:
    return [member.state for member in sampler.fleet.members]


def drawers(sampler: VLLMSampler, version: Version) -> set[int]:
    draws = [Draw((1, 2), version, seed, Sampling(max_tokens=2)) for seed in range(6)]
    return {result.member for result in sampler.draw_all(draws)}


def ready(sampler: VLLMSampler, adapters: Path, dtype: str = "float32") -> tuple[Canaries, dict[Policy, Version]]:
    canaries = Canaries(sampler, FakeLearner(a=0.1, b=0.2), slots=2, dtype=dtype)
    versions = published(sampler, adapters, "one", "two")
    canaries.check(versions)
    return canaries, versions


def test_every_engine_is_asked(sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path) -> None:
    canaries, versions = ready(sampler, adapters)
    assert {f"{version}, engine {n}" for version in versions.values() for n in (0, 1)} == set(canaries.gaps())
    assert [canary.life for canary in canaries.canaries] == [1, 1]
    assert canaries.notes() == []
    for engine in engines:
        assert set(engine.loaded) == set(versions.values()), "throw-away adapters are gone"


@pytest.mark.parametrize(
    ("served", "reason"),
    [
        ("two", "the engine draws from a@0-one what it draws from b@0-two"),
        ("three", "the engine's a@0-one differs from"),
    ],
    ids=["swapped", "stale"],
)
def test_an_engine_with_a_wrong_adapter_is_put_aside_and_the_other_draws(
    sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path, served: str, reason: str
) -> None:
    canaries, versions = ready(sampler, adapters)
    engines[1].loaded[versions[Policy.A]] = adapters / served
    canaries.check(versions)
    assert states(sampler) == [State.UP, State.ASIDE]
    assert drawers(sampler, versions[Policy.A]) == {0}
    (note,) = canaries.notes()
    assert note.startswith(f"warning: engine 1 was put aside, 1 left: {reason}")


def test_an_engine_that_is_one_step_late_is_found_among_others(
    sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16, where rounding hides the step from every distance: by what it draws alone."""
    monkeypatch.setitem(WEIGHTS, "moved", 0.101)
    canaries, versions = ready(sampler, adapters, "bfloat16")
    moved = Version("a@1-moved")
    shutil.copytree(adapters / "one", adapters / "moved")
    sampler.publish(moved, adapters / "moved")
    engines[1].loaded[moved] = adapters / "one"
    for canary in canaries.canaries:
        canary.learner = canary.exact.learner = FakeLearner(a=0.101, b=0.2)
    canaries.check({**versions, Policy.A: moved})
    assert states(sampler) == [State.UP, State.ASIDE]
    assert "what it draws from a@0-one, to the last bit" in canaries.notes()[0]


def test_the_run_stops_with_the_canarys_reason_when_no_engine_is_right(
    sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path
) -> None:
    canaries, versions = ready(sampler, adapters)
    for engine in engines:
        engine.loaded[versions[Policy.B]] = adapters / "three"
    with pytest.raises(EngineError, match="b@0-two differs from the learner's B") as stopped:
        canaries.check(versions)
    assert "report this" in stopped.value.fix


async def drawn_while_attended(
    canaries: Canaries, version: Version, wanted: set[int], over: Callable[[], bool] = lambda: False
) -> set[int]:
    """Draw until these members have drawn, or it is over."""
    seen = set[int]()

    async def game() -> set[int]:
        async with asyncio.timeout(20):
            while not wanted <= seen and not over():
                draws = [Draw((1, 2), version, seed, Sampling(max_tokens=2)) for seed in range(4)]
                seen.update(result.member for result in await canaries.sampler.draw_together(draws))
                await asyncio.sleep(0.01)
        return seen

    return await Interrupt().watching(canaries.attend(game(), {Policy.A: version, Policy.B: Version("b@0-two")}))


def test_an_engine_that_comes_back_while_the_run_plays_is_checked_and_draws_again(
    sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path
) -> None:
    canaries, versions = ready(sampler, adapters)
    engines[1].fail_next("die")
    assert drawers(sampler, versions[Policy.A]) == {0}, "what it was drawing, and nothing from it before its check"
    assert asyncio.run(drawn_while_attended(canaries, versions[Policy.A], {0, 1})) == {0, 1}
    assert canaries.canaries[1].life == 2
    assert canaries.notes()[-1] == "engine 1 was restarted; its adapters are verified"


def test_the_only_engine_is_checked_before_it_draws_again(
    tmp_path: Path, adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    engine = FakeEngine()
    sampler = VLLMSampler(str(save_tokenizer(tmp_path / "base")), Fleet(engine))
    try:
        canaries, versions = ready(sampler, adapters)
        assert set(canaries.gaps()) == set(versions.values()), "without a number where there is one"
        engine.fail_next("die")
        assert asyncio.run(drawn_while_attended(canaries, versions[Policy.A], {0})) == {0}
        assert canaries.canaries[0].life == 2
    finally:
        sampler.close()


class Forgetful(FakeEngine):
    """Comes back with a wrong adapter under every name."""

    async def load(self, version: Version, folder: Path) -> None:
        await super().load(version, folder.with_name("three") if self.starts > 1 else folder)


@pytest.mark.parametrize("others", [0, 1])
def test_an_engine_that_comes_back_with_a_wrong_adapter_never_draws_for_the_game(
    tmp_path: Path, adapters: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    wrong = Forgetful()
    sampler = VLLMSampler(str(save_tokenizer(tmp_path / "base")), Fleet(wrong, *[FakeEngine()] * others))
    try:
        canaries, versions = ready(sampler, adapters)
        wrong.fail_next("die")

        def aside() -> bool:
            return others > 0 and states(sampler)[0] is State.ASIDE

        drawing = drawn_while_attended(canaries, versions[Policy.A], {0}, aside)
        if others:
            assert asyncio.run(drawing) == {1}
        else:
            with pytest.raises(EngineError, match="it samples from"):
                asyncio.run(drawing)
        assert states(sampler)[0] is State.ASIDE
    finally:
        sampler.close()


def test_an_engine_that_failed_at_its_calibration_is_calibrated_when_it_comes_back(
    sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path
) -> None:
    canaries = Canaries(sampler, FakeLearner(a=0.1, b=0.2), slots=2, dtype="float32")
    versions = published(sampler, adapters, "one", "two")
    engines[1].fail_next("die")
    canaries.check(versions)
    assert canaries.canaries[1].noise is None
    assert asyncio.run(drawn_while_attended(canaries, versions[Policy.A], {0, 1})) == {0, 1}
    assert canaries.canaries[1].noise == canaries.canaries[0].noise


def test_an_engine_that_missed_a_publication_is_checked_against_what_is_current(
    sampler: VLLMSampler, engines: list[FakeEngine], adapters: Path
) -> None:
    """Its last check was of versions that are gone by now."""
    canaries, versions = ready(sampler, adapters)
    engines[1].fail_next("die")
    drawers(sampler, versions[Policy.A])
    for canary in canaries.canaries:
        canary.learner = canary.exact.learner = FakeLearner(a=0.3, b=0.2)
    for number in (1, 2, 3):
        shutil.copytree(adapters / "three", adapters / f"later {number}" / "three")
        latest = Version(f"a@{number}-three")
        sampler.publish(latest, adapters / f"later {number}" / "three")
    assert versions[Policy.A] not in sampler.live
    canaries.check({**versions, Policy.A: latest})
    assert asyncio.run(drawn_while_attended(canaries, latest, {0, 1})) == {0, 1}


def test_samples_are_compared_by_the_engine_that_drew_them(sampler: VLLMSampler, adapters: Path) -> None:
    """Pooled, those of a wrong engine would hide among those of the others."""
    canaries, _ = ready(sampler, adapters)

    def step(off: float) -> list[object]:
        rows = [
            rollout(Policy.A, n, Tokens((1, 2), (7,) * 8, (-1.1 + (off if member else 0.0),) * 8, member), 1.0)
            for n, member in enumerate([0] * 24 + [1] * 8)
        ]
        return [stream(Policy.A, [rows])]

    assert canaries.check_samples(step(0.0)) == []  # type: ignore[arg-type]
    assert {name.rpartition(", ")[2] for name in canaries.slopes()} == {"engine 0", "engine 1"}
    with pytest.raises(EngineError, match=r"samples of A are 0\.003 nats per token off"):
        canaries.check_samples(step(0.003))  # type: ignore[arg-type]
