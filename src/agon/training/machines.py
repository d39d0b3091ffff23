"""From a config to the machines of a run: verifier, sampler, learner. Engines are imported here, inside functions."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agon.config import Config
from agon.engine.backend import Backend, backend_of
from agon.engine.base import context_of
from agon.engine.devices import learners_here
from agon.engine.render import Renderer
from agon.errors import EngineError
from agon.interrupt import Interrupt
from agon.protocols import Learner, Sampler, Verifier
from agon.training.processes import Processes
from agon.types import Completion, Policy, Request, Version
from agon.verify.custom import find
from agon.verify.terms import with_terms
from agon_judge.sandbox.settings import SandboxSettings
from agon_judge.workers.system import available_cores

if TYPE_CHECKING:
    from agon.engine.vllm.canary import Canary

T = TypeVar("T")
REPORT = "report this: a run must not get here"


@dataclass(frozen=True, slots=True)
class Machines:
    """What a run runs on."""

    learner: Learner
    sampler: Sampler
    verify: Verifier
    renderers: Mapping[Policy, Renderer]
    """The renderer of each policy."""
    canary: Canary | None = None
    """Compares the engines with what the learner holds; None where both are the same code."""
    draws: bool = True
    """Whether this process draws; if not, another one draws for it."""
    lost: tuple[str, ...] = ()
    """What a run on these machines does without; reported before its first step."""
    processes: Processes = field(default_factory=lambda: Processes(0, 1, Interrupt()))
    """The processes that train together; one alone by default."""

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
    processes = Processes(learner.rank, learner.processes, Interrupt(), learner.store())
    learner.join(processes)
    sampler: Sampler = DrawnElsewhere()
    with ExitStack() as opened:
        with processes.phase("start"):  # engines take minutes to start: nobody waits for them in a collective
            if backend.draws():
                sampler = backend.sampler(context_of(config))
            opened.callback(sampler.close)
            verify = backend.verifier(own_share(config.sandbox.settings(), backend))
            verify = with_terms(verify, list(map(find, config.reward.terms)), config.reward.weights)
            opened.callback(verify.close)
            canary, renderers = backend.canary(sampler, learner), backend.renderers()
        opened.pop_all()
    return Machines(
        learner, sampler, verify, renderers, canary, backend.draws(), lost=tuple(backend.lost), processes=processes
    )


def own_share(settings: SandboxSettings, backend: Backend) -> SandboxSettings:
    """The sandbox of one of the processes on this machine: unless the config says otherwise, those that draw share its
    cores."""
    if settings.workers or settings.backend == "http":
        return settings
    beside = learners_here() if backend.all_draw else 1
    return replace(settings, workers=max(1, available_cores() // beside))


class DrawnElsewhere:
    """The sampler of a process for which another one of its machine draws.

    A draw goes to whichever engine is least busy, so no engine is idle while the problems of another process are drawn,
    and there may be more or fewer engines than processes. Seeds come from names: the bouts are the same whoever draws.
    """

    async def sample(self, request: Request) -> Completion:
        raise EngineError("this process does not draw", fix=REPORT)

    def publish(self, version: Version, folder: Path) -> None:
        """The process that draws publishes."""

    def pin(self, version: Version, folder: Path) -> None:
        """The process that draws pins."""

    def clip(self, text: str, max_tokens: int) -> str:
        raise EngineError("this process does not draw", fix=REPORT)

    def close(self) -> None: ...
