"""Several engines as one: engines are killed, hung and restarted in the middle of steps, and no bout shows it.

Two engines of this machine, then two servers, draw the bouts of ten steps of the game, whose weights move after every
step: once undisturbed, then with ten faults at random points. Counted are bouts that are lost, doubled, ungraded or
drawn from a wrong version; draws for the game from an engine whose canary had not held since its last start; and
completions that differ from the undisturbed steps. The quick form has engines without a model.

Then the idle share of engines: one queue against a fixed share of the problems for each engine, in virtual time, with
lengths that differ between problems and between rollouts (log-normal, up to 15,000 tokens).
"""

from __future__ import annotations

import asyncio
import math
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _engine import RANK, TINY, Bench, bench, build, random_checkpoint
from _fake_fleet import FakeEngine, FakeLearner, VirtualLoop, write_adapter
from _lib import arguments, mean_interval, verdict
from _server import Server
from agon.algorithm import play
from agon.engine import fleet as fleet_module
from agon.engine.fleet import Fleet
from agon.engine.member import State
from agon.engine.protocol import Draw, Engine
from agon.engine.vllm.canary import Canary
from agon.game.rules import Game
from agon.interrupt import Interrupt
from agon.types import BASE, Completion, Played, Policy, Problem, Reason, Request, Sampling, Verdict, Version, seed_for

STEPS, FAULTS = 10, 10
PROBLEMS, GROUP, TOKENS, PEEK = 4, 4, 32, 64
MOVE = 0.02
"""What a step changes in every weight: as much as 400 optimizer steps at the recipe's peak rate."""
PATIENCE = 30.0
BACK = 900.0
"""Seconds that an engine may take to draw for the game again."""
KINDS = ("killed", "hung", "restarted")
ENGINES, BATCH, ROUNDS = 8, 8, 40
BLOCK, MEDIAN, MOST, SIGMA = 64, 4000, 15_000, 0.5
"""Lengths for the idle share, in tokens; engines draw them in blocks. SIGMA is that of problems, and that of rollouts
of one problem."""

Strike = Callable[[int, str], None]
"""Does something to an engine, by its number and the name of the fault."""


@dataclass
class Harness:
    """Engines behind a sampler, a learner over the same base, and how the engines are struck."""

    sampler: Any
    learner: Any
    publish: Callable[[Policy], Version]
    move: Callable[[Policy, int], None]
    reset: Callable[[], None]
    strike: Strike
    canary: Canary = field(init=False)
    unchecked: int = 0
    """Draws for the game from an engine whose canary had not held since its last start."""

    def __post_init__(self) -> None:
        self.canary = Canary(self.sampler, self.learner, slots=4, dtype="float32")
        free = self.sampler.fleet._free

        async def checked(version: Version) -> Any:
            member = await free(version)
            self.unchecked += self.canary.lives.get(member.number) != member.life
            return member

        self.sampler.fleet._free = checked


@dataclass
class Drawing:
    """A sampler that strikes when so many completions have been drawn."""

    harness: Harness
    faults: dict[int, tuple[int, str]]
    """Completions drawn before the fault: the engine and the fault."""
    drawn: int = 0

    async def sample(self, request: Request) -> Completion:
        completion: Completion = await self.harness.sampler.sample(request)
        self.drawn += 1
        if fault := self.faults.pop(self.drawn, None):
            self.harness.strike(*fault)
        return completion

    def clip(self, text: str, max_tokens: int) -> str:
        return str(self.harness.sampler.clip(text, max_tokens))


@dataclass
class Outcome:
    """Ten steps: completions by bout, and what went wrong."""

    ids: dict[tuple[int, str, int, str], tuple[int, ...]] = field(default_factory=dict)
    lost: int = 0
    doubled: int = 0
    ungraded: int = 0
    wrong_version: int = 0
    unchecked: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    restarts: int = 0

    def take(self, played: Played, versions: dict[Policy, Version]) -> None:
        """Count the bouts of a step."""
        keys = Counter((bout.problem.id, bout.draft.index) for bout in played.bouts)
        self.lost += PROBLEMS * GROUP - len(keys)
        self.doubled += sum(keys.values()) - len(keys)
        for stream in played.streams:
            for row in stream.rollouts():
                self.ungraded += not row.verdict.graded
                self.wrong_version += row.completion.version != versions[stream.policy]
                key = (played.step, row.problem.id, row.index, stream.name)
                self.ids[key] = row.completion.tokens.completion_ids


async def verify(problem: Problem, completion: Completion) -> Verdict:
    """A rule that depends on every token."""
    right = sum(completion.tokens.completion_ids) % 2 == 0
    return Verdict(right, True, Reason.CORRECT if right else Reason.WRONG)


def problems(number: int) -> list[Problem]:
    return [Problem(f"{n:04}", f"Problem {n}: what is {n} and {n}?", str(2 * n)) for n in range(number)]


def run_steps(harness: Harness, faults: dict[int, dict[int, tuple[int, str]]]) -> Outcome:
    """Ten steps from the first weights; `faults` by step."""
    outcome, game = Outcome(), Game(group_size=GROUP, max_peek_tokens=PEEK, sampling=Sampling(1.0, 1.0, TOKENS))
    harness.reset()
    fleet, before = harness.sampler.fleet, harness.sampler.restarts
    for step in range(STEPS):
        versions = {policy: harness.publish(policy) for policy in Policy}
        harness.canary.check(versions)
        drawing = Drawing(harness, dict(faults.get(step, {})))
        for member, kind in drawing.faults.values():
            outcome.struck[kind] += 1
            attended(harness, versions, up(fleet, member))  # a fault must hit an engine that draws
        batch = problems((step + 1) * PROBLEMS)[-PROBLEMS:]
        played = attended(harness, versions, play(batch, step, game, drawing, verify))
        outcome.take(played, versions)
        harness.canary.attest(versions.values())
        for policy in Policy:
            harness.move(policy, step)
        for note in harness.canary.notes():
            print(f"  step {step}: {note}", flush=True)
    outcome.restarts, outcome.unchecked = harness.sampler.restarts - before, harness.unchecked
    return outcome


def attended(harness: Harness, versions: dict[Policy, Version], work: Any) -> Any:
    return asyncio.run(Interrupt().watching(harness.canary.attend(work, versions)))


async def up(fleet: Fleet, number: int) -> None:
    async with asyncio.timeout(BACK):
        while fleet.members[number].state is not State.UP:  # noqa: ASYNC110 - a fleet has no event for this
            await asyncio.sleep(0.05)


def plan(seed: int) -> dict[int, dict[int, tuple[int, str]]]:
    """Ten faults at random points: step, completions drawn before, engine. A step hits each engine once at most."""
    rng, planned = random.Random(seed), dict[int, dict[int, tuple[int, str]]]()
    places = rng.sample([(step, member) for step in range(STEPS) for member in range(2)], FAULTS)
    for number, (step, member) in enumerate(places):
        points = planned.setdefault(step, {})
        drawn = rng.choice([n for n in range(1, 2 * PROBLEMS * GROUP) if n not in points])
        points[drawn] = (member, KINDS[number % len(KINDS)])
    return planned


def disturbed(harness: Harness, seed: int) -> dict[str, Any]:
    """The same steps without and with faults."""
    began = time.monotonic()
    whole, struck = run_steps(harness, {}), run_steps(harness, plan(seed))
    differing = sum(struck.ids.get(key) != ids for key, ids in whole.ids.items())
    return {
        **{name: getattr(struck, name) for name in ("lost", "doubled", "ungraded", "wrong_version", "unchecked")},
        "differing": differing,
        "completions": len(whole.ids),
        "faults": dict(struck.struck),
        "restarts": struck.restarts,
        "put_aside": sum(member.state is State.ASIDE for member in harness.sampler.fleet.members),
        "seconds": round(time.monotonic() - began, 1),
    }


# -- engines ----------------------------------------------------------------------------------------------------------


@contextmanager
def fake_engines() -> Iterator[Harness]:
    """Engines without a model."""
    engines = [fake_engine() for _ in range(2)]

    def strike(number: int, fault: str) -> None:
        engines[number].strike("hung" if fault == "hung" else "killed")

    with fake_harness(engines, strike, patience=1.0) as harness:
        yield harness


def fake_engine() -> FakeEngine:
    return FakeEngine(lambda draw: 4 + draw.seed % 28, pace=0.002)


@contextmanager
def fake_harness(engines: Sequence[Engine], strike: Strike, patience: float) -> Iterator[Harness]:
    """A learner without a model beside engines without one."""
    from agon.engine.vllm.sampler import VLLMSampler

    fleet_module.GRACE = 0.01
    learner, first = FakeLearner(), FakeLearner().weights
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        root = Path(scratch)
        sampler = VLLMSampler(str(random_checkpoint(root / "base")), Fleet(*engines, patience=patience))
        count = iter(range(10**6))

        def publish(policy: Policy) -> Version:
            version = Version.of(policy, next(count), f"{learner.weights[policy]:.3f}".replace(".", ""))
            write_adapter(root / version, learner.weights[policy])
            sampler.publish(version, root / version)
            return version

        def move(policy: Policy, step: int) -> None:
            learner.weights[policy] += 0.001 * (1 + step)

        try:
            yield Harness(sampler, learner, publish, move, lambda: learner.weights.update(first), strike)
        finally:
            sampler.close()


def harness_of(table: Bench, strike: Strike) -> Harness:
    """What real engines are asked, through a bench."""
    first = {policy: [p.detach().clone() for p in table.pair.parameters(policy)] for policy in Policy}

    def reset() -> None:
        import torch

        with torch.no_grad():
            for policy, values in first.items():
                for parameter, value in zip(table.pair.parameters(policy), values, strict=True):
                    parameter.copy_(value)

    def move(policy: Policy, step: int) -> None:
        table.move(policy, MOVE, seed_for("fleet", policy, step))

    return Harness(table.sampler, table, table.publish, move, reset, strike)


@contextmanager
def real_engines() -> Iterator[Harness]:
    """Two engines of vLLM, each in a process of its own."""
    from engine_faults import end_core, freeze_worker, kill_core

    faults = {"killed": kill_core, "hung": freeze_worker, "restarted": end_core}
    with bench(context=2048, patience=PATIENCE, engines=2) as table:
        members = table.sampler.fleet.members
        yield harness_of(table, lambda number, fault: faults[fault](members[number].engine))


@contextmanager
def real_servers() -> Iterator[Harness]:
    """Two servers of vLLM, each restarted by whoever looks after it."""
    from agon.engine.vllm.sampler import VLLMSampler
    from agon.engine.vllm.server import ServerEngine

    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch, ExitStack() as stack:
        base = random_checkpoint(Path(scratch, "base"), **TINY)
        servers = [Server(base, context=2048, rank=RANK) for _ in range(2)]
        for server in servers:
            stack.callback(server.end)
        for server in servers:
            server.await_health()
        engines = [ServerEngine(server.url, ready=BACK) for server in servers]
        sampler = VLLMSampler(str(base), Fleet(*engines, patience=PATIENCE))
        stack.callback(sampler.close)
        yield harness_of(Bench(sampler, build(base), Path(scratch)), lambda n, fault: strike_server(servers[n], fault))


def strike_server(server: Server, fault: str) -> None:
    """Kill it, or ask it to end, and start it again; or stop all its processes for a while."""
    if fault == "hung":
        server.signal(signal.SIGSTOP)
        threading.Timer(2 * PATIENCE, lambda: server.signal(signal.SIGCONT)).start()
        return

    def again() -> None:
        server.kill() if fault == "killed" else server.end()
        server.start()

    threading.Thread(target=again).start()


# -- idle engines -----------------------------------------------------------------------------------------------------


@dataclass
class Straight:
    """A sampler over a fleet on the same loop; the length of a completion comes from its problem and its seed."""

    fleet: Fleet

    async def sample(self, request: Request) -> Completion:
        number = int(request.prompt.messages[-1].text.split("Problem ", 1)[1].split(":", 1)[0])
        drawn = await self.fleet.draw(Draw((number,), BASE, request.seed, request.sampling), frozenset(), 128)
        return Completion("", BASE, 1, len(drawn.ids))

    def clip(self, text: str, max_tokens: int) -> str:
        return text


def blocks(draw: Draw) -> int:
    """How long a completion is: some problems need longer ones."""
    problem, row = random.Random(seed_for("problem", draw.ids)), random.Random(seed_for("row", draw.seed))
    tokens = MEDIAN * problem.lognormvariate(0, SIGMA) * row.lognormvariate(0, SIGMA)
    return max(1, math.ceil(min(tokens, MOST) / BLOCK))


async def right(problem: Problem, completion: Completion) -> Verdict:
    return Verdict(True, True, Reason.CORRECT)


async def idle_share(number: int, queue: bool) -> tuple[float, float]:
    """(share of the engines' time in which they draw nothing, seconds) of one step."""
    engines = [FakeEngine(blocks, pace=BLOCK * 0.004) for _ in range(ENGINES)]
    fleets = [Fleet(*engines)] if queue else [Fleet(engine) for engine in engines]
    await asyncio.gather(*(fleet.start() for fleet in fleets))
    began, batch = asyncio.get_running_loop().time(), problems((number + 1) * BATCH)[-BATCH:]
    game = Game(group_size=8, sampling=Sampling(1.0, 1.0, MOST))
    shares = [batch[n :: len(fleets)] for n in range(len(fleets))]
    await asyncio.gather(
        *(play(share, 0, game, Straight(fleet), right) for share, fleet in zip(shares, fleets, strict=True))
    )
    seconds = asyncio.get_running_loop().time() - began
    for fleet in fleets:
        await fleet.stop()
    return 1 - sum(engine.busy for engine in engines) / (ENGINES * seconds), seconds


def idle(rounds: int) -> dict[str, Any]:
    """One queue against a fixed share, on the same lengths."""
    results = dict[str, list[tuple[float, float]]]()
    for name, queue in (("one queue", True), ("fixed share", False)):
        results[name] = []
        for number in range(rounds):
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                results[name].append(runner.run(idle_share(number, queue)))
    saved = [queue[1] / fixed[1] for queue, fixed in zip(results["one queue"], results["fixed share"], strict=True)]
    means = {name: round(sum(share for share, _ in rows) / rounds, 3) for name, rows in results.items()}
    return {"idle": means, "seconds of a fixed share": [round(value, 3) for value in mean_interval(saved)]}


def main() -> None:
    args = arguments(__doc__)
    kinds = {"fakes": fake_engines} if args.quick else {"engines": real_engines, "servers": real_servers}
    results = dict[str, dict[str, Any]]()
    for number, (name, make) in enumerate(kinds.items()):
        with make() as harness:
            results[name] = disturbed(harness, seed=number)
        print(f"{name}: {results[name]}", flush=True)
    waiting = idle(4 if args.quick else ROUNDS)
    print(f"engines without work: {waiting}")
    wrong = {
        name: {key: result[key] for key in ("lost", "doubled", "ungraded", "wrong_version", "unchecked", "differing")}
        for name, result in results.items()
    }
    hit = all(result["restarts"] >= FAULTS // 2 and not result["put_aside"] for result in results.values())
    verdict(
        "engines killed, hung or restarted in the middle of steps lose, double and change no bout; "
        "one queue leaves engines idle less than a fixed share",
        {"wrong": wrong, "idle": waiting["idle"]},
        {"wrong": "0 of all", "idle": "one queue below a fixed share"},
        holds=hit
        and not any(count for counts in wrong.values() for count in counts.values())
        and waiting["idle"]["one queue"] < waiting["idle"]["fixed share"],
        n=len(results) * FAULTS,
        results=results,
        waiting=waiting,
        steps=STEPS,
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
