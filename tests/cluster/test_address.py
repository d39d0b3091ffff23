"""A cluster is named, never guessed, and is on this machine or in a network that the user named."""

from __future__ import annotations

import pytest

from agon.cluster.address import check_cluster
from agon.errors import ConfigError


@pytest.mark.parametrize("address", [None, "", "auto", "6379", "head:", ":6379", "ray://127.0.0.1:10001"])
def test_what_names_no_cluster_is_refused(address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    with pytest.raises(ConfigError, match="does not name a cluster") as refused:
        check_cluster(address, "0.0.0.0/0")
    assert "HOST:PORT" in refused.value.fix


def test_a_cluster_outside_this_machine_and_the_network_is_refused() -> None:
    for network in (None, "192.168.0.0/16"):
        with pytest.raises(ConfigError, match="can run any code") as refused:
            check_cluster("10.1.2.3:6379", network)
        assert "sampler.network" in refused.value.fix
    assert check_cluster("10.1.2.3:6379", "10.0.0.0/8") == ("10.1.2.3", 6379)


@pytest.mark.parametrize(
    ("address", "place"),
    [("127.0.0.1:6379", ("127.0.0.1", 6379)), ("[::1]:6379", ("::1", 6379)), ("local", None)],
)
def test_this_machine_needs_no_network(address: str, place: tuple[str, int] | None) -> None:
    assert check_cluster(address, None) == place


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(ConfigError, match="cannot resolve nowhere"):
        check_cluster("nowhere.invalid:6379", None)
