"""Hostile answers beside honest ones: what a row is paid depends on the row alone, also while workers are killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import agon_judge
from agon_judge.math.judge import MathJudge
from agon_judge.verdict import Reason
from judge_helpers import gone

SAFE = {Reason.TIMEOUT, Reason.UNPARSABLE}
Row = tuple[str, str, bool | None]
"""A gold, an answer and whether it is right; None for a hostile answer, which must be refused before its deadline."""


def symbolic(rng: random.Random) -> Row:
    """A gold with letters, roots or pi, and an answer with the same value or a near one: only a worker can tell."""
    a, b, c, d = (rng.randint(2, 99) for _ in range(4))
    other = rng.choice((a, a + 1))
    gold, answer = rng.choice(
        (
            (f"{a}x^2+{b}x-{c}", f"-{c}+{b}x+{other}x^{{2}}"),
            (rf"{a}+{b}\sqrt{{{c}}}", rf"{b}\sqrt{{{c}}}+{other}"),
            (rf"\frac{{{a}\pi}}{{{b}}}", rf"\frac{{{other}}}{{{b}}}\pi"),
            (rf"\frac{{{a}x+{b}}}{{{c}}}", rf"\frac{{{other}x}}{{{c}}}+\frac{{{b}}}{{{c}}}"),
            (rf"({a},{b}\sqrt{{{c}}})", rf"({other}, {b}\sqrt{{{c}}})"),
            (rf"\left[{a}, {a + b}\pi\right)", rf"[{other}, \pi\cdot {a + b})"),
            (rf"{a}e^{{{b}x}}", rf"e^{{{b}x}}\cdot {other}"),
            (rf"\ln({a})+{d}", rf"{d}+\ln({other})"),
        )
    )
    return gold, answer, other == a


def poison(rng: random.Random) -> list[str]:
    """One hostile answer of each family, with random parameters."""
    a, b, c = (rng.randint(2, 99) for _ in range(3))
    big, digits = rng.randint(10**8, 10**9), "".join(rng.choice("123456789") for _ in range(60))
    half = "".join(rng.choice("0123456789") for _ in range(rng.randint(100, 400)))
    return [
        f"{a}^{{{b}^{{{c}^{{{a}}}}}}}",
        f"{a}^{b}^{c}^{a}",
        f"10^{{10^{{{a}}}}}",
        "10**10**8",
        f"(({a}!)!)!",
        f"{a}!!!!",
        rf"\binom{{10^{{9}}+{a}}}{{5\cdot10^{{8}}}}",
        rf"\binom{{{big}}}{{{big // 2}}}",
        "7" * rng.randint(900, 1_000_000),
        digits * 84,
        r"\frac{1}{1+" * 3000 + str(a) + "}" * 3000,
        r"\frac{1}{" * 45 + str(a) + "}" * 45,
        "(" * 2000 + str(a) + ")" * 2000,
        "(" * 60 + str(a) + ")" * 60,
        rf"\sum_{{k=1}}^{{10^{{9}}}} \frac{{{a}}}{{k^{b}}}",
        rf"\prod_{{k=1}}^{{{big}}} k",
        rf"\int_0^{{\infty}} \frac{{\sin(x^{a})\ln(x+{b})}}{{\sqrt{{x^{c}+1}}}}\,dx",
        r"\int_0^1 x^{x^{x^{x}}} dx",
        r"\{" + ",".join(str(k * a) for k in range(3000)) + r"\}",
        r"\{" + ",".join(str(k) for k in range(a, a + 150)) + r"\}",
        r"\begin{pmatrix}" + r"\\".join("&".join([str(a)] * 40) for _ in range(40)) + r"\end{pmatrix}",
        r"\begin{vmatrix}" + r"\\".join("&".join([str(b)] * 12) for _ in range(12)) + r"\end{vmatrix}",
        rf"{a}^{{10^{{18}}}} \bmod {big}",
        rf"\gcd({half * 100}, {half * 99})",
        rf"\gcd({big}^{{99}}, {big}^{{98}})",
        "0." + "3" * 100_000,
        rf"\lim_{{n\to\infty}} \sum_{{k=1}}^n \frac{{n}}{{n^2+{a}k^2}}",
        rf"\frac{{{big}!}}{{{big - 2}!}}",
        rf"\det\begin{{pmatrix}}{a}&1\\1&{b}\end{{pmatrix}}^{{{big}}}",
        f"{a}^{{{big}}}",
        f"(x+{a})^{{{rng.randint(10_000, 99_999)}}}",
        f"{a}\\cdot{b}\\cdot{c}" * 60,
        "-" * 999,
        "+-" * 400 + str(a),
        r"\sqrt{" * 300 + str(a) + "}" * 300,
        r"\sqrt" * 400 + str(a),
        r"\boxed{" * 20_000,
        "{" * 990,
        "|" * 901,
        r"\left(" * 500,
        f"{a}" + "\u200b" * 900,
        "\u0301" * 900 + str(a),
        "\u0661" * 50,
        "\u202e" + str(a),
        "\ud800",
        f"{a} " * 333,
        f"{a}e{big}",
        r"\frac" * 300 + str(a),
        rf"e^{{\ln({big}^{{{b}}})}}",
        rf"\sin(\cos(\tan({a}^{{{b}}})))^{{{c}}}",
        ",".join([str(a)] * 400),
    ]


ARMED = (
    ("e^{x^2}", "9^{9^{99}}"),
    ("2^{100}", "((((9^{99})^{99})^{99})^{99})^{99}"),
    (r"\binom{n}{2}", r"\binom{999999999}{499999999}"),
    ("x^2+1", "(x+1)^{99}(x+2)^{99}(x+3)^{99}(x-1)^{99}"),
    ("x^{100}-1", "(x^2+1)^{999}-(x+3)^{998}"),
    (r"\sin x+1", "+".join(rf"\sin({k} x)\cos({k + 1} x)" for k in range(1, 15))),
    (r"\frac{1}{x+1}", "+".join(rf"\frac{{{k}}}{{x+{k}}}" for k in range(1, 40))),
    ("y=x^2+1", "(y-x)^{99}=(x+1)^{98}+y^{97}"),
)
"""Golds that permit what their hostile answer needs, so that it passes the gate and its worker must be killed."""


def mixed(count: int, seed: int) -> list[Row]:
    """Honest rows, one in ten hostile, and of those one in ten armed."""
    rng, supply, rows = random.Random(seed), list[str](), list[Row]()
    for index in range(count):
        if index % 10 != 9:
            rows.append(symbolic(rng))
        elif index % 100 == 99:
            rows.append((*ARMED[index // 100 % len(ARMED)], None))
        else:
            supply = supply or rng.sample(poison(rng), len(poison(rng)))
            rows.append((symbolic(rng)[0], supply.pop(), None))
    return rows


def wrongs(judge: MathJudge, rows: list[Row]) -> list[tuple[Row, Reason]]:
    """The rows whose verdict is not the one that they were made for."""
    verdicts = judge.judge_many((gold, answer, "") for gold, answer, _ in rows)
    found = []
    for row, verdict in zip(rows, verdicts, strict=True):
        right = row[2]
        if verdict.reason not in SAFE if right is None else (verdict.reason is Reason.CORRECT) != right:
            found.append((row, verdict.reason))
    return found


@contextmanager
def killed_at_random(judge: MathJudge, per_second: float, seed: int) -> Iterator[list[int]]:
    """Kill workers, and sometimes the fork server, at random moments."""
    rng, over, killed = random.Random(seed), threading.Event(), list[int]()

    def kill() -> None:
        while not over.wait(rng.expovariate(per_second)):
            server, *workers = judge.workers() or (None,)
            target = rng.choice(workers) if workers and rng.random() < 0.97 else server if workers else None
            if target is not None:
                with suppress(ProcessLookupError):
                    os.kill(target, signal.SIGKILL)
                    killed.append(target)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_every_family_of_poison_is_refused_without_an_armed_gold() -> None:
    with MathJudge(workers=2) as judge:
        rows: list[Row] = [("x^2+1", answer, None) for answer in poison(random.Random(0))]
        assert wrongs(judge, [*rows, (*ARMED[0], None)]) == []


@pytest.mark.nightly
def test_poison_changes_no_other_row_and_leaves_no_process() -> None:
    with MathJudge(workers=2) as judge:
        assert wrongs(judge, mixed(2_000, seed=1)) == []
        pids = judge.workers()
    assert gone(*pids)


@pytest.mark.nightly
def test_kills_change_no_verdict() -> None:
    rng = random.Random(2)
    rows = [symbolic(rng) for _ in range(1_500)]
    with MathJudge(workers=2) as judge, killed_at_random(judge, per_second=1.0, seed=3) as killed:
        assert wrongs(judge, rows) == []
    assert len(killed) >= 10


@pytest.mark.nightly
def test_an_armed_answer_ends_at_its_deadline() -> None:
    with MathJudge(workers=1) as judge:
        assert {judge.judge(*pair).reason for pair in ARMED} <= SAFE
        assert judge.counters["killed"] >= 6


@pytest.mark.nightly
def test_a_reward_pays_every_row_what_it_is_worth_beside_poison() -> None:
    rng = random.Random(5)
    rows = [(*row, float(row[2] or 0.0)) for row in mixed(1_000, seed=5)]
    texts = [rng.choice(("<think>so</think> <answer>{}</answer>", "so it is $\\boxed{{{}}}$")) for _ in rows]
    completions = [text.format(answer) for text, (_, answer, _, _) in zip(texts, rows, strict=True)]
    paid = agon_judge.math_reward(completions, answer=[gold for gold, *_ in rows])
    assert [row for row, one in zip(rows, paid, strict=True) if one != row[3]] == []
    assert agon_judge.math_reward([r"\boxed{7}"], answer=[r"\aleph_0"]) == [None]
