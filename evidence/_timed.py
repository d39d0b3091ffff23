"""Runs that are timed: one vLLM server for all of them on the last core, each run on the first; or engines of their
own, where the kernel deals out the cores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from _lib import ROOT
from _server import vllm_server
from agon import RunDir
from agon.config import load_config
from agon.engine.shipped import folder_of
from tests.engine.helpers.bases import random_base
from tests.engine.helpers.checkpoints import load_tokenizer, save, token_settings

CONFIG = ROOT / "configs" / "tabletop" / "base.yaml"
FIRST = 3
"""The first step that counts: those before it warm up."""
SETTINGS = (
    "data.train.take=96", "train.problems_per_step=4", "game.group_size=4", "train.max_completion_tokens=64",
    "train.max_peek_tokens=64", "eval.max_completion_tokens=64", "sampler.engine=vllm", "save.every=100",
    "data.dev.take=4", "data.held_out.take=8", "train.learning_rate=1e-5", "verifier=_coin:verify",
)  # fmt: skip
"""A random base is never right; by the coin, groups are mixed and the learner has work."""
LORAS, CONTEXT = 6, 512
"""Adapters that a server holds at once, enough for two steps ahead, and tokens that a sequence may have."""
BASE: dict[str, Any] = {
    **{"hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 4, "head_dim": 64},
    **{"num_attention_heads": 6, "num_key_value_heads": 2},
    **{"initializer_range": 0.15, "max_position_embeddings": CONTEXT},
}
"""Large enough that a step is mostly play and update, small enough for 45 runs."""


def settings(*words: str) -> list[str]:
    """What a run is given: its own words in place of the usual."""
    values = dict(word.split("=", 1) for word in (*SETTINGS, *words))
    return [f"{key}={value}" for key, value in values.items()]


def one_thread() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


@contextmanager
def timed_runs(own_engine: bool = False) -> Iterator[Callable[..., RunDir]]:
    """Train as often as wanted, with words of one's own."""
    first, *_, last = sorted(os.sched_getaffinity(0))
    config = load_config(CONFIG, settings())
    options = {"context": CONTEXT, "rank": config.model.lora.rank, "loras": LORAS, "core": last}
    paths = os.pathsep.join([str(ROOT / "evidence"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as out, ExitStack() as stack:
        base = Path(out, "base")
        tokenizer = load_tokenizer(folder_of("agon:tiny"))
        save(base, random_base("qwen3", **token_settings(tokenizer), **BASE), tokenizer)
        fixed, pinned = [f"model.name={base}"], list[str]()
        if not own_engine:
            fixed.append(f"sampler.urls=[{stack.enter_context(vllm_server(base, **options))}]")
            pinned = ["taskset", "--cpu-list", str(first)]

        def train_timed(*words: str) -> RunDir:
            shutil.rmtree(Path(out, "run"), ignore_errors=True)
            agon = [sys.executable, "-m", "agon", "train", str(CONFIG), *settings(*fixed, *words)]
            command = [*pinned, *agon, "--out", out, "--name", "run"]
            done = subprocess.run(command, env=one_thread() | {"PYTHONPATH": paths}, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr[-2000:])
            return RunDir.open(Path(out, "run"))

        yield train_timed
