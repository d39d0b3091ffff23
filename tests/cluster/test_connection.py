"""How a cluster is joined, on a stand-in for Ray: real raylets are slow to start, evidence/ray_cluster.py has them."""

from __future__ import annotations

import signal
import socket
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from agon.cluster import connection
from agon.cluster.connection import connect
from agon.errors import ConfigError, EngineError


class FakeRay(types.ModuleType):
    """As much of Ray as `connect` touches; like Ray, it replaces the handler of SIGTERM."""

    __version__ = "2.60.0"

    def __init__(self) -> None:
        super().__init__("ray")
        self.joined: list[dict[str, Any]] = []
        self.shut = 0
        self.error: Exception | None = None

    def is_initialized(self) -> bool:
        return len(self.joined) > self.shut

    def init(self, **options: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        if self.error:
            raise self.error
        self.joined.append(options)

    def shutdown(self) -> None:
        self.shut += 1

    def nodes(self) -> list[dict[str, Any]]:
        each = {"CPU": 4.0, "GPU": 1.0}
        return [{"Alive": alive, "Resources": each} for alive in (True, False, True)]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 8.0, "GPU": 2.0, "memory": 1e9}

    def available_resources(self) -> dict[str, float]:
        return {"CPU": 6.0}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(connection, "_joined", {})
    return fake


@pytest.fixture
def head() -> Iterator[str]:
    """Something that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_our_signal_handlers_stay(ray: FakeRay, head: str) -> None:
    ours = {name: signal.getsignal(name) for name in connection.SIGNALS}
    connect(head, None)
    assert {name: signal.getsignal(name) for name in connection.SIGNALS} == ours
    ray.shutdown()
    ray.error = RuntimeError("version mismatch")
    with pytest.raises(EngineError, match="version mismatch"):
        connect(head, None)
    assert {name: signal.getsignal(name) for name in connection.SIGNALS} == ours


def test_a_cluster_is_joined_by_its_address_once(ray: FakeRay, head: str) -> None:
    connect(head, None)
    connect(head, None)
    assert [options["address"] for options in ray.joined] == [head]
    assert ray.joined[0]["log_to_driver"] is False, "lines of nodes would be printed between ours"
    connect("local", None)
    assert ray.shut == 1
    assert ray.joined[-1]["include_dashboard"] is False


def test_an_address_where_nothing_listens_is_reported_at_once(ray: FakeRay, head: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else takes the port meanwhile
        free = silent.getsockname()[1]
        with pytest.raises(EngineError, match=f"nothing answers at 127.0.0.1:{free}") as refused:
            connect(f"127.0.0.1:{free}", None)
    assert refused.value.fix == f"start it there: ray start --head --port {free}"
    assert not ray.joined


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="needs Ray") as refused:
        connect("local", None)
    assert "[ray]" in refused.value.fix


def test_a_bad_address_is_refused_before_ray_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="does not name a cluster"):
        connect("auto", None)


def test_a_run_that_does_not_fit_is_refused(ray: FakeRay, head: str) -> None:
    joined = connect(head, None)
    nodes = joined.nodes()
    assert (nodes.alive, nodes.cpus, nodes.gpus, nodes.free_cpus, nodes.free_gpus) == (2, 8.0, 2.0, 6.0, 0.0)
    joined.check_room(8, 2, 1)
    joined.check_room(8, 5, 0)
    for asked in ((9, 0, 0), (1, 3, 1), (1, 1, 2)):
        with pytest.raises(ConfigError, match="has CPUs: 8, GPUs: 2, nodes: 2"):
            joined.check_room(*asked)


def test_the_gpus_of_an_engine_are_on_one_node(ray: FakeRay, head: str) -> None:
    """Two nodes with a GPU each would leave its actor waiting for ever."""
    with pytest.raises(ConfigError, match=r"GPUs: 2, always 2 on one node; .* has CPUs: 8, GPUs: 2"):
        connect(head, None).check_room(1, 1, 2)
