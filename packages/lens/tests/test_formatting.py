"""Numbers, tables and escapes: what is not known is a dash, and text from a log is shown, never obeyed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon_lens import formatting as f


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f.significant(0.012345), "0.0123"),
        (f.significant(0.1 + 0.2), "0.3"),
        (f.significant(0.0004), "0.0004"),
        (f.significant(12345.6), "12,346"),
        (f.significant(999.9), "1,000"),
        (f.significant(1.234e50), "1.23e+50"),
        (f.significant(100, 2), "100"),
        (f.significant(None), "-"),
        (f.plural(1, "group"), "1 group"),
        (f.plural(0, "group"), "0 groups"),
    ],
)
def test_a_number_is_written_as_its_docstring_shows(text: str, wanted: str) -> None:
    assert text == wanted


def test_a_terminal_table_aligns_its_columns() -> None:
    lines = f.table(["name", "n"], [["a", "1"], ["a longer name", "1,000"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("a ")


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    assert all(unicodedata.category(letter) not in f.HIDDEN for letter in f.show_hidden(text) + f.escape_html(text))


def test_plain_text_stays_as_it_is() -> None:
    plain = "plain α → 4, [1, 2] (x)"
    assert f.show_hidden(plain) == f.escape_html(plain) == f.utf8(plain) == plain
    assert f.table(["x"], [["\x1b[2J"]]).splitlines()[1] == "<U+001B>[2J"


def test_a_lone_surrogate_is_replaced() -> None:
    assert f.utf8("a\ud800b") == "a\ufffdb"
