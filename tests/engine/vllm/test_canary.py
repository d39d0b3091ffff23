"""The canary: quiet while engines and learner agree, loud when they do not, whatever the reason."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agon.engine import fleet
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, EngineDown
from agon.engine.vllm import canary as module
from agon.engine.vllm.canary import LIMITS, NORMS, Canary, throw_away
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.errors import EngineError
from agon.interrupt import Interrupt
from agon.pool import State
from agon.types import BASE, Policy, Sampling, Version
from tests.engine.helpers.engines import FakeEngine, save_tokenizer

from .helpers import FakeLearner, published, weighted_adapters

Start = Callable[..., VLLMSampler]
A, B = Policy.A, Policy.B


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    return weighted_adapters(tmp_path)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    base, made = str(save_tokenizer(tmp_path / "base")), list[VLLMSampler]()

    def of(*engines: FakeEngine) -> VLLMSampler:
        made.append(VLLMSampler(base, Fleet(*engines)))
        return made[-1]

    yield of
    for sampler in made:
        sampler.close()


@pytest.fixture
def engines() -> list[FakeEngine]:
    return [FakeEngine(), FakeEngine()]


def canary_of(sampler: VLLMSampler, **settings: Any) -> Canary:
    return Canary(sampler, FakeLearner(a=0.1, b=0.2), slots=2, **{"dtype": "float32", **settings})  # type: ignore[arg-type]


def checked(sampler: VLLMSampler, adapters: Path, **settings: Any) -> tuple[Canary, dict[Policy, Version]]:
    canary, versions = canary_of(sampler, **settings), published(sampler, adapters, "one", "two")
    canary.check(versions)
    return canary, versions


def states(sampler: VLLMSampler) -> list[State]:
    return [member.state for member in sampler.fleet.members]


def drawers(sampler: VLLMSampler, version: Version) -> set[int]:
    draws = [Draw((1, 2), version, seed, Sampling(max_tokens=2)) for seed in range(6)]
    return {result.member for result in sampler.draw_all(draws)}


async def drawn_while_attended(
    canary: Canary, versions: dict[Policy, Version], wanted: set[int], over: Callable[[], bool] = lambda: False
) -> set[int]:
    """Draw until these members have drawn, or it is over."""
    seen = set[int]()

    async def game() -> set[int]:
        async with asyncio.timeout(20):
            while not wanted <= seen and not over():
                draws = [Draw((1, 2), versions[A], seed, Sampling(max_tokens=2)) for seed in range(4)]
                seen.update(result.member for result in await canary.sampler.draw_together(draws))
                await asyncio.sleep(0.01)
        return seen

    return await Interrupt().watching(canary.attend(game(), versions))


# -- what an engine holds ---------------------------------------------------------------------------------------------


def test_every_engine_attests_every_version_and_its_distance_is_measured_once(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    canary, versions = checked(start(*engines), adapters)
    names = {f"{name}, engine {n}" for name in (BASE, *versions.values()) for n in (0, 1)}
    assert set(canary.gaps()) == names
    assert canary.attested() == 4
    assert canary.notes() == []
    for engine in engines:
        assert set(engine.loaded) == set(versions.values()), "throw-away adapters are gone"
    canary.check(versions)
    assert (canary.gaps(), canary.attested()) == ({}, 0), "nothing is new"
    assert canary.attest(versions.values()) == []
    assert canary.attested() == 4


def test_a_new_version_and_a_pinned_one_are_attested_when_they_are_published(start: Start, adapters: Path) -> None:
    engine = FakeEngine()
    canary, versions = checked(start(engine), adapters)
    engine.log.clear()
    first, new = Version("b@0-first"), Version("a@1-three")
    canary.sampler.pin(first, adapters / "zero")
    canary.sampler.publish(new, adapters / "three")
    canary.check({**versions, A: new})
    assert sorted(line for line in engine.log if "attest" in line) == [f"attest {new}", f"attest {first}"]


def test_a_version_whose_folder_is_gone_is_not_asked_about(start: Start, adapters: Path) -> None:
    engine = FakeEngine()
    canary, versions = checked(start(engine), adapters)
    shutil.rmtree(adapters / "one")
    engine.log.clear()
    assert canary.attest(versions.values()) == []
    assert engine.log == ["attest b@0-two"]


@pytest.mark.parametrize("served", ["two", "three", "zero"], ids=["swapped", "stale", "base"])
def test_an_engine_with_a_wrong_adapter_is_put_aside_and_the_other_draws(
    start: Start, engines: list[FakeEngine], adapters: Path, served: str
) -> None:
    """In bfloat16, with log-probs that are the learner's: the slot alone shows it."""
    sampler = start(*engines)
    canary, versions = canary_of(sampler, dtype="bfloat16"), published(sampler, adapters, "one", "two")
    engines[1].logprob = engines[0].logprob  # type: ignore[method-assign]
    engines[1].loaded[versions[A]] = adapters / served
    canary.check(versions)
    assert states(sampler) == [State.UP, State.ASIDE]
    assert drawers(sampler, versions[A]) == {0}
    (note,) = canary.notes()
    assert note.startswith("warning: engine 1 was put aside, 1 left: engine 1 does not hold a@0-one")


def test_the_run_stops_with_engine_version_layers_and_keys_when_no_engine_is_right(
    start: Start, adapters: Path
) -> None:
    engine = FakeEngine()
    sampler = start(engine)
    canary, versions = canary_of(sampler), published(sampler, adapters, "one", "two")
    engine.loaded[versions[B]] = adapters / "three"
    with pytest.raises(
        EngineError, match=r"engine 0 .* b@0-two .*layer 0, layer 1 .*sampler\.canary is stop"
    ) as stopped:
        canary.check(versions)
    assert "sampler.canary=warn" in stopped.value.fix


def test_a_slot_that_is_overwritten_after_publication_stops_the_run_after_the_step(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    canary, versions = checked(start(*engines), adapters)
    engines[1].loaded[versions[A]] = adapters / "two"
    with pytest.raises(EngineError, match="engine 1 does not hold a@0-one"):
        canary.attest(versions.values())


def test_a_file_that_changed_after_publication_is_not_the_learners(start: Start, adapters: Path) -> None:
    canary, versions = checked(start(FakeEngine()), adapters)
    shutil.copy(adapters / "two" / "adapter_model.safetensors", adapters / "one")
    with pytest.raises(EngineError, match="does not hold a@0-one"):
        canary.attest(versions.values())


def test_with_warn_a_wrong_engine_draws_on_and_is_reported(start: Start, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = start(engine)
    canary, versions = canary_of(sampler, mode="warn"), published(sampler, adapters, "one", "two")
    engine.loaded[versions[A]] = adapters / "two"
    canary.check(versions)
    assert states(sampler) == [State.UP]
    assert [note.startswith("warning: engine 0 does not hold a@0-one") for note in canary.notes()] == [True]
    (warning,) = canary.attest(versions.values())
    assert warning.startswith("warning: engine 0 does not hold a@0-one")


def test_with_off_no_engine_is_asked_anything(start: Start, adapters: Path) -> None:
    engine = FakeEngine()
    sampler = start(engine)
    canary, versions = canary_of(sampler, mode="off"), published(sampler, adapters, "two", "one")
    engine.log.clear()
    canary.check(versions)
    assert canary.attest(versions.values()) == []
    engine.fail_next("die")
    assert asyncio.run(drawn_while_attended(canary, versions, {0})) == {0}, "a restarted engine draws at once"
    assert [line for line in engine.log if "attest" in line or "canary" in line] == []
    assert canary.learner.calls == 0  # type: ignore[attr-defined]


# -- what a slot cannot show ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.2), (0.1, 0.0)], ids=["a differs", "b is the base"])
def test_an_engine_that_applies_an_adapter_differently_is_found(
    start: Start, adapters: Path, a: float, b: float
) -> None:
    sampler = start(FakeEngine())
    canary = Canary(sampler, FakeLearner(a=a, b=b), slots=1, dtype="float32")  # type: ignore[arg-type]
    with pytest.raises(
        EngineError, match=r"in engine 0 is .* nats per token from the learner's .*canary_limit is 0.01"
    ):
        canary.check(published(sampler, adapters, "one", "two"))


@pytest.mark.parametrize(("weak", "reason"), [("1", "1 of 3"), ("", "3 of 3")], ids=["one slot", "all slots"])
def test_an_engine_that_ignores_adapters_is_found_before_step_1(
    start: Start, adapters: Path, weak: str, reason: str
) -> None:
    engine = FakeEngine()
    logprob, ignored = engine.logprob, f"a@00000{weak}"
    engine.logprob = lambda version: (  # type: ignore[method-assign]
        -1.0 if "canary" in version and version.startswith(ignored) else logprob(version)
    )
    sampler = start(engine)
    canary = Canary(sampler, FakeLearner(a=0.1, b=0.2), slots=3)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match=f"engine 0 ignores adapters: {reason}"):
        canary.check(published(sampler, adapters, "one", "two"))


@pytest.mark.parametrize(
    ("dtype", "limit", "noise", "agree"),
    [
        ("float32", None, 1e-3, True),
        ("float32", None, 0.05, False),
        ("float32", 0.1, 0.05, True),
        ("bfloat16", None, 0.17, True),
        ("bfloat16", None, 0.4, False),
    ],
)
def test_a_distance_beyond_the_limit_on_the_bare_base_means_a_different_base(
    start: Start, adapters: Path, dtype: str, limit: float | None, noise: float, agree: bool
) -> None:
    """SmolLM2-135M has 1e-5 in float32, 0.05 in bfloat16, and 0.4 from a server whose log-probs are raw, at 0.7."""
    sampler = start(FakeEngine())
    canary, versions = canary_of(sampler, dtype=dtype, limit=limit), published(sampler, adapters, "one", "two")
    canary.learner.noise = noise  # type: ignore[attr-defined]
    if agree:
        return canary.check(versions)
    with pytest.raises(EngineError, match=r"on the bare base .*a different base, a different dtype") as refused:
        canary.check(versions)
    assert {"processed_logprobs;", "sampler.canary_limit;", "sampler.canary=warn"} <= set(refused.value.fix.split())


def test_for_a_server_that_ignores_adapters_the_flags_are_named(
    start: Start, adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixes = list[bool]()
    for servers in (FakeEngine, ServerEngine):
        engine = FakeEngine()
        engine.logprob = lambda version: -1.0  # type: ignore[method-assign]
        sampler = start(engine)
        monkeypatch.setattr(module, "ServerEngine", servers)
        canary = Canary(sampler, FakeLearner(a=0.0, b=0.0), slots=1)  # type: ignore[arg-type]
        with pytest.raises(EngineError, match="ignores adapters") as stopped:
            canary.check(published(sampler, adapters, "one", "two"))
        fixes.append("--worker-extension-cls agon.engine.vllm.worker.StrictAdapters" in stopped.value.fix)
    assert fixes == [True, False]


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("silent", [False, True])
def test_scoring_calls_do_not_grow_with_the_number_of_engines(
    start: Start, adapters: Path, count: int, silent: bool
) -> None:
    engines = [FakeEngine() for _ in range(count)]
    for engine in engines:
        engine.silent = silent
    canary, versions = checked(start(*engines), adapters)
    assert canary.learner.calls == 3, "one for each policy and one for the base"  # type: ignore[attr-defined]
    shutil.copytree(adapters / "one", adapters / "next" / "one")
    moved = {**versions, A: Version("a@1-one")}
    canary.sampler.publish(moved[A], adapters / "next" / "one")
    canary.check(moved)
    canary.attest(moved.values())
    assert canary.learner.calls == (5 if silent else 3)  # type: ignore[attr-defined]


def test_an_engine_that_cannot_attest_is_compared_after_every_publication_and_said_once(
    start: Start, adapters: Path
) -> None:
    engine = FakeEngine()
    engine.silent = True
    canary, versions = checked(start(engine), adapters)
    shutil.copytree(adapters / "one", adapters / "next" / "one")
    moved = {**versions, A: Version("a@1-one")}
    canary.sampler.publish(moved[A], adapters / "next" / "one")
    canary.gaps()
    canary.check(moved)
    assert set(canary.gaps()) == set(moved.values())
    (note,) = canary.notes()
    assert "engine 0 cannot say what its adapters hold" in note
    assert "VLLM_SERVER_DEV_MODE=1" in note
    assert canary.attested() == 0
    engine.loaded[moved[A]] = adapters / "three"
    with pytest.raises(EngineError, match="a@1-one in engine 0 is"):
        canary.check(moved)


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_an_engine_that_comes_back_while_the_run_plays_is_checked_and_draws_again(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    canary, versions = checked(start(*engines), adapters)
    canary.gaps()
    engines[1].fail_next("die")
    assert drawers(canary.sampler, versions[A]) == {0}, "what it was drawing, and nothing from it before its check"
    assert asyncio.run(drawn_while_attended(canary, versions, {0, 1})) == {0, 1}
    assert canary.lives == {0: 1, 1: 2}
    assert {name.rpartition(", ")[2] for name in canary.gaps()} == {"engine 1"}, "its distance is measured again"
    assert canary.notes()[-1] == "engine 1 was restarted; its adapters are verified"


class Forgetful(FakeEngine):
    """Comes back with a wrong adapter under every name."""

    async def load(self, version: Version, folder: Path) -> None:
        wrong = self.starts > 1 and "canary" not in version
        await super().load(version, folder.with_name("three") if wrong else folder)


@pytest.mark.parametrize("others", [0, 1])
def test_an_engine_that_comes_back_with_a_wrong_adapter_never_draws_for_the_game(
    start: Start, adapters: Path, others: int
) -> None:
    wrong = Forgetful()
    sampler = start(wrong, *[FakeEngine()] * others)
    canary, versions = checked(sampler, adapters)
    wrong.fail_next("die")

    def aside() -> bool:
        return others > 0 and states(sampler)[0] is State.ASIDE

    drawing = drawn_while_attended(canary, versions, {0}, aside)
    if others:
        assert asyncio.run(drawing) == {1}
    else:
        with pytest.raises(EngineError, match="engine 0 does not hold"):
            asyncio.run(drawing)
    assert states(sampler)[0] is State.ASIDE


@pytest.mark.parametrize("fault", ["die", "die attesting"])
def test_an_engine_that_failed_at_its_first_check_is_checked_when_it_comes_back(
    start: Start, engines: list[FakeEngine], adapters: Path, fault: str
) -> None:
    sampler = start(*engines)
    canary, versions = canary_of(sampler), published(sampler, adapters, "one", "two")
    engines[1].fail_next(fault)
    canary.check(versions)
    assert canary.lives == {0: 1}
    assert asyncio.run(drawn_while_attended(canary, versions, {0, 1})) == {0, 1}
    assert canary.lives == {0: 1, 1: 2}


def test_an_engine_that_fails_after_a_step_does_not_stop_the_run(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    canary, versions = checked(start(*engines), adapters)
    engines[1].fail_next("die attesting")
    assert canary.attest(versions.values()) == []


def test_what_an_engine_said_before_it_failed_still_stops_the_run(
    start: Start, engines: list[FakeEngine], adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, versions = checked(start(*engines), adapters)
    engines[1].loaded[versions[A]] = adapters / "two"
    attest = engines[1].attest

    async def dies_later(version: Version, folder: Path, digest: str) -> list[str] | None:
        if version == versions[B]:
            raise EngineDown("the engine's process died")
        return await attest(version, folder, digest)

    monkeypatch.setattr(engines[1], "attest", dies_later)
    with pytest.raises(EngineError, match="engine 1 does not hold a@0-one"):
        canary.attest(versions.values())


def test_an_engine_that_waits_for_its_check_is_not_asked_after_a_step(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    """It drew nothing since it came back, and its check follows."""
    canary, versions = checked(start(*engines), adapters)
    engines[1].fail_next("die")
    drawers(canary.sampler, versions[A])
    assert canary.sampler.submit(canary.sampler.fleet.returned()).result() == [1]
    engines[1].loaded[versions[A]] = adapters / "three"
    assert canary.attest(versions.values()) == []


def test_an_engine_that_missed_a_publication_is_checked_against_what_is_current(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    """Its last check was of versions that are gone by now."""
    canary, versions = checked(start(*engines), adapters)
    engines[1].fail_next("die")
    drawers(canary.sampler, versions[A])
    canary.learner = FakeLearner(a=0.3, b=0.2)  # type: ignore[assignment]
    for number in (1, 2, 3):
        shutil.copytree(adapters / "three", adapters / f"later {number}" / "three")
        versions[A] = Version(f"a@{number}-three")
        canary.sampler.publish(versions[A], adapters / f"later {number}" / "three")
    canary.check(versions)
    assert asyncio.run(drawn_while_attended(canary, versions, {0, 1})) == {0, 1}


def test_an_engine_that_refuses_to_be_checked_is_put_aside_with_its_reason(
    start: Start, engines: list[FakeEngine], adapters: Path
) -> None:
    sampler = start(*engines)
    canary, versions = canary_of(sampler), published(sampler, adapters, "one", "two")
    engines[1].fail_next("refuse")
    canary.check(versions)
    assert states(sampler) == [State.UP, State.ASIDE]
    assert canary.notes() == ["warning: engine 1 was put aside, 1 left: refused"]


# -- files and pages --------------------------------------------------------------------------------------------------


def test_a_throw_away_adapter_has_the_shape_of_its_pattern_and_a_large_norm(adapters: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    pattern, made = (
        load_file(adapters / "zero" / "adapter_model.safetensors"),
        throw_away(adapters / "zero", tmp_path / "t", 0, NORMS["bfloat16"]),
    )
    weights = load_file(made / "adapter_model.safetensors")
    assert {name: t.shape for name, t in weights.items()} == {name: t.shape for name, t in pattern.items()}
    assert float(weights["x.lora_B.weight"].abs().mean()) > NORMS["bfloat16"] / 4


def test_the_page_about_engines_and_the_key_name_the_limit_of_each_type() -> None:
    root = Path(__file__).parents[3]
    page, models = (root / "docs" / "engines.md").read_text(), (root / "src/agon/config/models.py").read_text()
    (sentence,) = re.findall(r"`sampler\.canary_limit`.*?\.\s", page, re.DOTALL)[:1]
    for text in (sentence, models):
        assert all(re.search(rf"{limit:g} in\s+{dtype}", text) for dtype, limit in LIMITS.items())
