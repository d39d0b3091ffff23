"""A callback for TRL that asks the server, every few steps, whether it holds the adapter that is trained.

    trainer = GRPOTrainer(..., callbacks=[EngineCanary("http://127.0.0.1:8000", "policy")])

`name` is what the server calls the adapter. The callback saves the adapter as it is now and asks the server about it; a
server that holds something else stops the training. Nothing private of TRL is used.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from agon_lens.canary import check


class EngineCanary(TrainerCallback):
    """Stops the training when the engine does not hold the adapter of the step that has just ended."""

    def __init__(self, url: str, name: str, every: int = 10, probe: bool = True) -> None:
        self.url, self.name, self.every, self.probe = url, name, every, probe
        self.reports: list[Any] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Before a step, the engine must hold the weights that the last one left: it draws with them."""
        if state.global_step == 0 or state.global_step % self.every or not state.is_world_process_zero:
            return
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, f"step-{state.global_step}")
            more["model"].save_pretrained(folder)
            report = check(self.url, {self.name: folder}, probe=self.probe)
        self.reports.append(report)
        if not report.good:
            raise RuntimeError(f"step {state.global_step}: {'; '.join(report.faults)}")
