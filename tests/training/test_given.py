"""`agon.train` takes rows and a reward function from Python; the run keeps the rows."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import agon
from agon.data import splits
from agon.errors import ConfigError, DataError, EngineError, InputError, RunDirError
from agon.rundir import RunDir
from agon.training import run as module
from agon.training.rows import check_whole, staged
from agon.verify.custom import find
from agon.verify.given import check_given, judging_by, names_of
from tests.architecture.tree import ROOT

CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
SMALL = (
    *("model.name=agon:tiny", "train.max_steps=1", "train.problems_per_step=1", "game.group_size=2"),
    *("train.max_completion_tokens=8", "eval={points: 0, max_completion_tokens: 8}", "sampler={engine: hf}"),
)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    chat = [[{"role": "user", "content": f"What is {n} + {n}?"}] for n in range(first, last)]
    return [{"prompt": one, "solution": str(2 * n), "level": n % 3} for n, one in enumerate(chat, first)]


def test_rows_and_a_reward_train_resume_and_evaluate(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def reward(completions: list[Any], solution: list[str], level: list[int], **columns: Any) -> list[float]:
        seen.append((solution[0], level[0]))
        assert columns["prompts"][0][0]["role"] == "user"
        return [float(solution[0] in completions[0][0]["content"])]

    run = agon.train(
        CONFIG,
        *SMALL,
        train=rows(0, 8),
        dev=rows(8, 10),
        held_out=rows(10, 12),
        reward=reward,
        out=tmp_path,
        show="nothing",
    )
    assert seen
    assert all(int(solution) / 2 % 3 == level for solution, level in seen)

    moved = tmp_path / "elsewhere" / run.path.name  # the rows move with the run
    shutil.copytree(run.path, moved)
    shutil.rmtree(run.path)
    with pytest.raises(InputError, match="no file holds them: reward") as raised:
        agon.evaluate(moved, limit=1, show="nothing")
    assert f"agon.evaluate('{moved}', reward=reward); or agon eval {moved} verifier=" in raised.value.fix
    seen.clear()
    results = agon.evaluate(moved, limit=2, reward=reward, show="nothing")
    assert results.headline.done == results.headline.of
    assert {solution for solution, _ in seen} <= {"20", "22"}

    with pytest.raises(InputError, match="no file holds them: reward") as raised:
        agon.train(moved, resume=True, show="nothing")
    assert raised.value.fix == f"give them again: agon.train('{moved}', resume=True, reward=reward)"
    with pytest.raises(InputError, match="2 weights for 1 further function") as raised:
        agon.train(CONFIG, reward=[reward, len], weights=[1.0, 0.2])
    assert "weights=[0.4]" in raised.value.fix
    with pytest.raises(RunDirError, match="keeps its rows"):
        agon.train(moved, resume=True, train=rows(0, 8), reward=reward, show="nothing")
    again = agon.train(moved, resume=True, reward=reward, show="nothing")
    assert len((again.path / "steps.jsonl").read_text().splitlines()) == 1


def test_rows_are_not_mixed_with_data_that_nobody_named() -> None:
    with pytest.raises(DataError, match="rows of train would be mixed with dev and held_out of the config") as caught:
        agon.train(CONFIG, train=rows(0, 8), show="nothing")
    named = ["data.dev.preset=tabletop", "data.held_out.preset=tabletop"]
    assert caught.value.fix.endswith(": 'data.dev.preset=tabletop', 'data.held_out.preset=tabletop'")
    data = agon.load_config(CONFIG).data
    check_whole(data, ["train"], named)  # the advice, followed, helps
    check_whole(data, ["train"], ["data.dev={path: dev.jsonl}", "data.held_out.path=test.jsonl"])
    check_whole(data, ["train", "dev", "held_out"], [])
    for beside in ("data.dev.take=4", "train.max_steps=2"):
        with pytest.raises(DataError, match="mixed with dev of"):
            check_whole(data, ["train", "held_out"], [beside])
    with pytest.raises(DataError, match=r"data\.dev\.take has no effect on rows"):
        check_whole(data, ["train", "dev", "held_out"], ["data.dev.take=4"])


def test_the_splits_of_rows_are_named_as_they_were_given(tmp_path: Path) -> None:
    same = {"train": rows(0, 8), "dev": rows(0, 8), "held_out": rows(0, 8)}
    with pytest.raises(DataError) as caught:
        agon.train(CONFIG, *SMALL, **same, out=tmp_path, show="nothing")
    assert str(caught.value).startswith("dev= has 8 usable problems (8 rows), 8 of them in other splits")
    assert caught.value.message == str(caught.value)
    assert caught.value.fix.startswith("the splits overlap")


@pytest.mark.parametrize("functions", [True, False])
def test_a_name_that_is_taken_is_answered_in_python(tmp_path: Path, functions: bool) -> None:
    def accuracy(completions: list[Any], **columns: Any) -> list[float]:
        return [1.0]

    RunDir.create(tmp_path, "x", agon.load_config(CONFIG))
    given: dict[str, Any] = {"reward": accuracy} if functions else {}
    parts = {"train": rows(0, 8), "dev": rows(8, 10), "held_out": rows(10, 12)}
    with pytest.raises(RunDirError, match="already exists") as caught:
        agon.train(CONFIG, *SMALL, **parts, **given, out=tmp_path, name="x", show="nothing")
    again = ", reward=accuracy" if functions else ""
    call = f"agon.train('{tmp_path / 'x'}', resume=True{again})"
    assert caught.value.fix == f"choose a different name=, or resume with: {call}"


@pytest.mark.parametrize(
    ("config", "overrides", "message", "fix"),
    [
        ({"arm": "agon"}, [], "a dict is neither a config file nor an agon.Config", "name a YAML file"),
        (CONFIG, [{"train.max_steps": 2}], "is not an override", "'train.max_steps=2'"),
        (agon.load_config(CONFIG), ["train.max_steps=2"], "overrides go with a config file", "model_copy"),
    ],
)
def test_arguments_of_the_wrong_type_are_bad_input(config: Any, overrides: list[Any], message: str, fix: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        agon.train(config, *overrides)
    assert fix in caught.value.fix


def test_a_run_without_a_single_step_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    words = [word for word in SMALL if "problems_per_step" not in word]
    parts = {"train": rows(0, 6), "dev": rows(8, 10), "held_out": rows(10, 12)}
    with pytest.raises(ConfigError, match="problems_per_step is 8, but there are only 6 training problems"):
        agon.train(CONFIG, *words, "train.problems_per_step=8", **parts, out=tmp_path / "runs", show="nothing")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("busy", [True, False])
def test_a_run_that_fails_at_its_start_is_removed_unless_another_process_trains_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    with ExitStack() as other:

        def build(config: Any, steps: int) -> Any:
            if busy:  # it was started with --resume while this one loaded its base
                other.enter_context(RunDir.open(tmp_path / "x").lock())
            raise EngineError("out of memory", fix="")

        monkeypatch.setattr(module, "build", build)
        parts = {"train": rows(0, 8), "dev": rows(8, 10), "held_out": rows(10, 12)}
        with pytest.raises(EngineError, match="out of memory"):
            agon.train(CONFIG, *SMALL, **parts, out=tmp_path, name="x", show="nothing")
        assert (tmp_path / "x").exists() is busy


def test_functions_are_asked_for_by_name_and_in_their_order() -> None:
    def accuracy(completions: list[str], **columns: Any) -> list[float]:
        return [1.0]

    def brevity(completions: list[str], **columns: Any) -> list[float]:
        return [0.0]

    names, call = names_of([accuracy, brevity]), "agon.train({!r}, resume=True, reward={})"
    with judging_by([accuracy, brevity]):
        check_given(names, "runs/x", call)
        assert [find(name) for name in names] == [accuracy, brevity]
    with pytest.raises(InputError, match="accuracy, brevity") as raised, judging_by(accuracy):
        check_given(names, "runs/x", call)
    assert raised.value.fix == "give them again: agon.train('runs/x', resume=True, reward=[accuracy, brevity])"
    with pytest.raises(InputError, match="different order"), judging_by([brevity, accuracy]):
        check_given(names, "runs/x", call)
    older = ["agon.verify.given:reward_0", "agon.verify.given:reward_1"]
    with judging_by([accuracy, brevity]):
        check_given(older, "runs/x", call)
        assert [find(name) for name in older] == [accuracy, brevity]
    with pytest.raises(InputError, match="is a name"):
        names_of("rewards.py:accuracy")  # type: ignore[arg-type]


def test_a_data_set_is_taken_as_it_is() -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_list([{"problem": "1 + 1?", "answer": "2", "source": "x"}])
    with staged({"train": made, "dev": None}, judged=False) as (folder, overrides):
        assert folder is not None
        assert overrides == [
            f'data.train={{"path": "{folder}/train.jsonl", "columns": '
            '{"question": "problem", "answer": "answer", "source": "source"}}'
        ]


def test_numbers_take_training_rows_for_the_other_splits() -> None:
    with staged({"train": rows(0, 8), "dev": 2, "held_out": rows(9, 12)}, judged=False) as (folder, overrides):
        config = agon.load_config(CONFIG, overrides)
        parts = splits(config.data).parts
        assert {name: len(problems) for name, problems in parts.items()} == {"train": 6, "dev": 2, "held_out": 3}
        assert folder is not None
    with pytest.raises(DataError, match="dev=2 without rows"), staged({"dev": 2}, judged=False):
        pass


def test_rows_need_an_answer_only_where_no_function_judges() -> None:
    asked = [{"prompt": f"Say {n}."} for n in range(3)]
    with pytest.raises(DataError, match="no question with an answer"), staged({"train": asked}, judged=False):
        pass
    with staged({"train": asked, "dev": 1, "held_out": 1}, judged=True) as (_, overrides):
        with pytest.raises(ConfigError, match=r"columns\.answer is empty"):
            agon.load_config(CONFIG, overrides)
        config = agon.load_config(CONFIG, [*overrides, "verifier=rewards.py:correct"])
        assert [problem.answer for problem in splits(config.data).train] == [""]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ([], "no rows"),
        (["1 + 1?"], "is a str"),
        ([{"text": "1 + 1?"}], "no question with an answer"),
        ("mine.jsonl", "is a path, not rows"),
        (Path("mine.jsonl"), "is a path, not rows"),
    ],
)
def test_rows_that_are_no_problems_are_refused(given: Any, word: str) -> None:
    with pytest.raises(DataError, match=word), staged({"train": given}, judged=False):
        pass
