from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch


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
