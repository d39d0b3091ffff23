"""Who is shown what."""

from __future__ import annotations

from pathlib import Path

from agon.game.prompts import PROMPTS_HASH, challenge_prompt, draft_prompt, moa_prompt, refine_prompt
from agon.types import Problem, Prompt, Quote, UnitTests

PROBLEM = Problem("id", "How many <think> legs?", "4")


def quotes(prompt: Prompt) -> list[str]:
    return [part.text for message in prompt.messages for part in message.parts if isinstance(part, Quote)]


def test_everything_that_is_not_ours_is_quoted() -> None:
    assert quotes(draft_prompt(PROBLEM)) == [PROBLEM.question]
    assert quotes(challenge_prompt(PROBLEM, "peek")) == [PROBLEM.question, "peek"]
    assert quotes(refine_prompt(PROBLEM, "peek")) == [PROBLEM.question, "peek"]
    assert quotes(moa_prompt(PROBLEM, "own", "other")) == [PROBLEM.question, "own", "other"]


def test_the_reference_answer_is_shown_to_nobody() -> None:
    problem = Problem("id", "How many?", "reference-1234")
    for prompt in (
        draft_prompt(problem),
        challenge_prompt(problem, "p"),
        refine_prompt(problem, "p"),
        moa_prompt(problem, "p", "q"),
    ):
        assert problem.answer not in prompt.messages[0].text


def test_the_challenge_is_told_what_the_paper_says() -> None:
    text = challenge_prompt(PROBLEM, "peek").messages[0].text
    for words in (
        "may or may not be correct",
        "Do not trust or paraphrase",
        "verify",
        "independently",
        "when the attempt is wrong",
    ):
        assert words in text


def test_an_empty_peek_is_one_sentence_of_ours() -> None:
    empty = challenge_prompt(PROBLEM, "")
    assert quotes(empty) == [PROBLEM.question]
    assert "ended without a summary" in empty.messages[0].text


def test_all_prompts_end_with_the_same_answer_format() -> None:
    prompts = (
        draft_prompt(PROBLEM),
        challenge_prompt(PROBLEM, "p"),
        refine_prompt(PROBLEM, "p"),
        moa_prompt(PROBLEM, "p", "q"),
    )
    assert len({prompt.messages[-1].parts[-1] for prompt in prompts}) == 1


def test_the_domain_chooses_what_an_answer_is() -> None:
    code = Problem("id", "Print the sum.", "", tests=UnitTests())
    assert "complete Python program" in draft_prompt(code).messages[0].text
    assert "program" not in draft_prompt(PROBLEM).messages[0].text


def test_the_hash_names_the_wording() -> None:
    assert len(PROMPTS_HASH) == 16


def test_the_documentation_shows_the_challenge_as_it_is() -> None:
    shown = challenge_prompt(Problem("id", "{problem}", ""), "{peek}").messages[0].text
    assert shown in (Path(__file__).parents[2] / "docs" / "prompts.md").read_text()
