"""What evidence/trl_push.py gives TRL is what TRL takes: the script itself needs two GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "evidence"))

import trl_push  # noqa: E402


@pytest.mark.slow
def test_trl_takes_the_options_of_server_and_trainer() -> None:
    from trl import GRPOConfig
    from trl.scripts.vllm_serve import build_command, make_parser

    (options,) = make_parser().parse_args_and_config(trl_push.server_options(Path("base"), 8123))
    command = build_command(options)
    for words in (["serve", "base"], ["--port", "8123"], ["--dtype", "float32"], ["--max-model-len", "512"]):
        assert " ".join(words) in " ".join(command)
    assert "--enforce-eager" in command
    config = GRPOConfig(**trl_push.trainer_options("http://127.0.0.1:8123") | {"use_cpu": True})
    assert (config.vllm_mode, config.vllm_server_base_url) == ("server", "http://127.0.0.1:8123")


@pytest.mark.slow
def test_without_two_gpus_it_says_so() -> None:
    none = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "evidence/trl_push.py"]
    done = subprocess.run(command, cwd=ROOT, env=none, capture_output=True, text=True)
    assert done.returncode == 77, done.stderr[-2000:]
    assert "two CUDA GPUs" in done.stderr
