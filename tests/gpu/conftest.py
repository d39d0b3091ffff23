"""The acceptance kit: `pytest -m gpu tests/gpu` on a machine with one or two GPUs writes `gpu-report.json`.

That one file says what was tried on which hardware and versions, and what was measured; it names neither the machine
nor its user. Without CUDA every test is skipped and no file is written.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))
import _lib
from agon.engine.dtypes import gpu_dtype

REPORT = Path(os.environ.get("AGON_GPU_REPORT", "gpu-report.json"))
RESULTS: list[dict[str, Any]] = []


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("gpu")
    if marker is None:
        return
    needed = marker.kwargs.get("count", 1)
    if torch.cuda.device_count() < needed:
        pytest.skip(f"needs {needed} CUDA device(s), {torch.cuda.device_count()} found")
    if gpu_dtype() != "bfloat16" and not marker.kwargs.get("any_dtype"):
        pytest.skip("needs a GPU with bfloat16")


@pytest.fixture(autouse=True)
def _one_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of one GPU on a machine with several: a learner without a launcher refuses to see them all."""
    marker = request.node.get_closest_marker("gpu")
    if marker and marker.kwargs.get("count", 1) == 1 and torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "gpu/" in report.nodeid and report.when == "call":  # the keyword alone also matches a parameter of that name
        measured = dict(report.user_properties)
        line = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 1)}
        RESULTS.append(line | {"measured": measured, "error": _last_line(report)})


def pytest_sessionfinish(session: pytest.Session) -> None:
    if RESULTS:
        described = {"commit": _lib.commit(), "versions": _lib.versions(), "hardware": _lib.hardware()}
        REPORT.write_text(json.dumps(described | {"cuda": torch.version.cuda, "results": RESULTS}, indent=2) + "\n")


def _last_line(report: pytest.TestReport) -> str | None:
    """What went wrong, without paths of the machine."""
    if report.passed:
        return None
    lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
    return lines[0][1:].strip()[:300] if lines else report.outcome
