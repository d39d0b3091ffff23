"""A worker that changes what an engine serves behind everybody's back, for evidence and tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from vllm.platforms import current_platform

from agon.engine.vllm.worker import REQUESTS, StrictAdapters

if current_platform.is_cpu():
    from agon.engine.vllm.cpu_lora import GroupedLora as Extension
else:
    Extension = StrictAdapters


class Tampering(Extension):  # type: ignore[misc, valid-type]
    """What `worker_extension_cls` names."""

    def overwrite(self, name: str, other: str, rank: int | None = None) -> None:
        """Put the weights of one adapter into the slot of another; an empty name is the bare base.

        With `rank`, only in that part of an engine that is split.
        """
        if rank not in (None, self.rank):
            return
        index, source = self._slot(name), self._slot(other) if other else None
        for tensor in self._tensors():
            tensor[index] = 0 if source is None else tensor[source].clone()

    def swap(self, one: str, other: str) -> None:
        a, b = self._slot(one), self._slot(other)
        for tensor in self._tensors():
            tensor[[a, b]] = tensor[[b, a]]

    def ignore(self, yes: bool) -> None:
        """Compute every row as one of the base, or do so no more; slots stay as they are."""
        manager = self._manager
        manager._last_mapping = None
        for wrapper in manager.punica_wrapper_mapping.values():
            vars(wrapper).pop("update_metadata", None)
            if yes:
                wrapper.update_metadata = self._without_adapters(wrapper.update_metadata)

    @staticmethod
    def _without_adapters(update: Any) -> Any:
        def updated(mapping: Any, *args: Any, **more: Any) -> None:
            bare = {name: (0,) * len(getattr(mapping, name)) for name in ("index_mapping", "prompt_mapping")}
            update(replace(mapping, **bare), *args, **more)

        return updated

    @property
    def _manager(self) -> Any:
        return self.model_runner.lora_manager._adapter_manager

    def _slot(self, name: str) -> int:
        self.model_runner.lora_manager.add_adapter(REQUESTS[name])  # it may have given its slot to others
        return int(self._manager.lora_index_to_id.index(REQUESTS[name].lora_int_id))

    def _tensors(self) -> list[torch.Tensor]:
        """The slots of every layer."""
        stacked = [
            part for layer in self._manager.modules.values() for part in (layer.lora_a_stacked, layer.lora_b_stacked)
        ]
        return [t for part in stacked for t in ((part,) if isinstance(part, torch.Tensor) else part)]
