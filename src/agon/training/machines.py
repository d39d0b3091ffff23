"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agon.config import Config
from agon.engine.backend import backend_of
from agon.engine.base import context_of
from agon.engine.render import Renderer
from agon.protocols import Learner, Sampler, Verifier
from agon.types import Policy, Version
from agon.verify import load_verifier
from agon.verify.custom import find
from agon.verify.terms import with_terms

if TYPE_CHECKING:
    from agon.engine.vllm.canary import Canary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Verifier
    renderer: Renderer
    """From prompts to token ids."""
    canary: Canary | None = None
    """Compares the engines with what the learner holds; None where both are the same code."""
    lost: tuple[str, ...] = ()
    """What a run on these machines does without; reported before its first step."""

    def check(self, versions: Mapping[Policy, Version]) -> None:
        """Stop unless the engines sample from what the learner holds."""
        if self.canary:
            self.canary.check(versions)

    async def attend(self, work: Coroutine[Any, Any, T], versions: Mapping[Policy, Version]) -> T:
        """Draw: an engine that is restarted meanwhile takes part again once it is known to hold the right adapters."""
        return await (self.canary.attend(work, versions) if self.canary else work)

    @property
    def engines(self) -> int:
        """The engines that are drawn from; 0 where the learner's process draws."""
        return len(self.canary.sampler.fleet.members) if self.canary else 0

    def notes(self) -> list[str]:
        """What happened to engines since the last call."""
        return self.canary.notes() if self.canary else []

    def gaps(self) -> dict[str, float]:
        """Distances of engines from the learner since the last call, in nats per token; empty without a canary."""
        return self.canary.gaps() if self.canary else {}

    def attested(self) -> int:
        """How many adapters engines found equal to the learner's files since the last call."""
        return self.canary.attested() if self.canary else 0

    def attest(self, versions: Iterable[Version]) -> list[str]:
        """Stop unless the engines still hold the versions that drew a step; return warnings. Call it before `rest`."""
        return self.canary.attest(versions) if self.canary else []

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
    """Everything a training run needs, loaded: the learner first, then what draws and what judges."""
    backend = backend_of(config)
    learner = backend.learner(total_steps)
    with ExitStack() as opened:
        sampler = backend.sampler(context_of(config))
        opened.callback(sampler.close)
        verify = load_verifier(config.verifier, sandbox=config.sandbox.settings(), right=config.reward.right)
        verify = with_terms(verify, list(map(find, config.reward.terms)), config.reward.weights)
        opened.callback(verify.close)
        canary, renderer = backend.canary(sampler, learner), backend.renderer()
        opened.pop_all()
    return Machines(learner, sampler, verify, renderer, canary, lost=tuple(backend.lost))
