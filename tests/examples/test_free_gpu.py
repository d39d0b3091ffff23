"""The notebook for a free GPU: its cells run here in their small form, on a real kernel, and leave a report."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs the extra dev")
pytest.importorskip("ipykernel", reason="needs the extra dev")
pytest.importorskip("trl", reason="training needs the extra train")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "examples" / "free_gpu.ipynb"


def test_the_notebook_is_valid_and_holds_no_output() -> None:
    book = nbformat.read(BOOK, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    text = BOOK.read_text()
    assert "constraints/gpu.lock" in text
    assert "--require-hashes" in text


@pytest.mark.slow
def test_the_cells_run_without_a_gpu_and_leave_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a tree that links to ours: runs and the report belong to the clone that the notebook is in."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("configs", "constraints", "evidence", "packages", "src", "tests", "pyproject.toml"):
        (clone / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "scripts", clone / "scripts")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", *ROOT.glob("packages/*/src")))))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PATH", os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not has_gpu_tool(p)))
    book = nbformat.read(BOOK, as_version=4)
    client = nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(clone)}})
    client.execute()
    report = json.loads((clone / "gpu-report.json").read_text())
    assert report["parts"]["start"]["outcome"] == "passed"
    assert str(tmp_path) not in (clone / "gpu-report.json").read_text()
    assert (clone / "runs" / "smoke" / "pair" / "agon.json").is_file()
    shown = "".join(output.get("text", "") for cell in book.cells for output in cell.get("outputs", []))
    assert "dtype: float32" in shown


def has_gpu_tool(folder: str) -> bool:
    return (Path(folder) / "nvidia-smi").exists()
