"""Splits: disjoint, the same everywhere, and never silently smaller than asked."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agon.config import Source
from agon.data import Splits, load, splits
from agon.data.normalise import question_key
from agon.data.sources import check_files
from agon.data.split import overlap
from agon.errors import DataError
from agon_judge.auditing.environment import Row
from tests.data.helpers import ROOT, data, numbered, one_file, rows_of, write_jsonl

OTHER_PYTHON = """
import json, sys
from types import SimpleNamespace as N
from agon.data import splits
def source(take): return N(
    preset=None, env=None, named=None, template=None, path=sys.argv[1], columns={}, options={}, take=take
)
made = splits(N(train=source(None), dev=source(20), held_out=source(30), split_seed=7))
ids = {part: [problem.id for problem in problems] for part, problems in made.parts.items()}
print(json.dumps({"python": sys.version_info[:2], "hashes": made.hashes, "ids": ids}))
"""


def ids(made: Splits) -> dict[str, list[str]]:
    return {part: [problem.id for problem in problems] for part, problems in made.parts.items()}


def test_shuffling_the_file_changes_nothing(tmp_path: Path) -> None:
    rows = rows_of(numbered(100)) + rows_of(numbered(10))
    rows += [{"question": f"  {row['question'].upper()}", "answer": row["answer"]} for row in rows[:20]]
    expected = splits(one_file(write_jsonl(tmp_path / "a.jsonl", rows), train=None, dev=20, held_out=30))
    for seed in range(5):
        random.Random(seed).shuffle(rows)
        again = splits(one_file(write_jsonl(tmp_path / "a.jsonl", rows), train=None, dev=20, held_out=30))
        assert ids(again) == ids(expected)
        assert again.hashes == expected.hashes


def other_pythons() -> list[str]:
    """Interpreters of another version that are installed here."""
    roots = [Path.home() / ".pyenv" / "versions"]
    found = [str(path) for root in roots for path in sorted(root.glob("3.1[1-9]*/bin/python"))]
    found += [path for minor in range(11, 20) if (path := shutil.which(f"python3.{minor}"))]
    return [path for path in found if _minor(path) not in (None, sys.version_info.minor)]


def _minor(python: str) -> int | None:
    """The minor version of an interpreter; None if it does not start."""
    asked = subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True)
    return int(asked.stdout) if asked.returncode == 0 else None


OTHERS = other_pythons()


@pytest.mark.skipif(not OTHERS, reason="no other Python (3.11 or later) is installed here")
def test_another_python_makes_the_same_splits(tmp_path: Path) -> None:
    words = ["Café ½ ﬁ Ａ straße ΑΣ İ", "x\u2028y", "e\u0301", "∑ 𝔸 ≤ 5", "१२३", "👩\u200d🚀 - 3"]
    rows = rows_of(numbered(100)) + [{"question": f"{word} number {n}", "answer": "1"} for n, word in enumerate(words)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    here = splits(one_file(path, train=None, dev=20, held_out=30, seed=7))
    versions = set()
    for python in OTHERS:
        sources = [str(ROOT / "src"), str(ROOT / "packages" / "judge" / "src")]
        command = [python, "-I", "-c", f"import sys; sys.path[:0] = {sources!r}\n{OTHER_PYTHON}", path]
        there = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert (there["ids"], there["hashes"]) == (ids(here), here.hashes)
        versions.add(tuple(there["python"]))
    assert versions - {sys.version_info[:2]}


def test_a_larger_train_or_dev_never_changes_held_out(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(200)))
    sizes = [(10, 10), (50, 10), (150, 10), (10, 100), (None, 10)]
    made = [splits(one_file(path, train=train, dev=dev, held_out=30)) for train, dev in sizes]
    assert len({one.hashes["held_out"] for one in made}) == 1
    assert len({one.hashes["dev"] for one in made if len(one.dev) == 10}) == 1
    small, middle, large = (set(ids(one)["train"]) for one in made[:3])
    assert small < middle < large


def test_another_seed_makes_another_split(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(200)))
    hashes = [splits(one_file(path, train=50, dev=30, held_out=30, seed=seed)).hashes["held_out"] for seed in range(5)]
    assert len(set(hashes)) == 5


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text("aA bB.,-2ﬁ", min_size=3, max_size=8).filter(str.strip), min_size=30, max_size=60),
    seed=st.integers(0, 9),
)
def test_no_question_stands_in_two_splits_whatever_its_spelling(tmp_path: Path, words: list[str], seed: int) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"question": word, "answer": "1"} for word in words])
    if len({question_key(word) for word in words}) < 4:
        return
    made = splits(one_file(path, train=None, dev=1, held_out=2, seed=seed))
    keys = [question_key(problem.question) for part in made.parts.values() for problem in part]
    assert len(keys) == len(set(keys)) == len({question_key(word) for word in words})


def test_what_another_source_holds_out_is_taken_from_train(tmp_path: Path) -> None:
    train = write_jsonl(tmp_path / "train.jsonl", rows_of(numbered(60)))
    spelled = [{"question": f"{p.question.upper()} ", "answer": p.answer} for p in numbered(30)]
    held_out = write_jsonl(tmp_path / "held_out.jsonl", spelled)
    dev = write_jsonl(tmp_path / "dev.jsonl", rows_of(numbered(20, start=20)))
    made = splits(data(Source(path=train), Source(path=dev), Source(path=held_out)))
    assert {part: len(problems) for part, problems in made.parts.items()} == {"train": 20, "dev": 10, "held_out": 30}
    assert overlap(made.train, made.held_out).problems == ()


def test_a_source_that_two_splits_name_is_read_once(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(50)))
    made = splits(one_file(path, train=10, dev=10, held_out=10))
    assert made.pools["train"] is made.pools["dev"] is made.pools["held_out"]


def test_a_stored_and_a_generated_source_go_together(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(50)))
    made = splits(data(Source(preset="tabletop", take=40), Source(path=path, take=10), Source(path=path)))
    assert {part: len(problems) for part, problems in made.parts.items()} == {"train": 40, "dev": 10, "held_out": 40}


ALL = "all that is left"


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [
        ((10, 10, 60), "data.train 10, data.dev 10, data.held_out 60"),
        ((10, 30, 30), "data.train 10, data.dev 30, data.held_out 30"),
        ((41, 5, 5), "data.train 41, data.dev 5, data.held_out 5"),
        ((900, 1, 1), "data.train 900, data.dev 1, data.held_out 1"),
        ((None, 25, 25), f"data.train {ALL}, data.dev 25, data.held_out 25"),
        ((30, 30, None), f"data.train 30, data.dev 30, data.held_out {ALL}"),
    ],
)
def test_too_few_rows_are_reported_with_takes_that_fit(
    tmp_path: Path, sizes: tuple[int | None, ...], asked: str
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [*rows_of(numbered(50)), *rows_of(numbered(3))])
    wanted = dict(zip(("train", "dev", "held_out"), sizes, strict=True))
    with pytest.raises(DataError) as caught:
        splits(one_file(path, **wanted))
    assert caught.value.message == f"{path} has 50 usable problems (53 rows, 3 duplicate), too few for: {asked}"
    advised = {part: int(take) for part, take in re.findall(r"data\.(\w+)\.take=(\d+)", caught.value.fix)}
    assert advised.keys() == {part for part, take in wanted.items() if take}
    made = splits(one_file(path, **wanted | advised))  # the advice, followed, helps
    assert sum(map(len, made.parts.values())) in range(47, 51)


def test_takes_that_fit_leave_out_what_other_splits_hold(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(60)))
    held_out = Source(path=write_jsonl(tmp_path / "held_out.jsonl", rows_of(numbered(20))))
    with pytest.raises(DataError) as caught:
        splits(data(Source(path=path, take=50), Source(path=path, take=30), held_out))
    told = "60 usable problems (60 rows), 20 of them in other splits, too few for: data.train 50, data.dev 30"
    assert caught.value.message == f"{path} has {told}"
    assert caught.value.fix == "take fewer, such as data.train.take=24 data.dev.take=15, or name a larger source"


def test_a_source_without_a_problem_for_each_split_is_too_small(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(2)))
    with pytest.raises(DataError) as caught:
        splits(one_file(path, train=2, dev=1, held_out=1))
    assert caught.value.fix == "name a larger source"


def test_splits_without_a_problem_of_their_own_are_said_to_overlap(tmp_path: Path) -> None:
    files = [Source(path=write_jsonl(tmp_path / f"{n}.jsonl", rows_of(numbered(5)))) for n in range(3)]
    with pytest.raises(DataError, match="5 of them in other splits") as caught:
        splits(data(*files))
    assert caught.value.fix == "the splits overlap: give each of them problems of its own"


def test_a_file_beside_a_preset_that_reads_none_is_refused() -> None:
    with pytest.raises(DataError, match="tabletop makes its problems") as caught:
        load(Source(preset="tabletop", path="mine.jsonl", take=5))
    assert caught.value.fix.endswith("name the file without a preset: {path: mine.jsonl}")


def test_files_are_checked_without_generating_or_downloading(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(20)))
    elsewhere = Source(preset="gsm8k-test", take=10)
    check_files(data(Source(path=path, take=10), Source(path=path, take=10), elsewhere))
    with pytest.raises(DataError, match=r"too few for: data\.train 20, data\.dev 10"):
        check_files(data(Source(path=path, take=20), Source(path=path, take=10), elsewhere))
    with pytest.raises(DataError, match="no field q "):
        check_files(data(Source(path=path, columns={"question": "q"}), Source(preset="tabletop", take=10), elsewhere))


def test_two_splits_cannot_both_have_the_rest(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(50)))
    with pytest.raises(DataError, match="both take all that is left"):
        splits(one_file(path, train=None, dev=None, held_out=5))


def test_held_out_may_take_what_the_others_leave(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(50)))
    made = splits(one_file(path, train=20, dev=10, held_out=None))
    assert [len(made.train), len(made.dev), len(made.held_out)] == [20, 10, 20]


def test_a_source_smaller_than_its_take_is_reported(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", rows_of(numbered(4)))
    with pytest.raises(DataError, match="has 4 problems, not 5"):
        load(Source(path=path, take=5))


def test_every_task_of_an_environment_is_asked_what_its_score_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mixed:
        def rows(self, split: str) -> list[Row]:
            return [Row(f"What is {n} + {n}?", str(2 * n), n) for n in range(8)]

        def needs(self, row: Row) -> str:
            return "tools" if row.payload == 5 else ""

    monkeypatch.setattr("agon.data.environments.open_environment", lambda target: Mixed())
    with pytest.raises(DataError, match="needs tools to score a reply to task 5"):
        load(Source(env="verifiers:mixed"))
