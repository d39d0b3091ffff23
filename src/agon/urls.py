"""Addresses that users write."""

from __future__ import annotations

from urllib.parse import urlsplit


def host_of(url: str) -> str:
    """The host of an HTTP address; empty if it is not one."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.port != 0  # a port that is not a number raises
    except ValueError:
        return ""
    return (parts.hostname or "") if usable else ""
