"""Does the math verifier accept its own golds, distinguish different ones, and refuse what is not an answer?

1. Every gold of MATH-500 and GSM8K must be accepted by the verifier: as written, in other typesetting, and by the
   comparison alone, without the shortcut for equal texts.
2. Random pairs of golds of different problems: those with different texts must be judged wrong; pairs that are judged
   equal are listed with the reason (the same value in two notations, checked here by other means).
3. Probes: answers that bare math-verify pays or could pay and our rules forbid; none may be paid. And the reverse: the
   gold in other spellings, which must be paid.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator

from _lib import arguments, cannot_run, data_dir, verdict
from agon.types import Reason, Verdict
from agon.verify import Verifier, load_verifier
from agon.verify.math.notation import as_words
from agon.verify.math.probes import forbidden, paid, row
from agon.verify.math.spelling import canonical
from agon.verify.workers.messages import Limits
from agon.verify.workers.pool import WorkerPool

Row = tuple[str, str]
"""Question and gold."""


def rows() -> list[Row]:
    """MATH-500 and both splits of GSM8K."""
    folder = data_dir()
    if folder is None:
        cannot_run("no data: set AGON_DATA to a folder with math500/ and gsm8k/")
    files = [folder / "math500" / "test.jsonl", folder / "gsm8k" / "test.jsonl", folder / "gsm8k" / "train.jsonl"]
    return [pair for path in files for line in path.read_text().splitlines() for pair in _rows(json.loads(line))]


def _rows(record: dict[str, str]) -> Iterator[Row]:
    if "problem" in record:
        yield record["problem"], record["answer"]
    else:
        yield record["question"], record["answer"].rpartition("####")[2].strip()


def verdicts_on(verifier: Verifier, triples: list[tuple[str, str, str]]) -> list[Verdict]:
    """Verdicts on (question, gold, answer)."""
    return verifier.verify_many(row(*triple) for triple in triples)


def retypeset(gold: str) -> str:
    """The same answer in other typesetting."""
    text = gold.replace("\\left", "").replace("\\right", "").replace("\\frac", "\\dfrac").replace(", ", ",\\,")
    return rf"$\boxed{{\displaystyle {text} }}$."


def refused(verifier: Verifier, triples: list[tuple[str, str, str]]) -> list[str]:
    """The answers that are not accepted, with the verdict."""
    return [
        f"gold {gold!r}, answer {answer!r}: {result.reason.value} {result.detail}"
        for (_, gold, answer), result in zip(triples, verdicts_on(verifier, triples), strict=True)
        if not result.correct
    ]


def by_comparison_alone(golds: list[str]) -> list[str]:
    """Golds that the comparison itself does not find equal to themselves."""
    pool = WorkerPool("agon.verify.math.equality:compare", Limits(workers=2))
    outcomes = [(gold, pool.submit(gold, gold)) for gold in golds if as_words(gold) is None]
    lines = [f"comparison alone, gold {gold!r}: {future.result()}" for gold, future in outcomes]
    pool.close()
    return [line for line in lines if "'correct'" not in line]


def self_acceptance(verifier: Verifier, problems: list[Row]) -> list[str]:
    """Golds that their own verifier does not accept, in any of three ways."""
    return [
        *refused(verifier, [(question, gold, gold) for question, gold in problems]),
        *refused(verifier, [(question, gold, retypeset(gold)) for question, gold in problems]),
        *by_comparison_alone(sorted({gold for _, gold in problems})),
    ]


def different(problems: list[Row], count: int, seed: int) -> list[tuple[str, str, str]]:
    """Random pairs (question, gold, another problem's gold) whose golds are different texts."""
    rng = random.Random(seed)
    hard = problems[:500]
    pairs: list[tuple[str, str, str]] = []
    while len(pairs) < count:
        (question, gold), (_, other) = (
            rng.choice(hard if len(pairs) % 2 else problems),
            rng.choice(rng.choice((hard, problems))),
        )
        if gold != other:
            pairs.append((question, gold, other))
    return pairs


def why_equal(gold: str, other: str) -> str:
    """An explanation of two golds judged equal that does not come from the verifier, or an empty string."""
    if canonical(gold) == canonical(other):
        return "same text but for typesetting"
    if as_words(gold) is not None and as_words(gold) == as_words(other):
        return "same words"
    numbers = [re.sub(r"\\!|[,\s$]|\\\$|\^\\circ|\\(?:text|mbox)\{[^}]*\}(?:\^2)?", "", text) for text in (gold, other)]
    plain = all(re.fullmatch(r"-?\d*\.?\d+", text) for text in numbers)
    return "same number" if plain and float(numbers[0]) == float(numbers[1]) else ""


def bare_pays(probes: list[tuple[str, str, str]]) -> int:
    """How many of the probes math-verify pays by itself."""
    from math_verify import parse, verify

    return sum(bool(verify(parse(f"${gold}$"), parse(rf"\boxed{{{answer}}}"))) for _, gold, answer in probes)


def main() -> None:
    args = arguments(__doc__ or "")
    problems = rows()
    golds = problems[:1500] if args.quick else problems
    pairs = different(problems, 2_000 if args.quick else 20_000, seed=0)
    with load_verifier("math", workers=2) as verifier:
        unaccepted = self_acceptance(verifier, golds)
        verdicts = verdicts_on(verifier, pairs)
        bad, good = forbidden(), paid()
        overpaid = [probe for probe, v in zip(bad, verdicts_on(verifier, bad), strict=True) if v.correct]
        unpaid = refused(verifier, good)

    accepted = 1 - len(unaccepted) / (3 * len(golds))
    equal = Counter((gold, other) for (_, gold, other), v in zip(pairs, verdicts, strict=True) if v.correct)
    ungraded = sum(v.reason in (Reason.BAD_GOLD, Reason.INFRA, Reason.TIMEOUT) for v in verdicts)
    unexplained = [pair for pair in equal if not why_equal(*pair)]
    wrong = len(pairs) - equal.total() - ungraded
    print(
        f"golds accepted by their own verifier, three ways each: {accepted:.4%} of {len(golds)}",
        *unaccepted,
        sep="\n    ",
    )
    print(f"pairs of different golds: {wrong} of {len(pairs)} wrong, {equal.total()} equal, {ungraded} ungraded")
    for (gold, other), times in sorted(equal.items()):
        print(f"    {gold!r} = {other!r} ({times}x): {why_equal(gold, other) or 'UNEXPLAINED'}")
    print("    reasons:", dict(Counter(v.reason.value for v in verdicts)))
    bare = bare_pays(bad)
    print(f"forbidden probes paid: {len(overpaid)} of {len(bad)} (bare math-verify: {bare})", *overpaid, sep="\n    ")
    print(f"other spellings of the gold not paid: {len(unpaid)} of {len(good)}", *unpaid, sep="\n    ")
    verdict(
        "the math verifier accepts its own golds, tells different ones apart, and pays no forbidden form",
        {"golds_accepted": accepted, "pairs_equal_unexplained": len(unexplained), "forbidden_paid": len(overpaid)},
        {"golds_accepted": ">= 0.999", "pairs_equal_unexplained": 0, "forbidden_paid": "0 of at least 60"},
        holds=accepted >= 0.999 and len(bad) >= 60 and not (unexplained or ungraded or overpaid or unpaid),
        golds=len(golds),
        golds_unaccepted=unaccepted,
        pairs=len(pairs),
        pairs_wrong=wrong,
        pairs_equal=equal.total(),
        pairs_ungraded=ungraded,
        probes_forbidden=len(bad),
        forbidden_paid_by_bare_math_verify=bare,
        probes_spelling=len(good),
        spellings_unpaid=len(unpaid),
        seed=0,
    )


if __name__ == "__main__":
    main()
