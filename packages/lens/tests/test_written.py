"""Files that the real packages wrote are read without an option (`writers/` has the scripts that made them)."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon_lens import Columns, LensError, diagnose, read, view
from agon_lens.logs import read_rollouts
from lens_pages import unpack

WRITTEN = Path(__file__).parent / "written"


@pytest.mark.parametrize(
    ("folder", "groups", "rows", "terms"),
    [
        ("trl", 6, 24, ("digits", "brief")),
        ("verifiers", 8, 32, ("reward.exact", "reward.short")),
        ("verifiers_eval", 2, 4, ("reward.exact", "reward.conversion_bonus")),
        ("verifiers_v0", 3, 12, ("reward",)),
        ("inspect", 3, 6, ("score.match", "score.includes")),
        ("lm_eval", 12, 12, ("score.exact_match",)),
        ("verl", 4, 16, ("score",)),
        ("wandb", 4, 16, ("correct_reward",)),
    ],
)
def test_a_file_of_a_real_writer_is_read(
    folder: str, groups: int, rows: int, terms: tuple[str, ...], tmp_path: Path
) -> None:
    (log,) = read(WRITTEN / folder)
    found = diagnose(log)
    assert (found.groups, found.rows, log.terms) == (groups, rows, terms)
    assert not {"unexplained total", "missing steps"} & {each.kind for each in found.findings}
    texts = read_rollouts([WRITTEN / folder]).texts
    assert all(group.prompt for group in texts)
    assert all(text for group in texts for text in group.completions)
    page = view(WRITTEN / folder, tmp_path / "page.html")
    assert len(unpack(page.read_text(), "index")["groups"]["size"]) == groups


@pytest.mark.parametrize("folder", ["trl", "verifiers", "wandb"])
def test_advantages_that_a_trainer_logged_are_those_of_the_totals(folder: str) -> None:
    (log,) = read(WRITTEN / folder)
    assert diagnose(log).advantages_agree


def test_seats_of_an_episode_are_groups_of_their_own_within_a_step() -> None:
    (log,) = read(WRITTEN / "verifiers")
    assert log.steps == (0, 0, 0, 0, 1, 1, 1, 1)
    drafts, challenges = log.groups[0], log.groups[1]
    assert [row.terms for row in drafts] == [(1.0, 0.1), (0.0, 0.1), (0.0, 0.0), (0.0, 0.1)]
    assert {row.terms for row in challenges} == {(1.0, 0.1)}


def test_a_trace_that_failed_is_ungraded_and_not_wrong() -> None:
    (log,) = read(WRITTEN / "verifiers")
    assert [row.total is None for row in log.groups[-1]] == [True, False, False, False]


def test_rollouts_of_several_turns_are_shown_as_turns() -> None:
    for folder in ("verifiers", "verifiers_v0"):
        first = read_rollouts([WRITTEN / folder]).texts[0].completions[0]
        assert isinstance(first, list)
        assert [role for role, _ in first] == ["assistant", "tool", "assistant"]
        assert "add" in first[0][1]
        assert first[1][1] == "4"
    traces = read_rollouts([WRITTEN / "verifiers"]).texts[0]
    assert traces.completions[0][-1][1] == "<think>\nI used the tool.\n</think>\n4"
    assert traces.completions[1] == "7"
    assert (traces.prompt, traces.gold) == ("What is 2 + 2?", "4")


def test_metrics_without_weights_are_not_taken_for_rewards_and_can_be_named() -> None:
    (log,) = read(WRITTEN / "verifiers_v0")
    assert any("--weights" in note for note in log.notes)
    named = Columns(terms=("says", "short"), weights={"short": 0.2})
    (weighted,) = read(WRITTEN / "verifiers_v0", named)
    assert [row.total for row in weighted.rows()] == [pytest.approx(row.total) for row in log.rows()]


def test_letters_of_inspect_are_numbers_and_verdicts() -> None:
    (log,) = read(WRITTEN / "inspect")
    assert {(row.terms[0], row.correct) for row in log.rows()} == {(1.0, True), (0.0, False)}
    assert read_rollouts([WRITTEN / "inspect"]).texts[0].prompt == "[system]\nBe brief.\n\n[user]\nWhat is 1 + 1?"


def test_filters_of_lm_eval_are_groups_of_their_own() -> None:
    (log,) = read(WRITTEN / "lm_eval")
    assert sum(row.total or 0.0 for row in log.rows()) == 1.0, "2 + 2, by the second filter"


def test_logs_of_inspect_as_json_are_read_too(tmp_path: Path) -> None:
    from agon_lens.lines import LogLines

    samples = [{"id": n, "epoch": 1, "input": "q", "scores": {"match": {"value": "C"}}} for n in range(3)]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": 2, "eval": {"task": "t"}, "samples": samples}, indent=1))
    assert [line["score.match"] for line in LogLines([path])] == [1.0, 1.0, 1.0]


def samples() -> dict[str, list[Any]]:
    """Lines of every writer."""
    found = {
        name: list(map(json.loads, next((WRITTEN / name).glob("*.jsonl")).read_text().splitlines()))
        for name in ("verifiers", "verifiers_eval", "verifiers_v0", "lm_eval", "verl")
    }
    scores = {"match": {"value": "C"}, "parts": {"value": {"a": 1}}}
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "source": "generate"}]
    output = {"choices": [{"stop_reason": "stop"}]}
    sample = {"id": 1, "epoch": 1, "input": "q", "target": "a", "scores": scores, "messages": said, "output": output}
    return found | {"inspect": [sample | {"model_usage": {"m": {"output_tokens": 3}}}] * 2}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*at, name)
        yield from places(each, (*at, name))


WRONG = st.sampled_from([None, 3, -1.5, True, "x", [], [1], ["a"], {}, {"a": "b"}, [{}], float("nan")])


@settings(max_examples=300)
@given(st.sampled_from(sorted(samples())), st.data())
def test_a_value_of_another_type_is_read_or_refused_in_one_sentence_with_its_place(
    writer: str, data: st.DataObject
) -> None:
    lines = samples()[writer]
    *way, last = data.draw(st.sampled_from(list(places(lines))))
    inside: Any = lines
    for name in way:
        inside = inside[name]
    inside[last] = data.draw(WRONG)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        refused = [error for use in (diagnose, read_rollouts) if (error := refusal(use, path))]
    for error in refused:
        assert "log.jsonl:" in error.message or re.search("no reward|no group|no rows|not a number", error.message)
        assert error.fix


def refusal(use: Callable[[Path], object], path: Path) -> LensError | None:
    try:
        use(path)
    except LensError as error:
        return error
    return None


@pytest.mark.parametrize(
    "line",
    [
        {"traces": 5, "task": 3},
        {"nodes": [1, 2], "rewards": {"a": "b"}},
        {"nodes": [{"sampled": True, "parent": "x"}], "rewards": {}},
        {"nodes": [], "rewards": {"a": {"score": "NaN", "weight": []}}},
        {"traces": [{}], "task": "x", "run": "y", "group": 7},
        {"example_id": {}, "reward": "x", "metrics": [1]},
        {"id": 1, "epoch": 1, "scores": {"a": 3}},
        {"id": 1, "epoch": 1, "scores": {"a": {"value": {"b": {}}}}, "messages": ["x"], "output": {"choices": []}},
        {"doc_id": 1, "resps": 5},
        {"doc_id": 1, "resps": [[1]], "metrics": 5, "arguments": {"a": 5}},
    ],
)
def test_a_line_that_its_writer_never_wrote_is_named(line: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{json.dumps(line)}\n" * 8)
    for use in (diagnose, read_rollouts):
        with pytest.raises(LensError, match=r"log\.jsonl:1: "):
            use(path)


def test_an_archive_that_is_damaged_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes((WRITTEN / "inspect" / "sums.eval").read_bytes()[:4000])
    with pytest.raises(LensError, match="archive of inspect") as refused:
        read(path)
    assert refused.value.fix


def test_a_table_in_csv_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,prompt,completion,accuracy\n1,p,a,1\n1,p,b,0\n1,p,c,\n")
    (log,) = read(path)
    assert [row.total for row in log.rows()] == [1.0, 0.0, None]
    path.write_text("step,prompt\n1,p,q\n")
    with pytest.raises(LensError, match="Row #2"):
        read(path)
