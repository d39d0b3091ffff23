"""Every name of vLLM that is not part of its public interface, and why it is needed.

tests/engine/test_compat.py fails when one moves, and when another file of this folder reaches for one of its own. A
name is imported when it is asked for: a worker needs no front end, and a learner's process nothing of vLLM.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NAMES = {
    "AsyncLLM": ("vllm.v1.engine.async_llm", "the engine; its front end runs in a host"),
    "EngineDeadError": ("vllm.v1.engine.exceptions", "a core that died is restarted"),
    "VLLMClientError": ("vllm.exceptions", "a request that is refused is not a failure of the engine"),
    "StatLoggerBase": ("vllm.v1.metrics.loggers", "counts tokens: the heartbeat of an engine"),
    "RequestOutputKind": ("vllm.sampling_params", "finished rows only"),
    "LoRARequest": ("vllm.lora.request", "an adapter by name, number and folder"),
    "LRUCacheLoRAModelManager": ("vllm.lora.model_manager", "subclassed: modules that are not found are refused"),
    "LRUCacheWorkerLoRAManager": ("vllm.lora.worker_manager", "gets that subclass, and says who asked for an adapter"),
    "WeightsMapper": ("vllm.model_executor.models.utils", "names of a text model inside a composite"),
    "PunicaWrapperCPU": ("vllm.lora.punica_wrapper.punica_cpu", "subclassed: adapters on a CPU, grouped"),
    "current_platform": ("vllm.platforms", "whether this is the CPU build"),
}
"""Names, the modules that have them, and what for."""
ATTRIBUTES = {
    "AsyncLLM": "from_engine_args generate add_lora remove_lora list_loras collective_rpc sleep wake_up shutdown",
    "LRUCacheWorkerLoRAManager": "_manager_cls add_adapter remove_adapter _load_adapter",
    "LRUCacheLoRAModelManager": "_create_merged_loras_inplace _get_lora_layer_weights",
    "PunicaWrapperCPU": "update_metadata add_lora_linear add_lora_embedding add_lora_logits",
    "StatLoggerBase": "record log_engine_initialized",
}
"""What is used of some of them, apart from what their instances have."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"{name} is not a name of vLLM that Agon uses")
    return getattr(import_module(NAMES[name][0]), name)


def install_manager(manager: type, requests: dict[str, Any]) -> None:
    """Let workers manage adapters with a class of ours, and keep the request of each until it is removed: vLLM itself
    ignores modules that it does not find, and forgets by which name it was asked for an adapter."""
    workers = __getattr__("LRUCacheWorkerLoRAManager")
    if workers._manager_cls is not __getattr__("LRUCacheLoRAModelManager"):
        raise ImportError("this vLLM manages adapters differently; install the version in constraints/")
    add_adapter, remove_adapter = workers.add_adapter, workers.remove_adapter

    def add_named(self: Any, request: Any) -> bool:
        requests[request.lora_name] = request
        return bool(add_adapter(self, request))

    def forget(self: Any, number: int) -> bool:
        for name in [name for name, request in requests.items() if request.lora_int_id == number]:
            del requests[name]
        return bool(remove_adapter(self, number))

    workers._manager_cls, workers.add_adapter, workers.remove_adapter = manager, add_named, forget


def install_cpu_kernels(wrapper: type) -> None:
    """Let the CPU build compute adapters with a class of ours, eagerly."""
    import torch._dynamo

    torch._dynamo.config.disable = True
    module: Any = import_module(NAMES["PunicaWrapperCPU"][0])
    module.PunicaWrapperCPU = wrapper
