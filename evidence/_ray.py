"""A Ray cluster of several nodes on one machine, with real raylets: nodes that can be killed and added."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _lib import cannot_run
from agon.cluster.connection import Connection, connect

NETWORK = "0.0.0.0/0"
"""The nodes have this machine's own address, which is not loopback."""
STORE = 100 << 20
PATIENT = {
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_health_check_timeout_ms": "30000",
    "RAY_worker_niceness": "0",
}
"""A busy machine is not a dead node; and workers get as much of it as the process that waits for them."""


@dataclass
class Nodes:
    """A head that runs nothing, and nodes by their ids."""

    cluster: Any
    nodes: dict[str, Any] = field(default_factory=dict)
    adding: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    """A thread that lasts: Ray has the kernel kill a node when the thread that started it ends."""

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def connect(self) -> Connection:
        return connect(self.address, NETWORK)

    def add(self) -> None:
        node = self.cluster.add_node(num_cpus=1, object_store_memory=STORE, include_dashboard=False)
        self.nodes[node.node_id] = node

    def add_soon(self) -> None:
        """Add a node while others work."""
        self.adding.submit(self.add)

    def kill(self, node_id: str, *, raylet_alone: bool = False) -> int:
        """SIGKILL to a raylet, with all that it started unless it is killed alone; return how many processes."""
        raylet = self.nodes.pop(node_id).all_processes["raylet"][0].process.pid
        victims = [raylet] if raylet_alone else [raylet, *descendants(raylet)]
        for process in victims:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return len(victims)


@contextmanager
def ray_nodes(count: int) -> Iterator[Nodes]:
    """A cluster of `count` nodes, each with room for one actor or task."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", **PATIENT}
    if find_spec("ray") is None:
        cannot_run("Ray is not installed: pip install -e '.[ray]'")
    import ray
    from ray._private import utils
    from ray.cluster_utils import Cluster

    utils.set_sigterm_handler = lambda handler: None  # nodes are added from threads, which may set none
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = Nodes(cluster)
    try:
        for _ in range(count):
            nodes.add()
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
        nodes.adding.shutdown()


def place_of(actor: Any) -> tuple[str, int]:
    """(node, process) of an actor, from Ray's own table."""
    from ray._private.state import actors

    table = actors(actor._handle._actor._actor_id.hex())
    return table["Address"]["NodeID"], int(table["Pid"])


def descendants(process: int) -> list[int]:
    """What a process has started, and what that has."""
    found = []
    for table in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, table.read_text().split()):
                found += [child, *descendants(child)]
    return found


def cpu_seconds(processes: list[int]) -> float:
    """CPU time that processes have used so far, those of their dead children included."""
    ticks = 0
    for process in processes:
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
