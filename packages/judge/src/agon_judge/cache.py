"""Verdicts that a verifier remembers, by a hash of all that they depend on."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Cache(Generic[T]):
    """The last `size` to `2 * size` values by key, in two plain dicts, which threads can share without a lock."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._young: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}

    def get(self, key: bytes) -> T | None:
        found = self._young.get(key)
        return self._old.get(key) if found is None else found

    def put(self, key: bytes, value: T) -> None:
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = value
