"""Every kind of hostile answer (M1 to M25) gets a safe verdict within its deadline."""

from __future__ import annotations

import time

import pytest

from agon_judge.answers import one_answer
from agon_judge.math.judge import MathJudge
from agon_judge.math.probes import row
from agon_judge.verdict import Reason
from judge_helpers import reasons

DIGITS = "7" * 1_000_000
HOSTILE = {
    "M1 tower": "2^{3^{4^{5^{6}}}}",
    "M1 tower without braces": "9^9^9^9",
    "M2 ten to the ten to the ten": "10^{10^{10}}",
    "M3 nested factorials": "((10!)!)!",
    "M4 huge binomial": r"\binom{10^{9}}{5\cdot10^{8}}",
    "M5 a million digits": DIGITS,
    "M6 five thousand digits": DIGITS[:5000],
    "M7 nested fractions": r"\frac{1}{1+" * 3000 + "1" + "}" * 3000,
    "M8 parentheses": "(" * 2000 + "42" + ")" * 2000,
    "M9 long sum": r"\sum_{k=1}^{10^{9}} \frac{1}{k}",
    "M10 nasty integral": r"\int_0^{\infty} \frac{\sin(x^7)\ln x}{\sqrt{x^5+1}}\,dx",
    "M11 set of 3000": r"\{" + ",".join(map(str, range(3000))) + r"\}",
    "M12 matrix": r"\begin{pmatrix}" + r"\\".join("&".join(["1"] * 40) for _ in range(40)) + r"\end{pmatrix}",
    "M13 modular power": r"7^{10^{18}} \bmod 1000000007",
    "M14 gcd": rf"\gcd({DIGITS[:400_000]}, {DIGITS[:399_999]})",
    "M15 a hundred thousand decimals": "0." + "3" * 100_000,
    "M16 integral": r"\int_0^{42} 1\,dx",
    "M16 sum": r"\sum_{k=1}^{42} 1",
    "M16 limit": r"\lim_{x\to42} x",
    "M16 factorials": r"\frac{42!}{41!}",
    "M16 product": r"6\cdot 7",
    "M16 determinant": r"\det\begin{pmatrix}6&0\\0&7\end{pmatrix}",
    "M16 binomial": r"\binom{42}{1}",
    "M16 logarithm": r"\log_2(2^{42})",
    "M17 right side": "41=42",
    "M17 left side": "42=41",
    "M18 percent": r"42\%",
    "M18 4200 percent": r"4200\%",
    "M21 or": "41 or 42",
    "M21 list": "41, 42",
    "M21 plus or minus": r"\pm 42",
    "M21 interval": "[41,43]",
    "M21 all reals": r"\text{all reals}",
    "M22 two boxes": r"\boxed{41} \boxed{42}",
    "M22 unclosed box": r"\boxed{42",
    "M22 unclosed boxes": r"\boxed{" * 20_000 + "42",
    "M23 mixed digits": "\uff14\u0662",
    "M23 Arabic digits": "\u0664\u0662",
    "M23 zero width": "4\u200b2",
    "M23 right to left": "\u202e24",
    "M24 decimal comma": "4,2",
    "M24 overflow": "1e400",
    "M24 hexadecimal": "0x2A",
    "M24 infinity": "inf",
    "M24 not a number": "nan",
    "M24 minus zero": "-0",
}
SAFE = {Reason.WRONG, Reason.UNPARSABLE, Reason.AMBIGUOUS, Reason.TIMEOUT}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_answer_is_safe_and_cheap(judge: MathJudge, answer: str) -> None:
    jobs, start = judge.counters["jobs"], time.process_time()
    [verdict] = judge.judge_many([row("", "42", answer)])
    assert verdict.reason in SAFE
    assert judge.counters["jobs"] - jobs <= 1
    assert time.process_time() - start < 1


def test_m17_to_m20_pairs(judge: MathJudge) -> None:
    probes = [
        ("42", "x=42"),
        ("42", "y=42"),
        ("x=42", "y=42"),
        ("(1,2)", r"\{1,2\}"),
        ("(1,2)", "[1,2]"),
        (r"\{1,2\}", "(1,2)"),
    ]
    verdicts = judge.judge_many(row("", gold, answer) for gold, answer in probes)
    assert [verdict.correct for verdict in verdicts] == [True, True, False, False, False, False]


def test_m22_a_box_in_the_reasoning_is_not_an_answer(judge: MathJudge) -> None:
    assert judge.judge("42", one_answer(r"<think>\boxed{42}</think> done")).reason is Reason.NO_ANSWER


def test_m24_units_and_separators_are_paid(judge: MathJudge) -> None:
    verdicts = judge.judge_many(row("", "4200", answer) for answer in ("4,200", r"4{,}200", "4200 cm", r"\$4200"))
    assert all(verdict.correct for verdict in verdicts)


UNREADABLE = [r"\frac{1}{", r"\foo{", "((((", DIGITS[:2000], "4\u200b2", "(" * 50 + "1" + ")" * 50]
ALGEBRA = [
    r"\aleph_0",
    r"\mathbb{Z}_2",
    r"\mathbb{Z}[i]",
    r"\mathbb{Q}(\sqrt{2})",
    r"\mathbb{R}^n",
    r"2^{\aleph_0}",
    r"\mathbb{Z}/6\mathbb{Z}",
]


@pytest.mark.parametrize("gold", [*UNREADABLE, *ALGEBRA, DIGITS])
def test_m25_no_answer_to_an_unreadable_gold_is_wrong(judge: MathJudge, gold: str) -> None:
    verdicts = judge.judge_many(row("", gold, answer) for answer in ("42", "6\\cdot7", r"\frac{1}{2}"))
    assert {verdict.reason for verdict in verdicts} == {Reason.BAD_GOLD}
    assert not any(verdict.graded for verdict in verdicts)


@pytest.mark.parametrize("gold", [*UNREADABLE, *ALGEBRA])
def test_an_answer_written_like_the_gold_is_right_whatever_the_gold_looks_like(judge: MathJudge, gold: str) -> None:
    assert reasons(judge, ("", gold, gold), ("", f" {gold}\n", gold)) == [Reason.CORRECT] * 2


@pytest.mark.parametrize("gold", ALGEBRA)
def test_typesetting_does_not_matter_where_the_gold_cannot_be_parsed(judge: MathJudge, gold: str) -> None:
    assert reasons(judge, ("", gold, f"$ {gold} $."), ("", gold, rf"\boxed{{{gold}}}")) == [Reason.CORRECT] * 2


def test_a_text_without_one_answer_is_wrong_whatever_the_gold_looks_like(judge: MathJudge) -> None:
    texts = ("<think>so</think> done", "<think>so</think><answer>1</answer><answer>2</answer>")
    verdicts = [judge.judge(r"\aleph_0", one_answer(text)) for text in texts]
    assert [verdict.reason for verdict in verdicts] == [Reason.NO_ANSWER, Reason.AMBIGUOUS]


@pytest.mark.parametrize("gold", ["", "   "])
def test_m25_an_empty_gold_judges_nothing(judge: MathJudge, gold: str) -> None:
    assert reasons(judge, ("", gold, "1"), ("", gold, "")) == [Reason.BAD_GOLD] * 2


def test_m25_a_gold_that_is_not_text_is_bad(judge: MathJudge) -> None:
    assert judge.judge(float("nan"), "42").reason is Reason.BAD_GOLD  # type: ignore[arg-type]


def test_an_answer_may_be_given_as_it_was_written(judge: MathJudge) -> None:
    answers = ("1+x", r"\boxed{1+x}", " 1\n+ x ", "", " ", r"\boxed{1+x} or \boxed{x}")
    found = [judge.judge("x+1", answer).reason for answer in answers]
    assert found == ["correct", "correct", "correct", "no_answer", "no_answer", "ambiguous"]


def test_m25_a_list_is_a_gold(judge: MathJudge) -> None:
    verdicts = judge.judge_many(row("", "3, 5, 7", answer) for answer in ("7,5,3", "3,5", "3,5,7,7"))
    assert [verdict.correct for verdict in verdicts] == [True, False, False]


ARMED = [
    ("e^{x^2}", "9^{9^{99}}"),
    ("2^{100}", "((((9^{99})^{99})^{99})^{99})^{99}"),
    ("x^{999}+1", "(x+1)^{999}(x+2)^{998}"),
]


@pytest.mark.parametrize(("gold", "answer"), ARMED, ids=[gold for gold, _ in ARMED])
def test_what_passes_the_gate_and_hangs_is_killed_and_ends_as_a_timeout(
    judge: MathJudge, gold: str, answer: str
) -> None:
    killed = judge.counters["killed"]
    verdicts = judge.judge_many([row("", gold, answer), row("", "1+x", "x+1"), row("", gold, answer)])
    assert [verdict.reason for verdict in verdicts] == [Reason.TIMEOUT, Reason.CORRECT, Reason.TIMEOUT]
    assert judge.counters["killed"] == killed + 1
    assert judge.judge_many([row("", gold, answer)])[0].reason is Reason.TIMEOUT
    assert judge.counters["killed"] == killed + 1, "a timeout is remembered"


@pytest.mark.parametrize("gold", ["9^{9^{9^9}}", "((10!)!)!", "(x+1)^{5000}"])
def test_a_gold_that_takes_longer_than_the_deadline_is_bad_and_found_once(judge: MathJudge, gold: str) -> None:
    killed = judge.counters["killed"]
    assert reasons(judge, ("", gold, "42"), ("", gold, "x+1"), ("", gold, "7")) == [Reason.BAD_GOLD] * 3
    found = judge.counters["killed"]
    assert killed < found <= killed + 4
    assert reasons(judge, ("", gold, "43"), ("", gold, gold)) == [Reason.BAD_GOLD, Reason.CORRECT]
    assert judge.counters["killed"] == found


@pytest.mark.parametrize("answer", [r"0 \text{ or 7}", r"0 \text{ or one}", r"0 \text{ hundred}", r"0 \text{ wrong}"])
def test_words_beside_a_zero_are_no_factors_of_it(judge: MathJudge, answer: str) -> None:
    assert judge.judge("0", answer).reason is Reason.UNPARSABLE


def test_a_percent_sign_counts_only_if_gold_or_question_mentions_percent(judge: MathJudge) -> None:
    asked = "What percent is it?"
    assert reasons(judge, (asked, "42", r"42\%"), ("How many?", "42", r"42\%")) == [Reason.CORRECT, Reason.WRONG]
    assert reasons(judge, ("How many?", r"42\%", "42"), (asked, "42", r"4200\%")) == [Reason.CORRECT, Reason.WRONG]


def test_the_unevaluated_question_is_not_an_answer(judge: MathJudge) -> None:
    question = r"Simplify $\frac{x^2-1}{x-1} + 0$ for all $x \ne 1$."
    assert reasons(judge, (question, "x+1", r"\frac{x^2-1}{x-1} + 0"), (question, "x+1", "1+x")) == [
        Reason.UNPARSABLE,
        Reason.CORRECT,
    ]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\alpha=30^\circ, \beta=60^\circ", r"\alpha=60^\circ, \beta=30^\circ"),
        ("a_1=1, d=2", "a_1=2, d=1"),
        ("AB=3, BC=4", "BC=3, AB=4"),
        ("2 hours and 30 minutes", "30 hours and 2 minutes"),
    ],
)
def test_values_with_each_others_names_or_units_are_wrong(judge: MathJudge, gold: str, answer: str) -> None:
    assert judge.judge(gold, answer).reason is Reason.WRONG


def test_named_values_may_change_places_and_roots_have_no_order(judge: MathJudge) -> None:
    rows = [("a_1=1, d=2", "d=2, a_1=1"), ("AB=3, BC=4", "3, 4"), ("x_1=1, x_2=2", "x_1=2, x_2=1")]
    assert all(verdict.correct for verdict in judge.judge_many(rows))


def test_an_unsolved_equation_is_compared_whole(judge: MathJudge) -> None:
    paid = [("2x+y=6", "y=6-2x"), ("2x-y+3=0", "y=2x+3"), ("x+y=5", "y=5-x")]
    assert all(verdict.correct for verdict in judge.judge_many(paid))
    refused = [("x+y=5", "x=5"), ("x+y=5", "z=5"), ("xy=12", "x=12"), ("2x+y=6", "y=2x-6")]
    assert not any(verdict.correct for verdict in judge.judge_many(refused))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (r"\frac{1}{2^{100}}", r"\frac{1}{2^{99}}"),
        ("e^{-40}", "e^{-50}"),
        ("2^T", "2"),
        ("P(1+r)^{T}", "P(1+r)"),
        ("A^TA", "A^2"),
        ("f'(x)", "f(x)"),
        ("y''+y=0", "y'+y=0"),
    ],
)
def test_what_the_parser_rounds_away_or_drops_counts(judge: MathJudge, gold: str, answer: str) -> None:
    assert judge.judge(gold, answer).reason is Reason.WRONG


def test_small_numbers_and_powers_of_t_in_other_spellings_are_paid(judge: MathJudge) -> None:
    rows = [
        (r"\frac{1}{2^{100}}", "2^{-100}"),
        ("e^{-40}", r"\frac{1}{e^{40}}"),
        ("(1+r)^T", "(r+1)^{T}"),
        ("f'(x)=2x", "2x"),
        ("x'_1+2", "2+x_1'"),
        (r"\left(\begin{matrix}1&2\\3&4\end{matrix}\right)^T", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
        ("1e-05", "1e-5"),
    ]
    assert all(verdict.correct for verdict in judge.judge_many(rows))


def test_a_decimal_inside_of_an_exact_value_is_as_exact_as_its_digits(judge: MathJudge) -> None:
    rows = [(r"\frac{1}{\sqrt{10}}", r"\sqrt{0.1}"), (r"\frac{3\sqrt{70}}{100}", r"0.3\sqrt{0.7}")]
    rows += [(r"\sqrt{5+2\sqrt6}-\sqrt2-\sqrt3", "0")]
    assert all(verdict.correct for verdict in judge.judge_many(rows))
