"""Run a function in several processes that find each other as `torchrun` processes do: gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any, Literal

PRELOAD = ["agon.engine.trl.learner", "agon.engine.synthetic"]


def run_world(
    world: int,
    work: Callable[[int, int, Any], Any],
    job: Any,
    *,
    timeout: float = 900.0,
    method: Literal["forkserver", "spawn"] = "forkserver",
    gpus: str | None = None,
) -> list[Any]:
    """`work(rank, world, job)` in `world` fresh processes; results in the order of ranks. `gpus=""` hides all GPUs."""
    context: Any = multiprocessing.get_context(method)
    context.set_forkserver_preload(PRELOAD)
    results = context.Queue()
    entry = (world, _free_port(), gpus, work, job, results)
    processes = [context.Process(target=_enter, args=(rank, *entry)) for rank in range(world)]
    for process in processes:
        process.start()
    try:
        by_rank = dict(results.get(timeout=timeout) for _ in processes)
    finally:
        for process in processes:
            process.join(timeout=10)
            process.kill()
    return [by_rank[rank] for rank in range(world)]


def _enter(
    rank: int, world: int, port: int, gpus: str | None, work: Callable[..., Any], job: Any, results: Any
) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # the HF trainer collects garbage at every start
    results.put((rank, work(rank, world, job)))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
