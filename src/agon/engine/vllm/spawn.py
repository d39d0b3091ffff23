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

TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
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
    names = (*TORCHRUN, "CUDA_VISIBLE_DEVICES")
    before = {name: os.environ[name] for name in names if name in os.environ}
    for name in TORCHRUN:
        os.environ.pop(name, None)
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
