"""Does a vLLM server draw with the weights that TRL pushed to it? On two GPUs: one trains, one serves.

GRPO with TRL on the tiny base and a LoRA adapter, with vLLM's own server as `trl vllm-serve` starts it. TRL merges the
adapter into the weights and pushes them over NCCL, which no CPU can do. The callback of examples/canary_trl.py compares
the server's log-probs with the model's before every optimizer step. After each step the adapter is moved as far as a
long training would: the bare base must then be seen as different weights, or the comparison could not fail.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

from _lib import ROOT, arguments, cannot_run, verdict
from _server import await_health, free_port

sys.path += [str(ROOT / "examples"), str(ROOT / "packages" / "lens" / "tests" / "writers")]
EXTRA_SOURCES = ("examples", "packages/lens/tests/writers/trl_run.py")
STEPS, MOVE = 6, 0.1
LIMIT = 0.05
"""Nats per token, in float32."""


def main() -> None:
    args = arguments(__doc__ or "")
    import torch

    if torch.cuda.device_count() < 2:
        cannot_run("it needs two CUDA GPUs: TRL pushes weights over NCCL from one to the other")
    from agon.engine.tiny.checkpoint import tiny_base

    base, port = tiny_base(), free_port()
    trains, serves, *_ = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
    os.environ["CUDA_VISIBLE_DEVICES"] = trains
    command = [str(Path(sys.executable).with_name("trl")), "vllm-serve", *server_options(base, port)]
    settings = os.environ | {"CUDA_VISIBLE_DEVICES": serves, "VLLM_NO_USAGE_STATS": "1"}
    server = subprocess.Popen(command, env=settings, stdout=sys.stderr, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        await_health(f"{url}/health", server)
        with tempfile.TemporaryDirectory() as folder:
            gaps, untrained = train(Path(folder), url, 3 if args.quick else STEPS)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    print(f"distance before each step: {gaps}; of the bare base at the end: {untrained}")
    verdict(
        "a vLLM server draws with the weights that TRL pushed to it, and log-probs would show the bare base instead",
        {"largest distance": max(gaps), "distance of the base": untrained},
        {"largest distance": f"at most {LIMIT}", "distance of the base": f"above {LIMIT}"},
        max(gaps) <= LIMIT < untrained,
        distances=gaps,
        quick=args.quick,
    )


def server_options(base: Path, port: int) -> list[str]:
    """What `trl vllm-serve` is given."""
    options = ["--model", str(base), "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    return [*options, "--max_model_len", "512", "--gpu_memory_utilization", "0.3", "--enforce_eager", "true"]


def trainer_options(url: str) -> dict[str, Any]:
    """What GRPOConfig is given besides what every run of the test has."""
    engine = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": url}
    precise = {"bf16": False, "model_init_kwargs": {"dtype": "float32"}}
    return {**engine, **precise, "use_cpu": False}


def train(folder: Path, url: str, steps: int) -> tuple[list[float], float]:
    """Distances of the server from the model before each optimizer step, and at the last from the bare base."""
    import torch
    from canary_trl import EngineCanary
    from learner_scores import log_probs
    from peft import LoraConfig
    from trl_run import train

    from agon_lens.canary import check

    class Both(EngineCanary):
        """The example's callback, which also asks how far the bare base is."""

        untrained = 0.0

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            super().on_pre_optimizer_step(args, state, control, **more)
            model, tokenizer = more["model"], more["processing_class"]
            with model.disable_adapter():
                report = check(url, {}, score=lambda _, draws: [log_probs(model, tokenizer, d) for d in draws])
            (self.untrained,) = report.gaps.values()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            with torch.no_grad():
                for name, weights in more["model"].named_parameters():
                    if "lora_B" in name:
                        weights += MOVE * torch.randn_like(weights)

    canary = Both(url, every=1, limit=LIMIT)
    lora = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
    train(folder, steps=steps, callbacks=[canary], peft_config=lora, **trainer_options(url))
    return [gap for report in canary.reports for gap in report.gaps.values()], canary.untrained


if __name__ == "__main__":
    main()
