"""Does the engine sample from the policies that the learner holds? Asked before step 1, after every publication, and
after every restart of the engine before anything that it drew is used.

Engines have ignored adapters, swapped them, and served keys and values of weights that were gone, all in silence:
rewards and losses look the same. So a few completions are drawn on fixed prompts, as in training (prefix cache
included), and their log-probs are compared with the learner's. What counts as different is measured on the spot: the
bare base gives the noise between the two, throw-away adapters of large norm in every slot give the size of a real
difference, and the tolerance is at most a tenth of that. Noise that rounding does not explain is another base.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from agon.engine.vllm.sampler import RESUME, Draw, VLLMSampler
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import BASE, Message, Policy, Prompt, Quote, Sampling, seed_for

Score = Callable[[Policy | None, Sequence[Tokens]], Sequence[Sequence[float]]]
"""The learner's log-probs of completions under a policy as it is now; None is the bare base."""

PROMPTS, LENGTH, DRAWN = 4, 160, 16
"""Fixed prompts, their tokens (more than a block of the prefix cache: 128 on CPUs), and the tokens drawn from each."""
CALIBRATED = 12
"""Prompts for the noise: in bfloat16 a few tokens make most of it, so a few prompts would tell a wrong size."""
SHARE = 0.1
"""The tolerance is at most this share of what a wrong adapter does."""
NOISE = 8.0
"""... and this many times the noise on the bare base, where that is less."""
FLOOR = 1e-3
"""... and never less than this, in nats."""
CEILING = {"float32": 0.01, "bfloat16": 0.1}
"""The most noise that rounding explains, in nats a token. SmolLM2-135M on the CPU build has 1e-5 and 0.05."""
NORM = 0.5
"""Standard deviation of a throw-away adapter's weights: far beyond any trained one."""
REPORT = "nothing can be learnt from these samples; report this with the versions of vLLM and of the base"


@dataclass(slots=True)
class Canary:
    """Compares the engine with the learner and stops the run when they differ."""

    sampler: VLLMSampler
    score: Score
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
    """What the last check found, by version."""
    life: int = -1
    """The life of the engine that was checked last."""

    @property
    def tolerance(self) -> float:
        return min(SHARE * self.effect, max(NOISE * (self.noise or 0.0), FLOOR))

    @property
    def outlier(self) -> float:
        """How far off a single token may be: a step draws many times the tokens that the noise was measured on."""
        return min(self.effect, max(NOISE * self.worst, 10 * FLOOR))

    def check(self, versions: Mapping[Policy, str]) -> None:
        """Compare every policy's latest version with the learner; the first time, measure what a difference is."""
        if self.noise is None:
            self._calibrate(self.sampler.folder_of(next(iter(versions.values()))))
        self.measured.clear()
        self.life, drawn = self._drawn_in_one_life(list(versions.values()))
        for policy, version in versions.items():
            self._demand(version, policy, drawn[version])
            if _is_zero(self.sampler.folder_of(version)):
                self._demand(version, None, drawn[version])

    def recheck(self, versions: Mapping[Policy, str]) -> bool:
        """Compare again if the engine was started anew since the last check; say whether it was."""
        restarted = self.sampler.life != self.life
        if restarted:
            self.check(versions)
        return restarted

    def alarms(self, metrics: Mapping[Policy, Mapping[str, float]]) -> list[str]:
        """What the step's own samples say: stop when they are off on average, speak when one token is."""
        found = []
        for policy, values in metrics.items():
            name, mean, most = policy.value.upper(), values.get("logp_diff_mean", 0.0), values.get("logp_diff_max", 0.0)
            if mean > self.tolerance:
                raise EngineError(
                    f"samples of {name} are {mean:.2g} nats a token off the learner (tolerance {self.tolerance:.2g})",
                    fix=RESUME,
                )
            if most > self.outlier:
                found.append(
                    f"a token of {name} differs by {most:.2g} nats between engine and learner "
                    f"(ordinary up to {self.outlier:.2g})"
                )
        return found

    def _calibrate(self, pattern: Path) -> None:
        """The noise on the bare base, and what throw-away adapters do in all slots at once."""
        self.noise, self.worst = self._noise()
        names = [f"canary-{uuid.uuid4().hex[:8]}" for _ in range(self.slots)]
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
                f"(by {self.effect:.2g} nats a token; noise {self.noise:.2g}): the engine ignores adapters",
                fix=REPORT,
            )

    def _noise(self) -> tuple[float, float]:
        """How far engine and learner are apart on the bare base: on average, and at the worst token."""
        found = self._differences(None, self._draw([BASE], CALIBRATED)[BASE])
        noise, ceiling = fmean(found), CEILING[self.dtype]
        if not noise <= ceiling:
            raise EngineError(
                f"engine and learner are {noise:.2g} nats a token apart on the bare base; rounding to {self.dtype} "
                f"explains {ceiling:g}: it serves another base, another dtype, or log-probs that are not processed",
                fix="serve model.name in model.dtype, and start a server with --logprobs-mode processed_logprobs",
            )
        return noise, max(found)

    def _demand(self, version: str, policy: Policy | None, drawn: Sequence[Tokens]) -> None:
        gap = self.measured[version] = self._gap(policy, drawn)
        if not gap <= self.tolerance:
            whom = f"the learner's {policy.value.upper()}" if policy else "the base, though its weights are zero"
            raise EngineError(
                f"the engine's {version} differs from {whom} by {gap:.2g} nats a token "
                f"(tolerance {self.tolerance:.2g}): it samples from another policy",
                fix=REPORT,
            )

    def _gap(self, policy: Policy | None, drawn: Sequence[Tokens]) -> float:
        """Mean absolute difference of log-probs, in nats a token."""
        return fmean(self._differences(policy, drawn))

    def _differences(self, policy: Policy | None, drawn: Sequence[Tokens]) -> list[float]:
        """Absolute differences of log-probs, token by token."""
        pairs = zip(drawn, self.score(policy, drawn), strict=True)
        return [
            abs(mine - theirs) for row, scored in pairs for mine, theirs in zip(row.logprobs or (), scored, strict=True)
        ]

    def _drawn_in_one_life(self, versions: Sequence[str]) -> tuple[int, dict[str, list[Tokens]]]:
        """Completions of which none came from an engine that is gone; the sampler bounds how often one may go."""
        while True:
            life = self.sampler.life
            drawn = self._draw(versions)
            if self.sampler.life == life:
                return life, drawn

    def _draw(self, versions: Sequence[str], count: int = PROMPTS) -> dict[str, list[Tokens]]:
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
        return ids[: self.sampler.engine.context - DRAWN]


def throw_away(pattern: Path, folder: Path, seed: int) -> Path:
    """An adapter like `pattern` with large random weights: whoever samples with it says something else."""
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


def learner_score(learner: Any) -> Score:
    """The learner's own log-probs: the forward pass of its loss, temperature included, without gradients."""
    import torch

    from agon.engine.trl.batch import Row, tensors
    from agon.engine.trl.stock import GRPOTrainer

    def score(policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        trainer, pair = learner.trainer, learner.pair
        device = trainer.args.device
        batch = tensors([Row(row.prompt_ids, row.completion_ids, None, 0.0) for row in rows], trainer._pad())
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1).to(device)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1).to(device)
        width = batch["completion_ids"].size(1)

        def forward() -> Any:
            with torch.no_grad(), trainer.compute_loss_context_manager():
                return GRPOTrainer._get_per_token_logps_and_entropies(trainer, trainer.model, ids, mask, width)[0]

        if policy is None:
            with pair.base_only():
                logps = forward()
        else:
            pair.activate(policy)
            logps = forward()
        return [values[: len(row.completion_ids)] for values, row in zip(logps.tolist(), rows, strict=True)]

    return score
