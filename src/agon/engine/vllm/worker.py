"""What an engine's worker loads before its model: adapters by the learner's names, and an error for ignored modules.

vLLM looks up the modules of an adapter by name and ignores those that it does not find, without an error. The learner
of a composite checkpoint may hold its text model alone (`model.layers...`), where vLLM holds the whole of it
(`language_model.model.layers...`): all of the adapter would be ignored. `worker_extension_cls` names `StrictAdapters`;
a server takes it too: `vllm serve --worker-extension-cls agon.engine.vllm.worker.StrictAdapters`.
"""

from __future__ import annotations

from typing import Any

from vllm.lora import worker_manager
from vllm.lora.model_manager import LRUCacheLoRAModelManager
from vllm.model_executor.models.utils import WeightsMapper

TEXT_NAMES = WeightsMapper(orig_to_new_prefix={"model.": "language_model.model."})
"""The text model's own names inside a composite; names of the whole checkpoint are mapped before these."""
SHOWN = 3


class StrictManager(LRUCacheLoRAModelManager):
    """vLLM's manager of adapters, which accepts the text model's names and refuses what it would ignore."""

    def __init__(self, model: Any, *args: Any, **more: Any) -> None:
        super().__init__(model, *args, **more)
        if hasattr(model, "language_model"):
            model.hf_to_vllm_mapper = model.hf_to_vllm_mapper | TEXT_NAMES

    def _create_merged_loras_inplace(self, lora_model: Any) -> None:
        """Merge projections as vLLM holds them; whatever is left over has no module."""
        given = len(lora_model.loras)
        super()._create_merged_loras_inplace(lora_model)
        if unknown := sorted(set(lora_model.loras) - set(self.modules)):
            names = ", ".join(unknown[:SHOWN]) + (", ..." if len(unknown) > SHOWN else "")
            raise ValueError(f"{len(unknown)} of its {given} modules are not in the engine's model: {names}")


class StrictAdapters:
    """What `worker_extension_cls` names: importing it installs the manager."""


if worker_manager.LRUCacheWorkerLoRAManager._manager_cls is not LRUCacheLoRAModelManager:
    raise ImportError("this vLLM manages adapters differently; install the version in constraints/")
worker_manager.LRUCacheWorkerLoRAManager._manager_cls = StrictManager
