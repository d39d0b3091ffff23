"""The match viewer: what stands in the page is what stands on disk, and nothing that a model wrote is markup."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.report.payload import BLOCK, MARKS, OUTCOMES, outcomes
from agon.report.rows import BoutSource, LoggedBout, open_source
from agon.report.viewer import PACKAGE, render, scripts
from agon.rundir import read_bouts
from agon.types import Bout, Completion, Policy, Problem, Prompt, Reason, Rollout, Verdict, Version
from agon_lens.page import asset

from .helpers import BOUTS, HOSTILE, make_match


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in {"script", "style"} and data.strip():
            self.texts.append((self.found[-1][1].get("id") or self.found[-1][0], data))


def unpack(page: str, name: str) -> Any:
    text = dict(Elements(page).texts)[name]
    return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_match(tmp_path_factory.mktemp("run")).path


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return render(open_source(run))


def names(bits: int, all_names: tuple[str, ...]) -> set[str]:
    return {name for k, name in enumerate(all_names) if bits >> k & 1}


def test_every_outcome_and_mark_is_found(page: str) -> None:
    columns = unpack(page, "index")["columns"]
    outcomes = dict(zip(BOUTS, (names(bits, OUTCOMES) for bits in columns["outcomes"]), strict=False))
    marks = dict(zip(BOUTS, (names(bits, MARKS) for bits in columns["marks"]), strict=False))
    assert outcomes["regressed"] == {"regressed", "disagree"}
    assert outcomes["converted"] == {"converted", "disagree"}
    assert outcomes["lost, differently"] == {"lost", "disagree"}
    assert outcomes["lost, alike"] == {"lost"}
    assert outcomes["leak"] == {"kept"}
    assert outcomes["infra"] == set()
    assert {"leak"} <= marks["leak"]
    assert {"empty peek"} <= marks["empty peek"]
    assert {"infra"} <= marks["infra"]
    assert {"truncated", "empty peek"} <= marks["truncated"]
    assert not marks["converted"]


def test_texts_rewards_and_prompts_are_those_on_disk(page: str, run: Path) -> None:
    rows, columns, block = read_bouts(run).to_pylist(), unpack(page, "index")["columns"], unpack(page, "block-0")
    assert len(rows) == unpack(page, "index")["size"] == 2 * len(BOUTS) <= BLOCK
    for i, row in enumerate(rows):
        assert "".join(block[i]["draft"][:2]) == row["draft_text"]
        assert "".join(block[i]["challenge"][:2]) == row["challenge_text"]
        assert block[i]["prompt"] == row["challenge_prompt"]
        assert block[i]["peek"] == row["peek"]
        for name in ("draft_reward", "challenge_reward", "challenge_reward_conversion", "challenge_advantage"):
            assert columns[name][i] == (None if row[name] is None else pytest.approx(row[name], abs=1e-4))


def test_the_trace_ends_where_the_game_says(page: str) -> None:
    block = unpack(page, "block-0")
    assert block[0]["draft"][:2] == ["<think>a</think>", "the sum is worked out<answer>4</answer>"]
    cut = block[list(BOUTS).index("truncated")]["draft"]
    assert cut[0].startswith("<think>on and")
    assert cut[1] == ""


def test_nothing_that_a_model_wrote_is_markup(page: str) -> None:
    plain = render(one_plain_bout())
    assert HOSTILE not in page
    shape = [(tag, tuple(sorted(attrs))) for tag, attrs in Elements(page).found]
    assert shape == [(tag, tuple(sorted(attrs))) for tag, attrs in Elements(plain).found]


PLAIN = Verdict(False, True, Reason.WRONG)


def one_plain_bout(verdict: Verdict = PLAIN) -> BoutSource:
    completion = Completion("x", Version("a@000000-0"), 1, 1)
    draft = Rollout(Problem("p", "q", "4"), 0, Policy.A, Prompt(()), completion, verdict)
    return BoutSource("plain", (), iter([LoggedBout(Bout(draft), {"step": 0})]))


def test_the_policy_allows_this_script_and_this_style_alone(page: str) -> None:
    policy = next(a["content"] for tag, a in Elements(page).found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for kind in ("script", "style"):
        text = dict(Elements(page).texts)[kind]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"


def test_the_page_asks_for_nothing(page: str) -> None:
    for tag, attributes in Elements(page).found:
        assert not {"src", "href", "action", "srcset", "style"} & attributes.keys(), (tag, attributes)
    assert not re.findall(r"url\(|@import|https?://(?!www\.w3\.org/1998/Math)", asset("page.css") + script())


def test_the_script_writes_text_nodes_only() -> None:
    risky = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\(|srcdoc"
    assert not re.findall(risky, script())


def script() -> str:
    return "\n".join(scripts())


def test_the_page_is_the_same_every_time(page: str, run: Path) -> None:
    assert render(open_source(run)) == page


def test_the_script_names_outcomes_and_marks_in_the_same_order() -> None:
    assert f"const OUTCOMES = {json.dumps(OUTCOMES)};" in asset("store.js", PACKAGE)
    assert f"const MARKS = {json.dumps(MARKS)};" in asset("store.js", PACKAGE)


def test_the_command_writes_the_page_into_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(run)]) == 0
    assert "match.html" in capsys.readouterr().out
    assert (run / "match.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_only_a_page_of_ours_is_replaced(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    for _ in range(2):
        assert main(["view", str(run), "-o", str(out)]) == 0
    mine, link, pipe = tmp_path / "mine.yaml", tmp_path / "link.html", tmp_path / "pipe.html"
    mine.write_text("arm: agon\n")
    link.symlink_to(out)
    os.mkfifo(pipe)
    for other in (mine, link, pipe, tmp_path):
        assert main(["view", str(run), "-o", str(other)]) == 2
        assert f"{other} already exists, and is not a page that Agon wrote" in capsys.readouterr().err
    assert mine.read_text() == "arm: agon\n"
    assert link.is_symlink()
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["nowhere", "nowhere.json"])
def test_a_missing_source_is_refused_with_a_fix(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path / name)]) == 2
    assert "fix:" in capsys.readouterr().err


def test_the_page_opens_on_the_best_conversion(page: str) -> None:
    """No leak, something to read, the largest advantage; an address with a bout in it goes before."""
    index = unpack(page, "index")
    columns = index["columns"]
    best = index["best"]
    assert "converted" in names(columns["outcomes"][best], OUTCOMES)
    assert not {"leak", "empty peek"} & names(columns["marks"][best], MARKS)
    others = [
        columns["challenge_advantage"][k] or 0.0
        for k in range(index["size"])
        if "converted" in names(columns["outcomes"][k], OUTCOMES)
        and not {"leak", "empty peek"} & names(columns["marks"][k], MARKS)
    ]
    assert (columns["challenge_advantage"][best] or 0.0) == max(others)
    assert "choose(store.best, false)" in asset("frame.js")


def test_an_answer_without_a_challenge_is_right_or_wrong() -> None:
    bout = next(one_plain_bout().bouts).bout
    for correct, word in ((True, "right"), (False, "wrong")):
        verdict = Verdict(correct, True, Reason.CORRECT if correct else Reason.WRONG)
        alone = replace(bout, draft=replace(bout.draft, verdict=verdict), challenge=None, peek=None)
        assert list(outcomes(LoggedBout(alone, {}), [])) == [word]


def test_marks_that_no_bout_has_are_no_filters() -> None:
    script = asset("main.js", "agon.report")
    assert "store.seen = MARKS.map((mark, k) => store.columns.marks.some((bits) => bits >> k & 1))" in script
    assert "chip.hidden = kind" in script
    assert ": !store.seen[k]" in script


def test_what_the_header_cannot_say_stands_in_its_titles() -> None:
    (leaks,) = [line for line in asset("main.js", "agon.report").splitlines() if 'tallyItem("leaks"' in line]
    assert "the answer occurs in what the challenger read" in leaks
    assert 'byId("facts").title = byId("facts").textContent' in asset("frame.js")
