"""What the calls of a trial show: golds refused, wrong answers paid, crashes, hangs and differences between calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from agon_judge.auditing.clock import HANGS
from agon_judge.auditing.probes import LONGS, SPELLED, UNFINISHED, tolerated
from agon_judge.auditing.report import Example, Finding, Severity
from agon_judge.auditing.trial import Call, Trial

NEAR = 1e-9
EMPTY_HANDED = frozenset(["junk", "the question", *LONGS])
"""What has nothing of an answer in it counts as paid from half of what the gold earns on; a question, which may share
words with its answer, above half; anything else when it earns as much."""


@dataclass
class Found:
    """Findings as they are collected: the rows by kind, and the smallest example of each."""

    calls: dict[tuple[str, Severity], list[Call]] = field(default_factory=lambda: defaultdict(list))
    details: dict[int, str] = field(default_factory=dict)

    def fault(self, kind: str, call: Call, detail: str = "") -> None:
        self._add(kind, "fault", call, detail)

    def remark(self, kind: str, call: Call) -> None:
        self._add(kind, "remark", call, "")

    def findings(self, trial: Trial) -> tuple[Finding, ...]:
        """The faults first, then by the share of rows."""
        every = [self._finding(kind, severity, calls, trial) for (kind, severity), calls in self.calls.items()]
        return tuple(sorted(every, key=lambda each: (each.severity, -each.share, each.kind)))

    def _add(self, kind: str, severity: Severity, call: Call, detail: str) -> None:
        self.calls[kind, severity].append(call)
        self.details[id(call)] = detail or call.crash

    def _finding(self, kind: str, severity: Severity, calls: list[Call], trial: Trial) -> Finding:
        smallest = min(calls, key=lambda call: (len(call.probe.text), call.probe.row))
        row = trial.rows[smallest.probe.row]
        text = smallest.probe.text if len(smallest.probe.text) <= 500 else smallest.probe.kind
        detail = self.details.get(id(smallest), "")
        if kind == "pays a wrong answer in part":
            most = max(calls, key=lambda call: call.reward or 0.0)
            detail = f"at most {most.reward:g}, for {most.probe.answer[:60]!r}"
        example = Example(row["question"][:500], row["gold"], text, smallest.reward, detail)
        return Finding(kind, severity, len({call.probe.row for call in calls}), len(trial.rows), example)


def judge_payments(
    found: Found, calls: list[Call], golds: Sequence[str | None], full: float | None, form: bool
) -> None:
    """Golds that are refused and wrong answers that are paid; `full` is what a right answer earns, if it is known."""
    rewards = [call.reward for call in calls if call.reward is not None]
    own = {call.probe.row: call.reward for call in calls if call.probe.kind == "gold"}
    paid_golds = [reward for reward in own.values() if reward is not None]
    if full is None:
        full = max(paid_golds, default=1.0)
    if form:
        return
    if not rewards:  # a column that it misses, golds that it cannot read: nothing is known about what it pays
        silent = {call.probe.row: call for call in reversed(calls) if not call.crash}
        for call in silent.values():
            found.fault("gives no verdict on any answer", call)
        return
    lowest = min(rewards)
    middle = (full + lowest) / 2
    if own and full - lowest < NEAR:  # where all wrong answers crash, nothing is known about payments
        for row in {call.probe.row for call in calls if call.probe.expected == "wrong" and call.reward is not None}:
            own_calls = [call for call in calls if call.probe.row == row and call.reward is not None]
            found.fault(f"pays {full:g} for everything", min(own_calls, key=lambda call: len(call.probe.text)))
        return
    respelled = [
        call.probe.answer
        for call in calls
        if call.probe.kind == SPELLED["number"] and call.reward is not None and call.reward > middle
    ]
    judged = {call.probe.row for call in calls if call.reward is not None}
    for call in calls:
        probe, reward = call.probe, call.reward
        mine = own.get(probe.row)
        wanted = full if mine is None or mine <= middle else min(mine, full)
        if probe.expected == "right" and not call.crash and (reward is None or reward <= middle):
            if probe.kind == "gold" and probe.row not in judged and judged:
                found.remark("gives no verdict on any answer of a row", call)
            elif probe.kind == "gold":
                found.fault("refuses the gold" if reward is not None else "gives no verdict on the gold", call)
            elif mine is not None and mine > middle:
                # a reward that pays one spelling of a number compares values; one that pays none compares text,
                # and so does one that only removes separators
                alike = [answer for answer in respelled if "." in answer or "." not in probe.answer]
                strict = probe.kind == SPELLED["words"] or (probe.kind == SPELLED["number"] and not alike)
                (found.remark if strict else found.fault)(f"refuses the {probe.kind}", call)
        elif probe.kind == UNFINISHED and reward is not None and reward > middle and reward >= wanted - NEAR:
            found.remark("pays arithmetic that is not worked out", call)
        elif probe.kind in EMPTY_HANDED and reward is not None and reward >= wanted / 2 > 0:
            if probe.kind == "the question" and reward == wanted / 2:
                found.remark("pays a wrong answer in part", call)
            elif probe.expected == "wrong":
                found.fault(f"pays {_words(probe.kind)}", call)
        elif probe.expected == "wrong" and reward is not None and reward > middle and reward >= wanted - NEAR:
            if probe.kind == "near miss" and tolerated(probe.answer, golds[probe.row] or ""):
                found.remark("pays a number near the gold", call)
                continue
            found.fault(f"pays {_words(probe.kind)}", call)
        elif probe.expected == "wrong" and reward is not None and reward > lowest + 0.2 * (full - lowest):
            found.remark("pays a wrong answer in part", call)


def _words(kind: str) -> str:
    return "a long text" if kind in LONGS else {"near miss": "a near miss"}.get(kind, kind)


def judge_crashes(found: Found, calls: list[Call], stopped: bool) -> None:
    for call in calls:
        if call.crash.startswith("slow"):
            found.remark("is slow on a long text", call)
        elif "surrogates not allowed" in call.crash:  # no tokenizer decodes to one; a log that is fetched may hold one
            found.remark("raises on a lone surrogate", call)
        elif call.crash.startswith("hangs"):
            rest = f"; after {HANGS} hangs no more probes were tried" if stopped else ""
            found.fault("hangs", call, call.crash + rest)
        elif call.crash:
            found.fault("raises on the gold" if call.probe.kind == "gold" else "raises", call)


def judge_differences(found: Found, trial: Trial, calls: list[Call]) -> None:
    """The same text again, in a thread, in a process with a different hash seed, and in a batch of all rows."""
    kinds = {"gold", "near miss", "another row's gold", "junk", "several answers at once", "the question"}
    chosen, counted = list[Call](), Counter[tuple[int, str]]()
    for call in calls:
        counted[call.probe.row, call.probe.kind] += 1
        if call.probe.kind in kinds and counted[call.probe.row, call.probe.kind] <= 4:
            chosen.append(call)
    some = [call.probe for call in chosen]
    trial.clock.hangs = 0  # these texts have returned once: long ones that hang do not hide a difference
    places = {
        "gives a different reward when asked again": trial.run(some, "once more", turn="again"),
        "gives a different reward in a thread": trial.run(some, "in a thread", action="thread"),
        "gives a different reward in another process": trial.run(some, "in another process", other=True),
    }
    for kind, again in places.items():
        for call, second in zip(chosen, again, strict=False):
            if second.crash or not _equal(call.reward, second.reward):
                found.fault(kind, call, f"first {call.reward}, then {second.crash or second.reward}")
        if found.calls.get((kind, "fault")):
            return  # one difference explains the others
    firsts, spent = list[Call](), 0.0
    for call in sorted(chosen, key=lambda call: call.probe.kind != "gold"):  # the golds of all rows meet
        if len(call.probe.text) <= 500 and len(firsts) < 32 and spent + call.seconds <= trial.clock.deadline / 2:
            firsts.append(call)
            spent += call.seconds  # together they have one deadline
    batch = [("batch", "in a batch")] if trial.batch else []
    for action, place in [*batch, ("threads", "beside other threads")]:
        if len(firsts) < 2 or any(severity == "fault" and "different reward" in kind for kind, severity in found.calls):
            return
        reply = trial.run_together(action, [(call.probe.row, call.probe.text) for call in firsts])
        rewards = reply.get("rewards") or [None] * len(firsts)
        for call, reward in zip(firsts, rewards, strict=True):
            if not _equal(call.reward, reward):
                detail = f"alone {call.reward}, {place} {reply.get('crash') or reward}"
                found.fault(f"gives a different reward {place}", call, detail)


def _equal(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) < 1e-6)
