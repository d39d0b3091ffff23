"""Files of per-problem results that others wrote are compared as our own are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.cli import main
from agon.errors import InputError
from agon.eval import intervals
from agon.eval.compare_files import compare_files

WRITTEN = Path(__file__).resolve().parents[2] / "packages" / "lens" / "tests" / "written"


def csv(path: Path, right: set[int], n: int = 40, tokens: int = 100, samples: int = 1) -> str:
    """Scores on problems 0..n-1, right on some of them."""
    rows = [f"{k},{int(k in right)},{tokens}" for k in range(n) for _ in range(samples)]
    path.write_text("\n".join(["problem,correct,tokens", *rows]) + "\n")
    return str(path)


def test_one_file_each_is_paired_by_problem(tmp_path: Path) -> None:
    one, two = csv(tmp_path / "old.csv", set(range(10))), csv(tmp_path / "new.csv", set(range(5, 30)))
    found = compare_files([one, two])
    (pair,) = found.pairs
    assert [side.label for side in found.sides] == ["old", "new"]
    assert (pair.only_first, pair.only_second, pair.p) == (5, 20, intervals.mcnemar(5, 20))
    assert pair.difference.value == pytest.approx(15 / 40)
    assert found.notes == []


def test_rows_are_paired_by_id_and_not_by_place(tmp_path: Path) -> None:
    one = csv(tmp_path / "old.csv", {1, 2})
    lines = Path(one).read_text().splitlines()
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    (pair,) = compare_files([one, tmp_path / "new.csv"]).pairs
    assert (pair.only_first, pair.only_second) == (0, 0)


@pytest.mark.parametrize("inside", [True, False])
def test_seeds_are_the_units_whether_files_or_a_column_name_them(tmp_path: Path, inside: bool) -> None:
    sides = {"old": [range(10), range(12), range(14)], "new": [range(14), range(18), range(16)]}
    given = []
    for name, seeds in sides.items():
        files = [csv(tmp_path / f"{name}{k}.csv", set(right)) for k, right in enumerate(seeds)]
        if inside:
            bodies = [Path(file).read_text().splitlines()[1:] for file in files]
            rows = [f"{line},{k}" for k, body in enumerate(bodies) for line in body]
            (tmp_path / f"{name}.csv").write_text("\n".join(["problem,correct,tokens,seed", *rows]))
            files = [str(tmp_path / f"{name}.csv")]
        given.append(f"{name}={','.join(files)}")
    (pair,) = compare_files(given).pairs
    assert list((pair.differences or {}).values()) == pytest.approx([0.1, 0.15, 0.05])
    assert pair.test == "Student's t over seed-paired differences"


def test_samples_of_a_problem_are_one_cluster(tmp_path: Path) -> None:
    one = csv(tmp_path / "old.csv", set(range(10)), samples=4)
    two = csv(tmp_path / "new.csv", set(range(14)), samples=4)
    (pair,) = compare_files([one, two]).pairs
    assert pair.test == "Student's t over per-problem differences"
    assert pair.problems == 40, "and not 160"


def test_several_arms_are_corrected_together(tmp_path: Path) -> None:
    old = csv(tmp_path / "old.csv", set(range(10)))
    arms = [csv(tmp_path / f"arm{k}.csv", set(range(k, 18 + k))) for k in range(3)]
    found = compare_files([old, *arms])
    assert [pair.p_holm for pair in found.pairs] == intervals.holm([pair.p or 0.0 for pair in found.pairs])


def test_how_many_problems_would_have_been_needed_is_said(tmp_path: Path) -> None:
    old, new = csv(tmp_path / "old.csv", set(range(10))), csv(tmp_path / "new.csv", set(range(2, 14)))
    found = compare_files([old, new])
    (pair,) = found.pairs
    assert pair.needed is not None
    assert pair.needed > 40
    assert f"about {pair.needed:,} problems" in str(found)
    assert compare_files([old, f"same={old}"]).pairs[0].needed is None, "there is no difference to show"


def test_budgets_that_differ_are_warned_of(tmp_path: Path) -> None:
    old = csv(tmp_path / "old.csv", {1}, tokens=100)
    dear = csv(tmp_path / "dear.csv", {1}, tokens=300, samples=2)
    notes = compare_files([old, dear]).notes
    assert any("100 and 300 tokens per answer" in note for note in notes)
    assert any("1 and 2 samples per problem" in note for note in notes)
    lm = (WRITTEN / "lm_eval" / "samples_sums.jsonl").read_text()
    (tmp_path / "long.jsonl").write_text(lm.replace('"max_gen_toks": 256', '"max_gen_toks": 1024'))
    (tmp_path / "short.jsonl").write_text(lm)
    given = [f"a={tmp_path / 'short.jsonl'}", f"b={tmp_path / 'long.jsonl'}"]
    (note,) = compare_files(given, where={"filter": "last"}).notes
    assert "256 and 1,024" in note


def test_ungraded_answers_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id,score\n1,1\n2,0\n3,\n4,1\n")
    (tmp_path / "new.csv").write_text("id,score\n1,1\n2,1\n3,1\n4,0\n")
    found = compare_files([tmp_path / "old.csv", tmp_path / "new.csv"])
    assert found.problems == 3
    assert "old: 1 answers without a score are left out" in found.notes


def test_scores_that_are_not_right_or_wrong_are_compared_by_their_means(tmp_path: Path) -> None:
    for name, plus in (("old", 0.0), ("new", 0.5)):
        rows = [json.dumps({"id": k, "reward": 0.1 * k + plus + 0.01 * (k % 3)}) for k in range(20)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    found = compare_files([tmp_path / "old.jsonl", tmp_path / "new.jsonl"])
    assert found.pairs[0].difference.value == pytest.approx(0.5)
    high = found.sides[1].pass_rate.high
    assert high is not None
    assert high > 1.0, "rewards are not cut off at 1"


@pytest.mark.parametrize(
    ("folder", "metric", "where", "problems"),
    [
        ("inspect", "match", None, 3),
        ("lm_eval", None, {"filter": "last"}, 6),
        ("verifiers_v0", None, None, 3),
        ("verifiers_eval", None, None, 2),
        ("verl", "acc", None, 2),
    ],
)
def test_files_of_real_writers_are_compared(
    folder: str, metric: str | None, where: dict[str, str] | None, problems: int
) -> None:
    side = WRITTEN / folder
    found = compare_files([f"a={side}", f"b={side}"], metric, where)
    assert found.problems == problems
    assert found.pairs[0].difference.value == 0.0


def test_advice_counts_the_comparisons_and_names_what_is_left_out(tmp_path: Path) -> None:
    old, new = csv(tmp_path / "old.csv", set(range(10))), csv(tmp_path / "new.csv", set(range(2, 16)))
    alone, (among, *_) = compare_files([old, new]).pairs[0], compare_files([old, new, f"b={new}", f"c={new}"]).pairs
    assert (among.needed or 0) > (alone.needed or 0), "a corrected test needs more"
    assert "after Holm" not in str(compare_files([old, new]))
    (few,) = compare_files([old, csv(tmp_path / "few.csv", {1}, n=25)]).notes
    assert few == "warning: restricted to the 25 problems in common (old has 40, few has 25)"
    seeds = compare_files([f"one={old}", f"two={old},{new}"])
    assert "compares a result without a seed with seed 0 alone" in str(seeds)
    assert "what a different seed would change is not known" in str(seeds)


def test_rewards_are_no_percentages(tmp_path: Path) -> None:
    for name, plus in (("old", 0.0), ("new", 0.5)):
        rows = [json.dumps({"id": k, "reward": 10 + 0.1 * k + plus + 0.01 * (k % 3)}) for k in range(20)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    text = str(compare_files([tmp_path / "old.jsonl", tmp_path / "new.jsonl"]))
    assert "new against old: +0.5 [" in text
    assert "mean score" in text
    assert "%," not in text.replace("95%", "")
    assert "points" not in text


def test_what_cannot_be_compared_is_said_with_what_to_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, other = csv(tmp_path / "old.csv", {1}), tmp_path / "other.csv"
    other.write_text("problem,correct\nx,1\n")
    inspect, lm = WRITTEN / "inspect" / "sums.eval", WRITTEN / "lm_eval" / "samples_sums.jsonl"
    for words, advice in (
        ([old], "name a second file"),
        ([old, old], "name the sides: old="),
        ([old, str(other)], "their ids must be equal"),
        ([old, str(tmp_path / "nope.csv")], "name files that exist"),
        ([f"a={inspect}", f"b={inspect}"], "--metric NAME, one of match, includes"),
        ([f"a={lm}", f"b={lm}"], "--where filter=last"),
        ([old, f"b={other}", "--metric", "bogus"], "choose among"),
        ([old, f"b={other}", "--where", "bogus"], "--where filter="),
    ):
        assert main(["compare", *words]) == 2
        error, fix = capsys.readouterr().err.splitlines()
        assert error.startswith("error: ")
        assert advice in fix
    with pytest.raises(InputError, match="has no column bogus"):
        compare_files([old, f"b={other}"], where={"bogus": "1"})


def test_the_command_prints_json_and_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = csv(tmp_path / "old.csv", set(range(10))), csv(tmp_path / "new.csv", set(range(5, 30)))
    assert main(["compare", old, new, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"][0]["only_second"] == 20
    assert main(["compare", old, new, "--markdown"]) == 0
    assert "| against old |" in capsys.readouterr().out


def test_ids_that_look_like_numbers_stay_apart_and_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    names = ["1_23", "12_3", "007", "7", "12e345", "1e999"]
    for side in ("old", "new"):
        rows = "".join(f"{name},{n % 2}\n" for n, name in enumerate(names))
        (tmp_path / f"{side}.csv").write_text(f"id,correct\n{rows}", encoding="utf-8-sig")
    assert compare_files([tmp_path / "old.csv", tmp_path / "new.csv"]).problems == len(names)
