"""Every prompt of the game, and the only place with prompt text.

Training and evaluation call these same functions. The challenge prompt is one for all reward stacks (section 4.3):
coop and adv differ in the reward alone. Problems and summaries are `Quote` parts, spliced in as data by the renderer.
"""

from __future__ import annotations

from agon.types import Message, Problem, Prompt, Quote, UnitTests, content_id

_FORMAT = (
    "Reason inside <think> and </think>. After </think>, recap the solution in a few steps that a reader can check. "
    "Then give {} inside <answer> and </answer>, once, at the very end."
)
_ANSWER = "the final answer alone"
_PROGRAM = "the complete Python program alone (it reads standard input and writes standard output)"
_SOLVE = "Solve this problem.\n\n"
_EMPTY = "(The attempt ended without a summary.)"
_CHALLENGE = (
    "\n\nAnother solver's attempt stands below, its final answer withheld. It may or may not be correct. Do not trust "
    "or paraphrase it: verify it, and solve the problem independently. "
    "You win by being correct when the attempt is wrong."
)
_REFINE = (
    "\n\nYour own earlier attempt stands below, its final answer withheld. It may or may not be correct. Verify it, "
    "correct what is wrong, and solve the problem again."
)
_MOA = (
    "\n\nTwo earlier attempts stand below, their final answers withheld: first your own, then another solver's. Either "
    "may or may not be correct. Verify both, keep what is right, and solve the problem again."
)


def draft_prompt(problem: Problem) -> Prompt:
    """The plain problem: what the drafter, and every single-pass system, sees."""
    return _prompt(problem, "")


def challenge_prompt(problem: Problem, peek: str) -> Prompt:
    """The problem and the rival's peek: the same words for every reward stack."""
    return _prompt(problem, _CHALLENGE, peek)


def refine_prompt(problem: Problem, peek: str) -> Prompt:
    """The problem and one's own peek: self-refinement and the self-cascade."""
    return _prompt(problem, _REFINE, peek)


def moa_prompt(problem: Problem, own: str, other: str) -> Prompt:
    """The problem, one's own peek and the other's: the untrained Mixture-of-Agents control."""
    return _prompt(problem, _MOA, own, other)


def with_attempt(question: str, peek: str) -> str:
    """The question of a task that itself says how to answer, and the rival's peek: no format of ours is asked for."""
    return f"{question}{_CHALLENGE}\n\n<attempt>\n{peek or _EMPTY}\n</attempt>"


def _prompt(problem: Problem, instruction: str, *peeks: str) -> Prompt:
    parts: list[str | Quote] = [_SOLVE, Quote(problem.question), instruction]
    for peek in peeks:
        parts += ["\n\n<attempt>\n", Quote(peek) if peek else _EMPTY, "\n</attempt>"]
    return Prompt((Message("user", (*parts, "\n\n" + _format(problem))),))


def _format(problem: Problem) -> str:
    return _FORMAT.format(_PROGRAM if problem.is_code else _ANSWER)


def _hash() -> str:
    """A name for the wording of every prompt: stored with runs and pairs, checked when they are used."""
    texts = []
    for tests in (None, UnitTests()):
        problem = Problem("", "{problem}", "", tests=tests)
        prompts = (
            draft_prompt(problem),
            challenge_prompt(problem, "{peek}"),
            challenge_prompt(problem, ""),
            refine_prompt(problem, "{peek}"),
            moa_prompt(problem, "{own}", "{other}"),
        )
        texts += [message.role + message.text for prompt in prompts for message in prompt.messages]
    return content_id(*texts)


PROMPTS_HASH = _hash()
