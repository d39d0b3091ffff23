"""A connection to a Ray cluster: actors, values and commands on its nodes. The only module that imports Ray.

Ray's actors and tasks are used, and nothing above them. What it knows of failures is taken as a hint: a node that it
calls dead may still work, so seeds, versions and locks keep draws and runs single, not Ray.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agon.cluster.actor import Actor
from agon.cluster.address import check_cluster
from agon.cluster.shell import NodeShell
from agon.errors import ConfigError, EngineError, install

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REACH = 10.0
"""Seconds in which the head of a cluster must accept a connection."""
ASKED_AT_ONCE = 10_000
"""Calls that an actor takes at a time: the object inside decides what runs."""
RETRIES = 3
"""How often a command starts again whose node or process is lost."""
NOT_A_NODE = "run this on a node of the cluster, with the same versions of Python and Ray (`ray status` shows nodes)"


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a cluster has."""

    version: str
    alive: int
    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A function that runs on some node."""

    result: Future[str | None]
    """What it returns; any error of Ray where it was lost too often."""
    interrupt: Callable[[], None]
    """Raise KeyboardInterrupt in it, and do not start it again."""


class Connection:
    """This process's connection; `connect` makes it."""

    def __init__(self, ray: Any, address: str) -> None:
        self.address, self._ray = address, ray

    def place(self, make: Callable[..., Any], *args: Any, gpus: int = 0) -> Actor:
        """Start an actor that holds what `make` builds, on a node with room for it; nodes take turns.

        Returns at once: where no node has room, its first answer waits until one has.
        """
        actor = self._ray.remote(NodeShell).options(
            num_cpus=1,
            num_gpus=gpus,
            max_concurrency=ASKED_AT_ONCE,
            max_restarts=0,  # who holds it starts a new one: it knows what must be loaded first
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        return Actor(_Handle(self._ray, actor.remote(make, *args)))

    def keep(self, value: object) -> object:
        """Put a value in the object store: it is sent to each node once, however many actors there get it."""
        return self._ray.put(value)

    def run(self, work: Callable[..., str | None], *args: Any, gpus: int = 0) -> NodeTask:
        """Call a function on a node, again on another where that is lost."""
        remote = self._ray.remote(work).options(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)
        reference = remote.remote(*args)
        return NodeTask(reference.future(), lambda: self._ray.cancel(reference))

    def nodes(self) -> Nodes:
        """What the cluster has, and what is free."""
        total, free = self._ray.cluster_resources(), self._ray.available_resources()
        alive = sum(node["Alive"] for node in self._ray.nodes())
        sizes = (resources.get(kind, 0.0) for resources in (total, free) for kind in ("CPU", "GPU"))
        return Nodes(self._ray.__version__, alive, *sizes)

    def check_room(self, cpus: int, engines: int = 0, gpus: int = 0) -> None:
        """Refuse to wait for nodes that are not there: nobody would see why a run does not begin.

        Each of the engines needs its `gpus` on one node.
        """
        nodes, on_nodes = self.nodes(), [int(n["Resources"].get("GPU", 0)) for n in self._ray.nodes() if n["Alive"]]
        if nodes.cpus < cpus or (gpus and sum(have // gpus for have in on_nodes) < engines):
            together = f", always {gpus} on one node" if gpus > 1 else ""
            raise ConfigError(
                f"the run's actors need CPUs: {cpus}, GPUs: {engines * gpus}{together}; "
                f"{self.address} has CPUs: {nodes.cpus:.0f}, GPUs: {nodes.gpus:.0f}, nodes: {nodes.alive}",
                fix="add nodes (ray start --address HOST:PORT), or ask for less; cluster.gpus=0 for nodes without GPUs",
            )


class _Handle:
    """Implements `agon.cluster.actor.Handle`."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def ask(self, verb: str, *args: Any) -> Future[Any]:
        future: Future[Any] = self._actor.ask.remote(verb, *args).future()
        return future

    async def stream(self, verb: str, items: list[Any]) -> AsyncIterator[tuple[int, Any]]:
        async for reference in self._actor.stream.options(num_returns="streaming").remote(verb, items):
            yield await reference

    def kill(self) -> None:
        if self._ray.is_initialized():
            self._ray.kill(self._actor, no_restart=True)


def connect(address: str | None, network: str | None) -> Connection:
    """Join a cluster, or start one here; the connection lasts as long as this process."""
    place = check_cluster(address, network)
    assert address is not None, "checked"
    ray = _import()
    if ray.is_initialized():
        if _joined.get("address") == address:
            return Connection(ray, address)
        ray.shutdown()
    if place is not None:
        _reach(*place)
    # a cluster that we start sends no usage statistics
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own = {} if place else {"include_dashboard": False}
    try:
        with kept_handlers():
            # output of nodes would be printed between ours: it stays in Ray's logs
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise EngineError(f"cannot join the cluster {address}: {error}", fix=NOT_A_NODE) from error
    _joined["address"] = address
    return Connection(ray, address)


_joined: dict[str, str] = {}


def _import() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("a cluster needs Ray, which is not installed", fix=install("ray")) from error
    return ray


def _reach(host: str, port: int) -> None:
    """Ray tries for a minute, then ends the process."""
    try:
        socket.create_connection((host, port), REACH).close()
    except OSError as error:
        fix = f"start it there: ray start --head --port {port}"
        raise EngineError(f"nothing answers at {host}:{port}: {error}", fix=fix) from error


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Keep this process's signal handlers: Ray sets its own, and a run that is asked to stop could not save."""
    if threading.current_thread() is not threading.main_thread():  # Python sets handlers in no other
        yield
        return
    before = {name: signal.getsignal(name) for name in SIGNALS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
