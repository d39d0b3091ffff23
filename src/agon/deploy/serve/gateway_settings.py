"""What bounds a gateway."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Seconds, bytes and counts; `agon serve --help` has those that are set by hand."""

    deadline: float = 600.0
    """Seconds for a whole answer, both stages."""
    first: float = 120.0
    """Seconds to a stage's first ids while the server makes progress with others."""
    stall: float = 20.0
    """Seconds without any progress after which a server is given up."""
    slots: int = 64
    """Stages at once on one server."""
    queue: int = 256
    """Answers that may wait beyond the slots of all servers; more are refused."""
    first_wait: float = 30.0
    """Seconds that a draft may wait for a slot."""
    per_key: int | None = None
    """Answers at once for one API key."""
    max_body: int = 1 << 20
    """Bytes."""
    body_seconds: float = 10.0
    """Seconds in which a body must arrive."""
    write_seconds: float = 30.0
    """Seconds that a client may take to read one event."""
    ping: float = 15.0
    """Seconds of silence after which a stream sends a comment, so that proxies keep it open."""
    drain_delay: float = 5.0
    """Seconds between /ready saying no and new requests being refused: load balancers lag."""
    drain_limit: float = 120.0
    """Seconds that running answers get before they are cut off."""
