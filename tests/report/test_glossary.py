"""Every label on a screen is explained by `agon explain`: labels are read from what the screens print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.report.glossary import explain_word
from agon.report.html_page import render_page
from agon.report.run_story import RunStory
from agon_lens import GroupLog, RewardRow, diagnose
from agon_lens.dead import Cause
from agon_lens.diagnose_page import render_diagnoses
from agon_lens.findings import COLUMNS, TREND
from agon_lens.terms import Kind
from tests.training.helpers.records import POINT, record, timing
from tests.training.test_display import board, shown


def unexplained(labels: set[str]) -> list[str]:
    """Labels that `agon explain` does not know, as they are printed."""
    assert len(labels) > 3, "no screen was read"
    missing = []
    for label in sorted(filter(None, labels)):
        try:
            assert all(entry.text for entry in explain_word(label))
        except InputError:
            missing.append(label)
    return missing


ADVICE = "add a row to src/agon/assets/vocabulary.md, then run scripts/docs --write"


def heads(markdown: str) -> Iterator[str]:
    """The words over the columns of Markdown tables."""
    for head, ruler in pairwise(markdown.splitlines()):
        if re.fullmatch(r"\|( -+:? \|)+", ruler):
            yield from (cell.strip() for cell in head.strip("|").split("|"))


def columns(line: str) -> set[str]:
    """The words over the columns of a table in a terminal."""
    return set(re.split(r"\s{2,}", line.strip()))


def page_labels(page: str) -> set[str]:
    """Heads of tables, headings, titles of charts and their legends."""
    kinds = ("<th>(.*?)</th>", "<h3>(.*?)</h3>", "<figcaption>(.*?)</figcaption>", r'<li class="s\d">(.*?)</li>')
    return {label for kind in kinds for label in re.findall(kind, page)}


def test_the_words_of_diagnose_are_explained() -> None:
    assert not unexplained({*COLUMNS, *TREND, *get_args(Kind), *Cause, "dead groups", "share", "bites"})
    groups = tuple((RewardRow((k // 2,), k // 2), RewardRow((0,), 0)) for k in range(4))
    log = GroupLog("log", ("a",), groups, steps=(0, 0, 1, 1))
    assert not unexplained(page_labels(render_diagnoses([diagnose(log)], "log")) - {"a"}), ADVICE
    kinds = {name for name in get_args(Kind) if any(entry.kind.startswith("kind") for entry in explain_word(name))}
    assert kinds == set(get_args(Kind)), "name every kind in the docstring of agon_lens/terms.py"


@pytest.mark.slow
def test_the_words_of_a_report_are_explained(paths: list[Path], tmp_path: Path) -> None:
    assert main(["report", *map(str, paths), "-o", str(tmp_path), "--no-figures"]) == 0
    assert not unexplained(set(heads((tmp_path / "report.md").read_text()))), ADVICE
    assert not unexplained(page_labels(render_page([RunStory.read(path) for path in paths]))), ADVICE


def test_the_words_of_runs_and_comparisons_are_explained(paths: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*words: object) -> str:
        assert main(list(map(str, words))) == 0
        return capsys.readouterr().out

    assert not unexplained(columns(printed("runs", paths[0].parent).splitlines()[0])), ADVICE
    sides = paths[0], paths[-1]
    assert not unexplained(columns(printed("compare", *sides).splitlines()[2])), ADVICE
    table = {re.sub("^against .*", "against", head) for head in heads(printed("compare", *sides, "--markdown"))}
    assert not unexplained(table), ADVICE


def test_the_words_of_the_board_are_explained() -> None:
    view, file = board()
    view.point(POINT)
    view.step(record(11, bonus_groups=3, bonus_weight=1.4, staleness=2), timing(11))
    view.close()
    top, *lines = [line.strip("│ ") for line in shown(file).rsplit("╭─", 1)[1].splitlines() if "│" in line]
    labels = {match[1] for line in lines if (match := re.match(r"([a-z][a-z ]*?)\s{2,}", line))}
    assert {"kept", "converted", "echoed", "bonus acts", "bonus weight", "staleness"} < labels
    assert not unexplained(columns(top) | labels), ADVICE


def test_a_label_is_explained_as_it_is_printed() -> None:
    assert explain_word("pass@1, 95% interval") == explain_word("pass@1")
    assert explain_word("p (Holm)") == explain_word("p")
    with pytest.raises(InputError):
        explain_word("nosuchword")
