"""What an engine's worker loads before its model: adapters by the learner's names, and a way to ask what a slot holds.

vLLM looks up the modules of an adapter by name and ignores those that it does not find, without an error. The learner
of a composite checkpoint may hold its text model alone (`model.layers...`), where vLLM holds the whole of it
(`language_model.model.layers...`): all of the adapter would be ignored. `worker_extension_cls` names `StrictAdapters`;
a server takes it too: `vllm serve --worker-extension-cls agon.engine.vllm.worker.StrictAdapters`.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import torch

from agon.engine.vllm.compat import LoRARequest, LRUCacheLoRAModelManager, WeightsMapper, install_manager

TEXT_NAMES = WeightsMapper(orig_to_new_prefix={"model.": "language_model.model."})
"""The text model's own names inside a composite; names of the whole checkpoint are mapped before these."""
WEIGHTS = "adapter_model.safetensors"
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
    """What `worker_extension_cls` names: importing it installs the manager, and vLLM's worker gets its methods."""

    model_runner: Any

    def attest(self, name: str, folder: str, digest: str) -> list[str]:
        """Compare the slot of the adapter `name` with the file in `folder`, bit by bit; return what differs.

        `digest` is the SHA-256 of the learner's own file. The file takes vLLM's own way: into copies of the layers,
        which then must equal the layers. With tensor parallelism every worker compares its own part.
        """
        if name not in REQUESTS:
            return [f"no adapter {name} is loaded"]
        workers = self.model_runner.lora_manager
        workers.add_adapter(REQUESTS[name])  # as before every batch: into a slot, if it is in none
        manager = workers._adapter_manager
        index = manager.lora_index_to_id.index(REQUESTS[name].lora_int_id)
        expected = workers._load_adapter(LoRARequest(name, REQUESTS[name].lora_int_id, folder))
        manager._create_merged_loras_inplace(expected)
        same_file = hashlib.sha256(Path(folder, WEIGHTS).read_bytes()).hexdigest() == digest
        wrong = [] if same_file else [f"{WEIGHTS} is not the learner's"]
        for key, layer in manager.modules.items():
            filled = copy.copy(layer)
            vars(filled).update({attribute: _cloned(value) for attribute, value in vars(layer).items()})
            filled.reset_lora(index)
            if weights := manager._get_lora_layer_weights(expected, key):
                filled.set_lora(index, weights.lora_a, weights.lora_b)
            if not all(_equal(value, vars(filled)[attribute]) for attribute, value in vars(layer).items()):
                wrong.append(key)
        return wrong


def _cloned(value: Any) -> Any:
    """The tensors of an attribute of a layer, all slots of them; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    return tuple(map(_cloned, value)) if isinstance(value, tuple) else value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one.flatten().view(torch.uint8), other.flatten().view(torch.uint8))  # NaN equals itself
    return all(map(_equal, one, other)) if isinstance(one, tuple) else True


REQUESTS: dict[str, LoRARequest] = {}
"""How each adapter was asked for, by name: a server tells nobody the number that it gave a name."""
install_manager(StrictManager, REQUESTS)
