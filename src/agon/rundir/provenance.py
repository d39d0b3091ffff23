"""Where a run comes from: revision, versions, hardware. No machine or person is named, so that it can be shared."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from agon.rundir.records import Record

PACKAGES = (
    *("agon-rl", "torch", "transformers", "peft", "trl", "accelerate", "vllm", "safetensors"),
    *("bitsandbytes", "tokenizers", "datasets", "math-verify", "sympy", "pyarrow", "pydantic"),
)


class Revision(Record):
    """A revision of Agon's own source tree."""

    revision: str
    """The commit."""
    changed: bool
    """Whether the tree had changes on top of it."""


class Hardware(Record):
    """What a measured time depends on."""

    system: str
    """Operating system."""
    machine: str
    """Architecture of the CPU."""
    cpu: str
    """Model of the CPU."""
    cores: int | None
    """Logical cores."""
    memory_gib: float
    """Memory of the machine."""
    gpus: list[str]
    """Name and memory of each GPU."""


def packages() -> dict[str, str]:
    """Python and the packages that a result may depend on; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_revision() -> Revision | None:
    """The revision of Agon's own source tree and whether it was changed; None when installed from a package."""
    package = Path(__file__).resolve().parents[1]
    top = _output("git", "-C", str(package), "rev-parse", "--show-toplevel")
    # an environment may stand inside a user's own repository, whose revision says nothing about us
    if not top or Path(top).resolve() / "src" / "agon" != package:
        return None
    changed = _output("git", "-C", top, "status", "--porcelain", "--untracked-files=no")
    return Revision(revision=_output("git", "-C", top, "rev-parse", "HEAD"), changed=bool(changed))


def hardware() -> Hardware:
    """System, cores, memory and GPUs."""
    return Hardware(
        system=platform.system(),
        machine=platform.machine(),
        cpu=_cpu_model(),
        cores=os.cpu_count(),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        gpus=_output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader").splitlines(),
    )


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _output(*command: str) -> str:
    """What a command prints; nothing when it is not there or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
