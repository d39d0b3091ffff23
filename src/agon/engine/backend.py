"""A backend: what draws and what learns in a run, behind one door.

A config names its backend: `sampler.engine`. `rules` say which combinations of keys it cannot do, and `unused` which
keys mean nothing to it; both are checked with the config, before anything is loaded. A new sampler is a class
with a name and `open_sampler`; the learner is TRL's unless the backend brings its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from agon.config import Config, Model, SamplerConfig
from agon.config.rules import Rule
from agon.doors import door, doors
from agon.engine.base import base_files, quieten
from agon.engine.learner.constants import loss_in_full
from agon.engine.render import Renderer
from agon.protocols import Learner, Sampler

if TYPE_CHECKING:
    from agon.engine.vllm.canary import Canary

OF_ENGINES = dict.fromkeys(
    ("sampler.urls", "sampler.replicas", "sampler.options", "sampler.canary_limit"), "sampler.engine vllm"
)


class Backend:
    """What a run runs on, made from its config: first the learner, then what draws."""

    name: ClassVar[str]
    rules: ClassVar[tuple[Rule, ...]] = ()
    unused: ClassVar[Mapping[str, str]] = {}
    """Keys that must keep their default here, as they would do nothing; and whose they are."""
    trains_here: bool = True
    """Whether the learner is in this process, which then needs torch and TRL."""
    opens_here: ClassVar[bool] = True
    """Whether it draws from adapters on this machine's disk, with `open_sampler`."""
    fits_gpus: ClassVar[bool] = False
    """Whether `agon plan --gpu` can lay it out."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def open_sampler(
        cls, settings: SamplerConfig, model: Model, path: str, context: int, *, staleness: int = 0
    ) -> Sampler:
        """A sampler over the base in `path` alone, with room for sequences of `context` tokens."""
        raise TypeError(f"backend {cls.name} opens no sampler of its own")

    # -- for a training run --------------------------------------------------------------------------------------------

    def learner(self, steps: int) -> Learner:
        """TRL's, over the base of the config."""
        quieten(self.base)
        from agon.engine.learner.learner import PairLearner

        return PairLearner(self.config.model, self.config.train, total_steps=steps, path=self.base)

    def sampler(self, context: int) -> Sampler:
        """What draws, beside the learner if there is one."""
        staleness = self.config.train.staleness
        return self.open_sampler(self.config.sampler, self.config.model, self.base, context, staleness=staleness)

    def canary(self, sampler: Sampler, learner: Learner) -> Canary | None:
        """What compares the engines with the learner; None where both are the same code."""
        return None

    def renderer(self) -> Renderer:
        """From prompts to token ids."""
        return Renderer.load(self.base)

    @property
    def base(self) -> str:
        """The base at its revision, on this machine or by name."""
        return base_files(self.config.model)

    @property
    def lost(self) -> Sequence[str]:
        """What a run does without here; known once the learner is open."""
        return ()

    def loss(self) -> Mapping[str, Any]:
        """The loss and the optimizer in full, for the manifest."""
        return loss_in_full(self.config.train)

    # -- before a run --------------------------------------------------------------------------------------------------

    def engines(self) -> int | None:
        """The engines that it draws from, where the config says how many."""
        return None

    def contacts(self) -> dict[str, str]:
        """Servers and services that the config makes it contact, by key: of a stranger's run, they are asked for."""
        return {}


def engines_here() -> list[type[Backend]]:
    """The engines that open a sampler over adapters on this machine's disk."""
    return [kind for kind in doors("agon.backends") if kind.opens_here]


def default_engine() -> type[Backend]:
    """The first that is made for GPUs where there is one, else the first that is not."""
    import torch

    has_gpu = torch.cuda.is_available()
    return next(kind for kind in engines_here() if kind.fits_gpus is has_gpu)


def backend_of(config: Config) -> Backend:
    """The backend that a config is for."""
    made: Backend = door("agon.backends", config.sampler.engine)(config)
    return made
