"""Checks that the engine samples from the policies that the learner holds: before step 1, after every publication,
and after every restart of the engine before anything that it drew is used.

Engines have silently ignored adapters, swapped them, and served keys and values of old weights: rewards and losses look
the same. So a few completions are drawn on fixed prompts, as in training (prefix cache included), and their log-probs
are compared with the learner's. What counts as different is measured at the start: the bare base gives the noise
between the two, throw-away adapters of large norm in every slot give the size of a real difference, and the tolerance
is at most a tenth of that. Noise that rounding does not explain means a different base.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from agon.engine.fleet import RESUME
from agon.engine.protocol import Draw
from agon.engine.vllm.sampler import VLLMSampler
from agon.errors import EngineError
from agon.protocols import Learner, Tokens
from agon.types import BASE, Message, Policy, Prompt, Quote, Sampling, Version, seed_for

PROMPTS, LENGTH, DRAWN = 4, 160, 16
"""Fixed prompts, their tokens (more than a block of the prefix cache: 128 on CPUs), and the tokens drawn from each."""
CALIBRATED = 12
"""Prompts for the noise: in bfloat16 a few tokens make most of it, so that fewer prompts would misjudge it."""
SHARE = 0.1
"""The tolerance is at most this share of what a wrong adapter does."""
NOISE = 8.0
"""... and this many times the noise on the bare base, where that is less."""
FLOOR = 1e-3
"""... and never less than this, in nats."""
CEILING = {"float32": 0.01, "bfloat16": 0.1}
"""The most noise that rounding explains, in nats per token. SmolLM2-135M on the CPU build has 1e-5 and 0.05."""
NORM = 0.5
"""Standard deviation of a throw-away adapter's weights: far beyond any trained one."""
REPORT = "these samples cannot be used for training; report this with the versions of vLLM and of the base"


@dataclass(slots=True)
class Canary:
    """Compares the engine with the learner and stops the run when they differ."""

    sampler: VLLMSampler
    learner: Learner
    slots: int
    temperature: float = 1.0
    dtype: str = "bfloat16"
    """Of the learner's base, and so of the engine's."""
    noise: float | None = None
    worst: float = 0.0
    """The largest difference at one token of the bare base."""
    effect: float = 0.0
    """What the least effective throw-away adapter did to the log-probs, in nats."""
    measured: dict[str, float] = field(default_factory=dict)
    """Differences in the last check, in nats per token, by version."""
    restarts: int = -1
    """Restarts of the engine before the last check."""

    @property
    def tolerance(self) -> float:
        return min(SHARE * self.effect, max(NOISE * (self.noise or 0.0), FLOOR))

    @property
    def outlier(self) -> float:
        """How far off a single token may be: a step draws many times the tokens that the noise was measured on."""
        return min(self.effect, max(NOISE * self.worst, 10 * FLOOR))

    def check(self, versions: Mapping[Policy, Version]) -> None:
        """Compare every policy's latest version with the learner; the first time, calibrate."""
        if self.noise is None:
            self._calibrate(self.sampler.folder_of(next(iter(versions.values()))))
        self.measured.clear()
        self.restarts, drawn = self._draw_without_restart(list(versions.values()))
        for policy, version in versions.items():
            self._demand(version, policy, drawn[version])
            if _is_zero(self.sampler.folder_of(version)):
                self._demand(version, None, drawn[version])

    def recheck(self, versions: Mapping[Policy, Version]) -> bool:
        """Compare again if the engine was restarted since the last check; return whether it was."""
        restarted = self.sampler.restarts != self.restarts
        if restarted:
            self.check(versions)
        return restarted

    def alarms(self, metrics: Mapping[Policy, Mapping[str, float]]) -> list[str]:
        """Warnings about the step's own samples, where one token is off; EngineError where they are off on average."""
        warnings = []
        for policy, values in metrics.items():
            name, mean = policy.value.upper(), values.get("logp_diff_mean", 0.0)
            if mean > self.tolerance:
                raise EngineError(
                    f"samples of {name} are {mean:.2g} nats per token off the learner (tolerance {self.tolerance:.2g})",
                    fix=RESUME,
                )
            if (largest := values.get("logp_diff_max", 0.0)) > self.outlier:
                warnings.append(
                    f"a token of {name} differs by {largest:.2g} nats between engine and learner "
                    f"(expected: at most {self.outlier:.2g})"
                )
        return warnings

    def _calibrate(self, pattern: Path) -> None:
        """The noise on the bare base, and what throw-away adapters do in all slots at once."""
        self.noise, self.worst = self._noise()
        names = [Version.of(Policy.A, n, f"canary{uuid.uuid4().hex[:8]}") for n in range(self.slots)]
        with tempfile.TemporaryDirectory(prefix="agon-canary-") as scratch:
            for number, name in enumerate(names):
                self.sampler.load(name, throw_away(pattern, Path(scratch, name), number))
            drawn = self._draw(names)
            for name in names:
                self.sampler.unload(name)
        effects = [self._gap(None, drawn[name]) for name in names]
        self.effect = min(effects)
        if self.effect * SHARE < max(self.noise, FLOOR):
            dead = sum(effect * SHARE < max(self.noise, FLOOR) for effect in effects)
            raise EngineError(
                f"{dead} of {self.slots} adapter slots barely change the log-probs of the base "
                f"(by {self.effect:.2g} nats per token; noise {self.noise:.2g}): the engine ignores adapters",
                fix=REPORT,
            )

    def _noise(self) -> tuple[float, float]:
        """How far engine and learner are apart on the bare base: on average, and at the worst token."""
        differences = self._differences(None, self._draw([BASE], CALIBRATED)[BASE])
        noise, ceiling = fmean(differences), CEILING[self.dtype]
        if not noise <= ceiling:
            raise EngineError(
                f"engine and learner are {noise:.2g} nats per token apart on the bare base; rounding to {self.dtype} "
                f"explains {ceiling:g}: the engine has a different base, a different dtype or unprocessed log-probs",
                fix="serve model.name in model.dtype, and start a server with --logprobs-mode processed_logprobs",
            )
        return noise, max(differences)

    def _demand(self, version: Version, policy: Policy | None, drawn: Sequence[Tokens]) -> None:
        gap = self.measured[version] = self._gap(policy, drawn)
        if not gap <= self.tolerance:
            expected = f"the learner's {policy.value.upper()}" if policy else "the base, though its weights are zero"
            raise EngineError(
                f"the engine's {version} differs from {expected} by {gap:.2g} nats per token "
                f"(tolerance {self.tolerance:.2g}): it samples from a different policy",
                fix=REPORT,
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

    def _draw_without_restart(self, versions: Sequence[Version]) -> tuple[int, dict[Version, list[Tokens]]]:
        """Completions that all come from the running engine; the fleet bounds how often it restarts."""
        while True:
            restarts = self.sampler.restarts
            drawn = self._draw(versions)
            if self.sampler.restarts == restarts:
                return restarts, drawn

    def _draw(self, versions: Sequence[Version], count: int = PROMPTS) -> dict[Version, list[Tokens]]:
        """Completions of every version on the first fixed prompts, all in one batch."""
        sampling = Sampling(self.temperature, 1.0, DRAWN)
        prompts = [self._prompt(number) for number in range(count)]
        draws = [
            Draw(ids, version, seed_for("canary", version, n), sampling)
            for version in versions
            for n, ids in enumerate(prompts)
        ]
        rows = zip(draws, self.sampler.draw_all(draws), strict=True)
        tokens = [Tokens(draw.ids, drawn.ids, drawn.logprobs) for draw, drawn in rows]
        return {version: tokens[n * count : (n + 1) * count] for n, version in enumerate(versions)}

    def _prompt(self, number: int) -> tuple[int, ...]:
        """A fixed prompt that fills whole blocks of the prefix cache, as far as the context allows."""
        renderer = self.sampler.renderer
        words = renderer.clip(" ".join(str(n * (number + 2)) for n in range(LENGTH)), LENGTH)
        ids = renderer.render(Prompt((Message("user", (Quote(words),)),))).ids
        return ids[: self.sampler.fleet.context - DRAWN]


def throw_away(pattern: Path, folder: Path, seed: int) -> Path:
    """An adapter of the shape of `pattern` with large random weights."""
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True)
    shutil.copy(pattern / "adapter_config.json", folder)
    shapes = load_file(pattern / "adapter_model.safetensors")
    weights = {name: NORM * torch.randn(t.shape, generator=generator).to(t.dtype) for name, t in shapes.items()}
    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def _is_zero(folder: Path) -> bool:
    """Whether an adapter changes nothing: all of lora_B is zero."""
    from safetensors import safe_open

    with safe_open(folder / "adapter_model.safetensors", "pt") as file:
        return not any(bool(file.get_tensor(name).any()) for name in file.keys() if ".lora_B." in name)  # noqa: SIM118
