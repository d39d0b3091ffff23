"""A pair that answers: the evaluation's own cascade, streamed as it is written, on the base that it was trained on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("peft", reason="a pair needs torch and PEFT")

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import agon
from agon.cli import main
from agon.config import Source, load_config
from agon.deploy.ask import Pair
from agon.deploy.pair_settings import Settings, settings_of, system_of
from agon.deploy.pieces import Answer, Growing, Piece
from agon.engine.render import Renderer
from agon.engine.scripted import ScriptedSampler
from agon.engine.shipped import folder_of
from agon.errors import InputError, RunDirError
from agon.eval.draw import Evaluator
from agon.game.prompts import PROMPTS_HASH
from agon.rundir import RunDir
from agon.rundir.files import weights_hash
from agon.rundir.pair import PairDir, PairInfo, write_pair
from agon.types import (
    BASE,
    Bout,
    Completion,
    Direction,
    Policy,
    Problem,
    Reason,
    Request,
    Sampling,
    Verdict,
    Version,
    content_id,
)

QUESTION = "Let a = 3. Let b = a + 4. What is b?"
INFO = PairInfo(
    versions={policy: Version.of(policy, 7, "5f3c9a1e") for policy in Policy},
    base="agon:tiny",
    base_hash=weights_hash(folder_of("agon:tiny")),
    direction=Direction.BA,
    prompts_hash=PROMPTS_HASH,
    chat_template_hash=Renderer.load(str(folder_of("agon:tiny"))).hash,
    arm="agon",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair over the tiny base, of two adapters that change what it writes."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("pair")
    for policy in Policy:
        base = AutoModelForCausalLM.from_pretrained(folder_of("agon:tiny"), dtype=torch.float32)
        model = get_peft_model(base, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.02)
        model.save_pretrained(root / policy.value)
    return write_pair(root, root / "a", root / "b", INFO)


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[Pair]:
    with Pair.load(folder, max_tokens=60) as loaded:
        yield loaded


def test_a_pair_says_what_it_is(pair: Pair, folder: Path) -> None:
    assert repr(pair) == f"Pair({str(pair.folder.path)!r}, b then a, base {pair.folder.info.base!r})"


def test_a_pair_is_loaded_from_what_train_returns(folder: Path, pair: Pair) -> None:
    assert repr(Pair.load(RunDir(folder.parent), max_tokens=60)) == repr(pair)


def test_a_notebook_shows_an_answer_as_a_table() -> None:
    draft, challenge = (
        Completion(f"<think>{policy}</think>\n<answer>4</answer>", Version.of(policy, 1, "x"), 1, 7)
        for policy in Policy
    )
    html = Answer(draft, "<script>", challenge)._repr_html_()
    assert html.startswith("<p><b>4</b></p><table>")
    assert "&lt;think&gt;a&lt;/think&gt;<br>&lt;answer&gt;" in html
    assert "<script>" not in html
    assert Answer(draft)._repr_html_().count("<tr>") == 2
    assert len(Answer(Completion("x" * 10**6, draft.version, 1, 7))._repr_html_()) < 5000


async def wrong(problem: Problem, completion: Completion) -> Verdict:
    return Verdict(False, False, Reason.WRONG)


def evaluated(pair: Pair) -> Bout:
    """What an evaluation of the same pair draws on the same question."""
    problem = Problem(content_id(QUESTION), QUESTION, "7")
    machine = Evaluator(pair._sampler, wrong, pair.settings.sampling, pair.settings.max_peek_tokens, pair.settings.seed)
    return pair._bridge.call(machine.bout(problem, 0, pair.system))  # a sampler belongs to one event loop


def test_it_answers_as_it_was_evaluated(pair: Pair) -> None:
    answer, bout = pair.answer(QUESTION), evaluated(pair)
    assert bout.challenge is not None
    assert (answer.draft.text, answer.peek) == (bout.draft.completion.text, bout.peek)
    assert answer.final.text == bout.challenge.completion.text
    assert (answer.draft.version, answer.final.version) == (INFO.versions[Policy.B], INFO.versions[Policy.A])
    assert answer.generated_tokens == sum(rollout.completion.generated_tokens for rollout in bout.rollouts)


def test_pieces_add_up_to_both_stages(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon.engine.watch.INTERVAL", 0.0)

    async def collect() -> list[Piece | Answer]:
        return [piece async for piece in pair.stream(QUESTION)]

    *pieces, answer = asyncio.run(collect())
    assert isinstance(answer, Answer)
    written = {"draft": "", "peek": "", "challenge": ""}
    order = []
    for piece in pieces:
        assert isinstance(piece, Piece)
        written[piece.stage] += piece.text
        order.append(piece.stage)
    assert written == {"draft": answer.draft.text, "peek": answer.peek, "challenge": answer.final.text}
    assert order == sorted(order, key=["draft", "peek", "challenge"].index)
    assert order.count("draft") > 1, "the draft must come while it is written, not when it is done"


def test_many_questions_at_once_and_none_changes_another(pair: Pair) -> None:
    questions = [QUESTION, *(f"What is {n} + {n}?" for n in range(3))]

    async def together() -> list[Answer]:
        return list(await asyncio.gather(*(pair.ask(question) for question in questions)))

    answers = asyncio.run(together())
    assert answers[0].final.text == pair.answer(QUESTION).final.text


def test_who_leaves_early_stops_the_engine(pair: Pair) -> None:
    async def leave() -> None:
        stream = pair.stream(QUESTION)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert pair.answer(QUESTION).draft.generated_tokens > 0


@pytest.mark.parametrize(
    ("arm", "direction", "system"),
    [
        ("agon", None, (Policy.B, Policy.A)),
        ("agon", "ab", (Policy.A, Policy.B)),
        (None, None, (Policy.B, Policy.A)),
        ("self-refine", None, (Policy.A, Policy.A)),
        ("grpo", None, Policy.A),
        ("hidden-drafts", None, Policy.A),
        ("hidden-drafts", "ab", (Policy.A, Policy.B)),
    ],
)
def test_an_arm_answers_as_it_deploys(arm: str | None, direction: str | None, system: object) -> None:
    folder = PairDir(Path("pair"), INFO.model_copy(update={"arm": arm}))
    assert system_of(folder, direction) == system


def test_a_direction_that_does_not_exist_is_refused_before_anything_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agon.deploy.ask._sampler", lambda *_: pytest.fail("the base was loaded"))
    with pytest.raises(InputError, match="there is no direction 'xy'") as caught:
        Pair.load(folder, direction="xy")
    assert caught.value.fix == "write one of: ab, ba"


@pytest.mark.parametrize(
    ("rival", "system"),
    [("frozen", (Policy.B, Policy.A)), ("league", Policy.A)],
)
def test_a_pair_whose_rival_is_not_here_answers_with_a_alone(rival: str, system: object) -> None:
    folder = PairDir(Path("pair"), INFO.model_copy(update={"arm": "agon", "rival": rival}))
    assert system_of(folder, None) == system


@pytest.mark.parametrize("code", [False, True])
def test_a_pair_that_writes_programs_is_asked_for_one(code: bool) -> None:
    asked: list[str] = []

    def answer(request: Request) -> str:
        asked.append(request.prompt.messages[0].text)
        return "<think>t</think>Add.\n```x```\n<answer>y</answer>"

    settings = Settings("hf", "float32", Sampling(), 50, code=code)
    pair = Pair(PairDir(Path("x"), INFO), ScriptedSampler(answer), (Policy.A, Policy.B), settings)
    try:
        pair.answer("Print the sum.")
    finally:
        pair.close()
    assert ["Python program" in text for text in asked] == [code, code]
    assert ("[withheld]" in asked[1]) is code


def test_other_prompts_or_another_template_are_refused(folder: Path, tmp_path: Path) -> None:
    for field, reason in ("prompts_hash", "different prompts"), ("chat_template_hash", "different chat template"):
        info = INFO.model_copy(update={field: "0" * 16})
        path = write_pair(tmp_path, folder / "a", folder / "b", info)
        with pytest.raises(RunDirError, match=reason):
            Pair.load(path)


def test_an_answer_says_whether_the_draft_agreed() -> None:
    def said(answer: str) -> Completion:
        return Completion(f"<think></think>{answer}", BASE, 1, 1)

    assert Answer(said("<answer>4</answer>"), "", said("so <answer> 4 </answer>")).agreed is True
    assert Answer(said("<answer>4</answer>"), "", said("<answer>5</answer>")).agreed is False
    assert Answer(said("nothing"), "", said("nothing")).agreed is False
    assert Answer(said("<answer>4</answer>")).agreed is None


def test_text_that_begins_again_is_shown_once() -> None:
    seen: list[str] = []
    growing = Growing("draft", Policy.A, lambda piece: seen.append(piece.text))
    for text in ("on", "one t", "o", "one", "one two"):
        growing(text)
    assert seen == ["on", "e t", "wo"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>x</think>so<answer>4</answer>", "4"),
        ("<think>x</think>\\boxed{5}", "5"),
        ("<think><answer>1</answer>", None),
    ],
)
def test_the_answer_is_read_after_the_reasoning(text: str, expected: str | None) -> None:
    assert Answer(Completion(text, INFO.versions[Policy.A], 1, 1)).text == expected


def test_ask_shows_both_stages_and_ends_with_the_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(folder), QUESTION, "--max-tokens", "40", "--temperature", "0"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(heading) for heading in ("-- B drafts --", "-- A reads --", "-- A answers --", "answer: ")]
    assert places == sorted(places)
    assert main(["ask", str(folder), QUESTION, "--max-tokens", "40", "--temperature", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["draft"]["text"] in shown
    assert found["challenge"]["version"] == INFO.versions[Policy.A]


def test_no_question_and_no_pair_are_two_lines(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", str(folder), " "]) == 2
    assert "there is no question" in capsys.readouterr().err
    assert main(["ask", str(tmp_path), "What?"]) == 2
    assert "fix:" in capsys.readouterr().err


def test_a_held_out_problem_is_asked_with_its_gold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agon.cli.ask import held_out_problem
    from agon.config import load_config
    from agon.data import splits
    from agon.errors import DataError, InputError
    from agon.rundir import RunDir
    from agon.rundir.manifest import SplitFacts

    recipe = Path(__file__).resolve().parents[2] / "src/agon/recipes/tabletop.yaml"
    config = load_config(recipe, ["data.held_out.take=3"])
    run = RunDir.create(tmp_path, "one", config)
    assert held_out_problem(run.path, 2) == splits(config.data).held_out[2]
    with pytest.raises(InputError, match="has 3 held-out problems"):
        held_out_problem(run.path, 3)
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(9)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = {"path": str(tmp_path / "mine.jsonl"), "take": 3}
    data = config.data.model_copy(update={part: Source(**source) for part in ("train", "dev", "held_out")})
    config = config.model_copy(update={"data": data})
    unknown = RunDir.create(tmp_path, "two", config)
    with pytest.raises(InputError, match="may come from somebody else"):
        held_out_problem(unknown.path, 0)
    known = RunDir.create(tmp_path, "three", config, SplitFacts(hashes=splits(data).hashes))
    assert held_out_problem(known.path, 0).question.startswith("What is")
    (tmp_path / "mine.jsonl").write_text(
        "\n".join(map(json.dumps, [*rows[1:], {"question": "What is 3 + 9?", "answer": "12"}]))
    )
    with pytest.raises(DataError, match="not what it was"):
        held_out_problem(known.path, 0)


def test_a_run_that_transformers_drew_is_asked_with_them_on_a_gpu_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(Path(agon.__file__).parent / "recipes" / "tabletop.yaml")
    monkeypatch.setattr(RunDir, "open", lambda path: SimpleNamespace(config=config))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    (tmp_path / "config.yaml").touch()
    assert settings_of(tmp_path, INFO, None, None, None).engine == "hf"
    assert settings_of(tmp_path, INFO, "vllm", None, None).engine == "vllm"


def test_a_watcher_that_fails_fails_its_own_question_alone(pair: Pair) -> None:
    def closed(piece: Piece) -> None:
        raise BrokenPipeError("the reader has seen enough")

    async def together() -> list[object]:
        asked = (pair.ask(QUESTION, watch=closed), pair.ask(QUESTION), pair.ask(f"{QUESTION} Again."))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, *others = asyncio.run(together())
    assert isinstance(first, BrokenPipeError)
    assert all(isinstance(answer, Answer) for answer in others), others


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": -1.0}, "a temperature cannot be -1"),
        ({"temperature": float("nan")}, "a temperature cannot be nan"),
        ({"max_tokens": 0}, "cannot be capped at 0 tokens"),
        ({"max_tokens": -5}, "cannot be capped at -5 tokens"),
    ],
)
def test_settings_that_mean_nothing_are_refused(folder: Path, settings: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Pair.load(folder, **settings)
