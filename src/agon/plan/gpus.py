"""GPUs by name: memory, arithmetic and bandwidth, as their makers publish them.

Memory is what CUDA reports, which is up to 9% less than the name says. Arithmetic is bfloat16 on tensor cores (float16
on cards without it), dense, added up in float32; for most GeForce cards that is twice the published float32 figure.
Nothing here was measured by us.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agon.errors import InputError

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; `teraflops` and `bandwidth` (TB/s) are None where only its memory was named."""

    name: str
    gib: float
    teraflops: float | None
    bandwidth: float | None
    source: str
    capability: tuple[int, int] | None = None
    """CUDA's compute capability; None where only its memory was named."""
    float32: float | None = None
    """TFLOP/s in float32, without tensor cores: what a learner has that computes in float32."""
    cores: int = 8
    """CPU cores of a node for each GPU: a guess, but for the free T4 of a notebook."""

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(self.gib * GIB)


@dataclass(frozen=True, slots=True)
class Node:
    """What a run would have: so many GPUs of one kind on one node, at a price in dollars per GPU and hour."""

    gpu: Gpu
    gpus: int = 1
    price: float | None = None


GPUS = {
    "t4": Gpu("T4", 14.5, 65, 0.32, "NVIDIA T4 datasheet", (7, 5), 8.1, cores=2),
    "v100": Gpu("V100 16 GB SXM", 15.7, 125, 0.9, "NVIDIA V100 datasheet", (7, 0), 15.7),
    "3060": Gpu("RTX 3060 12 GB", 11.7, 25.5, 0.36, "NVIDIA Ampere GA102 whitepaper, GeForce page", (8, 6), 12.7),
    "3090": Gpu("RTX 3090", 23.6, 71, 0.936, "NVIDIA Ampere GA102 whitepaper", (8, 6), 35.6),
    "4060": Gpu("RTX 4060", 7.7, 30.2, 0.272, "NVIDIA Ada whitepaper, GeForce page", (8, 9), 15.1),
    "4070": Gpu("RTX 4070", 11.7, 58.3, 0.504, "NVIDIA Ada whitepaper, GeForce page", (8, 9), 29.1),
    "4080": Gpu("RTX 4080", 15.7, 97.5, 0.717, "NVIDIA Ada GPU architecture whitepaper", (8, 9), 48.7),
    "4090": Gpu("RTX 4090", 23.6, 165.2, 1.008, "NVIDIA Ada GPU architecture whitepaper", (8, 9), 82.6),
    "5090": Gpu("RTX 5090", 31.4, 209.5, 1.792, "NVIDIA RTX Blackwell GPU architecture whitepaper", (12, 0)),
    "a10": Gpu("A10", 22.0, 125, 0.6, "NVIDIA A10 datasheet", (8, 6)),
    "l4": Gpu("L4", 22.0, 121, 0.3, "NVIDIA L4 datasheet", (8, 9)),
    "a6000": Gpu("RTX A6000", 47.5, 154.8, 0.768, "NVIDIA Ampere GA102 whitepaper", (8, 6), 38.7),
    "l40s": Gpu("L40S", 44.4, 362, 0.864, "NVIDIA L40S datasheet", (8, 9)),
    "a100-40": Gpu("A100 40 GB", 39.4, 312, 1.555, "NVIDIA A100 datasheet", (8, 0), 19.5),
    "a100": Gpu("A100 80 GB SXM", 79.1, 312, 2.039, "NVIDIA A100 datasheet", (8, 0), 19.5),
    "h100": Gpu("H100 SXM", 79.1, 989, 3.35, "NVIDIA H100 datasheet", (9, 0), 67),
    "h200": Gpu("H200 SXM", 139.7, 989, 4.8, "NVIDIA H200 datasheet", (9, 0), 67),
    "b200": Gpu("B200 SXM", 178.3, 2250, 8.0, "NVIDIA DGX B200 datasheet", (10, 0)),
}
BY_MEMORY = {
    **{"8": "4060", "12": "4070", "16": "4080", "24": "4090", "32": "5090", "40": "a100-40", "48": "l40s"},
    **{"80": "h100", "141": "h200", "180": "b200"},
}
"""The GPU that a size alone stands for; for another size nothing is said about time."""
SMALLEST, LARGEST = 4, 1024


def find_gpu(name: str) -> Gpu:
    """A GPU by its name, or by its gigabytes of memory."""
    wanted = name.lower().replace(" ", "").removeprefix("rtx").removesuffix("gb")
    if known := GPUS.get(BY_MEMORY.get(wanted, wanted)):
        return known
    if wanted.isdecimal() and SMALLEST <= int(wanted) <= LARGEST:
        return Gpu(f"a GPU of {wanted} GB", float(wanted), None, None, "the size that was named")
    raise InputError(
        f"there is no GPU {name!r} in the table", fix=f"choose from {', '.join(GPUS)}, or write its size in GB"
    )


def hardware_of(gpu: str | None, gpus: int = 1, price: str | None = None) -> Node | None:
    """Hardware as the command line names it; None if it names none."""
    if gpus < 1:
        raise InputError("--gpus must be at least 1", fix="leave --gpus out for one GPU")
    dollars = None if price is None else _dollars(price)
    if gpu is not None:
        return Node(find_gpu(gpu), gpus, dollars)
    if gpus > 1 or price is not None:
        raise InputError("--gpus and --price need --gpu", fix="name the GPU, such as --gpu h100")
    return None


def _dollars(price: str) -> float:
    try:
        found = float(price)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise InputError(
            "--price must be a number of dollars", fix="write dollars per GPU and hour, such as --price 0.60"
        )
    return found
