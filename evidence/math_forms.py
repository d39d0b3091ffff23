"""Which forms of an answer does the math verifier pay: right and wrong ones, universal answers, the question itself?

1. math_forms.jsonl: right answers in other forms, and wrong or odd ones, written by hand. A right form that the rules
   of docs/verifiers.md exclude carries the rule, and so does an odd one that is only another spelling of the gold. At
   least 95% of the other right forms must be paid, and no other wrong one. There are three lists: the rules were made
   on the first, so its rate says little; the fresh one was written without them; the one with questions has answers to
   tasks of rewriting, worked out and half worked out, and was written along with the rule that it tests. The rate of
   each is also printed without exclusions, beside that of the commit before this rule.
2. Answers that a careless rule takes for anything, against every gold of MATH-500: none may be paid.
3. Every expression of every question of MATH-500, and its sides, in disguises that need no work, and with one number or
   power respelled: none may be paid.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from _lib import arguments, cannot_run, data_dir, verdict
from agon.types import Reason
from agon.verify import Verifier, load_verifier
from agon.verify.math.notation import plain_words
from agon.verify.math.probes import Probe, row
from agon.verify.math.spelling import canonical

EXTRA_SOURCES = ("evidence/math_forms.jsonl",)
LEAST = 0.95
BEFORE = {
    "commit": "0273ae8",
    "right_paid": {"first": "665 of 710", "fresh": "125 of 128", "rewriting": "94 of 95"},
    "wrong_paid": "47, all of them half worked out",
    "problems_restated_paid": "6 of 500",
}
"""The same measurements on the commit before answers had to be about as simple as the gold."""
LISTS = ("first", "fresh", "rewriting")
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
_MATHEMATICS = re.compile(r"\$\$?([^$]{2,200})\$|\\\[(.{2,200}?)\\\]", re.DOTALL)
_AROUND = r"""
%s ;; (%s) ;; ((%s)) ;; [%s] ;; {%s} ;; {{%s}} ;; \left(%s\right) ;; \{%s\} ;; %s+0 ;; 0+%s ;; %s-0 ;; %s\cdot 1
1\cdot %s ;; 1(%s) ;; (%s)(1) ;; (%s)/1 ;; \frac{%s}{1} ;; (%s)^1 ;; -(-(%s)) ;; %s\text{ units} ;; %s units ;; %s \pm 0
x=%s ;; y=%s ;; f(x)=%s ;; \frac{2(%s)}{2} ;; %s+x-x ;; \sqrt{(%s)^2} ;; \text{answer}=%s
"""
_NUMBER = re.compile(r"(?<![\d.^{_\\a-z])(\d+)(?![\d.,])")
_POWERS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"(?<!\d)([2-9]|\d\d+)([a-z])(?![a-z])", lambda m: f"({int(m[1]) - 1}{m[2]}+{m[2]})"),
    (r"([a-z])\^\{?2\}?(?!\d)", lambda m: m[1] + m[1]),
    (r"([a-z])\^\{?2\}?(?!\d)", lambda m: rf"{m[1]}\cdot {m[1]}"),
    (r"([a-z])\^\{?([3-9])\}?(?!\d)", lambda m: f"{m[1]}^{int(m[2]) - 1}{m[1]}"),
    (r"([a-z])\^\{?([3-9])\}?(?!\d)", lambda m: m[1] * int(m[2])),
    (r"([a-z])([a-z])", lambda m: m[2] + m[1]),
)
_INSIDE = (
    ("()", "[]"),
    ("x", "{x}"),
    ("-", "+-"),
    ("-", "+ -"),
    ("^2", "^{2.0}"),
    ("^2", "^{2}"),
    ("+", "+0+"),
    (" ", ""),
)


@dataclass(frozen=True)
class Form:
    """An answer in one form: whether it is right, whether it is to be paid, and the rule when these differ."""

    gold: str
    answer: str
    kind: str
    expected: str
    policy: str
    list: str = "first"
    question: str = ""

    @property
    def probe(self) -> Probe:
        return (self.question, self.gold, self.answer)


def forms() -> list[Form]:
    """The table of forms."""
    lines = Path(__file__).with_suffix(".jsonl").read_text().splitlines()
    return [Form(**json.loads(line)) for line in lines]


def problems() -> list[tuple[str, str, str]]:
    """Id, question and gold of MATH-500."""
    folder = data_dir()
    if folder is None:
        cannot_run("no data: set AGON_DATA to a folder with math500/")
    records = map(json.loads, (folder / "math500" / "test.jsonl").read_text().splitlines())
    return [(record["unique_id"], record["problem"], record["answer"]) for record in records]


def universal(golds: list[str]) -> list[Probe]:
    """Every universal answer to every gold that it does not spell; `B` is no universal answer to `\\text{(B)}`."""
    answers = [answer for line in UNIVERSAL.strip().splitlines() for answer in line.split(" ;; ")]
    return [("", gold, answer) for gold in golds for answer in answers if plain_words(answer) != plain_words(gold)]


def restated(question: str, gold: str) -> list[Probe]:
    """The expressions of a question and their sides, unless they are the gold as it is written, in every disguise."""
    texts = [part for groups in _MATHEMATICS.findall(question) for part in groups if part]
    sides = {side for text in texts for side in (text, text.split("=")[-1], text.split("=")[0])}
    parts = {part for side in sides if len(part := side.strip().rstrip(".?,= ")) > 1}
    parts = {part for part in parts if canonical(part) != canonical(gold)}
    answers = {answer for part in parts for answer in (*disguises(part), *respellings(part))}
    return [(question, gold, answer) for answer in sorted(answers) if canonical(answer) != canonical(gold)]


def disguises(text: str) -> Iterator[str]:
    """The same expression in other texts, made without any mathematics."""
    yield from (pattern.replace("%s", text) for line in _AROUND.strip().splitlines() for pattern in line.split(" ;; "))
    yield text.replace("(", "[").replace(")", "]")
    yield from (text.replace(old, new) for old, new in _INSIDE if old in text)
    yield re.sub(r"\\d?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", text)
    for sign, pattern in (
        ("+", r"([^+]+)\+([^+]+)"),
        (r"\cdot ", r"(.+)\\cdot(.+)"),
        ("", r"(\([^()]*\))(\([^()]*\))"),
    ):
        if match := re.fullmatch(pattern, text.replace(" ", "")):
            yield match[2] + sign + match[1]


def respellings(text: str) -> Iterator[str]:
    """The same expression with one number or power spelled differently, or with terms that cancel."""
    for match in [*_NUMBER.finditer(text)][:4]:
        n = int(match[1])
        numbers = [f"({n - 1}+1)", f"({n + 1}-1)", rf"\frac{{{2 * n}}}{{2}}", f"(-(-{n}))", f"{n}.0", f"{n}^1"]
        numbers += [rf"(2\cdot {n // 2})"] if n > 2 and n % 2 == 0 else []
        yield from (text[: match.start()] + number + text[match.end() :] for number in numbers if n)
    for pattern, replacement in _POWERS:
        if match := re.search(pattern, text):
            yield text[: match.start()] + replacement(match) + text[match.end() :]
    if match := re.fullmatch(r"\(([^()]*)\)\(([^()]*)\)(.*)", text.replace(" ", "")):
        terms = re.findall(r"[+-]?[^+-]+", match[1])
        yield "+".join(f"{term}({match[2]})" for term in terms).replace("+-", "-").replace("++", "+") + match[3]
    yield from (f"{text}+1-1", rf"\frac12({text})+\frac12({text})", f"2({text})-({text})", f"-(-({text}))")


def paid(verifier: Verifier, probes: list[Probe]) -> list[Probe]:
    """The answers that are paid; a row that could not be graded is an error of the measurement."""
    verdicts = verifier.verify_many(row(*probe) for probe in probes)
    ungraded = [probe for probe, v in zip(probes, verdicts, strict=True) if v.reason in (Reason.INFRA, Reason.BAD_GOLD)]
    if ungraded:
        sys.exit(f"{len(ungraded)} rows could not be graded, the first: {ungraded[0]}")
    return [probe for probe, v in zip(probes, verdicts, strict=True) if v.correct]


def counts(right: list[Form], name: str, payments: set[Probe]) -> tuple[int, int]:
    """How many right forms of a list are paid, and how many there are."""
    listed = [form for form in right if form.list == name]
    return sum(form.probe in payments for form in listed), len(listed)


def show(title: str, total: int, found: list[Form] | list[Probe]) -> None:
    print(f"{title}: {len(found)} of {total}")
    for item in found[:40]:
        gold, answer = (item.gold, item.answer) if isinstance(item, Form) else item[1:]
        print(f"    gold {gold!r}, answer {answer!r}")


def main() -> None:
    args = arguments(__doc__ or "")
    table, everything = forms(), problems()
    golds = sorted({gold for _, _, gold in everything})
    sample = everything[::50] if args.quick else everything
    again = {name: restated(question, gold) for name, question, gold in sample}
    anything = universal(golds[::30] if args.quick else golds)
    with load_verifier("math", workers=2) as verifier:
        payments = set(paid(verifier, [form.probe for form in table]))
        anything_paid = paid(verifier, anything)
        again_paid = {name: found for name, probes in again.items() if (found := paid(verifier, probes))}

    right, wrong = ([form for form in table if form.kind == kind] for kind in ("right", "wrong"))
    excluded, harmless = (
        [form for form in some if form.policy and form.expected == expected]
        for some, expected in ((right, "refused"), (wrong, "paid"))
    )
    missed = [form for form in right if not form.policy and form.probe not in payments]
    overpaid = [form for form in wrong if not form.policy and form.probe in payments]
    stale = [form for form in (*excluded, *harmless) if (form.probe in payments) != (form.expected == "paid")]
    share = 1 - len(missed) / (len(right) - len(excluded))
    everything_right = {name: counts(right, name, payments) for name in LISTS}
    fresh = everything_right["fresh"][0] / everything_right["fresh"][1]
    print("right forms paid, nothing excluded:")
    for name, (count, total) in everything_right.items():
        before = BEFORE["right_paid"][name]
        print(f"    {name}: {count} of {total} ({count / total:.1%}); at commit {BEFORE['commit']}: {before}")
    show("right forms missed, of those that no rule excludes", len(right) - len(excluded), missed)
    print(f"right forms excluded by a rule: {len(excluded)} of {len(right)}")
    print(*(f"    {count:3} {policy}" for policy, count in Counter(f.policy for f in excluded).most_common()), sep="\n")
    show("wrong forms paid", len(wrong) - len(harmless), overpaid)
    print(f"    at commit {BEFORE['commit']}: {BEFORE['wrong_paid']}")
    print(f"odd forms that are another spelling of the gold: {len(harmless)} of {len(wrong)}")
    print(*(f"    gold {form.gold!r}, answer {form.answer!r}: {form.policy}" for form in harmless), sep="\n")
    show("forms with a rule that the verifier does not follow", len(excluded) + len(harmless), stale)
    show("universal answers paid", len(anything), anything_paid)
    rows = sum(map(len, again.values()))
    show("restated questions paid", rows, [probe for found in again_paid.values() for probe in found])
    print(f"problems that pay their own question: {len(again_paid)} of {len(again)}: {sorted(again_paid)}")
    print(f"    at commit {BEFORE['commit']}: {BEFORE['problems_restated_paid']}")
    verdict(
        "right answers are paid in other forms; wrong forms, universal answers and the question itself are not",
        {
            "right_forms_paid": round(share, 4),
            "fresh_right_forms_paid_without_exclusions": round(fresh, 4),
            "wrong_forms_paid": len(overpaid),
            "universal_paid": len(anything_paid),
            "problems_restated_paid": len(again_paid),
        },
        {
            "right_forms_paid": f">= {LEAST}",
            "fresh_right_forms_paid_without_exclusions": f">= {LEAST}",
            "wrong_forms_paid": 0,
            "universal_paid": 0,
            "problems_restated_paid": 0,
        },
        holds=min(share, fresh) >= LEAST and not (overpaid or stale or anything_paid or again_paid),
        right_forms=len(right),
        right_paid={name: f"{count} of {total}" for name, (count, total) in everything_right.items()},
        before=BEFORE,
        right_excluded_by_policy=len(excluded),
        right_missed=len(missed),
        wrong_forms=len(wrong),
        wrong_harmless_spellings=len(harmless),
        policies_not_followed=len(stale),
        universal_answers=len(anything),
        restated_answers=rows,
        problems=len(again),
    )


if __name__ == "__main__":
    main()
