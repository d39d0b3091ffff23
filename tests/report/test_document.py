"""`agon report`: one page with every table and figure, the same for the same runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agon.cli import main
from agon.report.collect import MeasuredRun, Setting, collect
from agon.report.document import stems, write_report

from .helpers import make_study


def test_the_command_writes_every_table_and_figure(paths: list[Path], tmp_path: Path) -> None:
    assert main(["report", *map(str, paths), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    for title in (
        "Main comparison", "Intervals", "Transfer", "Ablations", "Density lever", "The 2 x 2 design", "Directions",
        "Effect of the second stage", "Shared errors of A and B", "Tokens per right answer", "Scaling",
        "Missing",
    ):  # fmt: skip
        assert re.search(rf"^##+ {title}", page, re.MULTILINE), title
    files = re.findall(r"\]\(([^)]+)\)", page)
    assert len(files) == 6
    assert all((tmp_path / "out" / file).stat().st_size > 1000 for file in files)


def test_the_same_runs_give_the_same_page(runs: list[MeasuredRun], tmp_path: Path) -> None:
    one, two = (write_report(runs, tmp_path / name) for name in ("one", "two"))
    for file in one.parent.iterdir():
        assert file.read_bytes() == (two.parent / file.name).read_bytes(), file.name


def test_what_was_skipped_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    (path / "evals" / "held_out" / "ab.json").write_text("{torn")
    assert main(["report", str(path), "--no-figures"]) == 0
    assert "ab.json" in capsys.readouterr().out
    assert "ab.json" in (path / "report" / "report.md").read_text().split("## Skipped")[1]


def test_figures_of_two_settings_have_two_names() -> None:
    names = stems([Setting("a/b", "x"), Setting("a-b", "x"), Setting("α", "β"), Setting("c" * 300, "x")])
    assert len(set(names.values())) == 4
    assert all(0 < len(stem) < 100 for stem in names.values())


def test_a_run_without_results_still_has_a_report(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    for file in path.rglob("*.json"):
        if file.name != "manifest.json":
            file.unlink()
    page = write_report(collect([path]), tmp_path / "out").read_text()
    assert page.count("missing") > 10


def test_a_folder_that_is_not_a_run_is_refused_with_a_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "fix:" in capsys.readouterr().err
