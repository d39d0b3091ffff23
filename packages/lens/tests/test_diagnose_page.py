"""The page of a diagnosis shows what the terminal prints, as HTML."""

from __future__ import annotations

import re
from pathlib import Path

from agon_lens import diagnose
from agon_lens.charts import LETTER, Chart, side_by_side
from agon_lens.cli import main
from agon_lens.diagnose_page import render_diagnoses
from agon_lens.groups import GroupLog
from lens_logs import EXAMPLE, jsonl, rows


def test_names_in_a_sentence_are_code_and_have_no_backticks() -> None:
    log = GroupLog("log", ("right", "<b>form"), tuple(rows((k, 1), (0, 1)) for k in range(1, 4)), steps=(0, 1, 2))
    page = render_diagnoses([diagnose(log)], "log")
    assert "<li><code>&lt;b&gt;form</code> never varies within a group" in page
    assert "`" not in page.split("<section>")[1]


def test_findings_come_first_with_their_remedy_an_example_and_a_picture(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["diagnose", str(EXAMPLE), "--html", str(page)]) == 0
    text = page.read_text()
    places = [text.index(part) for part in ("Change first:", "of the rows were truncated", "What decides", "<h3>Terms")]
    assert places == sorted(places)
    assert "brevity_reward alone 12%" in text, "as a share in the picture"
    assert "docs/diagnose.md#truncation" in text
    assert "<td>yes</td><td><pre>" in text, "which rows were truncated"
    assert text.count("<details><summary>Example: step") >= 4
    assert "<pre>" in text


def test_texts_of_an_example_keep_their_lines_and_are_no_markup(tmp_path: Path) -> None:
    said = "<script>x</script>\n\tsecond\x1b[2J می\u200cخواهم"
    log = jsonl(tmp_path / "log.jsonl", [{"group": 1, "completion": said, "reward": 0.0} for _ in range(3)])
    assert main(["diagnose", str(log), "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<pre>&lt;script&gt;x&lt;/script&gt;\n    second&lt;U+001B&gt;[2J می\u200cخواهم</pre>" in page


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
