"""The section `model`: the frozen base and the adapters over it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agon.config.section import Frozen, Positive, Weight


def _check_parts(name: str) -> str:
    if any(len(part.encode()) > 255 for part in name.split("/")):
        raise ValueError("a part of it is longer than a file name can be")
    return name


Dtype = Literal["bfloat16", "float16", "float32"]
BaseName = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_check_parts)]
"""Names a base on the Hub or in a folder; an agon.json from a stranger may hold one that no file system takes."""


class Lora(Frozen):
    """The adapter that each policy is."""

    rank: Positive = 16
    """Rank of each adapter."""
    alpha: Positive = 32
    """Our choice: twice the rank, as is common; the paper does not give it. An adapter is scaled by alpha / rank."""
    targets: str | list[str] = "all-linear"
    """Our choice: which layers carry an adapter. `all-linear` gives the paper's ~10 M parameters on Qwen3-0.6B; or a
    list of module names."""
    layers: Positive | None = None
    """Only this many layers, the last ones of the base, carry an adapter; null: all. The learner then computes no
    gradients below them, which saves time and memory."""


class Init(Frozen):
    """How the two adapters start: by default different, but only by noise."""

    a: str = Field(default="zero", min_length=1)
    """`zero`: A starts as the base itself, the standard LoRA zero-init. Or a PEFT folder with the adapter that A starts
    from, of the rank, alpha, targets and layers in `model.lora`."""
    b: str = Field(default="noise", min_length=1)
    """`noise`: B starts as noise around zero. Or a PEFT folder, as for A."""
    b_noise_std: Weight = 1.0e-3
    """Our choice: B starts as Gaussian noise around zero, of a size the paper does not give: large enough to make B
    different from A, too small to make it weaker."""


class Model(Frozen):
    """The frozen base and the adapters over it."""

    name: BaseName
    """The base: a Hub id, a local folder, or one that ships with the package and runs on a CPU: `agon:tiny`
    or `agon:halves`."""
    revision: str | None = None
    """Our choice: the Hub revision to pin, so that a run can be repeated; null is the latest, whose commit the run
    records and is resumed at. It goes with `name`: a config that names a different base inherits no revision."""
    dtype: Dtype = "bfloat16"
    """Our choice: precision of the frozen base, as it is published; adapters are trained in float32. `float16` is for
    GPUs without bfloat16 (T4): engines draw in it, and the learner computes in float32."""
    quantize: Literal["none", "nf4"] = "none"
    """Our choice: `nf4` holds the linear layers of the frozen base in 4 bits (bitsandbytes), where the base does not
    fit otherwise. Learner and engines work with the same rounded weights."""
    attention: Literal["auto", "rows", "flash_attention_2", "flash_attention_3"] = "auto"
    """Our choice: the learner's attention over packed rows. `rows` is PyTorch's own, on a GPU in half
    precision one kernel for all rows; `auto` takes flash_attention_2 on a GPU where it is installed and has the head
    size, else `rows`."""
    lora: Lora = Lora()
    """The adapter that each policy is."""
    init: Init = Init()
    """How the two adapters start."""
