from __future__ import annotations

import pytest

from agon.types import BASE, Completion
from agon.verify.code.extract import NoProgram, program_of


def written(text: str, *, opened: bool = False) -> str | NoProgram:
    return program_of(Completion(text, BASE, 1, 1, opened=opened))


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
    assert written(text) == program


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
    found = written(text)
    assert isinstance(found, NoProgram)
    assert why in found.why


def test_an_answer_inside_reasoning_that_the_prompt_opened_does_not_count() -> None:
    assert isinstance(written("<answer>print(1)</answer>", opened=True), NoProgram)


def test_extraction_is_linear_in_hostile_text() -> None:
    import time

    started = time.process_time()
    for text in ("```\n" * 100_000, "`" * 500_000, "<answer>" * 50_000, "~~~ " * 100_000 + "\n"):
        written(f"<answer>{text}</answer>")
    assert time.process_time() - started < 10
