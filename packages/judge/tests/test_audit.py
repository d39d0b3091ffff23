"""An audit says what a reward pays for: what it finds, what it leaves alone, and what the command prints."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import agon_judge
from agon_judge.auditing.environment import Target
from agon_judge.auditing.probes import near_misses, number, probes, rewritings, same, wrap
from agon_judge.auditing.report import page
from agon_judge.auditing.trl import RewardFunction, named, read_rows
from agon_judge.cli import main
from agon_judge.errors import InputError
from judge_helpers import BENCHMARKS

LOCK = threading.Lock()
ROWS = [
    {"prompt": "What is 6 times 7?", "answer": "42"},
    {"prompt": "What is the sum of 900 and 420?", "answer": "1320"},
    {"prompt": "How many legs have two spiders?", "answer": "16"},
]
REWARDS = """
import json, re, threading, time

def exact(completions, answer, **columns):
    return [float(text.strip() == gold) for text, gold in zip(completions, answer)]

def exact_or_zero(completions, answer, **columns):
    return [float(bool(gold and gold.strip()) and text.strip() == gold) for text, gold in zip(completions, answer)]

def substring(completions, answer, **columns):
    return [float(gold in text) for text, gold in zip(completions, answer)]

def sleeps(completions, answer, **columns):
    if "idea" in completions[0]:
        time.sleep(3600)
    return exact(completions, answer)

def hangs_on_golds(completions, answer, **columns):
    while answer[0] in completions[0]:
        pass
    return exact(completions, answer)

def hangs_on_length(completions, answer, **columns):
    while len(completions[0]) > 5000:
        pass
    main = threading.current_thread() is threading.main_thread()
    return exact(completions, answer) if main else [0.0 for _ in completions]

def always_raises(completions, answer, **columns):
    raise RuntimeError("no model")

def of_one(problem, completion):
    return problem.answer == completion

def other_column(completions, target, **columns):
    return exact(completions, target)

def ends(completions, answer, **columns):
    if not completions[0]:
        raise SystemExit(3)
    return exact(completions, answer)

def constant(completions, **columns):
    return [0.0 for _ in completions]

def tolerant(completions, answer, **columns):
    def paid(text, gold):
        try:
            return float(abs(float(text) - float(gold)) <= 0.02 * float(gold))
        except ValueError:
            return 0.0
    return [paid(text, gold) for text, gold in zip(completions, answer)]

def any_order(completions, answer, **columns):
    items = lambda text: sorted(item.strip() for item in text.split(","))
    return [float(items(text) == items(gold)) for text, gold in zip(completions, answer)]

def behind_hashes(completions, answer, **columns):
    found = [re.search(r"#### (-?[0-9.,]+)\\s*$", text) for text in completions]
    return [float(bool(match) and match[1].replace(",", "") == gold) for match, gold in zip(found, answer)]

def nested(completions, answer, **columns):
    return [float(bool(re.match(r"(\\w+ ?)*$", text)) and text == gold) for text, gold in zip(completions, answer)]

def knows_only_numbers(completions, answer, **columns):
    return [float(text.strip() == gold) if gold.isdigit() else None for text, gold in zip(completions, answer)]

def of_json(completions, answer, **columns):
    def paid(text, gold):
        try:
            return float(str(json.loads(text)["answer"]).strip() == gold)
        except (ValueError, TypeError, KeyError, RecursionError):
            return 0.0
    return [paid(text, gold) for text, gold in zip(completions, answer)]

def shares_a_variable(completions, answer, **columns):
    global wanted
    rewards = []
    for text, wanted in zip(completions, answer):
        time.sleep(0.001)
        rewards.append(float(text.strip() == wanted))
    return rewards

def takes_time_for_golds(completions, answer, **columns):
    end = time.process_time() + 0.2 * sum(exact(completions, answer))
    while time.process_time() < end:
        pass
    return exact(completions, answer)

def longer(completions, answer, **columns):
    return [min(1.0, right + len(text) / 1000) for right, text in zip(exact(completions, answer), completions)]

def bonus_for_length(completions, answer, **columns):
    return [right + min(1.0, len(text) / 5000) for right, text in zip(exact(completions, answer), completions)]

def penalty_for_length(completions, answer, **columns):
    return [right - len(text) / 1000 for right, text in zip(exact(completions, answer), completions)]

def half_for_the_form(completions, answer, **columns):
    found = [re.fullmatch("<answer>(.*)</answer>", text, re.DOTALL) for text in completions]
    return [0.5 * bool(each) + 0.5 * bool(each and each[1].strip() == gold) for each, gold in zip(found, answer)]

def any_order_of_digits(completions, answer, **columns):
    return [float(sorted(text.strip()) == sorted(gold)) for text, gold in zip(completions, answer)]

def works_it_out(completions, answer, **columns):
    def value(text):
        found = re.fullmatch(r"\\s*(-?\\d{1,9})(?:\\.0)?(?:\\+(\\d+))?\\s*", text.replace(",", ""))
        return found and int(found[1]) + int(found[2] or 0)
    return [float(value(text) == int(gold)) for text, gold in zip(completions, answer)]

def nan_for_wrong(completions, answer, **columns):
    return [1.0 if right else float("nan") for right in exact(completions, answer)]

def logs(completions, answer, **columns):
    with open("completions.txt", "a", encoding="utf-8") as file:
        file.writelines(completions)
    return exact(completions, answer)

def slow_on_length(completions, answer, **columns):
    end = time.process_time() + (len(completions[0]) / 30_000) ** 2 / 5
    while len(completions[0]) > 5000 and time.process_time() < end:
        pass
    return exact(completions, answer)

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str.strip() == ground_truth), "acc": 1.0}

def too_few(completions, answer, **columns):
    return exact(completions, answer)[:1] if completions[0] == "42" else []

def form(completions, **columns):
    return [float(text.startswith("<think>")) for text in completions]

class Called:
    def __call__(self, completions, answer, **columns):
        return exact(completions, answer)

class Own:
    version, full = "own 1", 1.0

    def rows(self, split):
        from agon_judge import Row
        return [Row("?", None), Row("??", None)]

    def score(self, row, text):
        from agon_judge import Score
        return Score(float(text == "0"))
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rewards.py").write_text(REWARDS)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("noted.jsonl").write_text(f"{json.dumps(ROWS[0])}\n3\n")
    return tmp_path


def kinds(audit: agon_judge.Audit) -> set[str]:
    return {finding.kind for finding in audit.faults}


def audited(name: str, **options: object) -> agon_judge.Audit:
    return agon_judge.audit(f"rewards.py:{name}", "rows.jsonl", workers=1, **options)  # type: ignore[arg-type]


GOLDS = [
    "42",
    "-7",
    "1,320",
    "3.14",
    r"\frac{1}{2}",
    "Paris",
    "yes",
    "B",
    "2, 5, 9",
    "(1, 2)",
    "0",
    "x^2+1",
    "no solution",
]


@pytest.mark.parametrize("gold", GOLDS)
def test_a_near_miss_is_not_the_gold_and_a_rewriting_of_a_number_is(gold: str) -> None:
    misses = [miss for miss in near_misses(gold) if not same(miss, gold)]
    assert misses
    assert all(number(miss) is None or number(miss) != number(gold) for miss in misses)
    for _, answer in rewritings(gold):
        assert number(answer) == number(gold)


@pytest.mark.parametrize("gold", GOLDS)
def test_no_probe_for_wrong_answers_states_the_gold_alone(gold: str) -> None:
    template = "<answer>{}</answer>"
    for probe in probes(0, "What is it?", gold, GOLDS, template):
        if probe.expected == "wrong":
            assert probe.text != wrap(template, gold)
            assert not same(probe.answer, gold)


def test_a_program_is_not_indented_and_has_no_near_misses() -> None:
    fence = "```python\n{}\n```"
    tried = list(probes(0, "Print 1.", "print(1)", ["print(1)", "print(2)"], fence))
    assert not [probe for probe in tried if probe.kind == "near miss"]
    assert not [probe for probe in tried if probe.expected == "right" and "\n print" in probe.text]


def test_a_good_reward_passes(desk: Path) -> None:
    audit = audited("exact")
    assert audit.passed, audit.faults
    assert audit.template == "{}"
    assert audit.rows == 3


def test_a_substring_is_found_with_the_smallest_example(desk: Path) -> None:
    audit = audited("substring")
    assert {"pays a near miss", "pays several answers at once"} <= kinds(audit)
    (miss,) = [finding for finding in audit.faults if finding.kind == "pays a near miss"]
    assert miss.rows == miss.of == 3
    assert miss.example.gold in miss.example.text
    assert len(miss.example.text) <= 4


@pytest.mark.parametrize(
    ("name", "kind"), [("sleeps", "hangs"), ("nested", "hangs"), ("ends", "raises"), ("too_few", "raises")]
)
def test_hangs_and_crashes_are_found_and_the_audit_ends(desk: Path, name: str, kind: str) -> None:
    assert kind in kinds(audited(name, deadline=0.3))


def test_a_reward_that_hangs_on_its_golds_is_reported(desk: Path) -> None:
    audit = audited("hangs_on_golds", deadline=0.3)
    assert kinds(audit) == {"hangs"}
    assert "no more probes were tried" in audit.faults[0].example.detail


def test_hangs_on_long_texts_do_not_hide_a_difference_in_a_thread(desk: Path) -> None:
    audit = audited("hangs_on_length", deadline=0.3)
    assert {"hangs", "gives a different reward in a thread"} <= kinds(audit)


def test_a_reward_that_raises_on_golds_is_told_from_one_that_raises_on_junk(desk: Path) -> None:
    assert "raises on the gold" in kinds(audited("always_raises"))
    assert "raises on the gold" not in kinds(audited("ends"))


def test_a_reward_of_one_value_is_said_to_be_so(desk: Path) -> None:
    (fault,) = audited("constant").faults
    assert (fault.kind, fault.rows, fault.of) == ("pays 0 for everything", 3, 3)


def test_a_reward_for_form_is_audited_as_one(desk: Path) -> None:
    assert not audited("form").passed
    assert audited("form", form=True).passed


def test_rows_without_a_gold_are_tried_and_counted(desk: Path) -> None:
    Path("rows.jsonl").write_text('{"prompt": "?", "answer": "42"}\n{"prompt": "?"}\n{"prompt": "?", "answer": " "}')
    audit = audited("exact_or_zero")
    assert audit.passed, audit.faults
    assert audit.hints[0].startswith("2 of 3 rows have no gold")


def test_a_class_of_rewards_is_called_as_an_instance(desk: Path) -> None:
    assert audited("Called").passed


def test_a_line_that_is_no_row_is_named(desk: Path) -> None:
    with pytest.raises(InputError, match="line 2 is 3 and no object"):
        agon_judge.audit("rewards.py:exact", "noted.jsonl", workers=1)


@pytest.mark.parametrize(
    ("name", "golds", "remark"),
    [
        ("tolerant", ["9.81", "373.15", "0.25"], "pays a number near the gold"),
        ("any_order", ["1, 2", "red, blue", "2, 3, 5"], ""),
        ("behind_hashes", ["42", "1320", "16"], "refuses the gold in a different spelling of its number"),
        ("knows_only_numbers", ["see figure", "42", "16"], "gives no verdict on any answer of a row"),
        ("of_json", ["Rome", "Au", "Hamlet"], ""),
        ("logs", ["Rome", "Au", "Hamlet"], "raises on a lone surrogate"),
        ("slow_on_length", ["Rome", "Au", "Hamlet"], "is slow on a long text"),
    ],
)
def test_what_is_meant_so_is_a_remark_and_no_fault(desk: Path, name: str, golds: list[str], remark: str) -> None:
    rows = ({"prompt": "Which?", "answer": gold} for gold in golds)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    audit = audited(name, deadline=0.4)
    assert audit.passed, audit.faults
    assert not remark or remark in {finding.kind for finding in audit.findings}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("longer", "pays a long text"),
        ("bonus_for_length", "pays a long text"),
        ("half_for_the_form", "pays junk"),
        ("any_order_of_digits", "pays a near miss"),
    ],
)
def test_what_has_nothing_of_an_answer_is_not_even_paid_half(desk: Path, name: str, kind: str) -> None:
    assert kind in kinds(audited(name))


def test_a_penalty_for_length_is_no_pay_for_junk(desk: Path) -> None:
    audit = audited("penalty_for_length")
    assert audit.passed, audit


def test_a_reward_that_works_sums_out_is_told_so(desk: Path) -> None:
    audit = audited("works_it_out")
    assert audit.passed, audit
    assert "pays arithmetic that is not worked out" in {finding.kind for finding in audit.findings}


def test_a_reward_that_is_no_number_for_wrong_answers_raises_and_pays_nothing(desk: Path) -> None:
    assert kinds(audited("nan_for_wrong")) == {"raises"}


def test_threads_that_share_a_variable_are_found(desk: Path) -> None:
    assert kinds(audited("shares_a_variable")) == {"gives a different reward beside other threads"}


def test_a_batch_of_slow_calls_is_no_difference(desk: Path) -> None:
    assert audited("takes_time_for_golds", deadline=0.5, take=3).passed


def test_a_whole_number_has_no_tolerance(desk: Path) -> None:
    Path("rows.jsonl").write_text('{"prompt": "?", "answer": "1320"}')
    assert "pays a near miss" in kinds(audited("tolerant"))


def test_a_reward_in_the_signature_of_verl_is_audited(desk: Path) -> None:
    row = {"data_source": "own", "prompt": [], "reward_model": {"style": "rule", "ground_truth": "42"}}
    Path("rows.jsonl").write_text(json.dumps(row))
    audit = audited("compute_score")
    assert audit.passed, audit.faults
    assert audit.template == "{}"


@pytest.mark.parametrize(
    ("name", "answer", "hint"), [("constant", "42", "--template"), ("form", "42", "--form"), ("exact", ["a"], "--gold")]
)
def test_a_hint_says_what_to_type(desk: Path, name: str, answer: object, hint: str) -> None:
    rows = ({"prompt": "?", "answer": each} for each in (answer, "7" if isinstance(answer, str) else ["b"]))
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert hint in " ".join(audited(name).hints)


def test_an_environment_of_ones_own_without_golds(desk: Path) -> None:
    audit = agon_judge.audit("rewards.py:Own", workers=1)
    assert kinds(audit) == {"pays junk"}
    assert audit.version == "own 1"


def test_who_waits_for_a_slow_reward_is_told_how_far_it_is(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agon_judge.auditing.clock.SILENCE", 3600.0)
    audited("exact", take=2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("agon_judge.auditing.clock.SILENCE", 0.0)
    calls = audited("exact", take=2).calls
    lines = capsys.readouterr().err.splitlines()
    assert 5 < len(lines) < calls
    assert all(re.fullmatch(r"[a-z ]+: [\d,]+ of [\d,]+ calls", line) for line in lines)


def test_the_bound_is_a_share_of_rows(desk: Path) -> None:
    assert audited("substring", bound=1.0).passed


CASES = [json.loads(line) for line in (BENCHMARKS / "audit_rewards.jsonl").read_text().splitlines()]


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=[f"{case['by']} {case['name']}" for case in CASES])
def test_rewards_with_a_fault_fail_and_good_ones_pass(tmp_path: Path, case: dict[str, Any]) -> None:
    if case["name"] == "sort_list":
        pytest.skip("the one that is not found: both lists are sorted, so a permutation is paid")
    (tmp_path / "mine.py").write_text(case["code"])
    audit = agon_judge.audit(f"{tmp_path}/mine.py:reward", case["rows"], take=5, workers=1)
    assert audit.passed == (case["by"] == "good"), audit


@pytest.mark.slow
def test_a_broken_scorer_of_reasoning_gym_is_found() -> None:
    pytest.importorskip("reasoning_gym")
    audit = agon_judge.audit("reasoning-gym:game_of_life_halting", take=3, workers=1)
    assert {"pays junk", "pays another row's gold"} <= kinds(audit)
    assert audit.version.startswith("reasoning-gym ")
    assert agon_judge.audit("reasoning-gym:chain_sum", take=3, workers=1).passed


@pytest.mark.slow
def test_the_reward_of_trl_is_called_as_trl_calls_it(desk: Path) -> None:
    pytest.importorskip("trl")
    Path("chats.jsonl").write_text("".join(json.dumps({**row, "solution": row["answer"]}) + "\n" for row in ROWS))
    audit = agon_judge.audit("trl.rewards:accuracy_reward", "chats.jsonl", take=2, workers=1)
    assert "boxed" in audit.template
    assert not {"raises", "refuses the gold"} & kinds(audit)
    assert audit.version.startswith("trl ")


def test_the_command_prints_a_table_json_and_a_page(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "rewards.py:substring", "--rows", "rows.jsonl", "--take", "2"]
    assert main([*words, "--html", "page.html"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("rewards.py:substring: ")
    assert printed.rstrip().splitlines()[-1].startswith("failed: ")
    assert "<script" not in Path("page.html").read_text()
    assert main([*words, "--json", "--bound", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True


def test_a_lone_surrogate_is_printed_as_json(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "rewards.py:logs", "--rows", "rows.jsonl", "--take", "1", "--json"]) == 0
    texts = [finding["example"]["text"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert "\ud800" in texts


def test_a_page_shows_hostile_text_as_text(desk: Path) -> None:
    Path("rows.jsonl").write_text(
        json.dumps({"prompt": "?", "answer": "<script>1</script>"}) + "\n" + json.dumps({"prompt": "?", "answer": "b"})
    )
    assert "<script>" not in page(audited("substring"))


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["nothing"], "reasoning-gym:TASK"),
        (["rewards.py:exact"], "--rows"),
        (["rewards.py", "--rows", "rows.jsonl"], "rewards.py:FUNCTION"),
        (["none.py:exact", "--rows", "rows.jsonl"], "FILE.py:function"),
        (["rewards.py:exakt", "--rows", "rows.jsonl"], "rewards.py:exact,"),
        (["rewards.py:exact", "--rows", "none.jsonl"], "--rows FILE"),
        (["rewards.py:exact", "--rows", "rewards.py"], "JSON object"),
        (["rewards.py:exact", "--rows", "noted.jsonl"], "JSON object"),
        (["rewards.py:other_column", "--rows", "rows.jsonl"], "there are: prompt, answer"),
        (["rewards.py:of_one", "--rows", "rows.jsonl"], "def reward(completions, answer, **columns)"),
        (["rewards.py:exact", "--rows", "rows.jsonl", "--gold", "anser"], "prompt, answer"),
        (["rewards.py:exact", "--rows", "rows.jsonl", "--template", "x"], "{}"),
        (["rewards.py:exact", "--rows", "rows.jsonl", "--bound", "2"], "--help"),
        (["rewards.py:exact", "--rows", "rows.jsonl", "--deadline", "soon"], "--help"),
        (["rewards.py:exact", "--rows", "rows.jsonl", "--html", "none/page.html"], "--html FILE"),
    ],
)
def test_bad_input_is_answered_in_two_lines(
    desk: Path, words: list[str], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *words]) == 2
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert fix in advice
    assert "_positive" not in error


def test_a_lambda_and_a_closure_over_rows_of_python_are_audited() -> None:
    suffix = "2"
    audit = agon_judge.audit(lambda completions, **_: [float(text.endswith(suffix)) for text in completions], ROWS)
    assert (audit.target, audit.rows) == ("<lambda>", 3)
    assert "pays junk" in kinds(audit)

    def exact(completions: list[str], answer: list[str]) -> list[float]:
        return [float(text.strip() == gold) for text, gold in zip(completions, answer, strict=True)]

    assert agon_judge.audit(exact, iter(ROWS), workers=1).passed


def test_a_named_reward_takes_rows_of_python(desk: Path) -> None:
    assert agon_judge.audit("rewards.py:exact", ROWS, workers=1).rows == 3
    assert agon_judge.audit("math", ROWS[:2], workers=1).passed


CELL = """
import agon_judge
limit = 3
def of_the_cell(completions, answer, **columns):
    return [float(gold in text[:limit * 20]) for text, gold in zip(completions, answer)]
print(agon_judge.audit(of_the_cell, [{"prompt": "6 x 7?", "answer": "42"}, {"prompt": "6 x 8?", "answer": "48"}]))
"""


def test_a_function_of_a_cell_is_sent_with_what_it_uses() -> None:
    done = subprocess.run([sys.executable, "-"], input=CELL, capture_output=True, text=True)
    assert done.stdout.startswith("of_the_cell: "), done.stderr
    assert "pays a near miss" in done.stdout


def test_rows_with_different_golds_come_first(desk: Path) -> None:
    reward = RewardFunction(Target("f"), lambda completions, **_: [0.0], [*[ROWS[0]] * 9, *ROWS[1:]])
    assert [row.gold for row in reward.rows("train")][:4] == ["42", "1320", "16", "42"]


@pytest.mark.parametrize(
    ("target", "rows", "fix"),
    [
        (42, ROWS, "reward function"),
        (len, None, "rows=FILE"),
        (len, 5, "prompt"),
        (len, [], "prompt"),
        (len, ["a"], "prompt"),
        (lambda completions: [LOCK.locked()], ROWS, "FILE.py:function"),
        ("rewards.py:exact", [{"prompt": "?", "anser": "1"}], "gold=COLUMN"),
    ],
)
def test_python_is_answered_in_python(desk: Path, target: Any, rows: Any, fix: str) -> None:
    with pytest.raises(InputError) as refused:
        agon_judge.audit(target, rows, workers=1)
    assert fix in refused.value.__notes__[0]


def test_an_audit_prints_as_a_table_and_shows_as_one_in_a_notebook(desk: Path) -> None:
    audit = audited("constant", take=2)
    assert repr(audit) == str(audit)
    assert str(audit).splitlines()[-1].startswith("failed: ")
    assert "gold=COLUMN" in str(audit)
    assert "take=N" in str(audit)
    assert "--" not in str(audit)
    assert "<table>" in audit._repr_html_()
    assert audit.as_html().startswith("<!doctype html>")


STAGED = """
def staged(prompts, completions, answer, trainer_state, log_extra, log_metric, **columns):
    right = [float(text.strip() == gold) for text, gold in zip(completions, answer)]
    log_extra("right", right)
    log_metric("early", float(trainer_state.global_step < 100))
    return right
"""


def test_a_reward_may_ask_for_what_trl_gives_besides_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "staged.py").write_text(STAGED)
    rows = [{"prompt": "6 x 7?", "answer": "42"}, {"prompt": "6 x 8?", "answer": "48"}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert agon_judge.audit("staged.py:staged", "rows.jsonl", workers=1).passed
    rows = [{"problem": row["prompt"], "final_answer": row["answer"]} for row in rows]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert agon_judge.audit("staged.py:staged", "mine.jsonl", workers=1).passed


def test_a_file_of_rewards_may_define_dataclasses(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Answer:\n    text: str\n"
        "def paid(completions, **columns):\n    return [float(bool(Answer(text).text)) for text in completions]\n"
    )
    assert named(f"{file}:paid")(["42"]) == [1.0]


def test_a_number_without_its_unit_is_no_near_miss() -> None:
    for gold, bare in (("42 cm", "42"), ("35%", "35"), ("17 m", "17")):
        assert bare not in {miss.strip() for miss in near_misses(gold)}
    assert "15" in near_misses("15x")


def test_a_reward_that_never_gives_a_verdict_does_not_pass(desk: Path) -> None:
    (desk / "silent.py").write_text("def silent(completions, **columns):\n    return [None for _ in completions]\n")
    found = agon_judge.audit("silent.py:silent", "rows.jsonl", take=2, workers=1)
    assert [(fault.kind, fault.rows) for fault in found.faults] == [("gives no verdict on any answer", 2)]


def test_a_cell_of_a_csv_file_may_have_several_lines(tmp_path: Path) -> None:
    rows = [{"prompt": "Add:\n2\n3", "answer": "n = 2\u2028\nprint(n)"}, {"prompt": "6 x 7?", "answer": "42"}]
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["prompt", "answer"])
        writer.writeheader()
        writer.writerows(rows)
    assert read_rows(tmp_path / "rows.csv") == rows
