"""Right and wrong answers in many forms: none that is wrong is paid, and what is right is refused by a named rule only.

The tables are those of benchmarks/math_judge.py. `math_pairs` was written by somebody who had not read the rules.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import pytest

from agon_judge.math.judge import MathJudge
from agon_judge.math.notation import as_words, plain_words
from agon_judge.math.probes import row
from agon_judge.math.spelling import canonical
from agon_judge.workers.pool import Limits, WorkerPool
from judge_helpers import BENCHMARKS, DATA, Form, forms

MOST_REFUSED = 0.10
"""Share of right answers, by somebody who had not read the rules, that may be refused."""
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="MATH-500 is not at hand; set AGON_DATA")


def payments(judge: MathJudge, table: list[Form]) -> list[bool]:
    verdicts = judge.judge_many(row(form.question, form.gold, form.answer) for form in table)
    assert all(verdict.graded for verdict in verdicts)
    return [verdict.correct for verdict in verdicts]


@pytest.mark.parametrize("name", ["math_pairs", "math_forms"])
def test_every_form_is_paid_or_refused_as_its_policy_says(judge: MathJudge, name: str) -> None:
    table = forms(name)
    found = payments(judge, table)
    assert [form for form, paid in zip(table, found, strict=True) if paid != form.paid] == []


def test_few_right_answers_of_a_stranger_are_refused_and_no_wrong_one_is_paid(judge: MathJudge) -> None:
    table = forms("math_pairs")
    found = payments(judge, table)
    right = [paid for form, paid in zip(table, found, strict=True) if form.right]
    wrong = [paid for form, paid in zip(table, found, strict=True) if not form.right]
    assert (len(right), len(wrong)) == (585, 545)
    assert sum(wrong) == 0
    assert right.count(False) / len(right) < MOST_REFUSED


def test_golds_of_the_hardest_problems_are_paid_for_themselves_and_nearly_all_respelled(judge: MathJudge) -> None:
    rows = [json.loads(line) for line in (BENCHMARKS / "hard_golds.jsonl").read_text().splitlines()]
    assert all(verdict.correct for verdict in judge.judge_many((each["gold"], each["gold"], "") for each in rows))
    again = judge.judge_many((each["gold"], each["rewriting"], "") for each in rows)
    assert sum(verdict.correct for verdict in again) >= 95


def math_500() -> list[tuple[str, str]]:
    lines = (DATA / "math500" / "test.jsonl").read_text().splitlines()
    return [(record["problem"], record["answer"]) for record in map(json.loads, lines)]


def gsm8k() -> list[tuple[str, str]]:
    lines = (DATA / "gsm8k" / "test.jsonl").read_text().splitlines()
    return [(record["question"], record["answer"].rpartition("####")[2].strip()) for record in map(json.loads, lines)]


UNIVERSAL = r"""
\emptyset ;; \mathbb{R} ;; \infty ;; -\infty ;; \infty-\infty ;; \frac{0}{0} ;; 0/0 ;; \frac{1}{0} ;; nan ;; NaN ;; oo
zoo ;; x=x ;; 0=0 ;; 1=1 ;; y=y ;; x ;; y ;; a ;; x,y ;; (x,y) ;; (a,b) ;; [a,b] ;; (a,b] ;; {x} ;; \{x\} ;; \{\} ;; ()
[] ;; {} ;; (-\infty,\infty) ;; x\in\mathbb{R} ;; x\le x ;; x<y<z ;; a<x<b ;; a<b ;; x>y ;; a\le b ;; \pm x ;; x^0 ;; 0
1 ;; -1 ;; 2 ;; true ;; True ;; False ;; \text{} ;; \text{ } ;; \text{yes} ;; B ;; (B) ;; C ;; (A)(B)(C)(D)(E)
\sqrt{x} ;; \frac{x}{y} ;; x+y ;; x-x ;; x/x ;; i ;; e ;; \pi ;; \begin{pmatrix} x \\ y \\ z \end{pmatrix}
\begin{pmatrix} a & b \\ c & d \end{pmatrix} ;; \begin{pmatrix} \infty \\ \infty \\ \infty \end{pmatrix}
\frac{0}{0}\pi ;; (\infty,\infty) ;; (\frac00,\frac00) ;; \frac{0}{0}, \frac{0}{0} ;; \frac{0}{0}+\frac{0}{0}i ;; x_1
N/A ;; none ;; ? ;; * ;; .* ;; ... ;; % ;; \$ ;; ^\circ ;; \circ ;; [withheld] ;; 1..1000 ;; ...42... ;; 0^{0} ;; \log 0
0\cdot\infty ;; \tan\frac{\pi}{2}
"""


@needs_data
@pytest.mark.nightly
def test_no_universal_answer_is_paid_for_any_gold(judge: MathJudge) -> None:
    answers = [answer for line in UNIVERSAL.strip().splitlines() for answer in line.split(" ;; ")]
    golds = sorted({gold for _, gold in math_500()})
    # `B` is no universal answer to `\text{(B)}`
    rows = [(g, a) for g in golds for a in answers if plain_words(a) != plain_words(g) and canonical(a) != canonical(g)]
    verdicts = judge.judge_many(row("", *each) for each in rows)
    assert [each for each, verdict in zip(rows, verdicts, strict=True) if verdict.correct] == []


AROUND = r"""
%s ;; (%s) ;; ((%s)) ;; [%s] ;; {%s} ;; {{%s}} ;; \left(%s\right) ;; \{%s\} ;; %s+0 ;; 0+%s ;; %s-0 ;; %s\cdot 1
1\cdot %s ;; 1(%s) ;; (%s)(1) ;; (%s)/1 ;; \frac{%s}{1} ;; (%s)^1 ;; -(-(%s)) ;; %s\text{ units} ;; %s units ;; %s \pm 0
x=%s ;; y=%s ;; f(x)=%s ;; \frac{2(%s)}{2} ;; %s+x-x ;; \sqrt{(%s)^2} ;; \text{answer}=%s ;; %s+1-1 ;; 2(%s)-(%s)
\frac12(%s)+\frac12(%s) ;; The answer is %s ;; = %s ;; \therefore %s ;; #### %s ;; \underline{%s}
"""
INSIDE = (("()", "[]"), ("x", "{x}"), ("-", "+-"), ("^2", "^{2.0}"), ("^2", "^{2}"), ("+", "+0+"), (" ", ""))
POWERS = (
    (r"(?<!\d)([2-9]|\d\d+)([a-z])(?![a-z])", lambda m: f"({int(m[1]) - 1}{m[2]}+{m[2]})"),
    (r"([a-z])\^\{?2\}?(?!\d)", lambda m: m[1] + m[1]),
    (r"([a-z])\^\{?([3-9])\}?(?!\d)", lambda m: f"{m[1]}^{int(m[2]) - 1}{m[1]}"),
    (r"([a-z])([a-z])", lambda m: m[2] + m[1]),
)


def disguises(text: str) -> Iterator[str]:
    """An expression in other texts that need no mathematics, or with one number or power respelled."""
    yield from (pattern.replace("%s", text) for line in AROUND.strip().splitlines() for pattern in line.split(" ;; "))
    yield from (text.replace(old, new) for old, new in INSIDE if old in text)
    for match in [*re.finditer(r"(?<![\d.^{_\\a-z])(\d+)(?![\d.,])", text)][:4]:
        n = int(match[1])
        spelled = (f"({n - 1}+1)", f"({n + 1}-1)", rf"\frac{{{2 * n}}}{{2}}", f"(-(-{n}))", f"{n}.0", f"{n}^1")
        yield from (text[: match.start()] + number + text[match.end() :] for number in spelled if n)
    for pattern, replaced in POWERS:
        if found := re.search(pattern, text):
            yield text[: found.start()] + replaced(found) + text[found.end() :]


@needs_data
@pytest.mark.nightly
def test_no_expression_of_a_question_is_paid_in_any_disguise(judge: MathJudge) -> None:
    rows = []
    for question, gold in math_500():
        texts = [a or b for a, b in re.findall(r"\$\$?([^$]{2,200})\$|\\\[(.{2,200}?)\\\]", question, re.DOTALL)]
        sides = {side.strip().rstrip(".?,= ") for text in texts for side in (text, *text.split("="))}
        parts = [part for part in sides if len(part) > 1 and canonical(part) != canonical(gold)]
        answers = {answer for part in parts for answer in disguises(part) if canonical(answer) != canonical(gold)}
        rows += [(question, gold, answer) for answer in sorted(answers)]
    assert len(rows) > 40_000
    verdicts = judge.judge_many(row(*each) for each in rows)
    assert [each for each, verdict in zip(rows, verdicts, strict=True) if verdict.correct] == []


@needs_data
@pytest.mark.nightly
def test_every_gold_is_paid_for_itself_and_not_for_another(judge: MathJudge) -> None:
    problems, rng = math_500() + gsm8k(), random.Random(0)
    golds = sorted({gold for _, gold in problems})
    respelled = [rf"$\boxed{{\displaystyle {gold} }}$." for gold in golds]
    verdicts = judge.judge_many(row("", *pair) for pair in zip(golds, respelled, strict=True))
    assert all(verdict.correct for verdict in verdicts)
    pool = WorkerPool("agon_judge.math.equality:compare", Limits(workers=2))
    alone = [(gold, pool.submit(gold, gold)) for gold in golds if as_words(gold) is None]
    assert [gold for gold, future in alone if future.result().name != "correct"] == []
    pool.close()
    pairs = [(question, gold, rng.choice(golds)) for question, gold in rng.choices(problems, k=10_000)]
    found = judge.judge_many(row(*pair) for pair in pairs)
    equal = {pair[1:] for pair, verdict in zip(pairs, found, strict=True) if verdict.correct}
    assert [pair for pair in equal if canonical(pair[0]) != canonical(pair[1]) and not same_number(*pair)] == []


def same_number(*golds: str) -> bool:
    """Whether two golds are one number or word in two notations, found without the judge."""
    plain = [re.sub(r"^[a-z]=|\\!|[,\s$]|\\\$|\^\\circ|\\(?:text|mbox)\{[^}]*\}(?:\^2)?", "", gold) for gold in golds]
    if as_words(golds[0]) is not None:
        return as_words(golds[0]) == as_words(golds[1])
    return all(re.fullmatch(r"-?\d*\.?\d+", text) for text in plain) and float(plain[0]) == float(plain[1])
