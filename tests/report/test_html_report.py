"""The report as one HTML page: result first, only what was measured, nothing that runs or loads."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agon.cli import main
from agon.formatting import interval
from agon.report.headline import read_headline
from agon.report.html_page import render_page, results_csv
from agon.report.methods import cell
from agon.report.overview import overview
from agon.report.rows import open_source
from agon.report.run_story import RunStory
from agon.rundir.files import locked
from agon.rundir.records import write_record
from agon.rundir.results import read_result
from agon_lens.charts import POINTS, Chart, thin
from tests.training.helpers.records import record

from .helpers import BOUTS, N, make_match, make_study, without_verdicts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("one"), {"agon": 1})[0]


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return render_page([RunStory.read(run)])


def test_the_page_says_the_result_first_and_has_only_sections_with_data(page: str, run: Path) -> None:
    body = page.split("<main>")[1]
    story = RunStory.read(run)
    assert story.headline is not None
    rate = story.headline.measured.pass_rate
    assert rate is not None
    assert body.index(f"{100 * rate.value:.1f}%") < body.index("<table") < body.index("<figure")
    assert "two passes" in body
    assert "missing" not in body
    assert "<td></td>" not in body.split("</table>")[0].split("</thead>")[0]
    empty = render_page([RunStory(run, story.measured, story.line, [])]).split("<main>")[1]
    assert "Right answers in training" not in empty


def test_a_run_that_was_not_evaluated_is_told_what_to_type(tmp_path: Path) -> None:
    run = make_match(tmp_path).path
    body = render_page([RunStory.read(run)]).split("<main>")[1]
    assert f"Not evaluated on held-out problems yet: agon eval {run}." in body
    assert "<h3>Held-out problems" not in body


def test_health_stands_under_the_result(tmp_path: Path, run: Path) -> None:
    story = RunStory.read(run)
    wrong = [record(step, 0.0) for step in range(4)]
    body = render_page([RunStory(run, story.measured, story.line, wrong)]).split("<main>")[1]
    assert "0 of 512 answers right since the start" in body
    assert body.index("0 of 512") < body.index("<table")
    body = render_page([RunStory(run, story.measured, story.line, [record(0, 0.5)])]).split("<main>")[1]
    assert re.search(r"Nothing looks wrong with this run; \d+% of its groups were live", body)


def test_the_page_runs_nothing_and_loads_nothing(page: str) -> None:
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=.?https?:", page)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_a_hostile_name_is_shown_as_text(tmp_path: Path) -> None:
    run = make_match(tmp_path).path
    evil = run.rename(run.with_name("<img src=x onerror=alert(1)>"))
    assert "<img" not in render_page([RunStory.read(evil)])


def test_many_runs_are_side_by_side_with_their_price(tmp_path: Path) -> None:
    paths = make_study(tmp_path, {"agon": 1, "grpo": 1})
    body = render_page([RunStory.read(path) for path in paths]).split("<main>")[1]
    assert body.index("has the highest rate") < body.index("Against grpo, seed 0, A alone in one pass: ")
    assert body.index("Against grpo") < body.index("<h2>Runs</h2>")
    table = body.split("</table>")[0]
    assert "two passes" in table
    assert "one pass" in table


def test_a_page_of_many_runs_begins_with_one_sentence_and_draws_them_in_one_chart(tmp_path: Path) -> None:
    stories = [RunStory.read(path) for path in make_study(tmp_path, {"agon": 1, "grpo": 1})]
    body = render_page(stories).split("<main>")[1]
    (headline,) = re.findall('<p class="verdict">(.*?)</p>', body.split("<h2>Runs</h2>")[0])
    assert len(headline.split()) <= 40
    together = body.split("<section>")[0]
    assert re.findall(r'<li class="s\d">(.*?)</li>', together) == ["agon, seed 0", "grpo, seed 0"]
    assert "<figure>" not in render_page(stories * 3).split("<main>")[1].split("<section>")[0], "lines look alike"


def test_a_run_that_answers_in_one_pass_is_also_compared_in_two(tmp_path: Path) -> None:
    best, other = (RunStory.read(path) for path in make_study(tmp_path, {"agon": 1, "coop": 1}))
    one = replace(other.measured, headline="a")
    told = list(best.against(replace(other, measured=one)))
    assert len(told) == 2
    assert told[0].startswith("Against coop, seed 0, A alone in one pass: ")
    assert "answers in two passes: " in told[1]
    assert [line.count("two passes") for line in best.against(other)] == [1]


def test_the_command_writes_page_tables_and_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_study(tmp_path, {"agon": 1})[0]
    assert main(["report", str(run), "--no-figures"]) == 0
    assert capsys.readouterr().out.startswith(f"{run / 'report.html'}  (open it in a browser")
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert 'href="report/report.md"' in (run / "report.html").read_text()
    rows = list(csv.DictReader((run / "report" / "results.csv").read_text().splitlines()))
    assert {row["system"] for row in rows} >= {"ab", "ba", "a", "b"}
    assert {row["passes"] for row in rows if row["system"] == "ab"} == {"2"}
    assert results_csv([RunStory.read(run)]).splitlines()[0].startswith("run,arm,seed,data,system,pass_rate")


def test_the_page_links_into_the_bouts(tmp_path: Path) -> None:
    run = make_match(tmp_path).path
    assert main(["report", str(run), "--no-figures"]) == 0
    best = list(BOUTS).index("converted") + len(BOUTS)  # of the last step
    assert f'<a href="match.html#{best}">its best conversion</a>' in (run / "report.html").read_text()
    assert (run / "match.html").is_file()


def test_a_chart_needs_two_points_and_stays_small() -> None:
    assert Chart("x", {"a": [(0, 0.5)]}).svg() == ""
    long = [(float(n), n / 9000) for n in range(9000)]
    assert len(thin(long)) <= POINTS + 1
    assert thin(long)[-1] == long[-1]
    drawn = Chart("<b>", {"a&b": long}, percent=True).svg()
    assert "<b>" not in drawn
    assert "a&amp;b" in drawn
    assert "100%" in drawn
    noise = Chart("tokens", {"a": [(0, 33.1), (1, 32.9)]}).svg()
    small = Chart("reward", {"a": [(0, 0.0), (1, 0.0004)]}).svg()
    assert ">0.0002</text>" in small
    assert ">0</text>" in noise, "an axis that begins at 32.9 would make noise look like a trend"


def test_a_run_is_listed_with_what_it_solves_and_in_how_many_passes(tmp_path: Path) -> None:
    make_study(tmp_path, {"agon": 1, "grpo": 1})
    shown = {line.arm: (line.score, line.held_out) for line in overview(tmp_path)}
    assert re.fullmatch(r"\d+\.\d% \[.*\] in 2 passes", shown["agon"][1])
    assert re.fullmatch(r"\d+\.\d% \[.*\] in 1 pass", shown["grpo"][1])
    assert re.fullmatch(r"\d+% -> \d+%|\d+%", shown["agon"][0])


def test_wherever_a_rate_is_told_so_are_problems_that_could_not_be_graded(tmp_path: Path) -> None:
    (path,) = make_study(tmp_path, {"agon": 1})
    file = path / "evals" / "held_out" / "cascade.json"
    write_record(file, without_verdicts(read_result(file), 3))
    missing = f"3 of {N} problems could not be graded"
    story = RunStory.read(path)
    assert missing in overview(tmp_path)[0].held_out
    assert missing in story.verdict()
    assert cell([story.measured], "agon", "held_out").n == f"{N - 3} of {N}"
    write_record(file, without_verdicts(read_result(file), N))
    assert f"{N} of {N} problems could not be graded" in RunStory.read(path).verdict()


def test_one_rate_stands_for_a_run_everywhere_with_the_one_before_training(tmp_path: Path) -> None:
    (path,) = make_study(tmp_path, {"agon": 1})
    before = path / "evals" / "held_out@0"
    shutil.copytree(path / "evals" / "held_out", before)
    for file in before.glob("*.json"):
        swapped = {"a": "ab", "b": "ba", "ab": "a", "ba": "b", "cascade": "a"}  # to tell it from the one after
        source = before.with_name("held_out") / f"{swapped.get(file.stem, file.stem)}.json"
        file.write_text(
            json.dumps(json.loads(source.read_text()) | ({"system": file.stem} if file.stem in swapped else {}))
        )
    story = RunStory.read(path)
    assert story.headline is not None
    assert story.before is not None
    after, earlier = (interval(result.measured.pass_rate) for result in (story.headline, story.before))
    assert after != earlier
    (line,) = overview(tmp_path)
    assert (line.before, line.held_out.split(" in ")[0]) == (earlier, after)
    shown = str(read_headline(path, "cascade"))
    assert after in shown
    assert f"before training {earlier}" in shown
    assert story.verdict().startswith(shown)
    assert shown in open_source(path).facts, "the header of the viewer"
    body = render_page([story]).split("<main>")[1]
    assert body.index(shown) < body.index("<th>before training</th>")


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    (path,) = make_study(tmp_path, {"agon": 1})
    assert "not measured before training" in str(read_headline(path, "cascade"))
    assert f"Before training: agon eval {path} --step 0." in RunStory.read(path).verdict()
    (path / "evals" / "held_out" / "cascade.json").unlink()
    assert "Dev chose no direction" in RunStory.read(path).verdict()
    shutil.rmtree(path / "evals")
    assert overview(tmp_path)[0].held_out == "-"
    assert any("not evaluated on held-out problems; on dev " in fact for fact in open_source(path).facts)


def test_runs_are_listed_with_their_state(tmp_path: Path) -> None:
    run = make_match(tmp_path / "runs" if (tmp_path / "runs").mkdir() is None else tmp_path)
    (line,) = overview(tmp_path)
    assert (line.state, line.held_out) == ("new", "-")
    with locked(run.path / ".lock"):
        assert overview(tmp_path)[0].state == "running"
    (run.path / "manifest.json").write_text("{}")
    assert overview(tmp_path)[0].state == "damaged"


def test_without_a_run_the_report_is_a_table_of_the_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 0
    assert "agon train" in capsys.readouterr().out
    paths = make_study(tmp_path / "runs", {"agon": 1, "grpo": 1})
    assert main(["report"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["run", "arm", "base", "state"]
    assert {row.split()[0] for row in rows} == {str(path.relative_to(tmp_path)) for path in paths}
    assert main(["report", "--json"]) == 0
    assert {run["arm"] for run in json.loads(capsys.readouterr().out)} == {"agon", "grpo"}


def test_runs_of_one_arm_and_seed_are_told_apart(tmp_path: Path) -> None:
    paths = [make_study(tmp_path / name, {"agon": 1})[0] for name in ("slow", "fast")]
    body = render_page([RunStory.read(path) for path in paths]).split("<main>")[1]
    chart = body.partition("as each run answers")[2].split("<section>")[0]
    for path in paths:
        assert f"agon, seed 0 ({path})" in chart
    assert f"<b>agon, seed 0 ({paths[0]})</b> has the highest rate" in body
    assert f"Against agon, seed 0 ({paths[1]})," in body
    alone = render_page([RunStory.read(paths[0]), RunStory.read(make_study(tmp_path, {"coop": 1})[0])])
    assert "Against agon, seed 0, " in alone
