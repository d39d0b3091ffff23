from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agon.engine import fleet
from tests.engine.helpers.engines import adapter_folders


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tests share the machine, and sums in one order are easier to compare."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="package")
def imported_modules_are_not_garbage() -> Iterator[None]:
    """The HF trainer collects garbage whenever it starts; without this it walks all of torch and vLLM each time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet restarts an engine at once, without waiting for a Ctrl-C to arrive first."""
    monkeypatch.setattr(fleet, "GRACE", 0.0)


@pytest.fixture
def adapters(tmp_path: Path) -> Path:
    """Folders of three adapters: one, two, three."""
    return adapter_folders(tmp_path, "one", "two", "three")
