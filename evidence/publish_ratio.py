"""What publishing one adapter costs, at the shape of Qwen3-0.6B: seconds to the first token drawn from it, and bytes.

An engine (vLLM; transformers with --quick) serves adapters of a pair over a random base in bfloat16. In each turn a
token is drawn from A as it is; then A moves and is published as a run does it, exported, hashed, loaded under a new
name, and a token is drawn from the new version. Prompts are new each time, so that no cache helps either. The canary,
which a run asks after every publication, is not in it. The bytes of the adapter's folder are divided by the bytes
that TRL 1.16 hands to its engine at every synchronisation: those of what its own `VLLMGeneration._iter_named_params`
(trl/generation/vllm_generation.py) yields for a PEFT model, the whole base with the adapter merged into it, which
`sync_weights` loads in place or broadcasts. Its seconds are not measured: they are a GPU's or a network's.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _engine
from _lib import arguments, mean_interval, verdict
from agon.config import Init, Lora
from agon.types import Policy, Request, Sampling

SECONDS, BYTES = 1.0, 0.05
QUICK: dict[str, Any] = {**_engine.TINY, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 32_000}
CONTEXT = 512
WORDS = "Publish the adapter and draw one token from it. " * 4


def main() -> None:
    args = arguments(__doc__)
    os.environ |= {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    turns = 3 if args.quick else 20
    with table(QUICK if args.quick else _engine.QWEN3_06B, hf=args.quick) as bench:
        bench.publish(Policy.A)
        rows = [turn(bench, n) for n in range(turns + 1)][1:]  # the first warms up
        share = folder_bytes(newest(bench)) / trl_bytes(bench.pair)
    added, low, high = mean_interval([after - before for before, after in rows])
    print(f"a token from a live version {sum(before for before, _ in rows) / turns:.3f} s")
    print(f"published, and a token from the new one {sum(after for _, after in rows) / turns:.3f} s (mean of {turns})")
    print(f"added {added:.3f} s (95% interval {low:.3f} to {high:.3f}); bytes {share:.4f} of what TRL sends")
    verdict(
        "publishing one adapter: seconds added before the first token drawn from it; bytes, against what TRL sends",
        {"added_seconds": round(added, 4), "bytes": round(share, 4)},
        {"added_seconds": SECONDS, "bytes": BYTES},
        holds=high <= SECONDS and (share <= BYTES or args.quick),
        seconds_interval=[round(low, 4), round(high, 4)],
        n=turns,
        engine="transformers" if args.quick else "vllm",
    )


@contextmanager
def table(sizes: dict[str, Any], *, hf: bool) -> Iterator[_engine.Bench]:
    """A random base, a pair over it in bfloat16, and a running engine; all gone at the end."""
    import torch
    from transformers import AutoModelForCausalLM

    from agon.engine.adapters import build_pair

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="agon-publish-") as scratch:
        base = str(_engine.random_checkpoint(Path(scratch, "base"), **sizes))
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
        pair = build_pair(model, Lora(), Init(), seed=0)
        sampler = make_sampler(base, hf)
        try:
            yield _engine.Bench(sampler, pair, Path(scratch))
        finally:
            sampler.close()


def make_sampler(base: str, hf: bool) -> Any:
    if hf:
        from agon.engine.hf.sampler import HFSampler

        return HFSampler(base, dtype="bfloat16")
    from agon.engine.fleet import Fleet
    from agon.engine.vllm.host import in_own_process
    from agon.engine.vllm.local import LocalEngine
    from agon.engine.vllm.sampler import VLLMSampler

    settings: dict[str, Any] = {"dtype": "bfloat16", "context": CONTEXT, "rank": Lora().rank, "max_loras": 4}
    return VLLMSampler(base, Fleet(in_own_process(partial(LocalEngine, base, **settings, memory=0.4))))


def turn(bench: _engine.Bench, number: int) -> tuple[float, float]:
    """Seconds until a token from the version that is live, and from one that is published first."""
    began = time.perf_counter()
    draw(bench, f"{number} before. {WORDS}")
    before = time.perf_counter() - began
    bench.move(Policy.A, 1e-3, seed=number)
    began = time.perf_counter()
    version = bench.publish(Policy.A)
    drawn = draw(bench, f"{number} after. {WORDS}")
    after = time.perf_counter() - began
    assert drawn.version == version
    return before, after


def draw(bench: _engine.Bench, text: str) -> Any:
    return asyncio.run(bench.sampler.sample(Request(_engine.ask(text), Policy.A, 0, Sampling(1.0, 1.0, 1))))


def newest(bench: _engine.Bench) -> Path:
    return max((bench.root / "published").iterdir(), key=lambda folder: folder.name)


def trl_bytes(pair: Any) -> int:
    """The bytes of every tensor that TRL's own generator hands on for this model, its adapter merged."""
    from agon.engine.trl.compat import grpo_trainer

    pair.activate(Policy.A)
    plain = SimpleNamespace(gather_params=lambda parameters: nullcontext(), is_fsdp=False)
    parts = SimpleNamespace(model=pair.model, _dist=plain, _fix_param_name_to_vllm=lambda name, **more: name)
    named = grpo_trainer.VLLMGeneration._iter_named_params(parts)
    return sum(tensor.numel() * tensor.element_size() for _, tensor in named)


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    main()
