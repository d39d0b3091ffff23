"""The lines of the quickstart in the cells of a notebook, on a real kernel: there an event loop runs already."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs the extra dev")
pytest.importorskip("ipykernel", reason="needs the extra dev")
pytest.importorskip("trl", reason="training needs the extra train")
v4 = pytest.importorskip("nbformat.v4")

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "small = ['train.problems_per_step=2', 'game.group_size=2', 'data.train.take=8', 'data.dev.take=4', "
    "'data.held_out.take=4']"
)
TRAIN = "agon.train('configs/tabletop/agon.yaml', *small, 'train.{}', 'eval.points={}', out={!r}, name={!r})"


@pytest.mark.slow
def test_a_notebook_trains_evaluates_compares_asks_and_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cells = [
        f"import agon\n{SMALL}\nrun = " + TRAIN.format("max_steps=1", 1, str(tmp_path), "pair"),
        "results = agon.evaluate(run)\nresults",
        "agon.compare(results['a'], results['ab'])",
        "with agon.Pair.load(run) as pair:\n    answer = pair.answer('Let a = 3. What is a?')\nanswer",
        TRAIN.format("epochs=100", 0, str(tmp_path), "stopped"),
    ]
    book = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    asyncio.run(run_and_interrupt_the_last(book, tmp_path / "stopped" / "steps.jsonl"))
    *ran, stopped = book.cells
    assert [error for cell in ran for error in outputs(cell, "error")] == []
    shown = [outputs(cell, "execute_result")[0]["data"]["text/html"] for cell in ran[1:]]
    assert [html.count("<table>") for html in shown] == [2, 1, 1]
    (error,) = outputs(stopped, "error")
    assert (error["ename"], error["evalue"].split(";")[0]) == ("KeyboardInterrupt", "stopped and saved")
    assert list((tmp_path / "stopped" / "checkpoints").iterdir())


async def run_and_interrupt_the_last(book: Any, steps: Path) -> None:
    """Run every cell; interrupt the kernel, as the button does, once the last one has finished a step."""
    client = nbclient.NotebookClient(book, timeout=600, allow_errors=True, resources={"metadata": {"path": str(ROOT)}})
    async with client.async_setup_kernel():
        for number, cell in enumerate(book.cells[:-1]):
            await client.async_execute_cell(cell, number)
        last = asyncio.ensure_future(client.async_execute_cell(book.cells[-1], len(book.cells) - 1))
        while not last.done() and not steps.exists():  # noqa: ASYNC110, ASYNC240 - a file sends no events
            await asyncio.sleep(0.1)
        await client.km.interrupt_kernel()
        await last


def outputs(cell: Any, kind: str) -> list[Any]:
    return [output for output in cell.outputs if output["output_type"] == kind]
