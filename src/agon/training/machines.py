"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agon.config import Config
from agon.engine.build import base_files, build_sampler, context_of, quieten
from agon.engine.fleet import RESUME
from agon.engine.render import Renderer
from agon.engine.vllm.canary import Canary
from agon.errors import EngineError
from agon.protocols import Learner, Sampler, Verifier
from agon.types import Policy, Stream, Version


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Verifier
    renderer: Renderer
    canary: Canary | None = None
    """Compares what the engine samples with what the learner holds; None where both are the same code."""

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

    def check_samples(self, streams: Sequence[Stream], versions: Mapping[Policy, Version]) -> None:
        """Stop before a policy learns from what another version drew."""
        for stream in streams:
            expected = versions[stream.policy]
            for drawn in {rollout.completion.version for rollout in stream.rollouts()} - {expected}:
                raise EngineError(f"a sample of {drawn} came where {expected} was asked for", fix=RESUME)

    def alarms(self, metrics: Mapping[Policy, Mapping[str, float]]) -> list[str]:
        """What a step's own samples say about the engine; stops the run when they came from a different policy."""
        return self.canary.alarms(metrics) if self.canary else []

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
    return Machines(learner, sampler, load_verifier(config.verifier), Renderer.load(path), canary)


def _canary(sampler: Sampler, learner: Learner, config: Config) -> Canary | None:
    from agon.engine.vllm.sampler import VLLMSampler

    if not isinstance(sampler, VLLMSampler):
        return None
    return Canary(sampler, learner, config.sampler.max_loras, config.train.temperature, config.model.dtype)
