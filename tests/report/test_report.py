"""`agon report`: numbers are those on disk, with n, seeds, interval and budget; what is not there is missing."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from agon.cli import main
from agon.eval.intervals import t_interval
from agon.report import paper
from agon.report.cells import BY_KEY, METHODS, cell
from agon.report.collect import HELD_OUT, Run, Setting, collect
from agon.report.curve import curve
from agon.report.document import stems, write_report
from agon.report.figures import _pyplot, band
from agon.report.labels import Mark, place
from agon.report.tables import MAIN, ablation_table, main_table, scaling_table

from .studies import N, make_study


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    arms = {"agon": 3, "coop": 2, "grpo": 1, "shared-opponent": 1}
    return make_study(tmp_path_factory.mktemp("study"), arms)


@pytest.fixture(scope="module")
def runs(paths: list[Path]) -> list[Run]:
    return collect(paths)


def rows_of(table: str) -> dict[str, list[str]]:
    lines = [[part.strip() for part in line.strip("|").split("|")] for line in table.splitlines()]
    return {line[0]: line[1:] for line in lines[2:]}


def test_one_seed_keeps_its_own_interval(runs: list[Run]) -> None:
    found = cell(runs, "grpo", HELD_OUT)
    assert found is not None
    raw = next(run for run in runs if run.arm == "grpo").results[HELD_OUT, "a"]
    assert (found.rate.value, found.rate.low, found.rate.high) == tuple(
        raw["pass"][k] for k in ("value", "low", "high")
    )
    assert found.n == str(N)


def test_several_seeds_get_an_interval_over_seeds(runs: list[Run]) -> None:
    found = cell(runs, "agon", HELD_OUT)
    assert found is not None
    values = [run.results[HELD_OUT, "cascade"]["pass"]["value"] for run in runs if run.arm == "agon"]
    wanted = t_interval(values, floor=0.0, ceiling=1.0)
    assert (found.rate.value, found.rate.low) == (wanted.value, wanted.low)
    assert found.seeds == [0, 1, 2]


def test_seeds_that_agree_exactly_do_not_make_a_number_certain(tmp_path: Path) -> None:
    paths = make_study(tmp_path, {"coop": 2})
    files = [path / "evals" / "held_out" / "cascade.json" for path in paths]
    files[1].write_text(files[0].read_text())
    found = cell(collect(paths), "coop", HELD_OUT)
    assert found is not None
    assert found.rate.low < found.rate.value < found.rate.high
    assert "the seeds being equal" in found.kind


def test_the_bare_base_counts_once_per_seed(runs: list[Run]) -> None:
    found = cell(runs, "zero-shot", HELD_OUT)
    assert found is not None
    assert [run.seed for run in found.runs] == [0, 1, 2]


def test_a_method_that_no_run_has_is_missing(runs: list[Run]) -> None:
    rows = rows_of(main_table(runs, runs[0].setting))
    assert rows[BY_KEY["self-refine"].title][0] == "missing"
    assert rows[BY_KEY["agon"].title][0] != "missing"


def test_every_number_has_n_seeds_interval_and_budget(runs: list[Run]) -> None:
    row = rows_of(main_table(runs, runs[0].setting))[BY_KEY["agon"].title]
    assert re.fullmatch(r"\d+\.\d \[\d+\.\d, \d+\.\d\]", row[0])
    assert row[4:7] == [str(N), "0, 1, 2", "3,840, 210,000"]


def test_the_papers_numbers_stand_only_beside_its_own_setting(runs: list[Run], tmp_path: Path) -> None:
    assert "the paper" not in main_table(runs, runs[0].setting)
    theirs = collect(make_study(tmp_path, {"agon": 1}, paper.BASE, paper.DATA))
    assert rows_of(main_table(theirs, theirs[0].setting))[BY_KEY["agon"].title][-2:] == ["61", "3.5k"]
    scaled = rows_of(scaling_table(theirs, paper.DATA))
    assert scaled["Qwen/Qwen3-4B"][0] == "missing"
    assert scaled["Qwen/Qwen3-4B"][-1] == "52 / 59 / 71"


def test_a_difference_is_that_of_its_cells(runs: list[Run]) -> None:
    agon, coop = cell(runs, "agon", HELD_OUT), cell(runs, "coop", HELD_OUT)
    assert agon is not None
    assert coop is not None
    row = rows_of(ablation_table(runs, runs[0].setting))["Competition (reward)"]
    value, low, high = map(float, re.findall(r"[-+]\d+\.\d", row[2]))
    one, two = agon.rate, coop.rate
    assert value == pytest.approx(100 * (one.value - two.value), abs=0.051)
    assert value - low == pytest.approx(100 * math.hypot(one.value - one.low, two.high - two.value), abs=0.11)
    assert high - value == pytest.approx(100 * math.hypot(one.high - one.value, two.value - two.low), abs=0.11)


def test_the_tables_hold_the_papers_numbers() -> None:
    assert {method.key for method in METHODS} >= {*paper.MAIN, *paper.ABLATIONS, *paper.DENSITY, *paper.CODE}
    assert set(MAIN) == set(paper.INTERVALS)
    for key, (value, _) in paper.MAIN.items():
        low, high = paper.INTERVALS[key]
        assert low < value < high
    for arm, values in paper.CURVES.items():
        assert round(values[-1]) == paper.MAIN[arm][0]


def test_a_curve_is_the_mean_of_both_directions(paths: list[Path]) -> None:
    raw = json.loads((paths[0] / "points.json").read_text())[-1]["systems"]
    last = curve(paths[0])[-1]
    assert last.rate == (raw["ab"]["correct"] + raw["ba"]["correct"]) / 200
    assert last.reward == pytest.approx(2 * last.rate + 0.5 * 0.9)


def test_curves_of_several_seeds_share_their_points(runs: list[Run]) -> None:
    xs, mean, low, high = band([run for run in runs if run.arm == "agon"])
    assert xs == [0, 80, 160, 240]
    assert all(a <= b <= c for a, b, c in zip(low, mean, high, strict=True))


def test_a_curve_of_seeds_that_agree_is_not_certain(runs: list[Run]) -> None:
    one = next(run for run in runs if run.arm == "agon")
    assert band([one, replace(one, seed=9)]) == band([one])
    assert all(a < b < c for a, b, c in zip(*(band([one])[i] for i in (2, 1, 3)), strict=True))


def test_the_command_writes_every_table_and_figure(paths: list[Path], tmp_path: Path) -> None:
    assert main(["report", *map(str, paths), "-o", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    for title in (
        "Main comparison", "Intervals", "Transfer", "Ablations", "Density lever", "The 2 x 2 design", "Directions",
        "What the second stage does", "How far A and B fail together", "Tokens for one right answer", "Scaling",
        "Missing",
    ):  # fmt: skip
        assert re.search(rf"^##+ {title}", page, re.MULTILINE), title
    named = re.findall(r"\]\(([^)]+)\)", page)
    assert len(named) == 6
    assert all((tmp_path / "out" / name).stat().st_size > 1000 for name in named)


def test_the_same_runs_give_the_same_page(runs: list[Run], tmp_path: Path) -> None:
    one, two = (write_report(runs, tmp_path / name) for name in ("one", "two"))
    for file in one.parent.iterdir():
        assert file.read_bytes() == (two.parent / file.name).read_bytes(), file.name


def test_a_result_that_is_not_finished_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"grpo": 1})[0]
    file = path / "evals" / "held_out" / "a.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"complete": False}))
    (path / "evals" / "held_out" / "base.json").write_text("{torn")
    run = collect([path])[0]
    assert cell([run], "grpo", HELD_OUT) is None
    assert len(run.notes) == 2
    assert "Left out" in write_report([run], tmp_path / "out", with_figures=False).read_text()


@pytest.mark.parametrize("gone", ["pass", "length", "tokens", "problems", "leak", "system"])
def test_half_a_result_is_left_out_rather_than_told(gone: str, tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    file = path / "evals" / "held_out" / "ab.json"
    file.write_text(json.dumps({name: value for name, value in json.loads(file.read_text()).items() if name != gone}))
    page = write_report(collect([path]), tmp_path / "out", with_figures=False).read_text()
    assert "ab.json is not finished" in page


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [make_study(tmp_path / name, {"agon": 1})[0] for name in ("one", "two")]
    assert [run.name for run in collect(paths)] == ["one/agon-s0", "two/agon-s0"]
    assert [run.name for run in collect(paths[:1])] == ["agon-s0"]


def test_a_matrix_is_all_of_its_runs_those_without_training_too(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    alone = path.parent / "zero-shot-s0"
    (alone / "evals" / "held_out").mkdir(parents=True)
    file = path / "evals" / "held_out" / "base.json"
    raw = json.loads(file.read_text()) | {"settings": {"base": "agon:tiny"}}
    (alone / "evals" / "held_out" / "base.json").write_text(json.dumps(raw))
    file.unlink()
    runs = collect([tmp_path])
    assert [(run.name, run.arm, run.setting) for run in runs][1] == ("zero-shot-s0", "base", runs[0].setting)
    assert cell(runs, "zero-shot", HELD_OUT) is not None
    assert not runs[0].notes
    raw["outcomes"] = {"another problem": [True]}
    (alone / "evals" / "held_out" / "base.json").write_text(json.dumps(raw))
    assert "zero-shot-s0 is no run" in collect([tmp_path])[0].notes[0]


def test_figures_of_two_settings_have_two_names() -> None:
    found = stems([Setting("a/b", "x"), Setting("a-b", "x"), Setting("α", "β"), Setting("c" * 300, "x")])
    assert len(set(found.values())) == 4
    assert all(0 < len(stem) < 100 for stem in found.values())


def test_names_in_a_figure_cover_neither_each_other_nor_a_point() -> None:
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    marks = [Mark(540 + k % 3, 30 + k, 24 + k, 36 + k, f"method {k}", "black") for k in range(6)]
    axes.scatter([mark.x for mark in marks], [mark.y for mark in marks])
    axes.margins(0.22)
    place(axes, marks)
    figure.draw_without_rendering()
    spots = [text.get_window_extent() for text in axes.texts]
    dots = [axes.transData.transform((mark.x, mark.y)) for mark in marks]
    plt.close(figure)
    assert not any(one.overlaps(two) for one, two in combinations(spots, 2))
    assert not any(spot.contains(*dot) for spot in spots for dot in dots)


def test_a_run_without_results_still_has_a_report(tmp_path: Path) -> None:
    path = make_study(tmp_path, {"agon": 1})[0]
    for file in path.rglob("*.json"):
        if file.name != "manifest.json":
            file.unlink()
    page = write_report(collect([path]), tmp_path / "out").read_text()
    assert page.count("missing") > 10


def test_what_is_not_a_run_is_refused_in_two_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "fix:" in capsys.readouterr().err


def test_settings_are_told_apart() -> None:
    assert Setting("a", "x") != Setting("a", "y")
    assert str(Setting("a", "x")) == "a on x"
