"""A user's own verifier has our signature or TRL's, and a function that fails is not a wrong answer."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agon.data.local import read_file
from agon.errors import InputError
from agon.protocols import Tokens
from agon.types import Completion, Problem, Reason, Verdict, Version
from agon.verify import Verifier, load_verifier
from agon.verify.custom import CustomVerifier
from agon_judge import verdict as judge

PROBLEM = Problem("p", "What is it?", "42", {"level": 3})
GOOD = Completion("<think>a</think><answer>42</answer>", "base", 0, 0)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], Verifier]:
    def make(function: Callable[..., Any]) -> Verifier:
        module = types.ModuleType("users_own")
        module.judge = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "users_own", module)
        return load_verifier("users_own:judge")

    return make


def judge_both_ways(verifier: Verifier) -> Verdict:
    with verifier:
        [verdict] = verifier.verify_many([(PROBLEM, GOOD)])
        assert asyncio.run(verifier(PROBLEM, GOOD)) == verdict  # type: ignore[arg-type]
    return verdict


def test_our_signature_may_return_a_bool_or_a_verdict(load) -> None:  # type: ignore[no-untyped-def]
    assert judge_both_ways(load(lambda problem, completion: problem.answer in completion.text)).correct
    own = Verdict(False, False, Reason.AMBIGUOUS, "mine")
    assert judge_both_ways(load(lambda problem, completion: own)) == own
    judged = judge.Verdict(Reason.AMBIGUOUS, "mine")
    assert judge_both_ways(load(lambda problem, completion: judged)) == Verdict(False, True, Reason.AMBIGUOUS, "mine")


def test_our_signature_may_be_async(load) -> None:  # type: ignore[no-untyped-def]
    async def judge(problem: Problem, completion: Completion) -> bool:
        await asyncio.sleep(0)
        return True

    assert judge_both_ways(load(judge)).correct


def test_trl_signature_gets_columns_of_one_row(load) -> None:  # type: ignore[no-untyped-def]
    seen: dict[str, Any] = {}

    def reward(completions, answer, **columns):  # type: ignore[no-untyped-def]
        seen.update(columns, completions=completions, answer=answer)
        return [1.0]

    verdict = judge_both_ways(load(reward))
    assert verdict.correct
    assert verdict.well_formed
    assert {name: value for name, value in seen.items() if isinstance(value, list)} == {
        "completions": [GOOD.text],
        "completion_ids": [[]],
        "question": ["What is it?"],
        "answer": ["42"],
        "solution": ["42"],
        "prompts": ["What is it?"],
        "level": [3],
    }


def test_trl_signature_with_chat_messages_and_no_keywords(load) -> None:  # type: ignore[no-untyped-def]
    def reward(completions: list[list[dict[str, str]]], solution: list[str]) -> list[float]:
        return [float(solution[0] in completions[0][0]["content"])]

    assert judge_both_ways(load(reward)).correct


@pytest.mark.slow
@pytest.mark.parametrize("chat", [True, False])
def test_a_reward_gets_what_trls_trainer_gives_it(chat: bool, tmp_path: Path) -> None:
    trainer = pytest.importorskip("trl").GRPOTrainer
    asked = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1?"}]
    row = {"prompt": asked if chat else "1 + 1?", "gold": 2, "level": "easy"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    columns = {"question": "prompt", "answer": "gold", "level": "level"}
    (problem,) = read_file(str(tmp_path / "rows.jsonl"), columns).problems
    calls: list[dict[str, Any]] = []

    def reward(**columns: Any) -> list[float]:
        calls.append(columns)
        return [1.0]

    completion = Completion("so 2", Version("a@000003-abc"), 1, 2, tokens=Tokens((5,), (6, 7)))
    with CustomVerifier(reward) as verifier:
        assert verifier.verify_many([(problem, completion)])[0].correct
    state, log = types.SimpleNamespace(global_step=3), lambda name, value: None
    stock = types.SimpleNamespace(reward_funcs=[reward], reward_processing_classes=[None], reward_func_names=["reward"])
    stock.accelerator, stock.state, stock.environments = types.SimpleNamespace(device="cpu"), state, None
    stock._log_completion_extra = stock._log_metric = log
    stock.args, stock.is_world_process_zero = types.SimpleNamespace(report_to=[]), lambda: False
    stock.accelerator.is_main_process = False
    said: Any = [{"role": "assistant", "content": "so 2"}] if chat else "so 2"
    inspect.unwrap(trainer._calculate_rewards)(stock, [row], [row["prompt"]], [said], [[6, 7]])
    ours, theirs = calls
    assert ours["trainer_state"].global_step == theirs["trainer_state"].global_step
    for each in calls:
        del each["trainer_state"]
        assert callable(each.pop("log_extra"))
        assert callable(each.pop("log_metric"))
    question = "Add.\n\n1 + 1?" if chat else "1 + 1?"
    assert ours == theirs | {"question": [question], "answer": ["2"], "solution": ["2"]}


def test_arrays_objects_and_functions_of_ids_are_rewards(load) -> None:  # type: ignore[no-untyped-def]
    numpy = pytest.importorskip("numpy")

    class Reward:
        async def __call__(self, completion_ids: list[list[int]], **columns: Any) -> Any:
            return numpy.array([1.0], dtype="float32")

    assert judge_both_ways(load(Reward())).correct


@pytest.mark.parametrize(("kind", "value", "right"), [("bool_", True, True), ("float32", 0, False), ("int8", 1, True)])
def test_a_function_of_our_signature_may_return_what_numpy_computes(
    kind: str,
    value: float,
    right: bool,
    load,  # type: ignore[no-untyped-def]
) -> None:
    number = getattr(pytest.importorskip("numpy"), kind)(value)
    verdict = judge_both_ways(load(lambda problem, completion: number))
    assert (verdict.graded, verdict.correct) == (True, right)


@pytest.mark.parametrize(("reward", "reason"), [(0.0, "wrong"), (0.99, "wrong"), (1, "correct"), (-1.0, "wrong")])
def test_only_a_full_reward_is_correct(load, reward: float, reason: str) -> None:  # type: ignore[no-untyped-def]
    assert judge_both_ways(load(lambda completions, answer: [reward])).reason.value == reason


@pytest.mark.parametrize("rewards", [[None], [float("nan")], [], [1.0, 1.0], 1.0, ["yes"]])
def test_a_result_that_is_not_a_reward_is_infra(load, rewards: Any) -> None:  # type: ignore[no-untyped-def]
    verdict = judge_both_ways(load(lambda completions, **columns: rewards))
    assert verdict.reason is Reason.INFRA
    assert not verdict.graded


def test_a_function_that_does_not_judge_a_row_is_named(load) -> None:  # type: ignore[no-untyped-def]
    def accuracy(completions: Any, **columns: Any) -> list[None]:
        return [None]

    assert judge_both_ways(load(accuracy)).detail == "accuracy returned no verdict"


def test_a_function_that_raises_is_infra_and_counted(load) -> None:  # type: ignore[no-untyped-def]
    def judge(problem: Problem, completion: Completion) -> bool:
        raise RuntimeError("the service is down")

    verifier = load(judge)
    detail = judge_both_ways(verifier).detail
    assert detail.startswith("RuntimeError: the service is down (test_custom.py:")
    assert verifier.counters == {"rows": 2, "failed": 2}


def test_what_a_function_raises_names_the_last_line_of_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import json\n\n\ndef reads(completions, **columns):\n    return json.loads('x')\n\n\n"
        "class Judge:\n    async def __call__(self, problem, completion):\n        return problem.meta['x']\n\n\n"
        "judge = Judge()\n\n\ndef long(problem, completion):\n    raise KeyError('x' * 999)\n\n\n"
        "def two(completions):\n    return [1, 2]\n"
    )
    found = {
        name: judge_both_ways(load_verifier(f"{file}:{name}")).detail for name in ("reads", "judge", "long", "two")
    }
    assert found["reads"].endswith(" (own.py:5)"), "not the line of the library"
    assert found["judge"] == "KeyError: 'x' (own.py:10)"
    assert found["long"].endswith("xxx (own.py:17)")
    assert ".py" not in found["two"], "the exception is ours"


@pytest.mark.parametrize("name", ["maths", "no.such.module:f", "agon.types:nothing", "agon.types:BASE", ":f", "x:"])
def test_a_verifier_that_does_not_exist_says_what_to_type(name: str) -> None:
    with pytest.raises(InputError) as error:
        load_verifier(name)
    assert error.value.fix


@pytest.mark.parametrize(
    ("text", "name", "message", "fix"),
    [
        ("def correct(): ...", "corect", "has no function corect", "did you mean {file}:correct?"),
        ("def correct(): ...", "zzz", "has no function zzz", "it has: correct"),
        ("x = 1", "zzz", "has no function zzz", "it has: no function"),
        ("\ndef correct()\n", "correct", "SyntaxError", "correct line 2 of {file}"),
        (
            "import nothing_of_that_name",
            "correct",
            "ModuleNotFoundError",
            "install nothing_of_that_name, which {file} ",
        ),
        ("1 / 0", "correct", "ZeroDivisionError", "correct what the module does"),
    ],
)
def test_a_verifier_that_cannot_be_loaded_is_told_what_is_wrong(
    text: str, name: str, message: str, fix: str, tmp_path: Path
) -> None:
    file = tmp_path / "judge.py"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_verifier(f"{file}:{name}")
    assert caught.value.fix.startswith(fix.format(file=file))


def test_a_file_of_functions_may_define_dataclasses(tmp_path: Path) -> None:
    file = tmp_path / "typed_answers.py"
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Parsed:\n    text: str\n\n"
        "def correct(problem, completion):\n    return Parsed(completion.text).text != ''\n"
    )
    load_verifier(f"{file}:correct").close()
    assert "typed_answers" not in sys.modules, "a file called code.py would hide Python's own module"


def test_a_function_with_other_parameters_is_refused(load) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="problem, completion"):
        load(lambda a, b: True)
