"""The canary: quiet while engine and learner agree, loud when they do not, whatever the reason."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agon.engine import fleet
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw
from agon.engine.synthetic import rollout, stream
from agon.engine.vllm import canary as canary_module
from agon.engine.vllm.adapter_files import NORM, throw_away
from agon.engine.vllm.canaries import Canaries
from agon.engine.vllm.canary import CALIBRATED, CEILING, Canary
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.engine.vllm.slope import Slope
from agon.engine.vllm.suspects import Suspect
from agon.errors import EngineError
from agon.protocols import Stretch, Tokens
from agon.types import Policy, Sampling, Stream, Version
from tests.engine.helpers.engines import WEIGHTS, FakeEngine, save_tokenizer

from .helpers import FakeLearner, published, weighted_adapters

NOISES = [("float32", 1e-3, True), ("float32", 0.05, False), ("bfloat16", 0.05, True), ("bfloat16", 0.3, False)]
"""SmolLM2-135M has 1e-5 in float32, 0.05 in bfloat16, and 0.4 from a server whose log-probs are raw, at 0.7."""


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    return weighted_adapters(tmp_path)


@pytest.fixture
def sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VLLMSampler]:
    monkeypatch.setattr(fleet, "GRACE", 0.0)
    made = VLLMSampler(str(save_tokenizer(tmp_path / "base")), Fleet(FakeEngine()))
    yield made
    made.close()


def test_it_is_quiet_when_engine_and_learner_agree(sampler: VLLMSampler, adapters: Path) -> None:
    canary = Canary(sampler, FakeLearner(a=0.1, b=0.2), slots=3)
    canary.check(published(sampler, adapters, "one", "two"))
    assert canary.noise == canary.worst == pytest.approx(1e-6, rel=1e-3)
    assert canary.tolerance <= 0.1 * canary.effect
    assert set(sampler.fleet.members[0].engine.loaded) == {"a@0-one", "b@0-two"}, "throw-away adapters are gone"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.2), (0.2, 0.1), (0.0, 0.2)], ids=["stale", "swapped", "ignored"])
def test_it_stops_the_run_when_a_policy_is_a_different_one(
    sampler: VLLMSampler, adapters: Path, a: float, b: float
) -> None:
    canary = Canary(sampler, FakeLearner(a=a, b=b), slots=1)
    with pytest.raises(EngineError, match="a different policy"):
        canary.check(published(sampler, adapters, "one", "two"))


def test_an_adapter_of_zeros_must_be_the_base(sampler: VLLMSampler, adapters: Path) -> None:
    sampler.fleet.members[0].engine.logprob = lambda version: -1.0 if version == "base" else -2.0  # type: ignore[attr-defined]
    canary = Canary(sampler, FakeLearner(a=1.0, b=1.0), slots=1)
    with pytest.raises(EngineError, match="weights are zero"):
        canary.check(published(sampler, adapters, "zero", "two"))


def test_one_dead_slot_among_others_is_found(sampler: VLLMSampler, adapters: Path) -> None:
    engine = sampler.fleet.members[0].engine
    logprob = engine.logprob  # type: ignore[attr-defined]
    engine.logprob = lambda version: -1.0 if version.startswith("a@000001-canary") else logprob(version)  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="1 of 3 adapter slots barely change"):
        Canary(sampler, FakeLearner(a=0.1, b=0.2), slots=3).check(published(sampler, adapters, "one", "two"))


def test_an_engine_that_ignores_adapters_is_found_before_step_1(sampler: VLLMSampler, adapters: Path) -> None:
    sampler.fleet.members[0].engine.logprob = lambda version: -1.0  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="2 of 2 adapter slots"):
        Canary(sampler, FakeLearner(a=0.0, b=0.0), slots=2).check(published(sampler, adapters, "one", "two"))


@pytest.mark.parametrize(("dtype", "noise", "agree"), NOISES)
def test_noise_that_rounding_does_not_explain_means_a_different_base(
    sampler: VLLMSampler, adapters: Path, dtype: str, noise: float, agree: bool
) -> None:
    learner = FakeLearner(a=0.1, b=0.2)
    learner.noise = noise
    canary, versions = Canary(sampler, learner, 1, dtype=dtype), published(sampler, adapters, "one", "two")
    if agree:
        return canary.check(versions)
    with pytest.raises(EngineError, match=r"bare base.*a different base, a different dtype or unprocessed") as refused:
        canary.check(versions)
    assert "processed_logprobs" in refused.value.fix


class CoarseLearner(FakeLearner):
    """As Gemma 4 in bfloat16: rounded anew, it differs from itself by as much as from the engine."""

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        exact = super().score(policy, rows, stretch)
        return [[value + self.noise for value in row] for row in exact] if stretch else exact


@pytest.mark.parametrize(("learner", "agree"), [(FakeLearner, False), (CoarseLearner, True)])
def test_a_base_that_the_learner_rounds_coarsely_may_be_noisier(
    sampler: VLLMSampler, adapters: Path, learner: type[FakeLearner], agree: bool
) -> None:
    sampler.fleet.members[0].engine.logprob = lambda version: -1.0 if version == "base" else -4.0  # type: ignore[attr-defined]
    coarse = learner(a=3.0, b=3.0)
    coarse.noise = 0.17
    canary, versions = Canary(sampler, coarse, slots=1), published(sampler, adapters, "one", "two")
    if not agree:
        with pytest.raises(EngineError, match=r"rounding to bfloat16 explains 0\.1:"):
            canary.check(versions)
        return
    canary.check(versions)
    assert 0.17 < canary.rounding < 0.2
    assert 4 * 0.17 < canary.ceiling < 4 * 0.2


def test_for_a_server_that_ignores_adapters_the_flags_of_composites_are_named(
    sampler: VLLMSampler, adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler.fleet.members[0].engine.logprob = lambda version: -1.0  # type: ignore[attr-defined]
    versions = published(sampler, adapters, "one", "two")
    fixes = list[bool]()
    for servers in (FakeEngine, ServerEngine):
        monkeypatch.setattr(canary_module, "ServerEngine", servers)
        with pytest.raises(EngineError, match="ignores adapters") as stopped:
            Canary(sampler, FakeLearner(a=0.0, b=0.0), slots=1).check(versions)
        fixes.append("--worker-extension-cls agon.engine.vllm.worker.StrictAdapters" in stopped.value.fix)
    assert fixes == [True, False]


def test_noise_near_the_size_of_an_adapter_is_no_agreement(sampler: VLLMSampler, adapters: Path) -> None:
    sampler.fleet.members[0].engine.logprob = lambda version: -1.0 if version == "base" else -1.5  # type: ignore[attr-defined]
    learner = FakeLearner(a=0.5, b=0.5)
    learner.noise = 0.06
    with pytest.raises(EngineError, match=r"1 of 1 adapter slots.*noise 0.06"):
        Canary(sampler, learner, slots=1).check(published(sampler, adapters, "one", "two"))


def test_rare_rounding_of_a_base_is_no_false_alarm(sampler: VLLMSampler, adapters: Path) -> None:
    """As in bfloat16: most rows agree, one in six is off, and a check may meet two of those in four."""

    class Rounding(FakeLearner):
        asked = 0

        def score(
            self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None
        ) -> list[list[float]]:
            exact, self.asked = super().score(policy, rows), self.asked + 1
            off = range(5, len(rows), 6) if self.asked == 1 else range(2)
            return [[value - 0.06 * (n in off) for value in row] for n, row in enumerate(exact)]

    learner = Rounding(a=0.1, b=0.2)
    canary = Canary(sampler, learner, slots=1)
    versions = published(sampler, adapters, "one", "two")
    canary.check(versions)
    assert max(canary.measured.values()) == pytest.approx(0.03, rel=1e-3)
    learner.weights = {"a": 0.2, "b": 0.1}
    with pytest.raises(EngineError, match="a different policy"):
        canary.check(versions)


def test_a_restarted_engine_is_checked_again(sampler: VLLMSampler, adapters: Path) -> None:
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    canary = Canary(sampler, FakeLearner(a=0.1, b=0.2), slots=1)
    versions = published(sampler, adapters, "one", "two")
    canary.check(versions)
    assert not canary.recheck(versions), "it is the same engine"
    engine.fail_next("die")
    sampler.draw_all([Draw((1, 2), versions[Policy.A], 0, Sampling(max_tokens=2))])
    assert canary.recheck(versions)
    assert not canary.recheck(versions)


@pytest.mark.parametrize("policy", list(Policy))
def test_a_restart_that_brings_the_wrong_adapter_back_stops_the_run(
    sampler: VLLMSampler, adapters: Path, policy: Policy
) -> None:
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    canary = Canary(sampler, FakeLearner(a=0.1, b=0.2), slots=1)
    versions = published(sampler, adapters, "one", "two")
    canary.check(versions)
    engine.fail_next("die")
    sampler.draw_all([Draw((1, 2), versions[Policy.A], 0, Sampling(max_tokens=2))])
    engine.loaded[versions[policy]] = adapters / "three"
    with pytest.raises(EngineError, match=f"{policy.value}@0.*a different policy"):
        canary.recheck(versions)


def test_a_check_during_which_the_engine_dies_is_made_on_the_new_one(sampler: VLLMSampler, adapters: Path) -> None:
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    canaries = Canaries(sampler, FakeLearner(a=0.1, b=0.2), slots=1)
    versions = published(sampler, adapters, "one", "two")
    canaries.check(versions)
    engine.fail_next("die")
    canaries.check(versions)
    assert canaries.canaries[0].life == 2
    assert sampler.restarts == 1


@pytest.mark.parametrize(("moment", "scores"), [("the base is drawn from", 4), ("throw-away adapters are", 8)])
def test_an_engine_that_dies_during_the_calibration_is_calibrated_again(
    sampler: VLLMSampler, adapters: Path, monkeypatch: pytest.MonkeyPatch, moment: str, scores: int
) -> None:
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    versions, load, measured = published(sampler, adapters, "one", "two"), engine.load, list[int]()

    async def load_then_die(version: Version, folder: Path) -> None:
        await load(version, folder)
        if engine.starts == 1:
            engine.fail_next("die")

    class Counting(FakeLearner):
        def score(
            self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None
        ) -> list[list[float]]:
            if len(rows) == CALIBRATED:
                measured.append(engine.starts)
            return super().score(policy, rows, stretch)

    if moment.startswith("throw-away"):
        monkeypatch.setattr(engine, "load", load_then_die)
    else:
        engine.fail_next("die")
    canaries = Canaries(sampler, Counting(a=0.1, b=0.2), slots=2)
    canaries.check(versions)
    assert (sampler.restarts, canaries.canaries[0].life) == (1, 2)
    assert (len(measured), measured[-4]) == (scores, 2), "the last of its calibrations was made on the new engine"
    assert set(engine.loaded) == set(versions.values())


def test_an_engine_that_dies_in_every_calibration_stops_the_run(
    sampler: VLLMSampler, adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    canaries = Canaries(sampler, FakeLearner(a=0.1, b=0.2), slots=1)
    versions, calibrate = published(sampler, adapters, "one", "two"), Canary._calibrate

    def dying(self: Canary, policy: Policy, pattern: Path) -> None:
        engine.fail_next("die")
        calibrate(self, policy, pattern)

    monkeypatch.setattr(Canary, "_calibrate", dying)
    with pytest.raises(EngineError, match="failed 4 times"):
        canaries.check(versions)


def step(off: float, *others: float) -> list[Stream]:
    """A step of A whose tokens are alternately above and below the learner's -1.1, besides a few."""
    values = [*others, *[-1.1 + off, -1.1 - off] * 32]
    rows = [rollout(Policy.A, n, Tokens((1, 2), (7,) * 8, tuple(values[8 * n : 8 * n + 8])), 1.0) for n in range(8)]
    return [stream(Policy.A, [rows])]


def ready(sampler: VLLMSampler, adapters: Path, dtype: str, noise: float = 1e-4) -> Canary:
    """A canary that has checked A, whose tokens the learner gives -1.1, and B."""
    learner = FakeLearner(a=0.1, b=0.2)
    learner.noise = noise
    canary = Canary(sampler, learner, slots=1, dtype=dtype)  # type: ignore[arg-type]
    canary.check(published(sampler, adapters, "one", "two"))
    return canary


@pytest.mark.parametrize(("dtype", "calm", "far"), [("float32", 0.0008, 0.02), ("bfloat16", 0.04, 0.5)])
def test_samples_that_are_far_off_stop_the_run(
    sampler: VLLMSampler, adapters: Path, dtype: str, calm: float, far: float
) -> None:
    canary = ready(sampler, adapters, dtype)
    assert canary.check_samples(step(calm)) == []
    assert canary.noise == pytest.approx(calm, rel=0.2), "the first step calibrates"
    assert canary.check_samples(step(3 * calm)) == [], "a healthy run is noisier in some steps than in the first"
    with pytest.raises(EngineError, match="samples of A are"):
        canary.check_samples(step(far))


def test_near_certain_openings_do_not_make_the_canary_strict(sampler: VLLMSampler, adapters: Path) -> None:
    """As with a reasoning model in bfloat16: the fixed prompts show next to no noise, the rollouts 0.045."""
    canary = ready(sampler, adapters, "bfloat16", noise=1e-5)
    assert canary.tolerance == 0.05
    for _ in range(3):
        canary.check_samples(step(0.045))


@pytest.mark.parametrize("dtype", list(CEILING))
def test_the_first_step_does_not_take_a_different_policy_for_noise(
    sampler: VLLMSampler, adapters: Path, dtype: str
) -> None:
    canary = ready(sampler, adapters, dtype)
    with pytest.raises(EngineError, match="samples of A are"):
        canary.check_samples(step(2 * CEILING[dtype]))


def test_one_token_that_is_far_off_is_reported(sampler: VLLMSampler, adapters: Path) -> None:
    canary = ready(sampler, adapters, "float32")
    assert canary.check_samples(step(0.0)) == []
    (warning,) = canary.check_samples(step(0.0, -1.15))
    assert "token of A differs by 0.05" in warning


class Remembers(FakeLearner):
    """A learner that has moved on, and scores by earlier weights where it is given their folder."""

    def score(self, policy: Policy | None, rows: Sequence[Tokens], stretch: Stretch | None = None) -> list[list[float]]:
        if stretch is None or stretch.own is None:
            return super().score(policy, rows, stretch)
        earlier = FakeLearner(**self.weights | {str(policy): WEIGHTS[stretch.own.name]})
        return earlier.score(policy, rows, stretch)


def test_samples_of_an_earlier_version_are_compared_with_its_weights(sampler: VLLMSampler, adapters: Path) -> None:
    canary = ready(sampler, adapters, "float32")
    assert canary.check_samples(step(0.0)) == []
    drew, now = {Policy.A: Version("a@0-one"), Policy.B: Version("b@0-two")}, Version("a@1-three")
    sampler.publish(now, adapters / "three")
    canary.learner = canary.exact.learner = Remembers(a=WEIGHTS["three"], b=0.2)  # type: ignore[assignment]
    canary.check({**drew, Policy.A: now})
    assert canary.check_samples(step(0.0), drew) == []
    with pytest.raises(EngineError, match="samples of A are"):
        canary.check_samples(step(0.0), {**drew, Policy.A: now})
    with pytest.raises(EngineError, match="samples of A are"):
        canary.check_samples(step(0.2), drew)


def one_step_later(sampler: VLLMSampler, adapters: Path, served: str) -> tuple[Canary, dict[Policy, Version]]:
    """A canary in bfloat16 after a step that rounding hides; the engine serves `served` under the new name."""
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    canary, moved = ready(sampler, adapters, "bfloat16"), Version("a@1-moved")
    shutil.copytree(adapters / "one", adapters / "moved")
    sampler.publish(moved, adapters / "moved")
    engine.loaded[moved] = adapters / served
    canary.learner = canary.exact.learner = FakeLearner(a=0.101, b=0.2)
    return canary, {Policy.A: moved, Policy.B: Version("b@0-two")}


def test_an_engine_that_is_one_step_late_is_found_by_what_it_draws_alone(sampler: VLLMSampler, adapters: Path) -> None:
    canary, versions = one_step_later(sampler, adapters, served="one")
    with pytest.raises(EngineError, match="from a@1-moved what it draws from a@0-one, to the last bit"):
        canary.check(versions)


def test_a_step_that_rounding_hides_is_no_alarm(
    sampler: VLLMSampler, adapters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEIGHTS, "moved", 0.1 + 1e-9)
    canary, versions = one_step_later(sampler, adapters, served="moved")
    canary.check(versions)


def test_an_engine_that_draws_differently_each_time_is_left_to_the_slopes(sampler: VLLMSampler, adapters: Path) -> None:
    engine: FakeEngine = sampler.fleet.members[0].engine  # type: ignore[assignment]
    logprob, calls = engine.logprob, count()
    engine.logprob = lambda version: logprob(version) - 1e-9 * next(calls)  # type: ignore[method-assign]
    canary, versions = one_step_later(sampler, adapters, served="one")
    canary.check(versions)
    assert "vary from draw to draw" in canary.check_samples(step(0.0))[0]
    assert canary.check_samples(step(0.0)) == [], "it is said once"


def test_samples_of_the_version_before_stop_the_run(sampler: VLLMSampler, adapters: Path) -> None:
    canary = ready(sampler, adapters, "float32")
    asked: list[Path | None] = []

    def accuse(policy: Policy, rows: object, before: Path | None) -> np.ndarray:
        asked.append(before)
        if before:
            effect = np.linspace(-1, 1, 400)
            slopes[policy, Suspect.BEFORE].add(-effect, effect, np.repeat(np.arange(20), 20))
        return np.zeros(1)

    slopes = {(Policy.A, Suspect.BEFORE): Slope()}
    canary.suspects = SimpleNamespace(check=accuse, slopes=slopes)  # type: ignore[assignment]
    assert canary.check_samples(step(0.0)) == []
    sampler.publish(Version("a@1-three"), adapters / "three")
    canary.learner = FakeLearner(a=0.3, b=0.2)
    versions = {Policy.A: Version("a@1-three"), Policy.B: Version("b@0-two")}
    canary.check(versions)
    canary.check(versions)  # as after a restart
    with pytest.raises(EngineError, match="samples of a@1-three come from a@0-one"):
        canary.check_samples(step(0.2))
    assert asked == [None, adapters / "one"]
    shutil.rmtree(adapters / "one")
    slopes.clear()
    canary.check_samples(step(0.2))
    assert asked[-1] is None, "weights that are gone cannot be compared"


def test_a_policy_that_did_not_move_has_no_version_before(sampler: VLLMSampler, adapters: Path) -> None:
    canary = ready(sampler, adapters, "float32")
    sampler.publish(Version("b@1-three"), adapters / "three")
    canary.learner = FakeLearner(a=0.1, b=0.3)
    canary.check({Policy.A: Version("a@0-one"), Policy.B: Version("b@1-three")})
    assert canary._folder_before(Policy.A) is None
    assert canary._folder_before(Policy.B) == adapters / "two"


def test_a_throw_away_adapter_has_the_shape_of_its_pattern_and_a_large_norm(adapters: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    pattern, made = (
        load_file(adapters / "zero" / "adapter_model.safetensors"),
        throw_away(adapters / "zero", tmp_path / "t", 0),
    )
    weights = load_file(made / "adapter_model.safetensors")
    assert {name: t.shape for name, t in weights.items()} == {name: t.shape for name, t in pattern.items()}
    assert float(weights["x.lora_B.weight"].abs().mean()) > NORM / 4


def test_the_page_about_engines_names_the_least_tolerance_of_each_type() -> None:
    page = (Path(__file__).parents[3] / "docs" / "engines.md").read_text()
    (sentence,) = re.findall(r"The tolerance is eight times the noise.*?\. ", page, re.DOTALL)
    assert all(f"{least:g}" in sentence and dtype in sentence for dtype, least in canary_module.FLOOR.items())
