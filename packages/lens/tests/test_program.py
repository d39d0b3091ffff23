"""Programs in the viewer: coloured, complete to the last character, and text nodes only."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from agon_lens.page import asset

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

DOM = """
class Node {
  constructor(tag) { this.tag = this.tagName = tag; this.children = []; }
  append(...all) { this.children.push(...all); }
  setAttribute() {}
  get textContent() { return this.children.map((c) => (typeof c === "string" ? c : c.textContent)).join(""); }
  set textContent(text) { this.children = [text]; }
}
const make = (tag) => new Node(tag);
const document = { createElement: make, createElementNS: (_, tag) => make(tag) };
document.createDocumentFragment = () => make("all");
const shape = (n) => (typeof n === "string" ? n : { tag: n.tag, class: n.className, children: n.children.map(shape) });
"""


def run(expression: str, text: str) -> dict:
    script = DOM + asset("dom.js") + asset("program.js") + asset("tex.js")
    script += f"\nconst made = {expression}({json.dumps(text)}, true);\n"
    script += "console.log(JSON.stringify({ text: made.textContent, shape: shape(made) }));"
    return json.loads(
        subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60).stdout
    )


def elements(shape: dict | str) -> list[tuple[str, str, str]]:
    """Tag, class and own text of every element."""
    if isinstance(shape, str):
        return []
    own = shape["tag"], shape.get("class") or "", "".join(c for c in shape["children"] if isinstance(c, str))
    return [own, *(found for child in shape["children"] for found in elements(child))]


def classes(made: dict) -> list[tuple[str, str]]:
    return [(name, text) for _, name, text in elements(made["shape"])]


def test_keywords_strings_numbers_and_comments_have_colours() -> None:
    made = run("program", "def f(x):  # note\n    return 'a\\'b' + str(x_1 * 20)")
    found = classes(made)
    for piece in [
        ("keyword", "def"),
        ("keyword", "return"),
        ("string", "'a\\'b'"),
        ("number", "20"),
        ("comment", "# note"),
    ]:
        assert piece in found
    assert ("call", "str") in found


HOSTILE = [
    "<img src=x onerror=alert(1)>", "print('</script><script>alert(1)</script>')", '"""never closed\nx = 1', "'" * 50,
    "f'{x}' rb'' u\"\"", "\\" * 99, "a" * 5000, "# " + "$x_1$ " * 99, "x = '\\\n'", "```\nnested\n```",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_character_is_lost_and_none_becomes_markup(text: str) -> None:
    made = run("program", text)
    assert made["text"] == text
    assert {tag for tag, _, _ in elements(made["shape"])} <= {"code", "span"}


@pytest.mark.parametrize("text", ["Add.\n```python\nx_1 = $a$\n```\nDone.", "```\nnot closed x^2", "~~~\na\n~~~"])
def test_a_fenced_program_in_a_text_is_a_program_and_not_a_formula(text: str) -> None:
    made = run("rich", text)
    assert "".join(made["text"].split()) == "".join(text.split())
    assert "program" in [name for name, _ in classes(made)]
    assert "math" not in {tag for tag, _, _ in elements(made["shape"])}


@pytest.mark.parametrize(
    ("answer", "is_program"), [("n = int(input())\nprint(n)", True), ("x^2 + 1", False), ("A, B\nC", False)]
)
def test_an_answer_of_several_lines_of_code_is_a_program(answer: str, is_program: bool) -> None:
    names = [name for name, _ in classes(run("answered", answer))]
    assert ("program" in names) is is_program
