"""Can the engine serve weights that are gone, and would anyone notice? Published, swapped and staled for real, on vLLM.

First, that publication does what it says: A changes, B does not, and log-probs match transformers + PEFT. Then every
way we know to serve the wrong weights is tried: our own calls must refuse it, and what an engine does on its own
must be caught by the canary, which does not know what was broken.

All of that is in float32 on a small random base. The rest is in bfloat16 on SmolLM2-135M (`_stale_bf16.py`), where
rounding is ten times as large as an optimizer step of the recipe: an engine that is one step late, swaps adapters or
ignores them must be caught, and a healthy one must give no alarm. It takes about an hour on two cores, keeps what it
has done in the folder that `--work` names, and goes on from there. `--quick` leaves it out. The environment variable
AGON_SMOLLM2 names a checkpoint that `scripts/make_smollm2` made; without it, one is made.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _engine import RANK, TINY, Bench, bench, build, random_checkpoint, write_zeros
from _lib import arguments, verdict
from _server import vllm_server
from _stale_bf16 import GOAL, holds, prove
from agon.engine.fleet import Fleet
from agon.engine.vllm.canary import Canary
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.errors import EngineError
from agon.types import Policy, Version

RETURNS, SAME = 5, Version("a@000001-same")
MOVE = 0.02
"""Standard deviation of a move of the weights: 400 optimizer steps in one direction at the recipe's peak rate."""


Fault = Callable[[Bench, dict[Policy, Version]], None]


def main() -> None:
    work = work_folder()
    args = arguments(__doc__)
    rounds = 3 if args.quick else 20
    with bench() as table:
        canary = Canary(table.sampler, table, slots=4, dtype="float32")
        versions = {policy: table.publish(policy) for policy in Policy}
        canary.check(versions)
        print(f"noise on the base {canary.noise:.1e}, throw-away adapters {canary.effect:.2f}, ", end="")
        print(f"tolerance {canary.tolerance:.1e} nats per token\n")
        honest = publications(table, canary, versions, rounds)
        refused = {name: refuses(attempt, table, versions) for name, attempt in REUSES.items()}
        caught = {name: catches(fault, table, canary, rounds) for name, fault in FAULTS.items()}
        sizes = smallest(table, canary)
    live = {} if args.quick else resumed()
    small = {} if args.quick else prove(work)
    show(honest, refused, caught, sizes, rounds)
    complete = all(n == rounds for n in caught.values()) and all(refused.values()) and live.get("resumed", 0) < 1e-3
    complete = complete and (args.quick or holds(small))
    still = canary.tolerance / 10  # a batch of another make-up rounds differently
    verdict(
        "publishing A changes A and not B; reuse is refused; stale, swapped, ignored and stale-KV adapters are caught, "
        "in bfloat16 one optimizer step late",
        {"caught": caught, "refused": refused, **honest, "bfloat16": small},
        {
            **{"caught": rounds, "refused": True, "false alarms": 0, "A moved": canary.tolerance, "B moved": still},
            **{"bfloat16": {} if args.quick else GOAL},
        },
        complete and not honest["false alarms"] and honest["B moved"] < still and honest["A moved"] > canary.tolerance,
        n=rounds,
        tolerance=canary.tolerance,
        effect=canary.effect,
        noise=canary.noise,
        smallest_move_caught=sizes,
        live_server=live,
    )


def work_folder() -> Path:
    """Where the bfloat16 part keeps its learner and its results: `--work`, which is then out of the arguments."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "agon-stale-bf16"))
    found, sys.argv[1:] = parser.parse_known_args()
    return Path(found.work)


def publications(table: Bench, canary: Canary, versions: dict[Policy, Version], rounds: int) -> dict[str, float]:
    """Move A, publish A, look at both: least change of A, largest change of B, largest gap to the learner."""
    measured = {"A moved": float("inf"), "B moved": 0.0, "gap": 0.0, "false alarms": 0}
    for n in range(rounds):
        before = canary.probe.draw([versions[Policy.B]])[versions[Policy.B]]
        table.move(Policy.A, MOVE, seed=n)
        drawn = canary.probe.draw([versions[Policy.A]])[versions[Policy.A]]
        measured["A moved"] = min(measured["A moved"], canary._gap(Policy.A, drawn))
        versions[Policy.A] = table.publish(Policy.A)
        after = canary.probe.draw([versions[Policy.B]])[versions[Policy.B]]
        measured["B moved"] = max(measured["B moved"], difference(before, after))
        try:
            canary.check(versions)
        except EngineError:
            measured["false alarms"] += 1
        measured["gap"] = max(measured["gap"], *canary.measured.values())
    return measured


def difference(before: Any, after: Any) -> float:
    rows = zip(before, after, strict=True)
    return max(abs(one - two) for x, y in rows for one, two in zip(x.logprobs, y.logprobs, strict=True))


def refuses(attempt: Fault, table: Bench, versions: dict[Policy, Version]) -> bool:
    try:
        attempt(table, versions)
    except EngineError:
        return True
    return False


def reuse_name(table: Bench, versions: dict[Policy, Version]) -> None:
    table.move(Policy.A, MOVE, seed=100)
    table.sampler.publish(versions[Policy.A], table.export(Policy.A)[1])


def reuse_folder(table: Bench, versions: dict[Policy, Version]) -> None:
    table.sampler.publish(Version("a@999999-new"), table.sampler.live[versions[Policy.A]])


REUSES = {"reused name": reuse_name, "reused folder": reuse_folder}


# -- what an engine does behind our back ------------------------------------------------------------------------------


def stale(table: Bench, versions: dict[Policy, Version]) -> None:
    """The new name serves the weights of the version before."""
    adapters = table.sampler.fleet.members[0].engine._adapters
    table.move(Policy.A, MOVE, seed=200)
    old, new = versions[Policy.A], table.publish(Policy.A)
    adapters[new] = adapters[old]
    versions[Policy.A] = new


def swapped(table: Bench, versions: dict[Policy, Version]) -> None:
    adapters = table.sampler.fleet.members[0].engine._adapters
    a, b = versions[Policy.A], versions[Policy.B]
    adapters[a], adapters[b] = adapters[b], adapters[a]


def ignored(table: Bench, versions: dict[Policy, Version]) -> None:
    """The engine answers requests for B with the bare base: its adapter holds zeros."""
    adapters, b = table.sampler.fleet.members[0].engine._adapters, versions[Policy.B]
    table.count += 1
    zeros = Version.of(Policy.B, table.count, "zeros")
    load(table, zeros, write_zeros(table.sampler.live[b], table.root / zeros))
    adapters[b] = adapters[zeros]


def stale_kv(table: Bench, versions: dict[Policy, Version]) -> None:
    """vLLM's own trap: new weights in place, same name and path; the prompt's old keys and values stay."""
    from vllm.lora.request import LoRARequest

    sampler, a = table.sampler, versions[Policy.A]
    known, folder = sampler.fleet.members[0].engine._adapters[a], sampler.live[a]
    table.move(Policy.A, MOVE, seed=300)
    table.pair.export(Policy.A, folder)
    again = LoRARequest(known.lora_name, known.lora_int_id, known.lora_path, load_inplace=True)
    sampler._bridge.call(sampler.fleet.members[0].engine._llm.add_lora(again))


def load(table: Bench, version: Version, folder: Path) -> None:
    table.sampler._bridge.call(table.sampler.fleet.members[0].engine.load(version, folder))


FAULTS = {"stale": stale, "swapped": swapped, "ignored": ignored, "stale KV": stale_kv}


def catches(fault: Fault, table: Bench, canary: Canary, rounds: int) -> int:
    """How often the canary stops the run after this fault; before it, all was well."""
    caught = 0
    for n in range(rounds):
        for policy in Policy:
            table.move(policy, MOVE, seed=1000 + n)
        versions = {policy: table.publish(policy) for policy in Policy}
        canary.check(versions)
        fault(table, versions)
        try:
            canary.check(versions)
        except EngineError:
            caught += 1
    return caught


def smallest(table: Bench, canary: Canary) -> float:
    """The smallest move of the weights whose absence the canary notices."""
    size = 1e-5
    while size < 1:
        versions = {policy: table.publish(policy) for policy in Policy}
        table.move(Policy.A, size, seed=7)
        try:
            canary.check(versions)
        except EngineError:
            return size
        table.publish(Policy.A)
        size *= 2
    return size


# -- a run that comes back to a server that never left ---------------------------------------------------------------


def resumed() -> dict[str, float]:
    """Gap to the learner after a run came back under the same name and path: through the sampler, and without it."""
    with tempfile.TemporaryDirectory(prefix="agon-server-") as scratch:
        root = Path(scratch)
        pair = build(random_checkpoint(root / "base", **TINY))
        with vllm_server(root / "base", context=1024, rank=RANK) as url:
            gaps = [connection(url, root, pair, n) for n in range(RETURNS)]
            naive = [connection(url, root, pair, 100 + n, nonce="same") for n in range(2)]
    print(
        f"live server: {RETURNS} returns under one name and path, gap at most {max(gaps):.1e} nats per token;", end=" "
    )
    print(f"the same by hand is off by {naive[-1]:.2g}")
    return {"resumed": max(gaps), "by hand": naive[-1], "returns": RETURNS}


def connection(url: str, root: Path, pair: Any, seed: int, nonce: str | None = None) -> float:
    """One run: new weights in the old folder under the old name. How far off the server is, in nats per token.

    A nonce takes the place of the one that makes its names new: what that is for.
    """
    engine = ServerEngine(url)
    table = Bench(VLLMSampler(str(root / "base"), Fleet(engine)), pair, root)
    if nonce is not None:
        engine._nonce = nonce
    try:
        table.move(Policy.A, MOVE, seed=seed)
        pair.export(Policy.A, root / "same")
        table.sampler.publish(SAME, root / "same")
        canary = Canary(table.sampler, table, slots=1, dtype="float32")
        return canary._gap(Policy.A, canary.probe.draw([SAME])[SAME])
    finally:
        table.sampler.close()


def show(honest: dict[str, float], refused: dict[str, bool], caught: dict[str, int], sizes: float, rounds: int) -> None:
    moved = f"A moved by at least {honest['A moved']:.2g} nats per token, B by {honest['B moved']:g}"
    print(f"{rounds} publications of A: {moved};")
    print(f"gap to the learner at most {honest['gap']:.1e}, false alarms {honest['false alarms']:g}")
    for name, done in refused.items():
        print(f"{name:16}{'refused' if done else 'ACCEPTED'}")
    for name, count in caught.items():
        print(f"{name:16}caught {count} of {rounds}")
    print(f"a stale adapter is noticed from a move of {sizes:.0e} per weight on\n")


if __name__ == "__main__":
    main()
