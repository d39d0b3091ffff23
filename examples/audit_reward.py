"""Audit a reward before you train on it: a reward in TRL's signature with one fault, then the same reward mended.

    python examples/audit_reward.py

`sloppy` looks for the gold anywhere in the completion. It pays right answers, so a unit test passes; it also pays a
list of all numbers. The audit finds that without a model. In CI: `agon-judge audit examples/audit_reward.py:mended
--rows rows.jsonl` exits with 1 when there is a fault.
"""

import re

ROWS = [
    {"prompt": "Mia has 14 boxes of 3 pens. How many pens?", "answer": "42"},
    {"prompt": "A town of 1200 people grows by a tenth. How many people?", "answer": "1320"},
    {"prompt": "What is half of 90?", "answer": "45"},
]


def sloppy(completions: list[str], answer: list[str], **columns: object) -> list[float]:
    return [float(gold in text) for text, gold in zip(completions, answer, strict=True)]


def mended(completions: list[str], answer: list[str], **columns: object) -> list[float]:
    stated = [re.findall(r"<answer>([^<>]*)</answer>", text) for text in completions]
    return [float([each.strip() for each in found] == [gold]) for found, gold in zip(stated, answer, strict=True)]


if __name__ == "__main__":
    import agon_judge

    for reward in (sloppy, mended):
        audit = agon_judge.audit(reward, ROWS)
        print(f"{reward.__name__}: {'passed' if audit.passed else 'failed'} after {audit.calls} calls")
        for fault in audit.faults:
            shown = fault.example
            print(f"  {fault.kind}: {shown.text!r} earns {shown.reward:g}, and the gold is {shown.gold}")
