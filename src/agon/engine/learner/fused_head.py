"""TRL's output head that never writes down the logits: the one thing that the learner takes from TRL.

A step of 15,000 tokens over a vocabulary of 151,936 would need 9 GB for its logits alone. `add_fused_lm_head` lets a
model be called with `fused_lm_head=True` and `shift_labels`; it returns `log_probs` and `entropy` of the labelled
positions, computed in tiles, on GPUs by Triton kernels.

It is public in `trl.trainer.utils`, and not documented. Should it move or change: `tests/engine/learner/test_head.py`
fails. Take its new name; or copy the function with `trl.kernels.ChunkedLogProbFunction`, both Apache-2.0 and without
other dependencies inside TRL; or, for short completions, let `log_softmax` over the logits take its place here.
"""

from __future__ import annotations

from typing import Any

from trl.trainer.utils import add_fused_lm_head

IGNORED = -100
"""The label of a position that is not scored."""


def fuse_head(base: Any, temperature: float) -> None:
    """Let a base return log-probabilities and entropies of its labels at this temperature. Do it before PEFT."""
    add_fused_lm_head(base, temperature=temperature, outputs=("log_probs", "entropy"))
