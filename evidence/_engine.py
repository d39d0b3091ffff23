"""A real vLLM engine over a random base for evidence: no download, adapters that matter, completions of any length."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import _lib  # noqa: F401 - finds `tests`

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

from agon.config import Init, Lora
from agon.config.bases import Dtype
from agon.engine.protocol import Draw
from agon.engine.vllm.host import EngineHost
from agon.types import Message, Policy, Prompt, Quote, Version

TINY: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "head_dim": 32}
SMALL: dict[str, Any] = {
    **{"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 8, "head_dim": 64},
    **{"num_attention_heads": 9, "num_key_value_heads": 3},
}
"""Layers of SmolLM2-135M, fewer of them."""
QWEN3_06B: dict[str, Any] = {
    **{"vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128},
    **{"num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 40_960},
}
RANK = 8


@dataclass(slots=True)
class Bench:
    """A sampler on a real engine, a pair over the same base, and fresh folders for what the pair exports."""

    sampler: Any
    pair: Any
    root: Path
    count: int = 0

    def export(self, policy: Policy) -> tuple[Version, Path]:
        """Write the policy as it is now, under a version name and a folder of its own."""
        self.count += 1
        version = Version.of(policy, self.count, self.pair.hash(policy)[:8])
        folder = self.root / "published" / version
        self.pair.export(policy, folder)
        return version, folder

    def publish(self, policy: Policy) -> Version:
        version, folder = self.export(policy)
        self.sampler.publish(version, folder)
        return version

    def move(self, policy: Policy, size: float, seed: int) -> None:
        """Change a policy's weights by Gaussian noise, as an optimizer step would."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.pair.parameters(policy):
                parameter += size * torch.randn(parameter.shape, generator=generator)

    def score(self, policy: Policy | None, rows: Any) -> list[list[float]]:
        """Log-probs of completions under a policy as it is now, by transformers and PEFT."""
        if policy is None:
            with self.pair.base_only():
                return self._forward(rows)
        self.pair.activate(policy)
        return self._forward(rows)

    def _forward(self, rows: Any) -> list[list[float]]:
        import torch

        scored = []
        for row in rows:
            ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
            with torch.no_grad():
                logps = self.pair.model(ids).logits[0, len(row.prompt_ids) - 1 : -1].float().log_softmax(-1)
            scored.append(logps.gather(1, torch.tensor(row.completion_ids).unsqueeze(1)).squeeze(1).tolist())
        return scored


def write_zeros(source: Path, folder: Path) -> Path:
    """The bare base as an adapter: that in `source` with all weights zero, in `folder`."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(source, folder, dirs_exist_ok=True)
    weights = load_file(source / "adapter_model.safetensors")
    save_file({name: 0 * tensor for name, tensor in weights.items()}, folder / "adapter_model.safetensors")
    return folder


def random_checkpoint(folder: Path, **sizes: Any) -> Path:
    """A Qwen3 of random weights, large enough that every adapter shows, with a small byte-level tokenizer."""
    from tests.engine.helpers.bases import random_base
    from tests.engine.helpers.checkpoints import build_tokenizer, save, token_settings

    tokenizer = build_tokenizer(["What is one and one? Count to ten, then solve the problem."])
    settings = {"max_position_embeddings": 2048, "initializer_range": 0.15, **token_settings(tokenizer), **sizes}
    save(folder, random_base("qwen3", **settings), tokenizer)
    for name in ("config.json", "generation_config.json"):  # no token ends a text: vLLM reads it from either file
        kept = json.loads((folder / name).read_text()) | {"eos_token_id": None}
        (folder / name).write_text(json.dumps(kept))
    return folder


def build(base: Path, dtype: Dtype = "float32") -> Any:
    """A pair over a checkpoint; B starts well away from A."""
    import torch
    from transformers import AutoModelForCausalLM

    from agon.engine.adapters import build_pair
    from agon.engine.dtypes import learner_dtype

    model = AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, learner_dtype(dtype)))
    return build_pair(model, Lora(rank=RANK, alpha=2 * RANK), Init(b_noise_std=0.02), seed=0)


class OpenHost(EngineHost):
    """A host that also calls vLLM as it is."""

    async def vllm(self, method: str, *args: Any) -> Any:
        """What a method of vLLM's engine returns."""
        return await getattr(cast(Any, self.engine)._llm, method)(*args)

    async def bare(self, draws: list[Draw]) -> float:
        """Seconds for draws without anything of ours."""
        from agon.engine.vllm.local import parameters

        engine = cast(Any, self.engine)

        async def one(draw: Draw, settings: Any) -> None:
            prompt, adapter = {"prompt_token_ids": list(draw.ids)}, engine._adapters[draw.version]
            async for _ in engine._llm.generate(prompt, settings, uuid.uuid4().hex, lora_request=adapter):
                pass

        jobs = [(draw, parameters(draw, frozenset())) for draw in draws]
        began = time.perf_counter()
        await asyncio.gather(*(one(*job) for job in jobs))
        return time.perf_counter() - began


def ask_host(table: Bench, verb: str, *args: Any) -> Any:
    """Ask the process of the first engine."""
    return table.sampler.submit(table.sampler.fleet.members[0].engine.actor.ask(verb, *args)).result()


@contextmanager
def bench(
    sizes: dict[str, Any] = TINY,
    *,
    context: int = 1024,
    patience: float = 120.0,
    engines: int = 1,
    dtype: Dtype = "float32",
    **options: Any,
) -> Iterator[Bench]:
    """A random base, a pair over it, and running engines with further options; all gone at the end."""
    import torch

    from agon.engine.fleet import Fleet
    from agon.engine.vllm.host import HostedEngine
    from agon.engine.vllm.local import LocalEngine
    from agon.engine.vllm.sampler import VLLMSampler
    from agon.engine.vllm.spawn import ProcessActor

    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        root = Path(scratch)
        base = str(random_checkpoint(root / "base", **sizes))
        pair = build(Path(base), dtype)
        settings: dict[str, Any] = {"dtype": dtype, "context": context, "rank": RANK, "max_loras": 4, "memory": 0.4}
        settings["options"] = options
        place = partial(ProcessActor, None, OpenHost, partial(LocalEngine, base, **settings))
        fleet = Fleet(*(HostedEngine(place) for _ in range(engines)), patience=patience)
        sampler = VLLMSampler(base, fleet)
        try:
            yield Bench(sampler, pair, root)
        finally:
            sampler.close()


def ask(text: str) -> Prompt:
    return Prompt((Message("user", (Quote(text),)),))
