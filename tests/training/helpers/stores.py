"""What processes of a run say to each other, without processes."""

from __future__ import annotations

import threading
from typing import Any


class Memory:
    """A store in this process."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.gone = False
        self._lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        with self._open():
            self.values[key] = value

    def get(self, key: str) -> bytes:
        with self._open():
            return self.values[key].encode()

    def check(self, keys: list[str]) -> bool:
        with self._open():
            return all(key in self.values for key in keys)

    def delete_key(self, key: str) -> bool:
        with self._open():
            return self.values.pop(key, None) is not None

    def _open(self) -> threading.Lock:
        if self.gone:
            raise RuntimeError("connection reset by peer")
        return self._lock


class Board:
    """Threads as processes: `gather` gives each the values of all, in the order of their ranks."""

    def __init__(self, size: int) -> None:
        self.size, self.store = size, Memory()
        self._barrier, self._values = threading.Barrier(size, timeout=20), [None] * size

    def gather(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values
