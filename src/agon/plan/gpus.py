"""GPUs by name: memory, arithmetic and bandwidth, as their makers publish them.

Memory is what the driver reports, which is up to 6% less than the name says. Arithmetic is bfloat16 on tensor cores,
dense, added up in float32. Nothing here was measured by us.
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
    "3090": Gpu("RTX 3090", 24.0, 71, 0.936, "NVIDIA Ampere GA102 whitepaper"),
    "4090": Gpu("RTX 4090", 24.0, 165.2, 1.008, "NVIDIA Ada GPU architecture whitepaper"),
    "5090": Gpu("RTX 5090", 31.8, 209.5, 1.792, "NVIDIA RTX Blackwell GPU architecture whitepaper"),
    "a10": Gpu("A10", 22.5, 125, 0.6, "NVIDIA A10 datasheet"),
    "l4": Gpu("L4", 22.5, 121, 0.3, "NVIDIA L4 datasheet"),
    "a6000": Gpu("RTX A6000", 48.0, 154.8, 0.768, "NVIDIA Ampere GA102 whitepaper"),
    "l40s": Gpu("L40S", 45.0, 362, 0.864, "NVIDIA L40S datasheet"),
    "a100-40": Gpu("A100 40 GB", 40.0, 312, 1.555, "NVIDIA A100 datasheet"),
    "a100": Gpu("A100 80 GB SXM", 80.0, 312, 2.039, "NVIDIA A100 datasheet"),
    "h100": Gpu("H100 SXM", 79.6, 989, 3.35, "NVIDIA H100 datasheet"),
    "h200": Gpu("H200 SXM", 140.4, 989, 4.8, "NVIDIA H200 datasheet"),
    "b200": Gpu("B200 SXM", 179.0, 2250, 8.0, "NVIDIA DGX B200 datasheet"),
}
BY_MEMORY = {"24": "4090", "32": "5090", "40": "a100-40", "48": "l40s", "80": "h100", "141": "h200", "180": "b200"}
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


def hardware_of(gpu: str | None, gpus: int = 1, price: float | None = None) -> Node | None:
    """Hardware as the command line names it; None if it names none."""
    if gpus < 1:
        raise InputError("--gpus must be at least 1", fix="leave --gpus out for one GPU")
    if price is not None and not 0 <= price < math.inf:
        raise InputError(
            "--price must be a number of dollars", fix="write dollars per GPU and hour, such as --price 2.5"
        )
    if gpu is not None:
        return Node(find_gpu(gpu), gpus, price)
    if gpus > 1 or price is not None:
        raise InputError("--gpus and --price need --gpu", fix="name the GPU, such as --gpu h100")
    return None
