"""`agon doctor`: check this machine and suggest fixes, one line per check.

Versions are compared with two sets: constraints/cpu.txt, which is tested together, and gpu.txt, which resolves together
and has not run on a GPU yet. Exact versions matter: the learner uses private names of TRL, which move between releases.
"""

from __future__ import annotations

import argparse
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agon.cli.parser import json_argument, print_json
from agon.doors import OURS, Group, broken, places
from agon.errors import AgonError, install

Status = Literal["ok", "untested", "missing", "failed"]

_BOTH = {
    **{"torch": "2.13.0", "transformers": "5.19.0", "peft": "0.21.2", "trl": "1.16.0"},
    **{"accelerate": "1.15.0", "vllm": "0.32.0", "math-verify": "0.9.0"},
}
PINNED: dict[str, dict[str, str]] = {
    "cpu": {**_BOTH, "torchvision": "0.28.0"},
    "gpu": {**_BOTH, "flash-linear-attention": "0.6.0"},
}

NEEDED_FOR = {
    **dict.fromkeys(("torch", "transformers", "peft", "trl", "accelerate"), "training and engine hf"),
    **{"vllm": "engine vllm", "math-verify": "verifier math", "torchvision": "Qwen3.5 and Gemma 4 on engine vllm"},
    "flash-linear-attention": "training Qwen3.5 on sequences above 2,000 tokens",
}

OPTIONAL = {
    "scipy": ("agon eval, agon compare and agon report", "eval"),
    "matplotlib": ("the figures of agon report", "plot"),
    "datasets": ("presets from the Hub", "data"),
    "bitsandbytes": ("model.quantize nf4", "nf4"),
    "vllm-bnb-plugin": ("a base in 4 bits inside vLLM", "nf4-vllm"),
}
"""What each is needed for, and the extra that installs it. Any version that its extra allows will do."""

NO_GPU_YET = "resolves with the others, not run on a GPU yet"

VLLM_ON_CPU = "run scripts/setup in a clone of the repository: it installs what runs on a CPU"

ROOM_GIB = {"cpu": 5, "gpu": 30}
"""Free disk that runs need: with a GPU also for a base, its checkpoints, and 12 GiB of packages if they are to come."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line: what was checked, its status, and what to type."""

    name: str
    status: Status
    detail: str
    fix: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print every check; return 1 if any failed. A missing or untested package is reported and is not a failure."""
    results = []
    for check in checks():
        results.append(check)
        if not args.json:
            print("\n".join(lines(check)), flush=True)
    if args.json:
        print_json([asdict(check) for check in results])
    return 1 if any(check.status == "failed" for check in results) else 0


def checks() -> Iterator[Check]:
    """Every check, cheap ones first."""
    yield Check("python", "ok", platform.python_version())
    devices = machine()
    kind = "gpu" if devices.status == "failed" or devices.detail.startswith("GPU") else "cpu"
    yield room(Path.cwd(), ROOM_GIB[kind])
    yield devices
    yield from (package(name, kind) for name in PINNED[kind])
    yield from map(optional, OPTIONAL)
    yield from plugins()
    yield verifier("math")
    yield sandbox()


def lines(check: Check) -> list[str]:
    """A check as one line, and its fix under it."""
    first = f"{check.status:<9} {check.name:<14} {check.detail}".rstrip()
    return [first, f"{'':<24} {check.fix}"] if check.fix else [first]


def room(folder: Path, needed: int) -> Check:
    """Free space where runs are written by default."""
    free = shutil.disk_usage(folder).free / 2**30
    detail = f"{free:.0f} GiB free here"
    if free < needed:
        return Check("disk", "failed", detail, f"free {needed} GiB, or write runs elsewhere with --out DIR")
    return Check("disk", "ok", detail)


def machine() -> Check:
    """The accelerators that torch sees."""

    def probe() -> Check:
        from agon.engine.probe import accelerators, old_driver

        if error := old_driver():
            raise error
        devices = accelerators()
        return Check("devices", "ok", f"GPU: {', '.join(devices)}" if devices else "CPU only: tiny models and tests")

    return guarded("devices", probe)


def package(name: str, kind: str) -> Check:
    """An installed package against the version that is pinned for this kind of machine."""
    version, wanted = installed(name), PINNED[kind][name]
    fix = VLLM_ON_CPU if kind == "cpu" and name in ("vllm", "torchvision") else f"pip install '{name}=={wanted}'"
    standing = "is tested" if kind == "cpu" else NO_GPU_YET
    if version is None:
        return Check(name, "missing", f"needed for {NEEDED_FOR[name]}", fix)
    if version.split("+")[0] != wanted:
        return Check(name, "untested", f"{version}; {wanted} {standing}", fix)
    return Check(name, "ok", version) if kind == "cpu" else Check(name, "untested", f"{version}; {standing}")


def optional(name: str) -> Check:
    """A package that one part of Agon needs."""
    version, (purpose, extra) = installed(name), OPTIONAL[name]
    if version is None:
        return Check(name, "missing", f"needed for {purpose}", install(extra))
    return Check(name, "ok", version)


def plugins() -> Iterator[Check]:
    """What other packages bring, by the name that a config uses."""
    for group in get_args(Group):
        for name in places(group):
            if name not in OURS.get(group, {}):
                error = broken(group, name)
                what = f"{group.removeprefix('agon.')[:-1]} {name}"
                fine = Check(what, "ok", places(group)[name])
                yield Check(what, "failed", error.message, error.fix) if error else fine


def installed(name: str) -> str | None:
    """The installed version of a package, from its metadata alone."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def verifier(name: str) -> Check:
    """The verifier on answers with known verdicts, through the worker processes that a run uses."""

    def probe() -> Check:
        from agon.verify import load_verifier

        judge: Any = load_verifier(name)
        try:
            wrong = judge.self_test()
        finally:
            judge.close()
        if wrong:
            return Check(f"verifier {name}", "failed", "; ".join(wrong), "pip install 'math-verify==0.9.0'")
        return Check(f"verifier {name}", "ok", "agrees with every known verdict")

    return guarded(f"verifier {name}", probe)


def sandbox() -> Check:
    """The sandbox for programs, with its probes; `missing` where this machine cannot run it as it is."""
    from agon_judge.errors import InputError

    try:
        from agon_judge.sandbox.leaks import checked_sandbox
        from agon_judge.sandbox.settings import SandboxSettings

        room = checked_sandbox(SandboxSettings(workers=2))
    except InputError as error:
        status: Status = "failed" if "leaks" in error.message else "missing"
        return Check("sandbox", status, f"{error.message} (needed for verifier code)", error.fix)
    try:
        return Check("sandbox", "ok", f"no probe leaks; memory: {room.describe()['memory']}")
    finally:
        room.close()


def guarded(name: str, probe: Callable[[], Check]) -> Check:
    """A check whose own failure is a result, not a traceback: this command runs on broken machines."""
    try:
        return probe()
    except ModuleNotFoundError as error:
        return Check(name, "missing", f"{error.name} is not installed")
    except AgonError as error:
        return Check(name, "failed", error.message, error.fix)
    except Exception as error:
        return Check(name, "failed", f"{type(error).__name__}: {error}")
