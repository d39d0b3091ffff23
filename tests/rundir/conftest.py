from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sync is good for is modelled in `faults.py`; the disk below the tests need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
