"""The model card: it states what was measured, says what was not, and its code compiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agon.formatting import interval
from agon.report.card import card, caveats, results, use
from agon.report.collect import HELD_OUT, MeasuredRun, read_run
from agon.rundir.results import Interval

from .helpers import INFO, N, make_run_with_pair, without_verdicts

NAMED = INFO.model_copy(update={"base": "Qwen/Qwen3-0.6B"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> MeasuredRun:
    return read_run(make_run_with_pair(tmp_path_factory.mktemp("pair")))


def test_the_card_states_what_was_measured(run: MeasuredRun) -> None:
    text = card(run, INFO, "peft")
    assert interval(run.results[HELD_OUT, "cascade"].measured.pass_rate, sign="") in text
    assert "| direction, chosen on dev | B drafts, A answers |" in text
    assert "One training run, one seed" in text
    assert "a toy" in text
    assert text.startswith("---\nlibrary_name: ")


@pytest.mark.parametrize(
    ("rival", "fact"),
    [
        ("policy", "B, trained against A"),
        ("frozen", "B, which did not learn"),
        ("league", "earlier versions of A"),
    ],
)
def test_the_card_names_the_rival(run: MeasuredRun, rival: str, fact: str) -> None:
    text = card(run, INFO.model_copy(update={"rival": rival}), "peft")
    assert f"| rival | {fact}" in text
    assert ("use A alone" in text) == (rival not in ("policy", "frozen"))


def test_results_of_a_different_step_are_not_those_of_the_pair(run: MeasuredRun) -> None:
    text = card(run, INFO.model_copy(update={"step": 20}), "peft")
    assert "| checkpoint | step 20 |" in text
    assert "Nothing has been evaluated" in text
    assert "| checkpoint | step 30 |" in card(run, INFO, "peft")


def test_the_deployed_system_comes_first(run: MeasuredRun) -> None:
    systems = [line.split(" | ")[1] for line in results(run).splitlines()[2:]]
    assert systems[0] == "cascade"
    assert set(systems[1:]) == {"A drafts, B answers", "B drafts, A answers", "A alone", "B alone", "base, zero-shot"}


def test_the_price_stands_beside_the_gain(run: MeasuredRun) -> None:
    lines = {line.split(" | ")[1]: line.split(" | ")[4:6] for line in results(run).splitlines()[2:]}
    assert lines["cascade"] == ["2", "1.0k"]
    assert lines["A alone"] == ["1", "500"]
    assert any("costs both" in line for line in caveats(run, INFO, "peft"))


@pytest.mark.parametrize("info", [INFO, NAMED], ids=["tiny", "named"])
@pytest.mark.parametrize("form", ["peft", "merged"])
def test_the_code_of_a_card_compiles_and_loads_the_drafter_first(info, form: str) -> None:  # type: ignore[no-untyped-def]
    code = use(info, form).split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")
    assert code.index('subfolder="b"') < code.index('subfolder="a"')
    assert ("folder_of(" in code) == (info is INFO and form == "peft")


def test_a_base_that_ships_is_loaded_by_its_name() -> None:
    code = use(INFO.model_copy(update={"base": "agon:halves"}), "peft")
    assert "folder_of('agon:halves')" in code


@pytest.mark.parametrize(("low", "overlaps"), [(0.2, True), (0.99, False)])
def test_a_pair_that_is_not_clearly_better_than_one_policy_has_a_caveat(
    low: float, overlaps: bool, run: MeasuredRun
) -> None:
    cascade = run.results[HELD_OUT, "cascade"]
    measures = cascade.measured.model_copy(update={"pass_rate": Interval(0.99, low, 1.0)})
    changed = run.results | {(HELD_OUT, "cascade"): cascade.model_copy(update={"measures": measures})}  # type: ignore[operator]
    lines = list(caveats(replace(run, results=changed), INFO, "peft"))
    assert any("the pair's interval overlaps that of" in line for line in lines) is overlaps


def test_problems_that_could_not_be_graded_are_a_caveat(run: MeasuredRun) -> None:
    assert not any("could not be graded" in line for line in caveats(run, INFO, "peft"))
    changed = run.results | {(HELD_OUT, "a"): without_verdicts(run.results[HELD_OUT, "a"], 3)}  # type: ignore[operator]
    lines = list(caveats(replace(run, results=changed), INFO, "peft"))
    assert any(f"A alone: 3 of {N} problems could not be graded" in line for line in lines)


def test_a_card_without_results_says_so(run: MeasuredRun) -> None:
    bare = replace(run, results={})
    assert "Nothing has been evaluated" in results(bare)
    assert "nothing above says how good the pair is" in card(bare, INFO, "merged")


def test_the_card_names_a_base_of_the_hub_only(
    run: MeasuredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert card(run, NAMED, "peft").startswith("---\nbase_model: Qwen/Qwen3-0.6B\nlibrary_name: peft\n")
    for base in ("agon:halves", "models/mine", str(tmp_path), "mine"):
        text = card(run, INFO.model_copy(update={"base": base}), "peft")
        assert "base_model" not in text.split("---")[1]
