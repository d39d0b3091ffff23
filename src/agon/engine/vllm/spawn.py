"""The environment that the processes of an engine inherit: their GPU, the tag of their reaper, no process group.

It is the environment of the whole process while they are spawned, so engines take turns.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from agon.engine.vllm.orphans import OrphanReaper

TORCHRUN = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "ROLE_NAME",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
)
"""What torchrun sets for its processes, besides what begins with TORCHELASTIC_: with TORCHELASTIC_USE_AGENT_STORE, for
example, a process group inside the engine would wait for torchrun's store."""
SPAWNING = threading.Lock()
"""Held while the environment of this process is that of one engine."""


@contextmanager
def spawning(reaper: OrphanReaper, device: str | None, given_up: Callable[[], bool]) -> Iterator[None]:
    """Give the processes of one engine their environment, which they inherit from this one when they are spawned.

    As soon as vLLM has spawned its core the next engine may have its turn: loading and compiling takes minutes. Where
    no core is seen, engines start one after the other; one that nobody waits for any more has no turn.
    """
    turn, ended = ExitStack(), threading.Event()
    SPAWNING.acquire()
    turn.callback(SPAWNING.release)
    turn.enter_context(own_device(device))
    turn.enter_context(reaper.tagged())
    before = _cores()

    def leave() -> None:
        while _cores() <= before and not given_up() and not ended.wait(0.05):
            pass
        turn.close()

    leaving = threading.Thread(target=leave, name="agon-vllm-spawn", daemon=True)
    leaving.start()
    try:
        yield
    finally:
        ended.set()
        leaving.join()


def _cores() -> set[int | None]:
    """The cores of engines that this process has spawned, by vLLM's name for them."""
    return {child.pid for child in multiprocessing.active_children() if child.name.startswith("EngineCore")}


@contextmanager
def own_device(device: str | None) -> Iterator[None]:
    """An environment with one GPU, or all of this process's, and outside the process group of torchrun."""
    group = [name for name in os.environ if name in TORCHRUN or name.startswith("TORCHELASTIC_")]
    before = {name: os.environ.pop(name) for name in group}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    try:
        yield
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        os.environ.update(before if visible is None else before | {"CUDA_VISIBLE_DEVICES": visible})
