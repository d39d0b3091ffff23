"""A callback for TRL that asks the server, every few steps, whether it draws with the weights that are trained.

    trainer = GRPOTrainer(..., callbacks=[EngineCanary("http://127.0.0.1:8000")])            # TRL's own vLLM server
    trainer = GRPOTrainer(..., callbacks=[EngineCanary("http://127.0.0.1:8000", "policy")])  # an adapter by its name

TRL merges adapters into the weights that it pushes to its server, so there the server's log-probs are compared with the
model's. A server that serves the adapter under a name is asked for that adapter. A server that holds something else
stops the training. Nothing private of TRL is used; `learner_scores.py` must be beside this file.

It asks before the optimizer changes the weights that the engine drew with. With `num_iterations` or
`steps_per_generation` above TRL's defaults, the engine is older than the model by design: take a multiple as `every`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from learner_scores import log_probs
from transformers import TrainerCallback

from agon_lens.canary import LIMIT, check


class EngineCanary(TrainerCallback):
    """Stops the training when the engine does not hold the weights of this step."""

    def __init__(
        self, url: str, name: str | None = None, every: int = 10, limit: float = LIMIT, probe: bool = True
    ) -> None:
        self.url, self.name, self.every, self.limit, self.probe = url, name, every, limit, probe
        self.reports: list[Any] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The completions of this step are drawn, and the model is still what they should have been drawn with."""
        if state.global_step % self.every or not state.is_world_process_zero:
            return
        model, tokenizer = more["model"], more["processing_class"]
        if self.name is None:
            model.eval()  # no dropout
            report = check(
                self.url, {}, score=lambda _, draws: [log_probs(model, tokenizer, d) for d in draws], limit=self.limit
            )
            model.train()
        else:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, f"step-{state.global_step}")
                model.save_pretrained(folder)
                report = check(self.url, {self.name: folder}, probe=self.probe)
        self.reports.append(report)
        if not report.good:
            raise RuntimeError(f"step {state.global_step}: {'; '.join(report.faults)}")
