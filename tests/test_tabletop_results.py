"""README's verdicts and the pages of results are what experiments/tabletop/results.csv says, to the digit."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("scipy")

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENT = Path("experiments", "tabletop")
PAGES = {
    Path("README.md"): 1,
    Path("docs/results/tabletop.md"): 9,
    Path("docs/results/gullible.md"): 6,
    EXPERIMENT / "tables.md": 8,
}
"""Pages with blocks that the table decides, and how many each has at least."""
FOUR = ("neutral", "relay", "halves", "soft-halves")
PLANNED: dict[tuple[str, str, str], tuple[int, int]] = {
    **{(world, arm, ""): (10, 6400) for world in FOUR for arm in ("grpo", "self-refine", "plain-pair", "coop", "agon")},
    **{
        ("soft-halves", arm, ""): (5, 6400)
        for arm in ("hidden-drafts", "mispaired", "shared-opponent", "margin", "fixed-roles")
    },
    ("neutral", "tiebreak", ""): (5, 6400),
    **{("soft-halves", "agon", f"bonus{weight}"): (5, 6400) for weight in (2, 4)},
    **{(world, "grpo", "from-b"): (5, 6400) for world in FOUR[2:]},
    ("halves", "grpo", "half-budget"): (5, 3200),
    **{("soft-halves", arm, "long"): (3, 19200) for arm in ("grpo", "agon")},
    **{("neutral", "agon", f"noise{noise}"): (3, 6400) for noise in (0.01, 0.1)},
    **{(world, "agon", "points"): (3, 6400) for world in FOUR[2:]},
    **{("gullible", *arm): (10, 25600) for arm in (("coop", ""), ("agon", ""), ("agon", "bonus4"))},
}
"""World, arm and variant of every planned run: how many seeds, and rollouts of each."""


def recompute(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / EXPERIMENT / "recompute.py"], capture_output=True, text=True)


def test_every_number_of_the_pages_follows_from_the_table() -> None:
    for page, least in PAGES.items():
        assert (ROOT / page).read_text().count("<!-- tabletop: ") >= least, page
    done = recompute(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", [EXPERIMENT / "results.csv", Path("README.md")], ids=str)
def test_a_digit_that_differs_is_found(file: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / EXPERIMENT, tmp_path / EXPERIMENT)
    for page in PAGES:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, tmp_path / page)
    text = (tmp_path / file).read_text()
    before, after = (",held_out,,ab,4,2000,", ",held_out,,ab,4,2050,") if file.suffix == ".csv" else ("+14.8", "+14.9")
    assert before in text
    (tmp_path / file).write_text(text.replace(before, after))
    assert recompute(tmp_path).returncode == 1


def test_the_table_holds_every_planned_run_with_its_rollouts() -> None:
    found = defaultdict[tuple[str, str, str], set[tuple[int, int]]](set)
    with (ROOT / EXPERIMENT / "results.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["arm"]:
                found[row["world"], row["arm"], row["variant"]].add((int(row["seed"]), int(row["rollouts"])))
            if row["by_problem"]:
                assert int(row["right"]) == sum(map(int, row["by_problem"]))
                assert int(row["trials"]) == int(row["samples"]) * len(row["by_problem"])
    wanted = {key: {(seed, rollouts) for seed in range(seeds)} for key, (seeds, rollouts) in PLANNED.items()}
    assert found == wanted
    assert sum(map(len, found.values())) == 303
