"""What publishing one adapter costs: seconds and bytes, divided by TRL's way, at the shape of Qwen3-0.6B.

Ours writes the adapter as a PEFT directory, hashes it, and reads it back as an engine does. TRL's way merges the
adapter into the base, serialises every weight (what `sync_weights` pushes), and takes the adapter out again; nothing
is counted for the transfer itself or for loading the weights. Random weights, the base in bfloat16; both ways write
to the same disk and take turns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import _engine
from _lib import arguments, ratio_interval, verdict
from agon.types import Policy

AIM = 0.05
QUICK = {**_engine.QWEN3_06B, "num_hidden_layers": 4, "vocab_size": 32_000}


def main() -> None:
    args = arguments(__doc__)
    pairs = 3 if args.quick else 20
    pair = build(QUICK if args.quick else _engine.QWEN3_06B)
    with tempfile.TemporaryDirectory(prefix="agon-publish-") as scratch:
        rows = [both(pair, Path(scratch), n) for n in range(-1, pairs)][1:]  # the first warms up
    ours, theirs = ([row[n][0] for row in rows] for n in (0, 1))
    seconds, low, high = ratio_interval(ours, theirs)
    sizes = rows[0][0][1], rows[0][1][1]
    for what, taken, count in (("adapter", ours, sizes[0]), ("merged base", theirs, sizes[1])):
        print(f"{what} {count / 1e6:.1f} MB in {sum(taken) / pairs:.3f} s (mean of {pairs})")
    share = sizes[0] / sizes[1]
    print(f"seconds {seconds:.4f} (95% interval {low:.4f} to {high:.4f}), bytes {share:.4f}")
    verdict(
        "seconds and bytes to publish one adapter, against merging it and serialising the whole base",
        {"seconds": round(seconds, 4), "bytes": round(share, 4)},
        {"seconds": AIM, "bytes": AIM},
        holds=high <= AIM and share <= AIM,
        seconds_interval=[round(low, 4), round(high, 4)],
        n=pairs,
    )


def build(sizes: dict[str, Any]) -> Any:
    """A pair over a random base in bfloat16; A has moved, so that merging changes something."""
    import torch

    from agon.config import Init, Lora
    from agon.engine.adapters import build_pair
    from agon.engine.synthetic import random_base

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.bfloat16)
    base = random_base("qwen3", **sizes)
    torch.set_default_dtype(torch.float32)
    pair = build_pair(base, Lora(), Init(), seed=0)
    with torch.no_grad():
        for parameter in pair.parameters(Policy.A):
            parameter.normal_(std=0.01)
    return pair


def both(pair: Any, scratch: Path, n: int) -> tuple[tuple[float, int], tuple[float, int]]:
    """(seconds, bytes) of ours and of TRL's way, which take turns at going first."""
    if n % 2:
        merged = merge(pair, scratch / "merged")
        return publish(pair, scratch / "adapter"), merged
    return publish(pair, scratch / "adapter"), merge(pair, scratch / "merged")


def publish(pair: Any, folder: Path) -> tuple[float, int]:
    from safetensors.torch import load_file

    began = time.perf_counter()
    pair.export(Policy.A, folder)
    load_file(folder / "adapter_model.safetensors")
    return time.perf_counter() - began, size(folder)


def merge(pair: Any, folder: Path) -> tuple[float, int]:
    """What TRL 1.16 does in `sync_weights` for a PEFT model, with a file in place of the broadcast."""
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    pair.activate(Policy.A)
    began = time.perf_counter()
    pair.model.merge_adapter()
    weights = {name: p.data for name, p in pair.model.named_parameters() if "lora_" not in name}
    save_file(weights, folder / "model.safetensors")
    pair.model.unmerge_adapter()
    return time.perf_counter() - began, size(folder)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    main()
