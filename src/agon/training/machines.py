"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agon.config import Config, Model, SamplerConfig, Train
from agon.engine.build import base_files, context_of, quieten
from agon.engine.devices import learners_here
from agon.engine.endpoint import Endpoint
from agon.engine.places import sampler_for, samplers_for, verifier_for
from agon.engine.render import Renderer
from agon.engine.vllm.placement import GpuMemory
from agon.errors import EngineError, VerifierError
from agon.interrupt import Interrupt
from agon.protocols import Learner, Sampler, Verifier
from agon.rundir.records import SlopeRecord
from agon.training.drawing import DrawnElsewhere, draws
from agon.training.processes import Processes
from agon.types import Policy, Reason, Stream, Version
from agon_judge.sandbox.settings import SandboxSettings
from agon_judge.workers.system import available_cores

if TYPE_CHECKING:
    from agon.engine.trl.learner import TRLLearner
    from agon.engine.vllm.canaries import Canaries
    from agon.engine.vllm.slope import Slope

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Verifier
    renderer: Renderer
    canary: Canaries | None = None
    """Compares what each engine samples with what the learner holds; None where both are the same code."""
    draws: bool = True
    """Whether this process draws; if not, another one draws for it."""
    endpoint: Endpoint | None = None
    """What plays B, where the rival is a server; whoever opened it closes it."""
    lost: tuple[str, ...] = ()
    """What a run on these machines does without; reported before its first step."""
    renderer_b: Renderer | None = None
    """Of B's base, where it is a different one."""
    processes: Processes = field(default_factory=lambda: Processes(0, 1, Interrupt()))
    """The processes that train together; one alone by default."""

    @property
    def renderers(self) -> dict[Policy, Renderer]:
        """The renderer of each policy."""
        return {Policy.A: self.renderer, Policy.B: self.renderer_b or self.renderer}

    def check(self, versions: Mapping[Policy, Version]) -> None:
        """Stop unless the engines sample from what the learner holds."""
        if self.canary:
            self.canary.check(versions)

    async def attend(self, work: Coroutine[Any, Any, T], versions: Mapping[Policy, Version]) -> T:
        """Draw: an engine that is restarted meanwhile takes part again once it is known to hold the right adapters."""
        return await (self.canary.attend(work, versions) if self.canary else work)

    @property
    def engines(self) -> int:
        """The engines that this process draws from; 0 where it draws by itself or not at all."""
        return len(self.canary.sampler.fleet.members) if self.canary else 0

    def notes(self) -> list[str]:
        """What happened to engines since the last call."""
        return self.canary.notes() if self.canary else []

    def gaps(self) -> dict[str, float]:
        """How far the live versions of the engines are from the learner, in nats per token; empty without a canary."""
        return self.canary.gaps() if self.canary else {}

    def slopes(self) -> dict[str, SlopeRecord]:
        """What the samples of the last step say about the engines, by policy and suspect; empty without a canary."""
        return {name: _record(slope) for name, slope in (self.canary.slopes() if self.canary else {}).items()}

    def check_samples(self, streams: Sequence[Stream], versions: Mapping[Policy, Version]) -> list[str]:
        """Stop unless samples come from these versions, by name and by log-probs; return warnings. Call it before the
        update."""
        check_versions(streams, versions)
        return self.canary.check_samples(streams, versions) if self.canary else []

    def rest(self) -> None:
        """Leave the memory to the learner: no engine is started, and those that are configured to sleep release it."""
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
    if config.sampler.engine == "tinker":
        return _tinker(config, total_steps)
    if config.model.two_bases:
        return _two_bases(config, total_steps)
    path = base_files(config.model)
    learner = _learner(config.model, config.train, path, total_steps)
    processes = Processes(learner.rank, learner.processes, Interrupt(), learner.store())
    # what each learner leaves free on its GPU, buffers for collectives taken; ranks of one machine are consecutive
    free = learner.gather(GpuMemory.here())[learner.rank :][: learners_here()]
    drawing = draws(config.sampler, config.cluster)
    sampler: Sampler = DrawnElsewhere()
    with ExitStack() as opened:
        with processes.phase("start"):  # engines take minutes to start: nobody waits for them in a collective
            if drawing:
                sampler = sampler_for(config, path, context_of(config), [*filter(None, free)])
            opened.callback(sampler.close)
            verify = verifier_for(config, own_share(config.sandbox.settings(), config.sampler))
            opened.callback(verify.close)
            canary, renderer = _canary(sampler, learner, config), Renderer.load(path)
        opened.pop_all()
    return Machines(learner, sampler, verify, renderer, canary, drawing, processes=processes)


def _learner(model: Model, train: Train, path: str, total_steps: int) -> TRLLearner:
    """A learner over the base in `path`."""
    quieten(path)
    from agon.engine.trl.learner import TRLLearner
    from agon.engine.trl.setup import load_base

    base = load_base(model.model_copy(update={"name": path}))
    return TRLLearner(model, train, total_steps=total_steps, base=base)


def _two_bases(config: Config, total_steps: int) -> Machines:
    """A learner, a sampler and a renderer for each policy, each on its own base."""
    from agon.engine.trl.two_learners import TwoBaseLearner

    each = config.model.each
    paths = {policy: base_files(model) for policy, model in each.items()}
    learner = TwoBaseLearner({p: _learner(each[p], config.train, paths[p], total_steps) for p in Policy})
    verify = verifier_for(config, own_share(config.sandbox.settings(), config.sampler))
    sampler, (a, b) = samplers_for(config, context_of(config)), map(Renderer.load, paths.values())
    return Machines(learner, sampler, verify, a, renderer_b=b)


def _tinker(config: Config, total_steps: int) -> Machines:
    """Sampler and learner on a service."""
    from agon.engine.tinker.connect import connect
    from agon.verify import load_verifier

    remote = connect(config, total_steps)
    verify = load_verifier(config.verifier, sandbox=own_share(config.sandbox.settings(), config.sampler))
    return Machines(remote.learner, remote.sampler, verify, remote.renderer, lost=remote.notes)


def own_share(settings: SandboxSettings, sampler: SamplerConfig) -> SandboxSettings:
    """The sandbox of one of the processes on this machine: unless the config says otherwise, those that draw share its
    cores."""
    if settings.workers or settings.backend == "http":
        return settings
    beside = 1 if sampler.engine == "vllm" else learners_here()
    return replace(settings, workers=max(1, available_cores() // beside))


def check_versions(streams: Iterable[Stream], versions: Mapping[Policy, Version]) -> None:
    """Refuse a row that was drawn by a different version than the one that plays its step."""
    for stream in streams:
        for row in stream.rollouts():
            if row.completion.version != versions[stream.policy]:
                raise EngineError(
                    f"a row of problem {row.problem.id} was drawn by {row.completion.version}, "
                    f"and {versions[stream.policy]} plays this step",
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


def _canary(sampler: Sampler, learner: Learner, config: Config) -> Canaries | None:
    from agon.engine.vllm.sampler import VLLMSampler

    if not isinstance(sampler, VLLMSampler):
        return None
    from agon.engine.vllm.canaries import Canaries

    return Canaries(sampler, learner, config.sampler.max_loras, config.train.temperature, config.model.dtype)
