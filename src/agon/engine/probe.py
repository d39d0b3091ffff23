"""Whether the GPUs of this machine can be used. Nothing here imports torch before it must: other commands are quick."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from agon.errors import EngineError

OLDEST_DRIVER = {12: 525, 13: 580}
"""The oldest branch of NVIDIA's driver that runs programs built for this CUDA."""
LOCKED = 13
"""The CUDA that constraints/gpu.lock installs."""
ELSEWHERE = "update the driver, or take another machine or image; `nvidia-smi` shows its driver"


def old_driver() -> EngineError | None:
    """Why programs for CUDA cannot run with the driver of this machine; None if they can, or if there is no GPU."""
    driver, cuda = driver_version(), cuda_of_torch()
    if driver is None or cuda is None:
        return None
    oldest = OLDEST_DRIVER.get(cuda, 0)
    if int(driver.split(".")[0]) >= oldest:
        return None
    return EngineError(f"driver {driver} is older than CUDA {cuda} needs, {oldest} or newer", fix=ELSEWHERE)


def cuda_works() -> None:
    """Refuse a machine with GPUs that torch cannot use: CUDA's own message is a traceback in the middle of a run."""
    if error := old_driver():
        raise error
    accelerators()


def accelerators() -> list[str]:
    """The CUDA devices with their memory; none on a CPU machine."""
    import torch

    try:
        devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise EngineError(f"torch cannot use the GPU of this machine: {reason}", fix=ELSEWHERE) from error
    return [f"{device.name} {device.total_memory / 2**30:.1f} GiB" for device in devices]


def driver_version() -> str | None:
    """The version of NVIDIA's driver, such as `580.65.06`; None where there is none, or nobody can say."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"\d+(\.\d+)*", printed)
    return found.group() if found else None


def cuda_of_torch() -> int | None:
    """The CUDA that the installed torch is built for; None for a CPU build. Without torch, the one that is locked."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return LOCKED
    version = Path(spec.origin).with_name("version.py").read_text()
    found = re.search(r"^cuda\b.*'(\d+)\.", version, re.MULTILINE)
    return int(found.group(1)) if found else None
