from __future__ import annotations

import pytest

from agon_judge.code.extract import one_program
from agon_judge.verdict import Reason, Verdict


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("<think>x</think><answer>print(1)</answer>", "print(1)"),
        ("<think>x</think><answer>\n```python\nprint(1)\n```\n</answer>", "print(1)"),
        ("<think>x</think><answer>```\nprint(1)\n```</answer>", "print(1)"),
        ("<think>x</think><answer>~~~py\nprint(1)\n~~~</answer>", "print(1)"),
        ("<think>x</think><answer>````python\ns = '''\n```\n'''\n````</answer>", "s = '''\n```\n'''"),
        ("<think>x</think><answer>Here it is:\n```Python3\nprint(1)\n```\nIt is fast.</answer>", "print(1)"),
        ("<think>x</think><answer>print(1)</answer><answer>print(1)</answer>", "print(1)"),
        ("<think>x</think><answer>```\nif 1:\n    print(1)\n```</answer>", "if 1:\n    print(1)"),
        ("<think>```python\nprint(2)\n```</think><answer>print(1)</answer>", "print(1)"),
        ("<think>x</think>```python\nprint(2)\n```<answer>print(1)</answer>", "print(1)"),
        ("<answer>print(2)</answer></think><answer>print(1)</answer>", "print(1)"),
        ("<answer>print('`' * 3)</answer>", "print('`' * 3)"),
    ],
)
def test_the_one_program_is_found(text: str, program: str) -> None:
    assert one_program(text) == program


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no answer block"),
        ("```python\nprint(1)\n```", "no answer block"),
        ("<think>x</think><answer></answer>", "empty"),
        ("<think>x</think><answer>```python\n```</answer>", "empty"),
        ("<think>x<answer>print(1)</answer>", "never ends"),
        ("<think>x</think><answer>print(1)", "no answer block"),
        ("<think>x</think><answer>print(1)</answer><answer>print(2)</answer>", "differ"),
        ("<think>x</think><answer>```\nprint(1)\n```\n```\nprint(2)\n```</answer>", "several programs"),
        ("<think>x</think><answer>```python\nprint(1)</answer>", "not closed"),
        ("<think>x</think><answer>```cpp\nint main() {}\n```</answer>", "a program in cpp"),
        ("<think>x</think><answer>```python\nprint(1)\n```\n```bash\nls\n```</answer>", "several programs"),
    ],
)
def test_everything_else_is_no_program(text: str, why: str) -> None:
    verdict = one_program(text)
    assert isinstance(verdict, Verdict)
    assert verdict.reason is Reason.NO_PROGRAM
    assert why in verdict.detail


def test_an_answer_inside_reasoning_that_the_prompt_opened_does_not_count() -> None:
    assert isinstance(one_program("<answer>print(1)</answer>", opened=True), Verdict)


def test_extraction_is_linear_in_hostile_text() -> None:
    import time

    started = time.process_time()
    for text in ("```\n" * 100_000, "`" * 500_000, "<answer>" * 50_000, "~~~ " * 100_000 + "\n"):
        one_program(f"<answer>{text}</answer>")
    assert time.process_time() - started < 10
