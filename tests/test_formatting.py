"""Numbers, tables and escapes: what is not known is a dash, and text from files is shown, never obeyed."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agon import formatting as f
from agon.rundir.results import Interval, Share
from agon_lens.formatting import HIDDEN

HALF = Interval(0.5, 0.25, 0.754)
HOSTILE = st.text(st.sampled_from("ab|<>&`[]()!\\*_#/:\"' \n\u202e\x1b\u2028\ud800x"), max_size=30)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f.count(1234.4), "1,234"),
        (f.kilo(812), "812"),
        (f.kilo(3449), "3.4k"),
        (f.size(2**30), "1.00 GiB"),
        (f.size(2**20), "1.0 MiB"),
        (f.rate(0.614), "0.61"),
        (f.percent(0.614), "61%"),
        (f.percent(0.614, 1), "61.4%"),
        (f.interval(HALF), "50.0% [25.0, 75.4]"),
        (f.interval(HALF, sign=""), "50.0 [25.0, 75.4]"),
        (f.interval(Interval(0.5, None, None)), "50.0%"),
        (f.points(Interval(-0.153, -0.21, 0.001)), "-15.3 points [-21.0, +0.1]"),
        (f.points(Interval(0.153, None, None), unit=""), "+15.3"),
        (f.points(Interval(-0.0001, -0.01, -0.0002)), "+0.0 points [-1.0, +0.0]"),
        (f.share(Share(count=6, of=12, rate=HALF)), "50% [25, 75] (6/12)"),
        (f.share(Share(count=0, of=0, rate=None)), "- (0 of 0)"),
        (f.probability(0.0314), "0.031"),
        (f.probability(2.1e-5), "2.1e-05"),
        (f.probability(0.0), "< 1e-300"),
        (f.duration(42), "42 s"),
        (f.duration(7 * 60), "7 min"),
        (f.duration(102 * 60), "1 h 42 min"),
        (f.duration(76 * 3600), "3 d 4 h"),
    ],
)
def test_a_number_is_written_as_its_docstring_shows(text: str, wanted: str) -> None:
    assert text == wanted


@pytest.mark.parametrize("write", [f.count, f.kilo, f.rate, f.percent, f.interval, f.points, f.share])
def test_what_is_not_known_is_a_dash(write) -> None:  # type: ignore[no-untyped-def]
    assert write(None) == f.UNKNOWN


def test_columns_of_numbers_stand_to_the_right() -> None:
    table = f.markdown_table(["method", "rate", "note"], [["3 seeds", "61.0", "good"], ["b", f.MISSING, ""]])
    assert table.splitlines()[1] == "| --- | ---: | --- |"


@given(st.lists(st.tuples(HOSTILE, HOSTILE), min_size=1, max_size=3))
@example([("a\\|b", "c")])
@example([("![x\\](http://h/p.png)", "[x\\][y]")])
@example([("\\`", "\\<img src=x>")])
def test_no_text_breaks_out_of_a_markdown_table(rows: list[tuple[str, str]]) -> None:
    markdown = pytest.importorskip("markdown_it", reason="rich brings a Markdown parser")
    html = markdown.MarkdownIt("commonmark").enable("table").render(f.markdown_table(["one", "two"], rows))
    assert len(re.findall("<td", html)) == 2 * len(rows)
    assert set(re.findall(r"<(\w+)", html)) <= {"table", "thead", "tbody", "tr", "th", "td", "em", "strong"}


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    assert all(unicodedata.category(letter) not in HIDDEN for letter in f.escape_markdown(text))


def test_plain_text_stays_as_it_is() -> None:
    plain = "plain α → 4, [1, 2] (x)"
    assert f.escape_markdown(plain) == plain
