"""What do hostile answers cost? 20,000 verifications, 5% of them poison: time, verdicts, memory, orphans, kills.

1. A clean run and a run with poison, alternating, twice each: every poison row must end as timeout or unparsable,
   healthy rows must be labelled correctly and the same in all runs, and the poisoned run may take three times as long.
   One poison row in a hundred is made for its gold, so that the gate lets it pass and its worker has to be killed.
2. The rows that hang a worker, one by one: CPU seconds that the worker had used when it was killed.
3. Throughput per core against bare math-verify on clean rows, 20 interleaved pairs of chunks, in CPU seconds of all
   processes; over all rows, and over the rows that needed a worker.
4. The clean run again while workers and the fork server are killed at random: no verdict may change.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _lib import arguments, ratio_interval, verdict
from agon_judge.math.judge import MathJudge, decide
from agon_judge.math.probes import row
from agon_judge.verdict import Reason, Verdict
from math_gold import retypeset, rows

Triple = tuple[str, str, str]
SAFE = {Reason.TIMEOUT, Reason.UNPARSABLE}
TICK = os.sysconf("SC_CLK_TCK")


def clean_rows(count: int, seed: int) -> tuple[list[Triple], list[bool | None]]:
    """Ordinary answers: the gold, the gold in other typesetting, the gold with one digit changed, another gold.

    Two rows in five are from MATH-500, two from all problems, and one has a symbolic gold made here, with the same
    value in other notation or a value near it, so that only a worker can decide it. The second list says whether a
    row is right, if that is known from how it was made.
    """
    problems, rng = rows(), random.Random(seed)
    hard, triples = problems[:500], []
    truth: list[bool | None] = []
    for index in range(count):
        if index % 5 == 4:
            triple, right = symbolic(rng)
            triples.append(triple)
            truth.append(right)
            continue
        question, gold = rng.choice(hard if index % 2 else problems)
        other = rng.choice(hard if index % 2 else problems)[1]
        near = gold[:-1] + rng.choice("123456789") if gold[-1:].isdigit() else gold + "+1"
        kind = rng.randrange(4)
        triples.append((question, gold, (gold, retypeset(gold), near, other)[kind]))
        truth.append(True if kind < 2 else False if kind == 2 and near != gold else None)
    return triples, truth


def symbolic(rng: random.Random) -> tuple[Triple, bool]:
    """A gold with letters, roots or pi, and an answer with the same value (True) or a near one (False)."""
    a, b, c, d = (rng.randint(2, 99) for _ in range(4))
    other = a if rng.random() < 0.5 else a + 1
    triple = rng.choice(
        (
            ("", f"{a}x^2+{b}x-{c}", f"-{c}+{b}x+{other}x^{{2}}"),
            ("", rf"{a}+{b}\sqrt{{{c}}}", rf"{b}\sqrt{{{c}}}+{other}"),
            ("", rf"\frac{{{a}\pi}}{{{b}}}", rf"\frac{{{other}}}{{{b}}}\pi"),
            ("", rf"\frac{{{a}x+{b}}}{{{c}}}", rf"\frac{{{other}x}}{{{c}}}+\frac{{{b}}}{{{c}}}"),
            ("", rf"({a},{b}\sqrt{{{c}}})", rf"({other}, {b}\sqrt{{{c}}})"),
            ("", rf"\left[{a}, {a + b}\pi\right)", rf"[{other}, \pi\cdot {a + b})"),
            ("", rf"{a}e^{{{b}x}}", rf"e^{{{b}x}}\cdot {other}"),
            ("", rf"\ln({a})+{d}", rf"{d}+\ln({other})"),
        )
    )
    return triple, other == a


def poison(rng: random.Random) -> list[str]:
    """One hostile answer of each family, with random parameters (M1 to M16 of the hostile list, and similar ones)."""
    a, b, c = (rng.randint(2, 99) for _ in range(3))
    big, digits = rng.randint(10**8, 10**9), "".join(rng.choice("123456789") for _ in range(60))
    half = "".join(rng.choice("0123456789") for _ in range(rng.randint(100, 400)))
    return [
        f"{a}^{{{b}^{{{c}^{{{a}}}}}}}",
        f"{a}^{b}^{c}^{a}",
        f"10^{{10^{{{a}}}}}",
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
        "\uff11" * 50,
        "\u202e" + str(a),
        f"{a} " * 333,
        f"{a}e{big}",
        r"\frac" * 300 + str(a),
        rf"e^{{\ln({big}^{{{b}}})}}",
        rf"\sin(\cos(\tan({a}^{{{b}}})))^{{{c}}}",
        ",".join([str(a)] * 400),
    ]


def armed() -> list[tuple[str, str]]:
    """Golds that permit what their hostile answer needs, so that it passes the gate and must be killed."""
    return [
        ("e^{x^2}", "9^{9^{99}}"),
        ("2^{100}", "((((9^{99})^{99})^{99})^{99})^{99}"),
        (r"\binom{n}{2}", r"\binom{999999999}{499999999}"),
        ("x^2+1", "(x+1)^{99}(x+2)^{99}(x+3)^{99}(x-1)^{99}"),
        ("x^{100}-1", "(x^2+1)^{999}-(x+3)^{998}"),
        (r"\sin x+1", "+".join(rf"\sin({k} x)\cos({k + 1} x)" for k in range(1, 15))),
        (r"\frac{1}{x+1}", "+".join(rf"\frac{{{k}}}{{x+{k}}}" for k in range(1, 40))),
        ("y=x^2+1", "(y-x)^{99}=(x+1)^{98}+y^{97}"),
    ]


def poisoned(clean: list[Triple], share: float, seed: int) -> tuple[list[Triple], frozenset[int]]:
    """The clean rows with a share of the answers replaced by poison, and the indices of those rows."""
    rng, toxic = random.Random(seed), list(clean)
    places = rng.sample(range(len(toxic)), int(share * len(toxic)))
    supply: list[str] = []
    for index, place in enumerate(places):
        supply = supply or poison(rng)
        gold, answer = armed()[index // 100 % len(armed())] if index % 100 == 0 else (toxic[place][1], supply.pop())
        toxic[place] = (toxic[place][0], gold, answer)
    return toxic, frozenset(places)


@dataclass(frozen=True)
class Run:
    """The results and costs of one pass over the rows; `left` are processes that outlived the judge."""

    verdicts: list[Verdict]
    wall: float
    cpu: float
    counters: dict[str, int]
    peak: int
    left: list[int]


def run(triples: list[Triple]) -> Run:
    """One pass with a new judge, while memory and processes are watched."""
    with watched(MathJudge(workers=2)) as (judge, usage):
        judge.judge_many([row("", "1+x", "x+1")])
        wall, cpu = time.perf_counter(), time.process_time() + tree_cpu(judge)
        verdicts = judge.judge_many(row(*triple) for triple in triples)
        wall, cpu = time.perf_counter() - wall, time.process_time() + tree_cpu(judge) - cpu
        counters = judge.counters
    left = [pid for pid in usage.pids if stat(pid)[0] not in "0ZX"]
    return Run(verdicts, wall, cpu, counters, usage.peak, left)


@dataclass
class Usage:
    """Peak resident memory and the ids of all processes that a verifier has had."""

    peak: int = 0
    pids: set[int] = field(default_factory=set)


@contextmanager
def watched(judge: MathJudge) -> Iterator[tuple[MathJudge, Usage]]:
    """Sample the memory and the process ids of a verifier until it is closed."""
    usage = Usage()
    over = threading.Event()

    def sample() -> None:
        while not over.wait(0.1):
            pids = judge.workers()
            usage.pids.update(pids)
            usage.peak = max(usage.peak, sum(map(resident, pids)))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield judge, usage
    finally:
        judge.close()
        over.set()
        thread.join()


def stat(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return ["0"] * 40


def resident(pid: int) -> int:
    return int(stat(pid)[21]) * os.sysconf("SC_PAGE_SIZE")


def tree_cpu(judge: MathJudge) -> float:
    """CPU seconds of the fork server, its dead children and its living ones."""
    server, *workers = [stat(pid) for pid in judge.workers()]
    ticks = sum(int(server[place]) for place in (11, 12, 13, 14)) + sum(int(w[11]) + int(w[12]) for w in workers)
    return ticks / TICK


def kill_times(judge: MathJudge, count: int) -> list[float]:
    """CPU seconds that armed answers used before their worker was killed."""
    times = []
    for gold, answer in armed()[:count]:
        before = tree_cpu(judge)
        result = judge.judge_many([row("", gold, answer)])[0]
        if result.reason is Reason.TIMEOUT:
            times.append(round(tree_cpu(judge) - before, 2))
    return times


def bare(triples: list[Triple]) -> float:
    """CPU seconds of math-verify used as in its manual, with its own timers, in this process."""
    from math_verify import parse, verify

    start = time.process_time()
    for _, gold, answer in triples:
        verify(parse(f"${gold}$"), parse(rf"\boxed{{{answer}}}"))
    return time.process_time() - start


def ours(judge: MathJudge, triples: list[Triple]) -> float:
    """CPU seconds of all processes for the same rows."""
    start = time.process_time() + tree_cpu(judge)
    judge.judge_many([row(*triple) for triple in triples])
    return time.process_time() + tree_cpu(judge) - start


def throughput(judge: MathJudge, triples: list[Triple], pairs: int, size: int) -> tuple[float, float, float]:
    """Rows per CPU second, ours over bare, with an interval over interleaved pairs of chunks."""
    theirs, mine = [], []
    ours(judge, triples[-size:])
    bare(triples[-size:])
    for index in range(pairs):
        chunk = triples[index * size : (index + 1) * size]
        theirs.append(bare(chunk))
        mine.append(ours(judge, chunk))
    return ratio_interval(theirs, mine)


def under_fire(triples: list[Triple], seed: int) -> tuple[list[Verdict], int]:
    """Verdicts while a thread kills workers, and sometimes the fork server, at random moments."""
    rng, over, kills = random.Random(seed), threading.Event(), 0

    def kill_at_random() -> None:
        nonlocal kills
        while not over.wait(rng.expovariate(3)) and kills < len(triples) / 10:
            server, *workers = judge.workers() or (0,)
            target = rng.choice(workers) if workers and rng.random() < 0.97 else server if workers else 0
            if target:
                with suppress(ProcessLookupError):
                    os.kill(target, signal.SIGKILL)
                    kills += 1

    with MathJudge(workers=2) as judge:
        killer = threading.Thread(target=kill_at_random)
        killer.start()
        verdicts = judge.judge_many(row(*triple) for triple in triples)
        over.set()
        killer.join()
    return verdicts, kills


def differing(one: list[Verdict], other: list[Verdict], skip: frozenset[int] = frozenset()) -> int:
    """Rows with different verdicts."""
    return sum(a != b for index, (a, b) in enumerate(zip(one, other, strict=True)) if index not in skip)


@dataclass(frozen=True)
class Figures:
    """What part 1 measured."""

    time_ratio: float
    cpu_ratio: float
    rows: int
    poison: int
    poison_reasons: dict[str, int]
    poison_unsafe: int
    healthy_mislabelled: int
    healthy_changed: int
    counters: dict[str, int]
    peak_mib: int
    left_alive: int

    @property
    def safe(self) -> bool:
        bad = self.poison_unsafe + self.healthy_mislabelled + self.healthy_changed + self.left_alive
        return self.peak_mib < 6 << 10 and bad == 0


def contrast(clean: list[Triple], truth: list[bool | None], rounds: int) -> tuple[list[Verdict], Figures]:
    """Part 1: the reference verdicts, and the figures."""
    toxic, places = poisoned(clean, 0.05, seed=2)
    plain, poisoned_runs = [], []
    for _ in range(rounds):
        plain.append(run(clean))
        poisoned_runs.append(run(toxic))
    reference, verdicts = plain[0].verdicts, poisoned_runs[0].verdicts
    unsafe = [(toxic[i], verdicts[i]) for i in sorted(places) if verdicts[i].reason not in SAFE]
    known = [(clean[i], reference[i]) for i, right in enumerate(truth) if right not in (None, reference[i].correct)]
    changed = sum(differing(reference, toxic_run.verdicts, places) for toxic_run in poisoned_runs)
    figures = Figures(
        time_ratio=round(sum(r.wall for r in poisoned_runs) / sum(r.wall for r in plain), 3),
        cpu_ratio=round(sum(r.cpu for r in poisoned_runs) / sum(r.cpu for r in plain), 3),
        rows=len(clean),
        poison=len(places),
        poison_reasons=dict(Counter(verdicts[i].reason.value for i in places)),
        poison_unsafe=len(unsafe),
        healthy_mislabelled=len(known),
        healthy_changed=changed,
        counters=poisoned_runs[0].counters,
        peak_mib=max(r.peak for r in plain + poisoned_runs) >> 20,
        left_alive=sum(len(r.left) for r in plain + poisoned_runs),
    )
    print(f"reference verdicts: {dict(Counter(v.reason.value for v in reference))}")
    print(*(f"    {triple[1]!r}, {triple[2][:60]!r}: {v}" for triple, v in (unsafe + known)[:20]), sep="\n")
    print(*(f"{name}: {value}" for name, value in asdict(figures).items()), sep="\n")
    return reference, figures


@dataclass(frozen=True)
class Speed:
    """What part 3 measured: ratios with their intervals."""

    throughput_ratio: list[float]
    throughput_ratio_worker_rows: list[float]
    pairs: int


def speed(judge: MathJudge, clean: list[Triple], pairs: int, size: int) -> Speed:
    """Part 3: throughput per core, over all rows and over those that need a worker."""
    unsettled = [triple for triple in dict.fromkeys(clean) if decide(triple[1], triple[2], triple[0]) is None]
    share = sum(decide(gold, answer, question) is None for question, gold, answer in clean) / len(clean)
    worked = throughput(judge, unsettled, pairs, size // 4)
    everything = throughput(judge, list(reversed(clean)), pairs, size)
    for (middle, low, high), which in ((everything, "all rows"), (worked, f"rows that need a worker ({share:.0%})")):
        print(f"throughput per core, ours over bare math-verify, {which}: {middle:.2f} [{low:.2f}, {high:.2f}]")
    return Speed([round(x, 3) for x in everything], [round(x, 3) for x in worked], pairs)


def main() -> None:
    args = arguments(__doc__ or "")
    count, rounds, pairs, size, armed_ones = (400, 1, 4, 32, 1) if args.quick else (20_000, 2, 20, 200, len(armed()))
    clean, truth = clean_rows(count, seed=1)
    reference, figures = contrast(clean, truth, rounds)
    with MathJudge(workers=1) as judge:
        ratios = speed(judge, clean, pairs, size)
        killed_at = kill_times(judge, armed_ones)
    print(f"CPU seconds of rows that were killed: {killed_at}")
    fired, kills = under_fire(clean[:100] if args.quick else clean, seed=3)
    disturbed = differing(reference[: len(fired)], fired)
    print(f"{kills} kills at random: {disturbed} of {len(fired)} verdicts changed")
    in_time = args.quick or (figures.time_ratio <= 3 and max(killed_at) < 2.5)  # quick runs beside other work
    goal = {"time_ratio": "<= 3", "poison_unsafe": 0, "healthy_mislabelled": 0, "left_alive": 0, "changed_by_kills": 0}
    measured = {**asdict(figures), "changed_by_kills": disturbed}
    verdict(
        "hostile answers cannot hang, corrupt or slow the math verifier beyond 3x",
        {name: measured[name] for name in goal},
        goal,
        holds=figures.safe and in_time and disturbed == 0 and len(killed_at) == armed_ones,
        **asdict(figures),
        **asdict(ratios),
        killed_at_cpu_seconds=killed_at,
        random_kills=kills,
        seeds=[1, 2, 3],
    )


if __name__ == "__main__":
    main()
