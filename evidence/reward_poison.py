"""2,000 rows through `agon_judge.math_reward`, one in ten poison, where neither agon nor torch is installed.

The wheel of agon-judge is installed in an environment of its own (with --quick: 200 rows, beside the packages that are
here, with agon and torch blocked). Rows are ordinary answers whose verdict is known from how they were made, golds that
cannot be read, and poison: forms that hang or crash a parser, and huge texts. Claim: a reward for every row, none
mislabelled; right is 1.0, wrong and poison 0.0, a gold that cannot be read None.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _lib import arguments, verdict
from wheel_install import BLOCKED, HEAVY, build, environment

EXTRA_SOURCES = ("packages/judge/pyproject.toml", "packages/judge/src", "evidence/wheel_install.py")
ROWS, QUICK = 2_000, 200
JOB = (
    BLOCKED.rpartition("from {package}")[0].format(heavy=", ".join(map(repr, HEAVY)))
    + """
import json, random, time
import agon_judge

count, rng, rows = int(sys.argv[1]), random.Random(0), []
POISON = [
    "9^{9^{9^{9}}}", "10**10**8", "(1+x)^{100000}", "1000000!", "\\\\sqrt{" * 300, "(" * 5000, "9" * 60000, "a" * 60000,
    "<answer>" * 7000, "\\\\frac{1}{" * 500, "\\\\int_0^1 x^{x^{x^{x}}} dx", "\\\\sum_{n=1}^{10^{9}} n^{n}",
    "\\\\boxed{" * 2000, "x" + "^{x" * 200 + "}" * 200, "\\ud800", "1e999999999", "\\\\binom{10^9}{5\\\\cdot 10^8}",
]
while len(rows) < count:
    a, b, c = (rng.randint(2, 99) for _ in range(3))
    kind = len(rows) % 10
    if kind == 9:
        poison = rng.choice(POISON)
        gold = rng.choice([str(a), f"{a}x^2+{b}", f"\\\\frac{{{a}}}{{{b}}}"])
        rows.append((gold, f"<think>so</think> <answer>{poison}</answer>", 0.0))
        continue
    if kind == 8:
        rows.append(("\\\\aleph_0", f"\\\\boxed{{{a}}}", None))
        continue
    gold, same, near = rng.choice([
        (str(a * b), f"{a * b}.0", str(a * b + 1)),
        (f"{a}x^2+{b}x-{c}", f"-{c}+{b}x+{a}x^{{2}}", f"-{c}+{b}x+{a + 1}x^{{2}}"),
        (f"{a}+{b}\\\\sqrt{{{c}}}", f"{b}\\\\sqrt{{{c}}}+{a}", f"{b}\\\\sqrt{{{c}}}+{a + 1}"),
        (f"({a},{b + 100})", f"({a}, {b + 100})", f"({b + 100},{a})"),
    ])
    right = rng.random() < 0.5
    answer = same if right else near
    text = rng.choice([f"<think>so</think> <answer>{answer}</answer>", f"so it is $\\\\boxed{{{answer}}}$"])
    rows.append((gold, text, float(right)))
began = time.monotonic()
rewards = agon_judge.math_reward([text for _, text, _ in rows], answer=[gold for gold, _, _ in rows])
wrong = [(row, paid) for row, paid in zip(rows, rewards) if paid != row[2]]
print(json.dumps({"rows": len(rows), "rewards": len(rewards), "mislabelled": len(wrong),
                  "first": [repr(item)[:200] for item in wrong[:5]], "took_s": round(time.monotonic() - began, 1),
                  "poison": sum(index % 10 == 9 for index in range(len(rows)))}))
"""
)


def main() -> None:
    quick = arguments(str(__doc__)).quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        wheels = build(folder)
        python, variables = environment([wheels["agon_judge"]], folder / "alone", sys.executable, quick)
        command = [python, "-c", JOB, str(QUICK if quick else ROWS)]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        brought = [
            package
            for package in (() if quick else ("agon", "torch"))
            if not subprocess.run([python, "-c", f"import {package}"], env=variables, capture_output=True).returncode
        ]
    if done.returncode:
        print(done.stderr[-3000:])
        verdict("every row gets its reward", {"exit": done.returncode}, {"exit": 0}, False)
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    wanted = QUICK if quick else ROWS
    verdict(
        "math_reward labels every row rightly beside poison, without agon and torch",
        {"lost": wanted - found["rewards"], "mislabelled": found["mislabelled"], "brought": brought},
        {"lost": 0, "mislabelled": 0, "brought": []},
        found["rewards"] == wanted and not found["mislabelled"] and not brought,
        **{key: found[key] for key in ("rows", "poison", "first", "took_s")},
    )


if __name__ == "__main__":
    main()
