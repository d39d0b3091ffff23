"""A backend: what draws and what learns in a run, behind one door.

A config chooses its backend by its keys (`claims`). `rules` say which combinations of keys it cannot do, and `unused`
which keys mean nothing to it; both are checked with the config, before anything is loaded. A new sampler is a class
with a name and `open_sampler`; the learner is TRL's unless the backend brings its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from agon.config import Config, Model, SamplerConfig, resolved
from agon.config.rules import Rule
from agon.doors import claimed, doors
from agon.engine.base import base_files, quieten
from agon.engine.render import Renderer
from agon.protocols import Learner, Sampler, Verifier
from agon.types import Policy
from agon.verify import load_verifier
from agon_judge.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from agon.engine.trl.learner import TRLLearner
    from agon.engine.vllm.canary import Canary

ON_CLUSTER = {"cluster.address": "cluster.engine ray", "cluster.verifiers": "cluster.engine ray"}
OF_B = {"model.b.revision": "model.b.name"}
OF_ENGINES = dict.fromkeys(
    ("sampler.urls", "sampler.replicas", "sampler.options", "sampler.canary_limit"), "sampler.engine vllm"
)
Values = Mapping[str, Any]
"""A config as plain values, complete: what rules and `claims` look at."""


class Backend:
    """What a run runs on, made from its config: first the learner, then what draws."""

    name: ClassVar[str]
    rules: ClassVar[tuple[Rule, ...]] = ()
    unused: ClassVar[Mapping[str, str]] = {}
    """Keys that must keep their default here, as they would do nothing; and whose they are."""
    is_engine: ClassVar[bool] = True
    """Whether `sampler.engine` names it; others are chosen by keys of their own."""
    trains_here: bool = True
    """Whether the learner is in this process, which then needs torch and TRL."""
    opens_here: ClassVar[bool] = True
    """Whether it draws from adapters on this machine's disk, with `open_sampler`."""
    batches_by_arrival: ClassVar[bool] = False
    """Whether rounding depends on which completions are drawn in one batch, and so on when they are asked for."""
    all_draw: bool = True
    """Whether every process draws; if not, one of a machine does for the others."""
    fits_gpus: ClassVar[bool] = False
    """Whether `agon plan --gpu` can lay it out."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def claims(cls, values: Values) -> bool:
        """Whether a config is for this backend; the first door that claims it gets it."""
        return bool(values["sampler"]["engine"] == cls.name)

    @classmethod
    def rules_for(cls, values: Values) -> tuple[Rule, ...]:
        """The rules that a config of this backend must keep."""
        return cls.rules

    @classmethod
    def open_sampler(
        cls, settings: SamplerConfig, model: Model, path: str, context: int, *, staleness: int = 0
    ) -> Sampler:
        """A sampler over the base in `path` alone, with room for sequences of `context` tokens."""
        raise TypeError(f"backend {cls.name} opens no sampler of its own")

    # -- for a training run --------------------------------------------------------------------------------------------

    def learner(self, steps: int) -> Learner:
        """TRL's, over the base of the config."""
        return trl_learner(self.config, self.config.model, self.base, steps)

    def draws(self) -> bool:
        """Whether this process draws; if not, another one draws for it."""
        return True

    def sampler(self, context: int) -> Sampler:
        """What draws in this process, beside the learner if there is one."""
        staleness = self.config.train.staleness
        return self.open_sampler(self.config.sampler, self.config.model, self.base, context, staleness=staleness)

    def verifier(self, sandbox: SandboxSettings) -> Verifier:
        """What judges; `sandbox` is that of this process."""
        return load_verifier(self.config.verifier, sandbox=sandbox, right=self.config.reward.right)

    def canary(self, sampler: Sampler, learner: Learner) -> Canary | None:
        """What compares the engines with the learner; None where both are the same code."""
        return None

    def renderers(self) -> dict[Policy, Renderer]:
        """From prompts to token ids, by policy."""
        return dict.fromkeys(Policy, Renderer.load(self.base))

    @property
    def base(self) -> str:
        """The base at its revision, on this machine or by name."""
        return base_files(self.config.model)

    @property
    def lost(self) -> Sequence[str]:
        """What a run does without here; known once the learner is open."""
        return ()

    # -- before a run --------------------------------------------------------------------------------------------------

    def engines(self) -> int | None:
        """The engines that one process draws from, where the config says how many."""
        return None

    def contacts(self) -> dict[str, str]:
        """Servers and services that the config makes it contact, by key: of a stranger's run, they are asked for."""
        return {}


def trl_learner(config: Config, model: Model, path: str, steps: int) -> TRLLearner:
    """A learner over the base in `path`."""
    quieten(path)
    from agon.engine.trl.learner import TRLLearner

    return TRLLearner(model, config.train, total_steps=steps, path=path)


def engines_here() -> list[type[Backend]]:
    """The engines that open a sampler over adapters on this machine's disk."""
    return [kind for kind in doors("agon.backends") if kind.is_engine and kind.opens_here]


def default_engine() -> type[Backend]:
    """The first that is made for GPUs where there is one, else the first that is not."""
    import torch

    has_gpu = torch.cuda.is_available()
    return next(kind for kind in engines_here() if kind.fits_gpus is has_gpu)


def backend_of(config: Config) -> Backend:
    """The backend that a config is for."""
    made: Backend = claimed(resolved(config))(config)
    return made
