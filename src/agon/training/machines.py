"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agon.config import Config
from agon.engine.build import base_files, build_sampler, context_of, quieten
from agon.engine.endpoint import Endpoint
from agon.engine.render import Renderer
from agon.engine.vllm.canary import Canary
from agon.engine.vllm.slope import Slope
from agon.errors import EngineError, VerifierError
from agon.protocols import Learner, Sampler, Verifier
from agon.rundir.records import SlopeRecord
from agon.sandbox.settings import SandboxSettings
from agon.types import Policy, Reason, Stream, Version


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Verifier
    renderer: Renderer
    canary: Canary | None = None
    """Compares what the engine samples with what the learner holds; None where both are the same code."""
    endpoint: Endpoint | None = None
    """What plays B, where the rival is a server; whoever opened it closes it."""

    def check(self, versions: Mapping[Policy, Version]) -> None:
        """Stop unless the engine samples from what the learner holds."""
        if self.canary:
            self.canary.check(versions)

    def recheck(self, versions: Mapping[Policy, Version]) -> bool:
        """Check again if the engine was restarted since; return whether it was."""
        return self.canary is not None and self.canary.recheck(versions)

    def gaps(self) -> dict[str, float]:
        """How far the live versions of the engine are from the learner, in nats per token; empty without a canary."""
        return dict(self.canary.measured) if self.canary else {}

    def slopes(self) -> dict[str, SlopeRecord]:
        """What the samples of the last step say about the engine, by policy and suspect; empty without a canary."""
        slopes = self.canary.suspects.slopes if self.canary else {}
        return {
            f"{policy.value} {suspect}": _record(slope) for (policy, suspect), slope in slopes.items() if slope.tokens
        }

    def check_samples(self, streams: Sequence[Stream], versions: Mapping[Policy, Version]) -> list[str]:
        """Stop unless a step's samples come from what the learner holds; return warnings. Call it before the update."""
        check_versions(streams, versions)
        return self.canary.check_samples(streams) if self.canary else []

    def rest(self) -> None:
        """Release the memory of an engine beside the learner, if it is configured to sleep."""
        if self.canary:
            self.canary.sampler.rest()

    def give_up(self) -> None:
        """Restart no engine any more: the run stops."""
        if self.canary:
            self.canary.sampler.fleet.give_up()

    def close(self) -> None:
        self.sampler.close()
        self.verify.close()


def build(config: Config, total_steps: int) -> Machines:
    """Everything a training run needs, loaded."""
    path = base_files(config.model)
    quieten(path)
    from agon.engine.trl.learner import TRLLearner
    from agon.engine.trl.setup import load_base
    from agon.verify import load_verifier

    base = load_base(config.model.model_copy(update={"name": path}))
    learner = TRLLearner(config.model, config.train, total_steps=total_steps, base=base)
    sampler = build_sampler(config.sampler, config.model, path, context_of(config))
    canary = _canary(sampler, learner, config)
    verify = load_verifier(config.verifier, sandbox=own_share(config.sandbox.settings()))
    return Machines(learner, sampler, verify, Renderer.load(path), canary)


def own_share(settings: SandboxSettings) -> SandboxSettings:
    """The sandbox of one of the processes on this machine: unless the config says otherwise, they share its cores."""
    if settings.workers or settings.backend == "http":
        return settings
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # torchrun and `accelerate launch` set it
    return replace(settings, workers=max(1, len(os.sched_getaffinity(0)) // beside))


def check_versions(streams: Iterable[Stream], versions: Mapping[Policy, Version]) -> None:
    """Refuse a row that was drawn by a different version than the one that learns from it."""
    for stream in streams:
        for row in stream.rollouts():
            if row.completion.version != versions[stream.policy]:
                raise EngineError(
                    f"a row of problem {row.problem.id} was drawn by {row.completion.version}, "
                    f"and {versions[stream.policy]} would learn from it",
                    fix="nothing was learnt from this step; report this, then resume with: agon train RUN --resume",
                )


def check_verdicts(streams: Iterable[Stream], run: Path) -> None:
    """Stop before the update if the verifier failed on most rows: the step is then played again after a resume."""
    verdicts = [row.verdict for stream in streams for row in stream.rollouts()]
    failed = [verdict for verdict in verdicts if verdict.reason is Reason.INFRA]
    if 2 * len(failed) > len(verdicts):
        raise VerifierError(
            f"the verifier failed on {len(failed)} of {len(verdicts)} rollouts of this step: {failed[0].detail}",
            fix=f"nothing was learnt from it; run `agon doctor`, then: agon train {run} --resume",
        )


def _record(slope: Slope) -> SlopeRecord:
    error = round(slope.error, 4) if math.isfinite(slope.error) else None
    return SlopeRecord(slope=round(slope.value, 4), error=error, tokens=slope.tokens, resolved=slope.resolved)


def _canary(sampler: Sampler, learner: Learner, config: Config) -> Canary | None:
    from agon.engine.vllm.sampler import VLLMSampler

    if not isinstance(sampler, VLLMSampler):
        return None
    return Canary(sampler, learner, config.sampler.max_loras, config.train.temperature, config.model.dtype)
