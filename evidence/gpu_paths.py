"""Kernels that only a GPU runs, run here: in Triton's interpreter, against the arithmetic that they stand for.

- head: TRL's fused head scores tokens with Triton on a GPU and with torch on a CPU. Both are compared with the whole
  softmax in float64: log-probs, entropy and the gradient of the hidden states, in float32 and in bfloat16. Sizes lie
  on both sides of the kernel's block and of the tile of the vocabulary.
- lora: vLLM's shrink and expand kernels, with rows of two adapters and of the bare base in one batch, one projection
  and three that are merged. Rows of the base must be exactly 0. In float16: the interpreter computes in numpy, which
  has no bfloat16.

What an interpreter cannot show, it does not: how threads of a GPU share memory, and how fast a kernel is.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"

import torch

from _lib import Part, arguments, verdict_of_parts

WORSE = 2.0
"""How many times the error of the CPU's path the error of the GPU's may be; plus FLOOR, where both are rounding."""
FLOOR = 2e-5
CLOSE = 1e-4
"""By how much log-probs and entropies of the two paths may differ, which start from the same logits."""
HALF = 4 * torch.finfo(torch.float16).eps
"""Relative error of a product of two matrices in float16 that are summed in float32."""


def main() -> None:
    args = arguments(__doc__, ("head", "lora"))
    work: dict[str, Part] = {"head": (head, head_holds), "lora": (lora, lora_holds)}
    verdict_of_parts(
        "the Triton kernels of TRL's head and of vLLM's LoRA compute what the CPU's paths compute, in an interpreter",
        work,
        args,
        quick=("head", "lora"),
    )


# -- TRL's head --------------------------------------------------------------------------------------------------------


def head(quick: bool) -> dict[str, Any]:
    """Largest errors against float64, by dtype: of torch's path and of Triton's; and between the two."""
    shapes = [(5, 1500, 1024)] if quick else [(1, 700, 1024), (24, 3000, 1024), (17, 2049, 1000), (40, 1024, 1024)]
    temperatures = (0.9,) if quick else (1.0, 0.6)
    found = dict[str, Any]()
    for dtype in (torch.float32, torch.bfloat16):
        errors = {"torch": [0.0] * 3, "triton": [0.0] * 3, "between": [0.0] * 3}
        for rows, words, tile in shapes:
            for temperature in temperatures:
                case = (rows, words, tile, temperature, dtype)
                ways = {"exact": reference(*case), "torch": scored(False, *case), "triton": scored(True, *case)}
                compared = {"torch": ("torch", "exact"), "triton": ("triton", "exact"), "between": ("torch", "triton")}
                for name, (one, two) in compared.items():
                    pairs = zip(ways[one], ways[two], strict=True)
                    largest = [float((a.double() - b.double()).abs().max()) for a, b in pairs]
                    errors[name] = [max(pair) for pair in zip(errors[name], largest, strict=True)]
        names = ("log-probs", "entropy", "gradient")
        found[str(dtype).removeprefix("torch.")] = {
            way: dict(zip(names, (float(f"{value:.2g}") for value in values), strict=True))
            for way, values in errors.items()
        }
    return {**found, "n": 2 * len(shapes) * len(temperatures)}


def inputs(rows: int, words: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows * words)
    hidden, weight = (torch.randn(n, 64, generator=generator).to(dtype) for n in (rows, words))
    labels = torch.randint(0, words, (rows,), generator=generator)
    return hidden.requires_grad_(), weight, labels, torch.randn(rows, generator=generator)


def scored(
    triton: bool, rows: int, words: int, tile: int, temperature: float, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """Log-probs, entropies and the gradient by TRL's function, as its loss calls it."""
    from trl.kernels import chunked_logprob

    hidden, weight, labels, upstream = inputs(rows, words, dtype)
    real = chunked_logprob._use_triton
    chunked_logprob._use_triton = lambda device: triton
    try:
        values = chunked_logprob.ChunkedLogProbFunction.apply(
            hidden, weight, None, labels, temperature, tile, None, 1.0, ("entropy",)
        )
        ((upstream * values[0]).sum() + 0.1 * values[1].sum()).backward()
    finally:
        chunked_logprob._use_triton = real
    assert hidden.grad is not None
    return values[0].detach(), values[1].detach(), hidden.grad


def reference(rows: int, words: int, tile: int, temperature: float, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """The same from all logits in float64."""
    given, weight, labels, upstream = inputs(rows, words, dtype)
    hidden = given.detach().double().requires_grad_()
    logps = (hidden @ weight.double().T / temperature).log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    own = logps.gather(1, labels[:, None]).squeeze(1)
    ((upstream * own).sum() + 0.1 * entropy.sum()).backward()
    assert hidden.grad is not None
    return own.detach(), entropy.detach(), hidden.grad


def head_holds(found: dict[str, Any]) -> bool:
    return all(
        errors["triton"][name] <= WORSE * errors["torch"][name] + FLOOR
        for errors in (found["float32"], found["bfloat16"])
        for name in errors["torch"]
    ) and all(
        found[dtype]["between"][name] <= CLOSE for dtype in ("float32", "bfloat16") for name in ("log-probs", "entropy")
    )


# -- vLLM's LoRA kernels -----------------------------------------------------------------------------------------------


def kernels() -> tuple[Any, Any, Any]:
    """vLLM's LoRA operators over the interpreter; its CPU build has turned Triton off."""
    import triton
    import triton.language

    utils: Any = importlib.import_module("vllm.triton_utils")
    utils.triton, utils.tl, utils.HAS_TRITON = triton, triton.language, True
    for name in [name for name in sys.modules if name.startswith("vllm.lora.ops.triton_ops")]:
        del sys.modules[name]
    operators = "vllm.lora.ops.triton_ops"
    names = ("lora_shrink_op", "lora_expand_op", "lora_kernel_metadata")
    shrink, expand, metadata = (importlib.import_module(f"{operators}.{name}") for name in names)
    return shrink._lora_shrink, expand._lora_expand, metadata.LoRAKernelMeta


def lora(quick: bool) -> dict[str, Any]:
    """The largest error relative to the largest value, and the largest value in a row of the base."""
    shrink, expand, meta = kernels()
    cases = [(24, (96,))] if quick else [(3, (96,)), (24, (96,)), (40, (128, 64, 64)), (65, (64, 64, 64))]
    worst, base, other = 0.0, 0.0, float("inf")
    for rows, widths in cases:
        generator = torch.Generator().manual_seed(rows)
        size, rank, adapters = 64, 16, 2
        hidden = torch.randn(rows, size, generator=generator).half()
        down = [(torch.randn(adapters, rank, size, generator=generator) / 8).half() for _ in widths]
        up = [(torch.randn(adapters, width, rank, generator=generator) / 4).half() for width in widths]
        mapping = torch.tensor([0, 1, -1] * rows, dtype=torch.int32)[:rows]
        mapping = mapping[torch.randperm(rows, generator=generator)]
        made = meta.make(adapters, rows, device="cpu")
        made.prepare_tensors(mapping)
        between = torch.zeros(len(widths), rows, rank)
        found = torch.zeros(rows, sum(widths), dtype=torch.float16)
        shrink(hidden, down, between, *made.meta_args(rows, False), 1.0)
        expand(between, up, found, *made.meta_args(rows, False), 0, True)
        numbers = mapping.tolist()
        exact = torch.stack([dense(hidden[n], number, down, up) for n, number in enumerate(numbers)])
        others = [dense(hidden[n], number ^ 1, down, up) for n, number in enumerate(numbers) if number >= 0]
        swapped = torch.stack(others)
        largest = float(exact.abs().max())
        worst = max(worst, float((found.float() - exact).abs().max()) / largest)
        base = max(base, float(found[mapping == -1].abs().max()))
        other = min(other, float((found[mapping >= 0].float() - swapped).abs().max()) / largest)
    return {"error": float(f"{worst:.2g}"), "base rows": base, "the other adapter": round(other, 2), "n": len(cases)}


def dense(row: torch.Tensor, number: int, down: list[torch.Tensor], up: list[torch.Tensor]) -> torch.Tensor:
    """What an adapter adds to a row; the base, -1, adds nothing."""
    if number < 0:
        return torch.zeros(sum(b.size(1) for b in up))
    return torch.cat([(row.float() @ a[number].float().T) @ b[number].float().T for a, b in zip(down, up, strict=True)])


def lora_holds(found: dict[str, Any]) -> bool:
    """Close to dense arithmetic, far from that of the other adapter, and nothing where there is none."""
    return bool(found["error"] <= HALF and found["base rows"] == 0.0 and found["the other adapter"] > 100 * HALF)


if __name__ == "__main__":
    main()
