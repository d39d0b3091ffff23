"""The page of a diagnosis shows what the terminal prints, as HTML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agon_lens import diagnose
from agon_lens.charts import LETTER, Chart, side_by_side
from agon_lens.cli import main
from agon_lens.diagnose_page import render_diagnoses
from agon_lens.diagnosis import diagnose_log
from agon_lens.groups import GroupLog
from agon_lens.page import prose
from lens_logs import EXAMPLE, rows


def test_names_in_a_sentence_are_code_and_have_no_backticks() -> None:
    log = GroupLog("log", ("right", "<b>form"), tuple(rows((k, 1), (0, 1)) for k in range(1, 4)), steps=(0, 1, 2))
    page = render_diagnoses([diagnose_log(log)], "log")
    assert "<li><code>&lt;b&gt;form</code> " in page
    assert "`" not in page.split("<section>")[1]


def test_every_finding_stands_once_and_what_to_change_first_stands_at_the_top(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["diagnose", str(EXAMPLE), "--html", str(page)]) == 0
    text, (found,) = page.read_text(), diagnose(EXAMPLE)
    assert found.change_first is not None
    for finding in found.findings:
        assert text.count(prose(finding.sentence)) == 1
        assert text.count(prose(finding.fix)) == 1 or not finding.fix
        assert f'href="{finding.page}"' in text
    top = text.index('class="verdict"')
    assert top < text.index(prose(found.change_first.sentence)) < text.index('class="findings"') < text.index("Terms")


def test_the_bars_of_a_table_are_its_shares_from_zero() -> None:
    groups = (rows((1.0, -0.5), (0.0, 0.0), (0.0, -0.5)), rows((1.0, -0.25), (0.0, 0.0), (0.0, 0.0)))
    found = diagnose_log(GroupLog("log", ("right", "brief"), groups))
    page = render_diagnoses([found], "log")
    bars = [
        tuple(map(float, each))
        for each in re.findall(r'class="bar" fill="#6366f1" x="([\d.]+)" width="([\d.]+)"', page)
    ]
    (zero,) = {float(x) for x in re.findall(r'class="whisker" stroke="currentColor" x1="([\d.]+)"', page)}
    shares = [term.share for term in found.terms]
    assert shares[1] < 0 < shares[0]
    (right, left) = bars
    assert right[0] == zero == pytest.approx(left[0] + left[1], abs=0.1)
    assert left[1] / right[1] == pytest.approx(-shares[1] / shares[0], abs=0.01)


def test_the_labels_of_an_axis_fit_beside_it() -> None:
    svg = Chart("Mean reward by term", {"penalty": [(0, -0.0658), (1, -0.012)]}).svg()
    labels = re.findall(r'<text class="y" x="([\d.]+)" y="[\d.]+">([^<]+)</text>', svg)
    assert ("-0.0658") in [label for _, label in labels]
    for x, label in labels:
        assert LETTER * len(label) <= float(x), "it is aligned to the right, and would be cut off at the left"


def test_values_that_never_change_are_a_line_of_text() -> None:
    still = Chart("Tokens", {"drafts": [(0, 33.1), (1, 33.0)], "challenges": [(0, 8), (1, 8)]})
    moves = Chart("Reward", {"drafts": [(0, 0.1), (1, 0.2)], "challenges": [(0, 0.3), (1, 0.3)]})
    page = side_by_side([still, moves, Chart("Dead groups", {"dead": [(0, 0.0), (1, 0.0)]}, percent=True)])
    assert "Tokens: drafts 33, challenges 8 throughout." in page
    assert "Dead groups: 0% throughout." in page
    assert re.findall("<figcaption>(.*?)</figcaption>", page) == ["Reward"]
    assert side_by_side([Chart("Reward", {"drafts": [(0, 0.1)]})]) == ""
