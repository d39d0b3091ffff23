"""The notebooks that GitHub shows: what they show is what their cells print, and it is small and names no machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="needs the extra dev")
pytest.importorskip("ipykernel", reason="needs the extra dev")
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LIGHT = ("see_the_game", "diagnose_a_log")


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_a_notebook_shows_what_its_cells_print(name: str) -> None:
    command = [ROOT / "scripts" / "notebooks", "--check", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"


def test_an_unknown_notebook_is_answered_with_those_that_exist() -> None:
    done = subprocess.run([ROOT / "scripts" / "notebooks", "--check", "nope"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "see_the_game" in done.stderr


@pytest.mark.parametrize("name", [*LIGHT, "train_evaluate_ask"])
def test_stored_outputs_are_whole_small_and_free_of_machine_paths(name: str) -> None:
    text = (EXAMPLES / f"{name}.ipynb").read_text()
    book = nbformat.reads(text, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "run from top to bottom"
    assert sum(bool(cell.outputs) for cell in code) >= 3
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    assert len(text) < 100_000
    assert not re.search(r"(?<![\w.])/(tmp|work|root|home|Users|mnt|opt)/\w", text)


def test_the_game_is_shown_as_it_is_paid_and_where_the_bonus_has_no_effect() -> None:
    book = nbformat.read(EXAMPLES / "see_the_game.ipynb", as_version=4)
    one, _, shares = (cell.outputs[0].text for cell in book.cells if cell.get("outputs"))
    seen = next(line for line in one.splitlines() if line.startswith("B saw"))
    assert "private reasoning" not in seen
    assert "answer" not in seen
    assert "A was paid  0.5  B was paid  3.5" in one
    rows = [[int(word[:-1]) for word in line.split()] for line in shares.splitlines()[1:]]
    assert rows[0] == [0, 0, 0]
    assert rows[-1] == [100, 0, 0]
    assert all(0 < four < eight for _, four, eight in rows[1:-1])


def test_the_index_names_every_example() -> None:
    index = (EXAMPLES / "README.md").read_text()
    tracked = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {Path(line).relative_to("examples").parts[0] for line in tracked.stdout.split()} - {"README.md"}
    assert names <= set(re.findall(r"\[[\w.]+\]\(([\w.]+)\)", index))


def test_the_index_shows_what_the_game_without_a_model_prints() -> None:
    from tests.examples.test_examples import run

    assert f"play_without_a_model.py\n{run('play_without_a_model')}```" in (EXAMPLES / "README.md").read_text()
