"""What an answer states: points, columns, intervals and unions, bases, words."""

from __future__ import annotations

import pytest

from agon_judge.math.notation import Group, Leaf, as_words, leaves, plain_words, read


@pytest.mark.parametrize(
    ("text", "brackets", "values"),
    [
        ("3 < x \\le 4", "(]", ["3", "4"]),
        ("4 \\ge x > 3", "(]", ["3", "4"]),
        ("x>2", "()", ["2", "\\infty"]),
        ("2 \\ge x", "(]", ["-\\infty", "2"]),
        ("\\{x | 3 < x \\le 4\\}", "(]", ["3", "4"]),
        ("\\{ x \\in \\mathbb{R} : x < 1 \\}", "()", ["-\\infty", "1"]),
        ("x=-1, y=6", "()", ["-1", "6"]),
        ("y=6 and x=-1", "()", ["-1", "6"]),
        ("\\begin{pmatrix} 1 \\\\ 2 \\\\ \\end{pmatrix}", "()", ["1", "2"]),
        ("x_1=-2, x_2=1", "", ["-2", "1"]),
        ("x=3, x=5", "", ["3", "5"]),
        ("3 to 2", ":", ["3", "2"]),
        ("(1,234)", "()", ["1", "234"]),
    ],
)
def test_a_group_in_one_of_its_notations(text: str, brackets: str, values: list[str]) -> None:
    node = read(text)
    assert isinstance(node, Group)
    assert node.brackets == brackets
    assert [leaf.text for leaf in leaves(node)] == values


@pytest.mark.parametrize("text", ["3<x\\le4\\le 5", "a<x", "x<x", "3<4", "1 < x > 0", "|x|<3", "x \\ne 2", "y < 2x"])
def test_other_relations_are_no_intervals(text: str) -> None:
    assert all("infty" not in leaf.text and leaf.text not in ("3", "4") for leaf in leaves(read(text)))


def test_or_between_inequalities_is_a_union() -> None:
    node = read("x < 2 \\text{ or } x \\ge 3")
    assert isinstance(node, Leaf)
    assert (node.symbol, node.text) == ("x", "(-\\infty, 2) \\cup [3, \\infty)")


@pytest.mark.parametrize(
    ("text", "value", "base"),
    [
        ("204_5", "204", "5"),
        ("(204)_{5}", "204", "5"),
        ("204_{(5)}", "204", "5"),
        ("204_{\\text{five}}", "204", "5"),
        ("204 base five", "204", "5"),
        ("204 \\text{ (base 5)}", "204", "5"),
    ],
)
def test_a_number_base_in_one_of_its_notations(text: str, value: str, base: str) -> None:
    leaf = read(text)
    assert isinstance(leaf, Leaf)
    assert (leaf.text, leaf.base) == (value, base)


def test_a_name_for_a_base_must_be_a_number() -> None:
    assert all(not leaf.base for text in ("40_{x}", "40 base many") for leaf in leaves(read(text)))


def test_separators_of_thousands_stand_in_expressions_too() -> None:
    assert [leaf.text for leaf in leaves(read("20,000\\pi"))] == ["20000\\pi"]
    assert [leaf.text for leaf in leaves(read("2,x,000"))] == ["2", "x", "000"]
    assert [leaf.text for leaf in leaves(read("1,200 and 1,300"))] == ["1200", "1300"]
    union = "(1,200)\\cup(300,400)"
    assert [leaf.text for leaf in leaves(read(union))] == [union]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\\text{(C)}", "c"),
        ("((C))", "c"),
        ("C)", "c"),
        ("(C", "(c"),
        ("Option B", "b"),
        ("Choice (B)", "b"),
        ("an ellipse", "ellipse"),
        ("A D", "a d"),
        ('"Evelyn".', "evelyn"),
        ("12:30 P.M.", "12:30 pm"),
        ("\\text{12:30 pm}", "12:30 pm"),
    ],
)
def test_words_without_what_says_nothing(text: str, words: str) -> None:
    assert plain_words(text) == words


def test_mathematics_is_not_words() -> None:
    assert as_words("x+1") is None
    assert as_words("12:30") is None
    assert as_words("12:30 PM") == "12:30 pm"
