"""`agon-lens canary` on a real `vllm serve`: faults of engines that others have reported are planted, and named.

A server of vLLM serves two adapters over a random base, which move by optimizer steps of the usual size. A worker
extension (`_tamper.py`) then changes what the server serves behind the canary's back:

- never delivered: the name is not served; or it is, and its slot has no weights (verl#7495, trl#3189);
- stale: the name has the weights of the step before (SkyRL#1776, trl#5312);
- overwritten: the slot has those of a different adapter;
- swapped: two adapters have each other's slots;
- ignored: all slots are right, and kernels do not read them (unsloth#2009).

Clean checks, each of freshly loaded adapters, must give no alarm; every tenth one compares log-probs with the
learner's.

Then log-probs alone, as on a server without the extension, by examples/learner_scores.py: an adapter that has been
trained for long and is ignored, and a learner over a different base, must be named; the distance that one optimizer
step makes is reported, and is far too small to be seen. `--quick`: one round of each fault, ten clean checks.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _engine import RANK, TINY, Bench, build, random_checkpoint
from _lib import ROOT, arguments, verdict
from _server import vllm_server
from agon.types import Policy
from agon_lens.canary import Report, Server, check

sys.path.append(str(ROOT / "examples"))
import learner_scores

EXTRA_SOURCES = ("examples/learner_scores.py",)
STEP = 5e-5
"""Standard deviation of a move of the weights: about one optimizer step."""
TRAINED = 0.02
"""The same of a training run of hundreds of steps."""
ROUNDS, CLEAN, SCORED = 5, 100, 10
LIMIT = 0.01
"""Nats per token, in float32."""


class Rig:
    """A server, a pair of adapters, and the names under which their versions are served."""

    def __init__(self, url: str, table: Bench, tokenizer: Any) -> None:
        self.server, self.table, self.tokenizer = Server(url), table, tokenizer
        self.live: list[str] = []

    def publish(self, load: bool = True) -> dict[Policy, tuple[str, Path]]:
        """Move both policies by a step and load them, under new names."""
        found = {}
        for old in self.live[:-2]:
            self.ask("/v1/unload_lora_adapter", {"lora_name": old})
        self.live = self.live[-2:]
        for policy in Policy:
            self.table.move(policy, STEP, seed=self.table.count)
            version, folder = self.table.export(policy)
            found[policy] = (str(version), folder)
            if load:
                self.load(str(version), folder)
        return found

    def load(self, name: str, folder: Path) -> None:
        self.ask("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        self.live.append(name)

    def tamper(self, method: str, *args: Any) -> None:
        self.ask("/collective_rpc", {"method": method, "args": list(args)})

    def ask(self, path: str, body: dict[str, Any]) -> None:
        status, reply = self.server.ask(path, body)
        if status != 200:
            raise RuntimeError(f"{path} answered {status}: {reply}")

    def check(self, versions: dict[Policy, tuple[str, Path]], scored: bool = False, probe: bool = True) -> Report:
        score = partial(self.score, {name: policy for policy, (name, _) in versions.items()}) if scored else None
        return check(self.server.url, dict(versions.values()), base="base", score=score, limit=LIMIT, probe=probe)

    def score(self, policies: dict[str, Policy], name: str | None, draws: Any) -> list[list[float]]:
        rows = [
            SimpleNamespace(prompt_ids=self.tokenizer(d.prompt).input_ids, completion_ids=list(d.ids)) for d in draws
        ]
        return self.table.score(policies[name] if name else None, rows)


def undelivered(rig: Rig, n: int) -> bool:
    if n % 2:
        report = rig.check(rig.publish(load=False))
        return sum("never delivered" in fault for fault in report.faults) == 2
    versions = rig.publish()
    name = versions[Policy.A][0]
    rig.tamper("overwrite", name, "")
    return names(rig.check(versions), name)


def stale(rig: Rig, n: int) -> bool:
    before, now = rig.publish(), rig.publish(load=False)
    policy = list(Policy)[n % 2]
    rig.load(now[policy][0], before[policy][1])  # the new name, from the old file
    rig.load(*now[policy.rival])
    return names(rig.check(now), now[policy][0])


def overwritten(rig: Rig, n: int) -> bool:
    versions = rig.publish()
    (one, _), (other, _) = versions.values()
    rig.tamper("overwrite", one, other)
    return names(rig.check(versions), one)


def swapped(rig: Rig, n: int) -> bool:
    versions = rig.publish()
    rig.tamper("swap", *(name for name, _ in versions.values()))
    report = rig.check(versions, scored=True)
    return len([fault for fault in report.faults if "does not hold" in fault]) == 2


def ignored(rig: Rig, n: int) -> bool:
    versions = rig.publish()
    rig.tamper("ignore", True)
    report = rig.check(versions)
    rig.tamper("ignore", False)
    return any("ignores adapters" in fault for fault in report.faults)


def by_log_probs(rig: Rig, base: Path, other: Path, rounds: int) -> tuple[dict[str, int], dict[str, float]]:
    """How often log-probs alone name what is wrong, and distances: of a clean check, and of one optimizer step."""
    caught, gaps = dict.fromkeys(LOG_PROBS, 0), dict.fromkeys(("clean", "one step"), 0.0)
    for n in range(rounds):
        rig.table.move(Policy.A, TRAINED, seed=n)
        name, folder = rig.publish()[Policy.A]
        ask = partial(log_prob_report, rig.server.url, name)
        clean = ask(folder, base)
        gaps["clean"] = max(gaps["clean"], *clean.gaps.values())
        rig.tamper("ignore", True)
        ignored = ask(folder, base)
        rig.tamper("ignore", False)
        caught["adapter ignored, by log-probs"] += far(ignored) == {name} and not far(clean)
        caught["different base, by log-probs"] += "base" in far(ask(folder, other))
        rig.table.move(Policy.A, STEP, seed=n + 100)
        _, newer = rig.table.export(Policy.A)
        gaps["one step"] = max(gaps["one step"], ask(newer, base).gaps[name])
    return caught, gaps


def log_prob_report(url: str, name: str, folder: Path, base: Path) -> Report:
    """A check by the example's learner, of this base and with this folder as the adapter."""
    os.environ |= {"LEARNER_BASE": str(base), "LEARNER_ADAPTERS": f"{name}={folder}", "LEARNER_DTYPE": "float32"}
    learner_scores.learner.cache_clear()
    return check(url, {name: folder}, base="base", score=learner_scores.score, limit=LIMIT, probe=False)


def far(report: Report) -> set[str]:
    """The names whose log-probs are not the learner's; what was attested is left out."""
    return {name for name, gap in report.gaps.items() if gap > LIMIT}


def names(report: Report, name: str) -> bool:
    """Whether exactly this adapter is said not to be held."""
    (fault, *more) = report.faults or [""]
    return f"does not hold {name} " in fault and not more


FAULTS = {
    "never delivered": undelivered,
    "stale": stale,
    "overwritten": overwritten,
    "swapped": swapped,
    "adapter ignored": ignored,
}
LOG_PROBS = ("adapter ignored, by log-probs", "different base, by log-probs")


def main() -> None:
    args = arguments(__doc__)
    rounds, clean = (1, 10) if args.quick else (ROUNDS, CLEAN)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "evidence"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        root = Path(scratch)
        base, other = random_checkpoint(root / "base", **TINY), random_checkpoint(root / "other", **TINY, seed=1)
        from transformers import AutoTokenizer

        table = Bench(None, build(base), root)
        options = {"context": 1024, "rank": RANK, "name": "base", "loras": 6, "extension": "_tamper.Tampering"}
        with vllm_server(base, **options) as url:
            rig = Rig(url, table, AutoTokenizer.from_pretrained(base))
            alarms, gap, began = list[str](), 0.0, time.perf_counter()
            for n in range(clean):
                report = rig.check(rig.publish(), scored=n % SCORED == 0)
                alarms += report.faults + report.skipped
                gap = max([gap, *report.gaps.values()])
            seconds = (time.perf_counter() - began) / clean
            print(f"{clean} clean checks, {len(alarms)} alarms {alarms[:3]}, {seconds:.1f} s each, distance {gap:.2g}")
            caught = {}
            for name, fault in FAULTS.items():
                caught[name] = sum(fault(rig, n) for n in range(rounds))
                print(f"{name}: {caught[name]} of {rounds}", flush=True)
            seen, distances = by_log_probs(rig, base, other, rounds)
            print(f"{seen} of {rounds} each; distances in nats per token: {distances}", flush=True)
            caught |= seen
    verdict(
        "`agon-lens canary` names adapters that a real vLLM server never got, got late, overwrote, swapped or ignores, "
        "and gives no alarm in clean checks; log-probs alone name a trained adapter that is ignored, and a different "
        "base",
        {**caught, "clean checks": clean, "alarms": len(alarms)},
        {**dict.fromkeys([*FAULTS, *LOG_PROBS], rounds), "clean checks": clean, "alarms": 0},
        all(number == rounds for number in caught.values()) and not alarms,
        distance=gap,
        log_prob_distances=distances,
        seconds_per_check=round(seconds, 2),
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
