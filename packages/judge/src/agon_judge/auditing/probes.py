"""What a reward is tried on: answers that are right, answers that are wrong, and texts that must only not break it.

An answer is put into a completion by a template, such as `\\boxed{{}}`, which the audit finds out. Wrong answers are
wrong by construction: a near miss of a number has a different value, another row's gold is a different answer, and of
several answers at once the gold stands in the middle, where neither a reward that reads the first answer nor one that
reads the last would find it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Expected = Literal["right", "wrong", "any"]

THINK = "<think>\nThis takes a moment.\n</think>\n"
TEMPLATES = (
    "{}",
    "\\boxed{{}}",
    "<answer>{}</answer>",
    f"{THINK}<answer>{{}}</answer>",
    f"{THINK}\\boxed{{{{}}}}",
    f"{THINK}<answer>\\boxed{{{{}}}}</answer>",
    "<reasoning>\nThis takes a moment.\n</reasoning>\n<answer>\n{}\n</answer>",
    "#### {}",
    "The answer is {}",
    "The answer is: {}.",
    "Answer: {}",
    "**Answer:** {}",
    "The answer is $\\boxed{{}}$.",
    "```python\n{}\n```",
    f"{THINK}```python\n{{}}\n```",
    f"{THINK}{{}}",
    '{"answer": "{}"}',
    '{"answer": {}}',
)
"""How an answer may have to be written, the plainest first."""

SPELLED = {what: f"gold in a different spelling of its {what}" for what in ("number", "LaTeX", "words")}
"""Kinds of rewritings."""
UNFINISHED = "arithmetic that is left to do"
"""The kind of `41+1` for 42: its value is right, and the work of the last step is not done."""
TOLERANCE, EXACT = Fraction(1, 20), Fraction(1, 10**6)
"""How far from the gold a number may be paid by design, as a share of it: SciBench has 5%."""
LONG = 60_000
"""Characters of the long texts."""
JUNK = (
    "", " ", "no idea", "I don't know.", "0", "1", "-1", "2", "yes", "no", "True", "False", "None", "null",
    "nan", "inf", "-inf", "impossible", "N/A", "[]", "{}", "()", ".", "?", "-", "\\", "a", "A", "x",
    "答えは分かりません", "не знаю", "لا أعرف", "जवाब", "😀", "\u200b", "\x00", "９", "٣", "\\infty", "\\emptyset",
    "correct", "answer", "gold", "[answer]", "*", ".*", "%s", "%d", "{answer}", "<answer>", "</answer>",
    "<think>", "\\boxed{}", "\\text{}", "$$",
)  # fmt: skip
MARKUP = (
    "<answer>", "</answer>", "<answer></answer>", "</answer><answer>", "<answer>%s", "%s</answer>",
    "<answer>%s<answer>", "<answer><answer>%s</answer>", "<think>%s", "<think>%s</think>",
    "</think></think>%s", "\\boxed{", "\\boxed{%s", "\\boxed", "\\boxed{{%s}", "\\boxed{\\boxed{%s}",
    "\\frac{1}{", "\\frac{%s}{0}", "\\left(%s", "$%s", "####", "#### ", "```python\n%s", "```",
    "{\"answer\": %s", "[%s", "(((((%s", "%s)))))", "<|im_end|>%s", "\\begin{pmatrix}%s",
)  # fmt: skip
POISON = (
    "9^{9^{9^{9}}}", "9**9**9**9", "10**10**8", "1e999999999", "-1e-999999999", "100000!", "\\frac{1}{0}",
    "1/0", "0/0", "(1+x)^{100000}", "\\sum_{n=1}^{\\infty}\\frac{1}{n^{99999}}", "\\int_0^1 x^{x^{x}} dx",
    "x=x=x=x", "'" * 30, "[[[[[[[[[[[[[[[[[[[[", "__import__", "lambda: 0", "1 if 1 else", "\ud800",
    "9" * 40 + "!", "a" * 40 + "!", "so it is " * 10 + "!",
)  # fmt: skip
LONGS = {
    "60 kB of one letter": "a" * LONG,
    "60 kB of digits": "9" * LONG,
    "60 kB of spaces": " " * LONG + "x",
    "60 kB of opening brackets": "(" * LONG,
    "60 kB of opening braces": "\\boxed" + "{" * LONG,
    "60 kB of tags": "<answer>" * (LONG // 8),
    "60 kB of think tags": "<think>" * (LONG // 7),
    "60 kB of backslashes": "\\" * LONG,
    "60 kB of newlines": "\n" * LONG,
    "60 kB of commas": "1," * (LONG // 2),
    "60 kB of words": "so it is not yet clear " * (LONG // 23),
    "60 kB of sums": "1+" * (LONG // 2) + "1",
}

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")
_UNIT = re.compile(r"(?<=\d)(?:\s*%|\s+[A-Za-z]\D*|[A-Za-z]{2,}\D*)$")
_EXPRESSION = re.compile(r"\$\$?([^$]{2,200})\$|\\\((.{2,200}?)\\\)|\\\[(.{2,200}?)\\\]", re.DOTALL)
_ARITHMETIC = re.compile(r"[-(]*\d[\d\s.()]*(?:[-+*/×÷^]|\*\*)[\d\s.()+\-*/×÷^]*\d\)*")
_SYNONYMS = (
    {"yes", "true", "1", "correct"},
    {"no", "false", "0", "incorrect"},
    {"inf", "infty", "infinity", "+infty", "oo", "does not exist"},
    {"none", "null", "no", "nan", "n/a", "[]", "{}", "()", "", "0", "emptyset", "impossible", "no solution",
     "empty set", "no solutions", "does not exist", "undefined", "dne"},
)  # fmt: skip
"""Words that may mean the same: a reward that takes one for the other is not at fault."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One text for one row. `kind` is what is reported; `answer` is what the template was filled with."""

    row: int
    kind: str
    expected: Expected
    text: str
    answer: str


def number(text: str) -> Fraction | None:
    """The value of a plain number, which may have separators, a decimal point, a sign or a fraction bar."""
    plain = text.strip().strip("$").strip()
    above, bar, below = plain.partition("/")
    parts = [above.strip(), below.strip()] if bar else [plain]
    if not all(part.strip("+-.,") and _NUMBER.fullmatch(part) for part in parts):
        return None
    values = [Fraction(part.replace(",", "")) for part in parts]
    return (values[0] / values[1] if values[1] else None) if bar else values[0]


def same(one: str, other: str) -> bool:
    """Whether two answers may be meant to be the same; then neither is a wrong answer where the other is right."""
    plain = [" ".join(text.replace("\\", "").strip(" .$\n").casefold().split()) for text in (one, other)]
    plain = [re.sub(r"^text\{(.*)\}$", r"\1", text) for text in plain]
    if plain[0] == plain[1] or any(set(plain) <= words for words in _SYNONYMS):
        return True
    values = [number(text) for text in plain]
    return values[0] is not None and values[0] == values[1]


def tolerated(answer: str, gold: str) -> bool:
    """Whether a reward that compares with a tolerance may pay this for the gold. A whole number has none."""
    values = number(answer), number(gold)
    if values[0] is None or values[1] is None:
        return False
    return abs(values[0] - values[1]) <= abs(values[1]) * (TOLERANCE if values[1].denominator > 1 else EXACT)


def wrap(template: str, answer: str) -> str:
    """A completion with this answer."""
    head, _, tail = template.rpartition("{}")
    return head + answer + tail


def probes(index: int, question: str, gold: str | None, golds: Sequence[str], template: str) -> Iterator[Probe]:
    """All that a row is tried on, except for what is too long; `golds` are those of all rows."""

    def wrong(kind: str, answers: Iterator[str] | Sequence[str], *, bare: bool = False) -> Iterator[Probe]:
        for answer in dict.fromkeys(answers):
            if gold is None or not same(answer, gold):
                yield Probe(index, kind, "wrong", wrap(template, answer), answer)
                if bare and template != "{}":
                    yield Probe(index, kind, "wrong", answer, answer)

    others = [other for other in dict.fromkeys(golds) if gold is None or not same(other, gold)]
    if gold is not None:
        yield Probe(index, "gold", "right", wrap(template, gold), gold)
        # `####` and a space already stand before it, and a program may not be indented
        spaced = f"{gold} " if template.endswith(" {}") or "```" in template else f" {gold} "
        yield Probe(index, "gold with spaces around it", "right", wrap(template, spaced), gold)
        yield Probe(index, "gold with line ends around it", "right", f"\n{wrap(template, gold)}\n", gold)
        yield Probe(index, "gold after some text", "any", f"Let us see.\n\n{wrap(template, gold)}", gold)
        for kind, answer in rewritings(gold):
            yield Probe(index, kind, "right", wrap(template, answer), answer)
        if "```" not in template:  # a program that is changed a little may do the same
            yield from wrong("near miss", near_misses(gold))
        yield from wrong("the question", restated(question, gold))
        value = number(gold)
        if value is not None and value.denominator == 1 and "/" not in gold:
            text = f"{value.numerator - 1}+1"
            yield Probe(index, UNFINISHED, "any", wrap(template, text), text)
        if others:
            yield from _several(index, gold, others, template)
    yield from wrong("another row's gold", others[:6])
    yield from wrong("junk", JUNK, bare=True)
    if index == 0:  # what breaks a reward breaks it on any row, and a hang takes the whole deadline
        filler = gold if gold is not None else "7"
        for text in (*(pattern.replace("%s", filler) for pattern in MARKUP), *POISON):
            yield Probe(index, "malformed text", "any", wrap(template, text), text)
            if template != "{}":
                yield Probe(index, "malformed text", "any", text, text)


def _several(index: int, gold: str, others: Sequence[str], template: str) -> Iterator[Probe]:
    """Several answers at once, the gold in the middle; and the gold in passing, with a different answer at the end."""
    before, after = [others[0], others[-1]], [others[len(others) // 2], others[0]]
    answers = [*before, gold, *after]
    for joint in (", ", " or ", " ", "\n"):
        spray = joint.join(answers)
        yield Probe(index, "several answers at once", "wrong", wrap(template, spray), spray)
    if template != "{}":
        blocks = "\n".join(wrap(template, answer) for answer in answers)
        yield Probe(index, "several answers at once", "wrong", blocks, blocks)
    last = wrap(template, others[0])
    for text in (f"It may be {gold}.\n{last}", f"<think>\n{gold}\n</think>\n{last}"):
        yield Probe(index, "the gold in passing, then a different answer", "wrong", text, text)
    if THINK not in template and template != "{}":
        text = f"<think>\n{wrap(template, gold)}\n</think>\n{last}"
        yield Probe(index, "the gold in passing, then a different answer", "wrong", text, text)


def rewritings(gold: str) -> Iterator[tuple[str, str]]:
    """Other spellings of a gold, with their kind."""
    value = number(gold)
    if "\\frac" in gold:
        yield SPELLED["LaTeX"], gold.replace("\\frac", "\\dfrac")
    if "\\dfrac" in gold:
        yield SPELLED["LaTeX"], gold.replace("\\dfrac", "\\frac")
    if value is None:
        if gold.casefold() != gold.upper() and gold.isalpha() and len(gold) > 1:
            yield SPELLED["words"], gold.upper() if not gold.isupper() else gold.lower()
        return
    if value.denominator == 1:
        yield SPELLED["number"], f"{value.numerator}.0"
        if abs(value) >= 1000:
            yield SPELLED["number"], f"{value.numerator:,}" if "," not in gold else str(value.numerator)
    elif "/" not in gold:
        yield SPELLED["number"], f"{gold.strip()}0"


def near_misses(gold: str) -> Iterator[str]:
    """Answers that are almost the gold, and not it."""
    value = number(gold)
    if value is not None and "/" not in gold:
        plain = gold.strip().lstrip("$").replace(",", "")
        yield from (_decimal(value + 1), _decimal(value - 1), _decimal(-value), _decimal(value * 10))
        yield f"{plain}1" if "." in plain else f"{plain}7"
        yield f"1{plain.lstrip('-')}"
        yield plain[::-1] if plain[:1] != "-" else f"-{plain[:0:-1]}"
        if value.denominator == 1:
            yield f"{plain}.4"
            if len(plain.lstrip("-")) > 1:
                yield plain[:-1]
                yield plain.lstrip("-")[1:]
        else:
            yield _decimal(value * Fraction(11, 10))
            yield _decimal(Fraction(int(value)))
        return
    if digits := list(re.finditer(r"\d", gold)):
        last = digits[-1]
        yield f"{gold[: last.start()]}{(int(last.group()) + 1) % 10}{gold[last.end() :]}"
        first = digits[0]
        yield f"{gold[: first.start()]}{int(first.group()) % 9 + 1}{gold[first.end() :]}"
    if "\\" in gold:
        yield f"{gold}+1"
        return
    text = gold.strip()
    if len(text) > 2:
        bare = _UNIT.sub("", text)  # a number without its unit may be right
        yield from (part for part in (text[:-1], text[1:], text[0], text[: len(text) // 2]) if part.strip() != bare)
        if text[::-1] != text and "," not in text:  # a list in reverse may be the same set
            yield text[::-1]
    yield f"{text}x"
    yield f"not {text}"


def restated(question: str, gold: str) -> Iterator[str]:
    """The question, and the expressions in it, in several disguises."""
    numbers = [match for match in _NUMBER.findall(question) if match.strip("+-.,")]
    if question.strip() and not any(same(each, gold) for each in (*numbers[:1], *numbers[-1:])):
        yield question
        yield question.strip().splitlines()[-1]
    found = [part for groups in _EXPRESSION.findall(question) for part in groups if part]
    found += _ARITHMETIC.findall(question)
    for part in list(dict.fromkeys(text.strip(" .?,=") for text in found))[:3]:
        if part.startswith("-") or not re.search(r"[-+*/×÷^]|\\[a-z]", part):
            continue
        yield part
        yield f"({part})"
        yield f"{part}+0"


def _decimal(value: Fraction) -> str:
    """A fraction as a decimal of at most six places."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.6f}".rstrip("0").rstrip(".")
