"""Checks that an engine samples from the policies that the learner holds: before step 1, after every publication,
after every restart before it draws for the game (`canaries.py`), and in every step on the step's own samples.

Engines have silently ignored adapters, swapped them, and served keys and values of old weights: rewards and losses look
the same. A few completions are drawn on fixed prompts, as in training (prefix cache included), and their log-probs are
compared with the learner's. What counts as different is measured: the bare base and the first step's samples give the
noise between the two, throw-away adapters of large norm in every slot give the size of a real difference, and the
tolerance is at most a tenth of that. Noise that the learner's own rounding does not explain means a different base.

Rounding hides small differences from any distance. Those are found by what a version draws alone, which must not be
what others draw (`exact_draws.py`), and by a direction, on the step's samples (`slope.py`, `suspects.py`).
"""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np

from agon.engine.protocol import Engine, EngineDown, then_resume
from agon.engine.vllm.adapter_files import is_zero, throw_away
from agon.engine.vllm.exact_draws import ExactDraws
from agon.engine.vllm.fixed_prompts import Drawn, Probe
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.engine.vllm.slope import flat
from agon.engine.vllm.suspects import AsOf, Suspect, Suspects, samples_of
from agon.errors import EngineError
from agon.pool import WorkerDown
from agon.protocols import Learner, Stretch, Tokens
from agon.types import BASE, Policy, Stream, Version

CALIBRATED = 12
"""Prompts for the noise: in bfloat16 a few tokens make most of it, so that fewer prompts would misjudge it."""
SHARE = 0.1
"""The tolerance is at most this share of what a wrong adapter does."""
NOISE = 8.0
"""... and this many times the noise, where that is less."""
FLOOR = {"float32": 1e-3, "bfloat16": 0.05}
"""... and never less than this, in nats."""
ROUNDINGS = 4.0
"""The most noise that rounding explains, in multiples of what the learner differs from itself when rounded anew, ..."""
CEILING = {"float32": 0.01, "bfloat16": 0.1}
"""... or this, in nats per token, where that is more. SmolLM2-135M on the CPU build has noise of 1e-5 and 0.05."""
HAIR = 1e-3
"""The share of a throw-away adapter that makes a learner round anew, and changes next to nothing else."""
STRICT = (
    "if the base is a composite checkpoint, start the server with "
    "--language-model-only --worker-extension-cls agon.engine.vllm.worker.StrictAdapters; if not, "
)
"""Without these a server ignores adapters of composites in silence."""
VARIES = "the engine's log-probs vary from draw to draw: an adapter that is one step late is found by many samples only"
INSTEAD = {
    Suspect.BEFORE: "an older version",
    Suspect.RIVAL: "the rival",
    Suspect.BASE: "the base",
}
REPORT = "these samples cannot be used for training; report this with the versions of vLLM and of the base"


@dataclass(slots=True)
class Canary:
    """Compares one engine with the learner: EngineError when they differ, WorkerDown when it fails meanwhile."""

    sampler: VLLMSampler
    learner: Learner
    slots: int
    temperature: float = 1.0
    dtype: str = "bfloat16"
    """Of the learner's base, and so of the engine's."""
    member: int = 0
    """Which engine of the fleet it asks."""
    noise: float | None = None
    worst: float = 0.0
    """The largest difference at one token of the bare base."""
    rounding: float = 0.0
    """How far the learner is from itself, rounded anew, on the same tokens, in nats per token."""
    effect: float = 0.0
    """What the least effective throw-away adapter did to the log-probs, in nats."""
    measured: dict[str, float] = field(default_factory=dict)
    """Differences in the last check, in nats per token, by version."""
    life: int = 0
    """How often the engine had been started at the last check."""
    probe: Probe = field(init=False)
    suspects: Suspects = field(init=False)
    exact: ExactDraws = field(init=False)
    _current: Mapping[Policy, Version] = field(default_factory=dict)
    _before: Mapping[Policy, Version] = field(default_factory=dict)
    _sampled: bool = False
    """Whether the samples of a step have been seen: the first ones calibrate."""

    def __post_init__(self) -> None:
        self.probe = Probe(self.sampler, self.temperature, self.member)
        self.suspects, self.exact = Suspects(self.learner), ExactDraws(self.learner)

    @property
    def tolerance(self) -> float:
        return min(SHARE * self.effect, max(NOISE * (self.noise or 0.0), FLOOR[self.dtype]))

    @property
    def ceiling(self) -> float:
        """The most noise that rounding explains."""
        return max(ROUNDINGS * self.rounding, CEILING[self.dtype])

    @property
    def outlier(self) -> float:
        """How far off a single token may be: a step draws many times the tokens that the noise was measured on."""
        return min(self.effect, max(NOISE * self.worst, 10 * FLOOR[self.dtype]))

    def check(self, versions: Mapping[Policy, Version]) -> None:
        """Compare every policy's latest version with the learner; the first time, calibrate."""
        self.calibrate(versions)
        self.judge(versions, self.sampler.submit(self.probe.drawing(list(versions.values()))).result())

    def calibrate(self, versions: Mapping[Policy, Version]) -> None:
        """Measure noise and effect once, on one life of the engine: a restarted one may be different."""
        if self.noise is not None:
            return
        policy, version = next(iter(versions.items()))
        life = self.probe.life
        try:
            self._calibrate(policy, self.sampler.live[version])
            if self.probe.life != life:
                raise EngineDown("the engine was restarted during its calibration")
        except WorkerDown:
            self.noise = None
            raise

    def judge(self, versions: Mapping[Policy, Version], drawn: Drawn) -> None:
        """EngineError where what was drawn is not what the learner's policies draw."""
        self._remember(versions)
        self.measured.clear()
        self.life = drawn.life
        self.exact.keep(drawn.alone, [BASE, *self._before.values()])
        for policy, version in versions.items():
            self._judge_exactly(policy, version)
            self._demand(version, policy, drawn.together[version])
            if is_zero(self.sampler.live[version]):
                self._demand(version, None, drawn.together[version])

    def recheck(self, versions: Mapping[Policy, Version]) -> bool:
        """Compare again if the engine was restarted since the last check; return whether it was."""
        restarted = self.probe.life != self.life
        if restarted:
            self.check(versions)
        return restarted

    def check_samples(self, streams: Sequence[Stream], versions: Mapping[Policy, Version] | None = None) -> list[str]:
        """Compare a step's samples with the weights that they must come from: the learner's, or those of `versions`.

        Return warnings; EngineError when samples are too far off, or when a suspect drew them.
        """
        warnings = [] if self._sampled or self.exact.repeats else [VARIES]
        sampled = {policy: samples_of(streams, policy, self.member) for policy in Policy}
        earlier = self._earlier(versions or {})
        self.suspects.learner = AsOf(self.learner, self._folders(earlier)) if earlier else self.learner
        for policy, rows in sampled.items():
            if rows:
                before = self._folder_before(policy, earlier.get(policy))
                differences = np.abs(self.suspects.check(policy, rows, before))
                warnings += self._judge_distance(policy, float(differences.mean()), float(differences.max()))
                self._judge_slopes(policy, earlier.get(policy))
        self._sampled = self._sampled or any(sampled.values())
        return warnings

    def _judge_distance(self, policy: Policy, mean: float, largest: float) -> list[str]:
        """A warning where one token is off; EngineError where they are off on average. The first step calibrates."""
        name = policy.value.upper()
        limit = self.tolerance if self._sampled else self.ceiling
        if not mean <= limit:
            raise EngineError(
                f"samples of {name} are {mean:.2g} nats per token off the learner (tolerance {limit:.2g})",
                fix=then_resume(self._engine.logs),
            )
        if not self._sampled:
            self.noise, self.worst = max(self.noise or 0.0, mean), max(self.worst, largest)
        if largest <= self.outlier:
            return []
        expected = f"expected: at most {self.outlier:.2g}"
        return [f"a token of {name} differs by {largest:.2g} nats between engine and learner ({expected})"]

    def _judge_exactly(self, policy: Policy, version: Version) -> None:
        """EngineError where a version draws what a suspect draws, to the last bit."""
        others = self._others(policy)
        if suspect := self.exact.same(policy, version, others, self._folder_before(policy)):
            raise EngineError(
                f"the engine draws from {version} what it draws from {named(others[suspect])}, to the last bit, though "
                "the learner tells them apart: it samples from the wrong weights",
                fix=self._fix,
            )

    def _earlier(self, versions: Mapping[Policy, Version]) -> dict[Policy, Version]:
        """Of these, the versions of policies that have moved on since."""
        return {
            p: v for p, v in versions.items() if v != self._current.get(p) and v.policy is p and v in self.sampler.live
        }

    def _folders(self, versions: Mapping[Policy, Version]) -> dict[Policy, Path]:
        return {policy: self.sampler.live[version] for policy, version in versions.items()}

    def _judge_slopes(self, policy: Policy, earlier: Version | None) -> None:
        """EngineError where a suspect's weights are nearer to the samples than the policy's."""
        others = self._others(policy)
        for suspect in Suspect:
            slope = self.suspects.slopes.get((policy, suspect))
            if slope and slope.wrong:
                measured = f"slope {slope.value:.2f} +- {slope.error:.2f} over {slope.tokens} tokens"
                name = named(others[suspect]) if suspect in others and not earlier else INSTEAD[suspect]
                raise EngineError(
                    f"samples of {earlier or self._current[policy]} come from {name}, "
                    f"or from weights as far off ({measured}; 1 is the one, 0 the other)",
                    fix=REPORT,
                )

    def _others(self, policy: Policy) -> dict[Suspect, Version]:
        """The versions that an engine may have served in a policy's place."""
        others = {Suspect.RIVAL: self._current[policy.rival], Suspect.BASE: BASE}
        if policy in self._before:
            others[Suspect.BEFORE] = self._before[policy]
        return others

    def _remember(self, versions: Mapping[Policy, Version]) -> None:
        """Which version each policy had before the publication, if it changed."""
        if versions != self._current:
            changed = {policy for policy, version in versions.items() if self._current.get(policy, version) != version}
            self._before = {policy: self._current[policy] for policy in changed}
            self._current = dict(versions)

    def _folder_before(self, policy: Policy, earlier: Version | None = None) -> Path | None:
        """The weights of the version before the current one, or before an earlier one, as long as they are on disk."""
        if earlier:
            return self.sampler.folder_before(earlier)
        folder = self.sampler.live.get(self._before[policy]) if policy in self._before else None
        return folder if folder and folder.is_dir() else None

    def _calibrate(self, policy: Policy, pattern: Path) -> None:
        """The noise on the bare base, and what throw-away adapters do in all slots at once."""
        names = [Version.of(Policy.A, n, f"canary{uuid.uuid4().hex[:8]}") for n in range(self.slots)]
        with tempfile.TemporaryDirectory(prefix="agon-canary-") as scratch:
            folders = {name: throw_away(pattern, Path(scratch, name), number) for number, name in enumerate(names)}
            self._measure_noise(policy, folders[names[0]])
            for name, folder in folders.items():
                self.sampler.load(name, folder, self.member)
            drawn = self.probe.draw(names)
            for name in names:
                self.sampler.unload(name, self.member)
        effects = [self._gap(None, drawn[name]) for name in names]
        self.effect = min(effects)
        if self.effect * SHARE < (least := max(self.noise or 0.0, FLOOR[self.dtype])):
            dead = sum(effect * SHARE < least for effect in effects)
            raise EngineError(
                f"{dead} of {self.slots} adapter slots barely change the log-probs of the base "
                f"(by {self.effect:.2g} nats per token; noise {self.noise:.2g}): the engine ignores adapters",
                fix=self._fix,
            )

    def _measure_noise(self, policy: Policy, throw_away: Path) -> None:
        """How far engine and learner are apart on the bare base, and the learner from itself."""
        alone, again = self.probe.draw_alone(BASE), self.probe.draw_alone(BASE)
        self.exact.keep({BASE: alone}, ())
        self.exact.repeats = alone == again
        drawn = self.probe.draw([BASE], CALIBRATED)[BASE]
        differences = self._differences(None, drawn)
        self.noise, self.worst = fmean(differences), max(differences)
        self.rounding = self._rounding(policy, drawn, throw_away)
        if not self.noise <= self.ceiling:
            raise EngineError(
                f"engine and learner are {self.noise:.2g} nats per token apart on the bare base; rounding to "
                f"{self.dtype} explains {self.ceiling:.2g}: the engine has a different base, a different dtype or "
                "unprocessed log-probs",
                fix="serve model.name in model.dtype, and start a server with --logprobs-mode processed_logprobs",
            )

    def _rounding(self, policy: Policy, rows: Sequence[Tokens], throw_away: Path) -> float:
        """How far two roundings of the same weights are apart: a hair is added to them, and taken from them.

        But for rounding, the mean of the two would be the weights' own score.
        """
        ends = [flat(self.learner.score(policy, rows, Stretch(throw_away, 1 + side * HAIR))) for side in (1, -1)]
        off = sum(ends) / 2 - flat(self.learner.score(policy, rows))
        return math.sqrt(4 / 3) * float(np.abs(off).mean())  # the variance of `off` is 3/4 of a difference's

    @property
    def _engine(self) -> Engine:
        return self.sampler.fleet.members[self.member].engine

    @property
    def _fix(self) -> str:
        return (STRICT if isinstance(self._engine, ServerEngine) else "") + REPORT

    def _demand(self, version: Version, policy: Policy | None, drawn: Sequence[Tokens]) -> None:
        gap = self.measured[version] = self._gap(policy, drawn)
        if not gap <= self.tolerance:
            expected = f"the learner's {policy.value.upper()}" if policy else "the base, though its weights are zero"
            raise EngineError(
                f"the engine's {version} differs from {expected} by {gap:.2g} nats per token "
                f"(tolerance {self.tolerance:.2g}): it samples from a different policy",
                fix=self._fix,
            )

    def _gap(self, policy: Policy | None, drawn: Sequence[Tokens]) -> float:
        """Mean absolute difference of log-probs, in nats per token."""
        return fmean(self._differences(policy, drawn))

    def _differences(self, policy: Policy | None, drawn: Sequence[Tokens]) -> list[float]:
        """Absolute differences of log-probs, token by token."""
        pairs = zip(drawn, self.learner.score(policy, drawn), strict=True)
        return [
            abs(mine - theirs) for row, scored in pairs for mine, theirs in zip(row.logprobs or (), scored, strict=True)
        ]


def named(version: Version) -> str:
    """A version in a sentence."""
    return "the base" if version == BASE else version
