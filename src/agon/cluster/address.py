"""Which machines a run may talk to: this one, and those of a network that the user names."""

from __future__ import annotations

import ipaddress
import socket

from agon.errors import ConfigError

LOCAL = "local"
"""The address of a cluster that is started on this machine for as long as the run lasts."""


def outsider(host: str, network: str | None, key: str) -> str | None:
    """The first address of a host that is neither this machine's nor in the network; `key` names the host."""
    try:
        addresses = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None)})
    except OSError as error:
        raise ConfigError(f"{key}: cannot resolve {host} ({error})", fix="check the spelling") from error
    try:
        allowed = ipaddress.ip_network(network) if network else None
    except ValueError as error:
        raise ConfigError(f"sampler.network: {error}", fix="write it like 10.0.0.0/8") from error
    inside = (ip.is_loopback or (allowed and ip in allowed) for ip in map(ipaddress.ip_address, addresses))
    return next((address for address, held in zip(addresses, inside, strict=True) if not held), None)


def check_cluster(address: str | None, network: str | None) -> tuple[str, int] | None:
    """Host and port of a cluster, None for one that is to be started here; ConfigError for what we do not join.

    Ray itself would read RAY_ADDRESS and a file that names the last cluster of this machine: both may be another
    user's, or another job's.
    """
    if address == LOCAL:
        return None
    host, colon, port = (address or "").rpartition(":")
    if not (host and colon and port.isdecimal()) or "/" in host:
        given = address or "no address"
        raise ConfigError(
            f"{given} does not name a cluster: Ray would join whatever runs on this machine",
            fix="write its address, HOST:PORT, as `ray start --head` prints it; or local, to start one here",
        )
    host = host.strip("[]")
    if outside := outsider(host, network, "cluster.address"):
        place = host if host == outside else f"{host}, which is {outside},"
        raise ConfigError(
            f"{place} is neither this machine nor in a network that you named: "
            "whoever reaches a Ray cluster can run any code on it, and it on those who join",
            fix="if that network is yours, name it: sampler.network=10.0.0.0/8, or --network 10.0.0.0/8 of agon doctor",
        )
    return host, int(port)
