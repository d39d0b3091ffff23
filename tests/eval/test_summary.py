"""What an evaluation prints: short for a first reader, all of it when asked."""

from __future__ import annotations

from pathlib import Path

from agon.eval.results import Results
from agon.eval.summary import summary
from agon.formatting import percent
from agon.rundir.results import RunFacts
from tests.report.helpers import pair, results, without_verdicts


def test_the_short_summary_leaves_out_what_a_beginner_cannot_use() -> None:
    held = results(RunFacts(name="one", seed=0, arm="agon", step=9), "agon:tiny")
    both = pair(held["a"], held["b"])
    short, full = summary(held, both), summary(held, both, full=True)
    for word in ("Yule's Q", "cosine", "prefilled", "read wrong", "leaks"):
        assert word not in short
        assert word in full
    assert short in full or short.splitlines()[0] in full


def test_the_price_stands_beside_the_score() -> None:
    held = results(RunFacts(name="one", seed=0, arm="agon", step=9), "agon:tiny")
    scores = summary(held, None).split("intervals:")[0]
    lines = {line.split("  ")[0]: line.split() for line in scores.splitlines()}
    assert lines["A alone"][-2] == "1"
    assert lines["A drafts, B answers"][-2] == "2"


def test_problems_that_could_not_be_graded_are_stated_beside_the_rate() -> None:
    held = results(RunFacts(name="one", seed=0, arm="agon", step=9), "agon:tiny")
    assert "could not be graded" not in summary(held, None)
    a = held["a"] = without_verdicts(held["a"], 3)
    asked, wrong = len(a.measured.outcomes), percent(a.measured.correct / (a.measured.trials + 3), 1)
    (line,) = [line for line in summary(held, None).splitlines() if "could not be graded" in line]
    assert line.startswith("A alone: 3 of ")
    assert f"3 of {asked} problems" in line
    assert line.endswith(wrong)


def test_no_rate_is_made_up_where_nothing_could_be_graded() -> None:
    held = results(RunFacts(name="one", seed=0, arm="agon", step=9), "agon:tiny")
    asked = len(held["a"].measured.outcomes)
    told = summary({"a": without_verdicts(held["a"], asked)}, None)
    assert f"{asked} of {asked} problems could not be graded" in told


def test_a_notebook_shows_results_as_tables() -> None:
    held = results(RunFacts(name="one", seed=0, arm="agon", step=9), "agon:tiny")
    html = Results(Path("evals"), held["a"], held, notes=("<i>note",))._repr_html_()
    assert html.count("<table>") == 2
    assert "A drafts, B answers" in html
    assert "&lt;i&gt;note" in html
