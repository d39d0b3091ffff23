"""Engine hf: transformers draws in the process that learns, for tiny models on a CPU."""

from __future__ import annotations

from agon.config import Model, SamplerConfig
from agon.engine.backend import OF_ENGINES, Backend
from agon.engine.dtypes import learner_dtype
from agon.engine.versions import KEPT
from agon.protocols import Sampler


class Hf(Backend):
    """transformers and TRL in one process."""

    name = "hf"
    unused = OF_ENGINES

    @classmethod
    def open_sampler(
        cls, settings: SamplerConfig, model: Model, path: str, context: int, *, staleness: int = 0
    ) -> Sampler:
        from agon.engine.hf.sampler import HFSampler

        return HFSampler(path, dtype=learner_dtype(model.dtype), kept=KEPT + staleness)
