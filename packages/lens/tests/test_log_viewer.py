"""The viewer of a log: the page holds what the log holds, and nothing in it is markup."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agon_lens.formatting import significant
from agon_lens.log_viewer import LOG_SCRIPTS, render_log
from agon_lens.logs import read_rollouts
from agon_lens.page import asset
from lens_logs import EXAMPLE, jsonl, trl_rows
from lens_pages import Elements, unpack

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> {{script}} \u2028 \u2029 &amp; <!--"


@pytest.fixture(scope="module")
def page() -> str:
    return render_log(read_rollouts([EXAMPLE]))


def test_the_page_holds_every_reward_and_text(page: str) -> None:
    index, found = unpack(page, "index"), read_rollouts([EXAMPLE])
    rows = [row for group in found.log.groups for row in group]
    assert index["groups"]["size"] == [8] * 40
    assert index["terms"] == list(found.log.terms)
    assert index["rows"]["total"] == [pytest.approx(row.total, abs=1e-4) for row in rows]
    for k in range(5):
        assert index["rows"]["terms"][k] == [pytest.approx(row.terms[k], abs=1e-4) for row in rows]
    blocks = [group for n in range(5) for group in unpack(page, f"block-{n}")]
    assert [group["prompt"] for group in blocks] == [texts.prompt for texts in found.texts]
    assert [group["completions"] for group in blocks] == [list(texts.completions) for texts in found.texts]


def test_dead_groups_say_why_and_live_ones_which_term_decides(page: str) -> None:
    index = unpack(page, "index")
    kinds = index["groups"]["kind"]
    assert (kinds.count("live"), kinds.count("dead: truncated"), kinds.count("dead: all wrong")) == (28, 6, 6)
    brevity = index["terms"].index("brevity_reward")
    assert index["groups"]["only"].count(brevity) == 5
    assert set(index["groups"]["only"]) == {None, brevity}
    assert kinds[index["best"]] == "live"
    assert any("12 of 40 groups (30%) are dead" in finding["sentence"] for finding in index["findings"])


def test_the_page_opens_with_the_findings_and_each_names_a_group_that_shows_it(page: str) -> None:
    index = unpack(page, "index")
    assert [finding["first"] for finding in index["findings"]] == [True] + [False] * 7
    costly = [finding for finding in index["findings"] if finding["cost"]]
    assert len(costly) >= 3
    for finding in costly:
        assert "/docs/diagnose.md#" in finding["page"]
        assert 0 <= finding["example"] < 40
    assert "truncated" in index["groups"]["kind"][costly[1]["example"]]
    script = asset("group.js")
    shown = script[script.index("this.box.replaceChildren(...[") :].splitlines()[0]
    assert shown.index("this.found(g)") < shown.index("this.head(g)"), "above the group"


def test_no_value_of_the_index_is_replaced_by_one_that_the_page_computes(page: str) -> None:
    computed = set(re.findall(r"this\.(\w+) =", asset("groups.js")))
    assert "first" in computed
    assert not computed & unpack(page, "index").keys()


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("value", "low", "high", "bar"),
    [
        (-0.25, -1.0, 0.0, (75, 25, 100)),  # left, width, zero: in percent of the track
        (0.5, 0.0, 2.0, (0, 25, 0)),
        (-1.0, -1.0, 3.0, (0, 25, 25)),
        (3.0, -1.0, 3.0, (25, 75, 25)),
        (2.0, 1.0, 4.0, (0, 50, 0)),
    ],
)
def test_a_bar_begins_at_zero_also_where_rewards_are_negative(
    value: float, low: float, high: float, bar: tuple[float, ...]
) -> None:
    stubs = """class List {} class TextView {} const count = String, byId = null;
    const h = (tag, options, ...children) => ({ style: {}, children });"""
    made = "Object.assign(Object.create(GroupView.prototype), { store: GroupStore.prototype })"
    script = f"{stubs}{asset('groups.js')}{asset('group.js')}\n"
    script += f"const [bar, zero] = {made}.bar({value}, [{low}, {high}]).children;\n"
    script += "console.log(JSON.stringify([bar.style.left, bar.style.width, zero.style.left].map(parseFloat)));"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    assert tuple(json.loads(done.stdout)) == bar


def test_advantages_are_those_of_the_log_or_said_to_be_computed(tmp_path: Path, page: str) -> None:
    computed = unpack(page, "index")
    assert "the log has none" in computed["facts"][-1]
    assert sum(computed["rows"]["advantage"][:8]) == pytest.approx(0, abs=1e-3)
    rows = trl_rows(1, "one", [1, 0], [0, 0])
    logged = unpack(render_log(read_rollouts([jsonl(tmp_path / "log.jsonl", rows)])), "index")
    assert logged["facts"][-1] == "advantages as logged"
    assert logged["rows"]["advantage"] == [pytest.approx(row["advantage"], abs=1e-4) for row in rows]


def test_rows_without_a_reward_have_no_advantage(tmp_path: Path) -> None:
    rows = [{"uid": 1, "reward": reward} for reward in (1.0, None, 0.0)]
    index = unpack(render_log(read_rollouts([jsonl(tmp_path / "log.jsonl", rows)])), "index")
    assert index["rows"]["total"] == [1.0, None, 0.0]
    assert [value is None for value in index["rows"]["advantage"]] == [False, True, False]


def test_small_rewards_are_not_0_and_the_page_says_what_was_taken_for_one(tmp_path: Path) -> None:
    rows = [{"uid": 1, "reward": reward} for reward in (0.000012345, 0.1 + 0.2)]
    index = unpack(render_log(read_rollouts([jsonl(tmp_path / "log.jsonl", rows)])), "index")
    assert index["rows"]["total"] == [0.000012345, 0.3]
    assert index["facts"][1] == "taken as rewards: reward (name others with --terms)"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_numbers_on_the_page_are_those_of_the_terminal() -> None:
    values = [0.0004, 0.1 + 0.2, 0.0, 1.2345, 999.9, 12345.6, -0.00123]
    script = f"{asset('dom.js')}\nconsole.log(JSON.stringify({values}.map(number)))"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [significant(value) for value in values]


def test_nothing_that_a_model_wrote_is_markup(tmp_path: Path, page: str) -> None:
    rows = [
        {"step": 1, "prompt": HOSTILE, "completion": HOSTILE + "\ud800", "gts": HOSTILE, HOSTILE: k, "reward": k}
        for k in range(2)
    ]
    path = jsonl(tmp_path / "log.jsonl", rows).rename(tmp_path / "<img src=x>.jsonl")
    hostile = render_log(read_rollouts([path]))
    assert hostile.encode("utf-8")
    assert HOSTILE not in hostile
    assert "<img" not in hostile
    plain = [tag for tag, _ in Elements(page).found if tag != "script"]
    assert [tag for tag, _ in Elements(hostile).found if tag != "script"] == plain
    assert unpack(hostile, "block-0")[0]["completions"][0] == HOSTILE + "\ufffd"


def test_the_page_asks_for_nothing_and_its_script_writes_text_nodes_only(page: str) -> None:
    for tag, attributes in Elements(page).found:
        assert not {"src", "href", "action", "srcset", "style"} & attributes.keys(), (tag, attributes)
    script = "\n".join(map(asset, LOG_SCRIPTS))
    assert not re.findall(r"url\(|@import|https?://(?!www\.w3\.org/1998/Math)", asset("log.css") + script)
    risky = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\(|srcdoc"
    assert not re.findall(risky, script)
