"""The program in a text, by rules that never guess.

1. Only the `<answer>` block after the last `</think>` counts. Several blocks with the same content are one.
2. A block with a fence (a line of three or more backticks or tildes) holds exactly one fenced program, closed, whose
   language is not given or is Python. What stands around the fence is ignored.
3. A block without a fence is the program itself.
4. Everything else is no program: no block, an empty one, several that differ, an unclosed fence, another language.
"""

from __future__ import annotations

import re

from agon_judge.answers import parse
from agon_judge.verdict import Reason, Verdict

PYTHON = frozenset({"", "python", "python3", "py", "py3"})
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*$", re.MULTILINE)


def one_program(text: str, *, opened: bool = False) -> str | Verdict:
    """The one program that a text gives as its answer, or why there is none. `opened`: it begins inside reasoning."""
    parsed = parse(text, opened=opened)
    if not parsed.closed:
        return _none("the reasoning never ends")
    programs = {_unfenced(answer) for answer in parsed.answers}
    if not programs:
        return _none("no answer block")
    if len(programs) > 1:
        return _none("several answers that differ")
    program = programs.pop()
    return _none("an empty answer") if program == "" else program


def _none(why: str) -> Verdict:
    return Verdict(Reason.NO_PROGRAM, why)


def _unfenced(answer: str) -> str | Verdict:
    """The content of the only fence, or the text itself where there is none."""
    blocks: list[str | Verdict] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(answer):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2]:
            blocks.append(_block(answer, opened, fence))
            opened = None
    if opened is not None:
        return _none("a code fence that is not closed")
    if len(set(blocks)) > 1:
        return _none("several programs")
    return blocks[0] if blocks else answer.strip()


def _block(answer: str, opened: re.Match[str], closed: re.Match[str]) -> str | Verdict:
    if opened[2].lower() not in PYTHON:
        return _none(f"a program in {opened[2][:20]}")
    return answer[opened.end() : closed.start()].strip("\n")
