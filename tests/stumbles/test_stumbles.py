"""Where new users stumbled in their first hour, by number: what each command answers now, and its exit code.

A case runs a command in a folder like that of a new user and compares the exit code and the first two lines. Stumbles
about what a page or a picture shows have a test elsewhere; ELSEWHERE says which, and that it exists. README.md here has
the whole table.
"""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import agon
from agon import training
from agon.cli import main
from agon.errors import AgonError, EngineError, VerifierError
from agon.eval import run as eval_run
from agon.rundir import RunDir
from tests.report.helpers import make_match

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """A command, its exit code, and the first two lines of its answer; "..." at the end of a line stands for more."""

    stumble: int
    command: str
    code: int
    first: str
    second: str = ""


LOG = "out/completions/completions_00001.parquet"
CASES = (
    Case(1, f"view {LOG}", 0, "completions_00001.html  (0.1 MB; open it in a ..."),
    Case(1, "view out", 0, "rollouts.html  (0.1 MB; open it in a browser, it needs no network)"),
    Case(
        1,
        "view out/trainer_state.json",
        2,
        "error: out/trainer_state.json holds means over batches, and no group can be seen in them",
        "fix: train with log_completions=True, then name OUTPUT_DIR/completions",
    ),
    Case(
        1,
        "view notes.md",
        2,
        "error: notes.md is not a run, a result or a log",
        "fix: name a run directory, a result of ...",
    ),
    Case(
        1,
        "diagnose notes.md",
        2,
        "error: notes.md is not a log: neither parquet nor JSONL",
        "fix: name a parquet, JSONL, CSV or .eval file, a folder of them, or a run directory",
    ),
    Case(
        5,
        "plan mine.yaml verifier=gone.py:correct",
        2,
        "error: there is no file {here}/gone.py",
        "fix: name a function in a file, FILE.py:function (relative to the config), or in a module that Python finds",
    ),
    Case(5, "verify judge.py:correct --gold 42 'so it is 42'", 0, "right      correct   so it is 42"),
    Case(5, "verify judge.py:correct --gold 42 'so it is 41'", 1, "wrong      wrong   so it is 41"),
    Case(
        8,
        "view runs/demo --steps 90:95",
        2,
        "error: runs/demo has no bouts of these steps: it has steps 0 to 1",
        "fix: agon view runs/demo --steps 0:1",
    ),
    Case(8, "view runs/demo --steps 1", 0, "runs/demo/match-step-1.html  (0.1 MB; open it in a browser, it needs ..."),
    Case(
        9,
        "view runs/demo -o missing/x.html",
        2,
        "error: missing/x.html was not written: No such file or directory",
        "fix: make that folder first, or name one that exists",
    ),
    Case(
        10,
        "train tabletop.yaml --out /proc/agon",
        2,
        "error: cannot create /proc/agon/agon-agon-tiny-s0: No such file or directory",
        "fix: choose a place with --out DIR",
    ),
    Case(11, "plan nope.yaml", 2, "error: nope.yaml does not exist", "fix: name one of: mine.yaml, tabletop.yaml"),
    Case(11, "plan runs", 2, "error: runs is a folder, not a config", "fix: write one first: agon init tabletop"),
    Case(11, "train runs/nope --resume", 2, "error: there is no run runs/nope", "fix: name one of: runs/demo"),
    Case(11, "eval runs/nope", 2, "error: there is no run runs/nope", "fix: name one of: runs/demo"),
    Case(12, f"diagnose {LOG} {LOG.replace('1', '2')}", 0, "completions_00001.parquet and 1 more: 8 groups of 4..."),
    Case(
        13,
        "diagnose out/trainer_state.json",
        2,
        "error: out/trainer_state.json holds means over batches, and no group can be seen in them",
        "fix: train with log_completions=True, then name OUTPUT_DIR/completions",
    ),
    Case(
        13,
        "diagnose table.json",
        0,
        "table.json: 1 group of 2, 2 rows; normalised by group mean ...",
    ),
    Case(
        17,
        "data check problems.jsonl",
        2,
        "error: 9 of 9 rows of problems.jsonl cannot be used: no field question, answer (it has problem, ...",
        "fix: map its columns: `columns: {question: problem, answer: solution}` under its path in a config, or ...",
    ),
    Case(17, "data check problems.jsonl columns.question=problem columns.answer=solution", 0, "problems.jsonl: 9 ..."),
    Case(18, "view runs/demo", 0, "runs/demo/match.html  (0.1 MB; open it in a browser, it needs no network)"),
    Case(21, "explain live_groups", 0, "live_groups  (metric in steps.jsonl, StreamStats)", "  Groups with ..."),
    Case(32, "explain bites", 0, "bites  (word)", "  Of groups: the bonus changes their advantages; ..."),
    Case(34, "compare nope.json runs/demo", 2, "error: nope.json does not exist", "fix: name a file that `agon ..."),
    Case(33, "init", 2, "error: no recipe is named", "fix: choose one of: codecontests-easy, custom, ..."),
    Case(
        36, f"diagnose {LOG} out/completions/rollouts.html", 0, "completions_00001.parquet: 4 groups of 4, 16 rows; ..."
    ),
    Case(36, f"view {LOG} out/completions/rollouts.html", 0, "completions_00001.html  (0.1 MB; ..."),
    Case(
        37,
        "view broken.parquet",
        2,
        "error: cannot read broken.parquet as parquet: ...",
        "fix: copy the file again if it is damaged, or name a different .parquet or .jsonl file",
    ),
    Case(38, "view empty.jsonl", 2, "error: empty.jsonl holds no rows", "fix: log at least one step, or name a ..."),
    Case(
        39,
        "view nope.parquet",
        2,
        "error: nope.parquet does not exist",
        "fix: name a parquet, JSONL, CSV or .eval file, a folder of them, or a run directory",
    ),
    Case(40, "runs nope", 2, "error: nope is not a folder", "fix: name a folder of runs, such as: agon runs runs"),
    Case(
        50,
        "init custom",
        0,
        "wrote custom.yaml",
        "next: put your problems into problems.jsonl, then: agon data check ...",
    ),
    Case(
        54,
        "plan tabletop.yaml num_generations=8",
        2,
        "error: tabletop.yaml: 1 mistake, nothing was started",
        "  command line: num_generations: in Agon this is game.group_size (half of it: ...",
    ),
    Case(56, "ask runs hi", 2, "error: runs is a folder of runs, not a run", "fix: name one of: runs/demo"),
    Case(56, "eval runs", 2, "error: runs is a folder of runs, not a run", "fix: name one of: runs/demo"),
    Case(30, "explain peek", 0, "peek  (word)", "  What the rival sees: the summary, escaped, the answer withheld."),
    Case(
        73,
        "train tabletop.yaml --gpu 4090",
        2,
        "error: agon train: unrecognized arguments: --gpu 4090",
        "fix: --gpu is an option of agon plan; `agon train --help` lists its arguments",
    ),
    Case(
        73,
        "train tabletop.yaml --learning-rate 1e-4",
        2,
        "error: agon train: unrecognized arguments: --learning-rate 1e-4",
        "fix: write train.learning_rate=1e-4; ...",
    ),
    Case(
        74,
        "plan tabletop.yaml train.lr=1e-4",
        2,
        "error: tabletop.yaml: 1 mistake, nothing was started",
        "  command line: train.lr: in Agon this is train.learning_rate",
    ),
    Case(
        74,
        "explain num_generations",
        0,
        "num_generations  (name in other trainers)",
        "  In Agon this is game.group_size (half of it: ...",
    ),
    Case(115, "explain cliff", 0, "cliff  (word)", "  Of a dead group: different texts, ..."),
    Case(115, "explain collapse", 0, "collapse  (word)", "  Of a dead group: more than half ..."),
    Case(75, "explain inert", 0, "inert  (word)", "  Of a reward term: it is computed and logged, ..."),
    Case(77, "data check array.json", 0, "array.json: 9 problems from array.json"),
    Case(
        77,
        "data check nope.jsonl",
        2,
        "error: nope.jsonl is neither a preset nor a file",
        "fix: name one of: array.json, broken.parquet, empty.jsonl, latin.jsonl, problems.jsonl, table.json; or ...",
    ),
    Case(79, "view out/completions", 0, "rollouts.html  (0.1 MB; open it in a browser, it needs no network)"),
    Case(104, "init custom --data problems.jsonl", 0, "wrote custom.yaml", "next: agon data check custom.yaml"),
    Case(
        80,
        "verify judge.py:corect --gold 42 x",
        2,
        "error: {here}/judge.py has no function corect",
        "fix: did you mean {here}/judge.py:correct?",
    ),
    Case(
        94,
        "view latin.jsonl",
        2,
        "error: latin.jsonl:1 is not valid UTF-8",
        "fix: convert it: iconv -f latin1 -t utf-8 latin.jsonl > NEW_FILE",
    ),
    Case(132, "ask tabletop.yaml hi", 2, "error: tabletop.yaml is a file, not a run", "fix: name one of: runs/demo"),
    Case(132, "ask demo hi", 2, "error: there is no run demo", "fix: did you mean runs/demo?"),
    Case(
        133,
        "compare tabletop.yaml",
        2,
        "error: tabletop.yaml is not a result of an evaluation",
        "fix: name a file that `agon eval` wrote, such as runs/NAME/evals/held_out/cascade.json",
    ),
    Case(
        134,
        "plan problems.jsonl",
        2,
        "error: problems.jsonl is data, not a config",
        "fix: write one for it: agon init custom --data problems.jsonl",
    ),
    Case(
        135,
        "data check tabletop.yaml:test",
        2,
        "error: tabletop.yaml has no split test",
        "fix: its splits are train, dev, held_out, as in tabletop.yaml:dev",
    ),
    Case(
        136,
        "train --config tabletop.yaml",
        2,
        "error: agon train: unrecognized arguments: --config",
        "fix: type agon train tabletop.yaml; `agon train --help` lists its arguments",
    ),
    Case(137, "explain dead-drafts idle-bonus", 0, "dead-drafts  (symptom of a run)", "  All drafts of a problem ..."),
    Case(137, "explain live groups", 0, "live_groups  (metric in steps.jsonl, StreamStats)"),
)
ELSEWHERE = {
    2: ("cli/test_demo.py", "test_the_conclusion_follows_from_the_numbers"),
    4: ("rundir/test_health.py", "test_a_run_without_one_right_answer_is_reported_from_the_start"),
    6: ("stumbles/test_stumbles.py", "test_a_light_install_says_what_to_install"),
    7: ("stumbles/test_stumbles.py", "test_a_refused_start_leaves_nothing_behind"),
    14: ("stumbles/test_stumbles.py", "test_a_single_term_is_not_called_the_only_signal"),
    15: ("stumbles/test_stumbles.py", "test_overlap_of_generated_problems_is_said_to_be_expected"),
    16: ("config/test_paths.py", "test_paths_are_relative_to_the_file"),
    19: ("report/test_html_report.py", "test_the_page_says_the_result_first_and_has_only_sections_with_data"),
    20: ("report/test_html_report.py", "test_the_page_says_the_result_first_and_has_only_sections_with_data"),
    22: ("stumbles/test_stumbles.py", "test_a_terminal_gets_a_line_before_anything_is_loaded"),
    23: ("eval/test_summary.py", "test_the_short_summary_leaves_out_what_a_beginner_cannot_use"),
    24: ("stumbles/test_stumbles.py", "test_leaks_are_said_to_happen_by_chance"),
    25: ("architecture/test_docs.py", "test_records_of_decisions_are_no_pages"),
    27: ("report/test_viewer.py", "test_the_page_opens_on_the_best_conversion"),
    28: ("eval/test_compare.py", "test_the_price_stands_beside_the_gain"),
    29: ("examples/test_examples.py", "test_the_docs_show_the_game_without_a_model"),
    31: ("cli/test_matrix.py", "test_the_terminal_gets_text_and_the_file_markdown"),
    35: ("stumbles/test_stumbles.py", "test_checking_data_answers_in_a_few_lines"),
    41: ("cli/test_plan.py", "test_a_plan_on_a_gpu_begins_with_its_verdict"),
    42: ("cli/test_demo.py", "test_the_progress_says_what_an_arm_does_and_how_much_is_left"),
    43: ("cli/test_demo.py", "test_the_line_of_progress_fits_a_terminal_and_is_erased"),
    44: ("report/test_card.py", "test_the_card_names_a_base_of_the_hub_only"),
    45: ("deploy/test_push.py", "test_small_files_have_a_size"),
    46: ("cli/test_main.py", "test_bad_arguments_are_bad_input"),
    47: ("architecture/test_public.py", "test_every_public_name_is_on_the_page_of_its_package"),
    49: ("test_errors.py", "test_a_traceback_ends_with_what_to_do"),
    48: ("report/test_html_report.py", "test_a_run_that_answers_in_one_pass_is_also_compared_in_two"),
    51: ("data/test_sources.py", "test_too_few_rows_are_reported_with_takes_that_fit"),
    52: ("stumbles/test_stumbles.py", "test_a_light_install_says_so_in_python_and_prints_job_files"),
    53: ("training/launch/test_job_files.py", "test_columns_are_checked_before_a_job_file_is_printed"),
    55: ("deploy/test_ask.py", "test_a_direction_that_does_not_exist_is_refused_before_anything_is_loaded"),
    57: ("cli/test_main.py", "test_an_unknown_command_names_the_nearest"),
    58: ("architecture/test_setup.py", "test_setup_prints_a_line_per_stage_and_nothing_when_it_is_done"),
    59: (
        "packages/lens/tests/test_logs.py",
        "test_columns_that_were_guessed_are_named_with_the_option_that_changes_them",
    ),
    60: ("packages/lens/tests/test_logs.py", "test_an_incomplete_last_line_is_skipped_and_that_is_said"),
    61: ("packages/lens/tests/test_logs.py", "test_rewards_in_a_dict_are_terms"),
    62: ("packages/lens/tests/test_findings.py", "test_small_numbers_are_not_0_and_rounding_errors_are"),
    63: ("report/test_glossary.py", "test_the_words_of_a_report_are_explained"),
    64: ("eval/test_compare.py", "test_an_interval_that_contradicts_its_test_is_explained"),
    65: ("architecture/test_public.py", "test_every_name_in_the_table_of_tasks_is_there_after_import_agon"),
    66: ("examples/test_notebook.py", "test_a_notebook_trains_evaluates_compares_asks_and_interrupts"),
    67: ("stumbles/test_stumbles.py", "test_a_run_that_fails_before_its_first_step_leaves_nothing_behind"),
    68: ("report/test_html_report.py", "test_one_rate_stands_for_a_run_everywhere_with_the_one_before_training"),
    69: ("packages/lens/tests/test_logs.py", "test_a_prompt_that_occurs_twice_in_a_step_is_two_groups"),
    70: ("packages/lens/tests/test_diagnose_page.py", "test_the_labels_of_an_axis_fit_beside_it"),
    71: ("eval/test_compare.py", "test_nothing_right_on_either_side_is_no_proof_that_they_are_equal"),
    72: ("rundir/test_health.py", "test_a_run_that_ended_without_one_right_answer_is_reported_however_short_it_was"),
    76: ("data/test_local.py", "test_a_chat_is_asked_with_what_the_user_says"),
    78: ("cli/test_data.py", "test_overlap_is_said_to_come_from_templates_too"),
    81: ("data/test_local.py", "test_invalid_utf8_is_reported_with_its_line"),
    82: ("config/test_validate.py", "test_files_that_do_not_exist_are_listed_with_the_other_mistakes"),
    83: ("data/test_local.py", "test_the_columns_of_code_problems_are_mapped_as_such"),
    84: ("engine/test_base_config.py", "test_a_hub_that_cannot_be_reached_costs_seconds_and_no_noise"),
    85: (
        "packages/lens/tests/test_log_viewer.py",
        "test_the_page_opens_with_the_findings_and_each_names_a_group_that_shows_it",
    ),
    86: ("packages/lens/tests/test_log_viewer.py", "test_the_header_says_how_many_groups_live_by_one_term_alone"),
    87: ("packages/lens/tests/test_log_viewer.py", "test_numbers_and_bars_of_the_table_do_not_touch"),
    88: ("packages/lens/tests/test_findings.py", "test_one_fact_is_one_sentence"),
    89: (
        "packages/lens/tests/test_findings.py",
        "test_findings_are_ranked_by_what_they_cost_and_the_first_remedy_is_named",
    ),
    90: (
        "packages/lens/tests/test_diagnose_page.py",
        "test_findings_come_first_with_their_remedy_an_example_and_a_picture",
    ),
    91: ("packages/lens/tests/test_written.py", "test_a_file_of_a_real_writer_is_read"),
    92: ("report/test_viewer.py", "test_what_the_header_cannot_say_stands_in_its_titles"),
    93: ("packages/lens/tests/test_diagnose_page.py", "test_names_in_a_sentence_are_code_and_have_no_backticks"),
    95: (
        "packages/lens/tests/test_findings.py",
        "test_a_term_is_said_to_decide_alone_only_where_a_second_one_varies_too",
    ),
    96: ("rundir/test_health.py", "test_dev_without_a_change_beyond_noise_is_reported_with_both_numbers"),
    97: ("report/test_html_report.py", "test_a_page_of_many_runs_begins_with_one_sentence_and_draws_them_in_one_chart"),
    98: ("packages/lens/tests/test_diagnose_page.py", "test_values_that_never_change_are_a_line_of_text"),
    99: ("report/test_viewer.py", "test_marks_that_no_bout_has_are_no_filters"),
    100: ("rundir/test_health.py", "test_a_bonus_that_is_normalised_away_is_reported_after_a_hundred_groups"),
    101: ("cli/test_demo.py", "test_the_demo_says_where_the_bonus_does_not_act"),
    102: (
        "deploy/serve/test_request_log.py",
        "test_a_person_reads_sentences_and_is_not_told_that_a_starting_server_is_not_there_yet",
    ),
    103: ("deploy/serve/test_gateway.py", "test_content_is_what_a_pair_answers_in_python"),
    105: ("cli/test_main.py", "test_help_shows_the_dozen_commands_to_start_with"),
    106: ("cli/test_tools.py", "test_four_arms_are_explained_before_the_ablations"),
    107: ("examples/test_notebooks.py", "test_the_game_is_shown_as_it_is_paid_and_where_the_bonus_has_no_effect"),
    108: ("config/test_from_trl.py", "test_a_converted_run_plans_and_starts"),
    109: ("config/test_from_trl.py", "test_the_page_names_fields_of_trl_and_keys_of_ours"),
    110: ("verify/test_terms.py", "test_terms_are_added_with_their_weights"),
    111: ("training/test_given.py", "test_rows_and_a_reward_train_resume_and_evaluate"),
    112: ("stumbles/test_stumbles.py", "test_a_terminal_gets_a_line_before_anything_is_loaded"),
    113: ("deploy/test_ask.py", "test_a_pair_is_loaded_from_what_train_returns"),
    114: ("examples/test_free_gpu.py", "test_the_cells_run_without_a_gpu_and_leave_a_report"),
    116: ("config/test_from_trl.py", "test_the_first_reward_is_offered_as_the_verifier_and_the_others_as_terms"),
    117: (
        "packages/lens/tests/test_findings.py",
        "test_the_epsilon_of_a_trainer_is_no_disagreement_in_a_group_that_a_small_term_decides",
    ),
    118: ("packages/lens/tests/test_logs.py", "test_a_reward_that_says_what_is_right_stays_a_reward"),
    119: ("packages/judge/tests/test_audit.py", "test_bad_input_is_answered_in_two_lines"),
    120: ("architecture/test_docs.py", "test_the_front_page_explains_before_it_asks"),
    121: ("architecture/test_docs.py", "test_the_front_page_explains_before_it_asks"),
    122: ("plan/test_gpus.py", "test_a_size_stands_for_a_gpu_of_that_size"),
    123: ("architecture/test_docs.py", "test_the_site_has_six_entries_and_lists_every_page_for_programs"),
    124: ("cli/test_doctor.py", "test_a_check_is_printed_before_the_next_one_begins"),
    127: ("cli/test_data.py", "test_a_misspelt_preset_or_field_is_answered_with_the_nearest"),
    128: ("architecture/test_docs.py", "test_a_broken_link_or_anchor_fails_the_build"),
    129: ("training/test_loop.py", "test_an_evaluation_without_verdicts_chooses_nothing_and_is_made_again"),
    130: ("verify/test_custom.py", "test_what_a_function_raises_names_the_last_line_of_its_own_file"),
    131: ("cli/test_data.py", "test_answers_on_which_the_verifier_failed_are_one_line_per_failure"),
    138: ("cli/test_demo.py", "test_a_second_demo_says_that_it_trains_again_under_a_new_name"),
    139: ("deploy/serve/test_faults.py", "test_a_gateway_that_is_stopped_before_a_server_is_there_leaves_no_traceback"),
}
LAST = 139
DECIDED = {
    3: "agon plan --gpu is a capability of its own, not part of this table",
    26: "a picture is looked at, not tested",
    125: "no program can know it; docs/ask.md says so",
    126: "speed is measured under evidence/",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who has come from TRL with data and a verifier of their own."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "out" / "completions").mkdir(parents=True)
    for step in (1, 2):
        rows = [
            {
                "step": step,
                "prompt": f"p{p}",
                "completion": "c",
                "correctness": float(i % 2),
                "advantage": 1.0 - 2 * (i % 2),
            }
            for p in range(4)
            for i in range(4)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"out/completions/completions_{step:05d}.parquet")
    history = {"global_step": 3, "log_history": [{"step": 1, "loss": 0.1, "reward": 0.4}]}
    (folder / "out" / "trainer_state.json").write_text(json.dumps(history))
    table = {"columns": ["step", "prompt", "completion", "right"], "data": [[1, "p", "a", 1.0], [1, "p", "b", 0.0]]}
    (folder / "table.json").write_text(json.dumps(table))
    array = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(9)]
    (folder / "array.json").write_text(json.dumps(array, indent=1))
    (folder / "out" / "completions" / "rollouts.html").write_text("a page of `agon view`")
    (folder / "broken.parquet").write_bytes(b"PAR1")
    (folder / "empty.jsonl").touch()
    (folder / "latin.jsonl").write_bytes('{"group": 1, "reward": 1, "completion": "caf\xe9"}\n'.encode("latin-1"))
    (folder / "notes.md").write_text("# notes\n" * 9)
    (folder / "judge.py").write_text(
        "def correct(problem, completion):\n    return problem.answer in completion.text\n"
    )
    lines = [json.dumps({"problem": f"What is {n} + 1?", "solution": str(n + 1)}) for n in range(9)]
    (folder / "problems.jsonl").write_text("\n".join(lines))
    shutil.copy(ROOT / "src/agon/recipes/tabletop.yaml", folder / "tabletop.yaml")
    (folder / "mine.yaml").write_text("extends: tabletop.yaml\n")
    (folder / "runs").mkdir()
    run = make_match(folder / "runs").path
    run.rename(folder / "runs" / "demo")
    return folder


@pytest.fixture
def desk(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "desk"
    shutil.copytree(made, copy)
    monkeypatch.chdir(copy)
    return copy


def matches(line: str, wanted: str) -> bool:
    return line.startswith(wanted[:-3]) if wanted.endswith("...") else line == wanted


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.stumble}: {case.command}")
def test_the_answer_to_a_command(case: Case, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(shlex.split(case.command))
    out, err = capsys.readouterr()
    lines = [*err.splitlines(), *out.splitlines()]
    assert code == case.code
    for wanted, line in zip((case.first, case.second), [*lines, "", ""], strict=False):
        if wanted:
            assert matches(line, wanted.replace("{here}", str(desk))), line


def test_every_stumble_has_a_test() -> None:
    covered = {case.stumble for case in CASES} | ELSEWHERE.keys() | DECIDED.keys()
    assert covered == set(range(1, LAST + 1))


def path_of(file: str) -> str:
    """A file of ELSEWHERE, relative to the repository."""
    return file if file.startswith("packages/") else f"tests/{file}"


def test_the_table_names_every_stumble_and_its_test() -> None:
    lines = (ROOT / "tests" / "stumbles" / "README.md").read_text().splitlines()
    table = {int(line.split("|")[1]): line for line in lines if line.startswith("| ") and line[2].isdigit()}
    assert list(table) == list(range(1, LAST + 1))
    for case in CASES:
        assert f"`agon {case.command}`" in table[case.stumble]
    for number, (file, name) in ELSEWHERE.items():
        assert f"`{path_of(file)}`: `{name}`" in table[number]
    for number, reason in DECIDED.items():
        assert reason in table[number]


@pytest.mark.parametrize("number", ELSEWHERE)
def test_the_tests_that_are_elsewhere_exist(number: int) -> None:
    file, name = ELSEWHERE[number]
    body = ast.parse((ROOT / path_of(file)).read_text()).body
    assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}


WITHOUT = """
import sys
for name in ("torch", "transformers", "peft", "trl", "accelerate", "numpy", "scipy", "safetensors", "matplotlib"):
    sys.modules[name] = None
"""
LIGHT = f"""{WITHOUT}
from agon.cli import main
sys.exit(main(sys.argv[1:]))
"""
LIGHT_PYTHON = f"""{WITHOUT}
import agon
try:
    agon.train("tabletop.yaml")
except agon.AgonError as error:
    print(error, error.fix, sep="; ")
"""


@pytest.mark.parametrize(
    "words", ["train tabletop.yaml", "eval runs/demo", "demo", "report runs/demo", "ask runs/demo hi"]
)
def test_a_light_install_says_what_to_install(words: str, desk: Path) -> None:
    answer = subprocess.run([sys.executable, "-c", LIGHT, *words.split()], capture_output=True, text=True)
    error, fix = answer.stderr.splitlines()
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert "not installed" in error or "needs" in error or "no pair" in error
    assert fix.startswith(("fix: pip install -e '.[", "fix: train it first"))
    assert not (desk / "runs" / "agon-agon-tiny-s0").exists()


def test_a_light_install_says_so_in_python_and_prints_job_files(desk: Path) -> None:
    told = "torch is not installed: it comes with the extra train; pip install -e '.[train,eval,plot]'\n"
    assert subprocess.run([sys.executable, "-c", LIGHT_PYTHON], capture_output=True, text=True).stdout == told
    words = ["launch", "tabletop.yaml", "--to", "slurm"]
    answer = subprocess.run([sys.executable, "-c", LIGHT, *words], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout[:11], answer.stderr) == (0, "#!/bin/bash", "")


def test_a_refused_start_leaves_nothing_behind(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(desk.rglob("*"))
    assert main(["train", "tabletop.yaml", "verifier=nothing.here:judge"]) == 2
    assert "nothing.here" in capsys.readouterr().err
    assert sorted(desk.rglob("*")) == before


@pytest.mark.parametrize(
    "error",
    [
        EngineError("no engine", fix="see its log, then resume with: agon train RUN --resume"),
        VerifierError("x", fix="run `agon data check runs/new/config.yaml`, then: agon train runs/new --resume"),
        RuntimeError("x"),
    ],
)
def test_a_run_that_fails_before_its_first_step_leaves_nothing_behind(
    error: Exception, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setattr(training.run, "build", fail)
    before = sorted(desk.rglob("*"))
    with pytest.raises(type(error)):
        agon.train("tabletop.yaml", "data.dev.take=9", name="new")
    assert sorted(desk.rglob("*")) == before
    fix = error.fix if isinstance(error, AgonError) else ""
    assert "--resume" not in fix, "it is gone"
    assert "runs/" not in fix
    assert isinstance(error, VerifierError) == ("`agon data check tabletop.yaml data.dev.take=9`" in fix)


def test_a_run_that_fails_in_its_first_step_can_be_resumed(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, step: int) -> None:
        raise EngineError("no engine", fix="see its log, then resume with: agon train RUN --resume")

    monkeypatch.setattr(training.loop.Training, "_play_step", fail)
    with pytest.raises(EngineError) as caught:
        agon.train("tabletop.yaml", "eval.points=0", "data.train.take=8", name="broken", show="nothing")
    assert (desk / "runs/broken/checkpoints/step_000000").is_dir()
    assert "--resume" in caught.value.fix


@pytest.mark.parametrize("folders", [[], ["evals"], ["evals/agon-tiny"]])
def test_an_evaluation_that_fails_before_its_first_bout_leaves_nothing_behind(
    folders: list[str], desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise EngineError("no engine")

    for folder in folders:
        Path(folder).mkdir(parents=True)
    monkeypatch.setattr(eval_run, "open_evaluator", fail)
    before = sorted(desk.rglob("*"))
    with pytest.raises(EngineError):
        agon.evaluate("agon:tiny", config="tabletop.yaml", limit=4, show="nothing")
    assert sorted(desk.rglob("*")) == before


def test_an_existing_run_is_named_as_such(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tabletop.yaml", "--name", "demo"]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "error: runs/demo already exists"
    assert fix == "fix: choose a different --name, or resume with: agon train runs/demo --resume"


def test_a_single_term_is_not_called_the_only_signal(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", LOG]) == 0
    assert "alone decides" not in capsys.readouterr().out


def test_a_correctness_that_is_always_0_is_not_to_be_dropped(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"step": 1, "prompt": "p", "reward_correct": 0.0, "reward_format": float(n % 2)} for n in range(8)]
    Path("log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["diagnose", "log.jsonl"]) == 0
    told = capsys.readouterr().out
    assert "`reward_correct` never varies within a group" in told
    assert "always 0: nothing ever earns it. If it pays right answers, keep it" in told


def test_overlap_of_generated_problems_is_said_to_be_expected(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "tabletop.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[-1] == "  expected: generated problems share the wording of their template; no question is in two splits"
    )


def test_checking_data_answers_in_a_few_lines(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "problems.jsonl", "columns.question=problem", "columns.answer=solution"]) == 0
    told = capsys.readouterr().out
    assert len(told.splitlines()) <= 6
    assert "sha256" not in told
    assert "p90" not in told


def test_leaks_are_said_to_happen_by_chance() -> None:
    page = (ROOT / "src/agon/report/assets/match.html").read_text()
    assert "a short number may do so by chance" in page


def test_a_terminal_gets_a_line_before_anything_is_loaded(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for words in (
        ["plan", "tabletop.yaml"],
        ["eval", "runs/nope"],
        ["train", "runs/nope", "--resume"],
        ["data", "check", "problems.jsonl"],
        ["compare", "runs/nope", "runs/demo"],
        ["export", "runs/nope", "--to", "peft"],
        ["verify", "judge.py:correct", "--gold", "42", "42"],
        ["matrix", "nope.yaml"],
        ["view", "runs/nope"],
        ["diagnose", "nope.jsonl"],
        ["report", "runs/nope"],
    ):
        main(words)
        assert capsys.readouterr().err.splitlines()[0].endswith("..."), words


def test_ones_own_verifier_is_trusted_where_it_was_run_and_nowhere_else(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from agon.config import load_config
    from agon.errors import InputError
    from agon.eval.consent import check_consent
    from agon.rundir.own import remember

    (desk / "mine.yaml").write_text("extends: tabletop.yaml\nverifier: judge.py:correct\n")
    config = load_config("mine.yaml")
    run = RunDir.create(desk / "runs", "mine", config)
    with pytest.raises(InputError, match="is code, and would be imported"):
        check_consent(run.path, config, [], {})
    remember(run.path / "config.yaml", desk / "judge.py")
    check_consent(run.path, config, [], {})
    (desk / "judge.py").write_text("def correct(problem, completion):\n    return True\n")
    with pytest.raises(InputError, match=r"judge\.py has changed since") as refused:
        check_consent(run.path, config, [], {})
    assert refused.value.fix.endswith(f"agon eval {run.path} verifier={desk / 'judge.py'}:correct")
    check_consent(run.path, config, [f"verifier={config.verifier}"], {})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    with pytest.raises(InputError, match="is code, and would be imported"):
        check_consent(run.path, config, [], {})
