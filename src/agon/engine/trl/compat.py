"""TRL, imported without vLLM.

TRL 1.16 imports all of vLLM wherever it is installed, for a generation path that we do not use; that takes half of the
time that a run needs to start. While TRL is imported, vLLM is reported as missing.
"""

from __future__ import annotations

import trl.import_utils as gate

_real = gate.is_vllm_available
gate.is_vllm_available = lambda min_version=None: False
try:
    from trl import GRPOConfig, GRPOTrainer
    from trl.trainer import grpo_trainer
finally:
    gate.is_vllm_available = _real

__all__ = ["GRPOConfig", "GRPOTrainer", "grpo_trainer"]
