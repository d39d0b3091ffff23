"""Engines, verifiers and runs on a Ray cluster whose nodes die: no bout is lost, no verdict wrong, no run changed.

Real raylets, several nodes on this machine. Each part runs alone with `--part`; the quick form is the first part, with
engines that have no model.

- engines: steps of the game whose weights move after every step, with a canary; once undisturbed, then
  with an actor, a raylet alone and a whole node killed in the middle of steps, and nodes added. Bouts that are lost,
  doubled, ungraded or of a wrong version are counted, and completions that differ from the undisturbed steps.
- verifiers: rows with 5% poison, judged by two actors of which one is killed with its node; and programs.
- matrix: two arms on two nodes, one killed twice; `steps.jsonl` of every run must be what the local launcher writes.
- cost: the same engines called inside their process and through Ray, in turn: CPU of all processes, and wall time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import fleet
from _engine import RANK, SMALL, TINY, Bench, build, random_checkpoint
from _lib import ROOT, Part, arguments, ratio_interval, verdict_of_parts
from _ray import NETWORK, Nodes, cpu_seconds, descendants, place_of, ray_nodes
from agon.engine.fleet import Fleet
from agon.engine.member import State
from agon.engine.protocol import Draw, DrawResult, Engine
from agon.engine.vllm.host import AdapterStore, EngineHost, HostedEngine
from agon.engine.vllm.sampler import VLLMSampler
from agon.types import BASE, Completion, Policy, Problem, Reason, Sampling, Version
from agon.verify import load_verifier
from agon.verify.on_nodes import NodeVerifier, VerifierHost
from agon_judge.sandbox.settings import SandboxSettings

EXTRA_SOURCES = ("src/agon/cli/matrix.py", "src/agon/cli/cell.py", "configs/tabletop")
PARTS = ("engines", "verifiers", "matrix", "cost")
STEPS, PATIENCE, CONTEXT = 8, 60.0, 2048
FAULTS = {1: "actor", 3: "raylet alone", 5: "node", 6: "node added", 7: "node, and none added"}
"""By step; each is made when so many completions of the step are there."""
DRAWN = 5
ROWS, POISON = 2000, 0.05
PROGRAM_TRIES = 5
PAIRS, DRAWS, TOKENS = 40, 32, 48
SIZES = [
    "data.train.take=16", "data.dev.take=4", "data.held_out.take=8", "train.problems_per_step=2", "game.group_size=2",
    "train.max_completion_tokens=48", "eval.max_completion_tokens=48", "eval.points=1", "save.every=1",
]  # fmt: skip
STEPS_FILE = "steps.jsonl"
PROMPT = tuple(range(1, 33))
INSIDE, EMPTY = Version("a@999999-inside"), Version("b@999999-empty")
WRONG = ("lost", "doubled", "ungraded", "wrong_version", "unchecked", "differing")


def make_engine(base: str, context: int) -> Engine:
    """On a node: an engine over a base in a folder."""
    from agon.engine.vllm.local import LocalEngine

    return LocalEngine(base, dtype="float32", context=context, rank=RANK, max_loras=4, memory=0.4)


@contextmanager
def bench_on(nodes: Nodes, make: Callable[..., Engine] = make_engine, **sizes: Any) -> Iterator[Bench]:
    """Two engines of vLLM on two nodes behind a sampler, and a pair over the same base."""
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        base = random_checkpoint(Path(scratch, "base"), **sizes)
        fleet_of_two = Fleet(*placed(nodes, partial(make, str(base), CONTEXT)), patience=PATIENCE)
        sampler = VLLMSampler(str(base), fleet_of_two)
        try:
            yield Bench(sampler, build(base), Path(scratch))
        finally:
            sampler.close()


def placed(nodes: Nodes, make: Callable[[], Engine]) -> list[HostedEngine]:
    cluster = nodes.connect()
    adapters = AdapterStore(cluster)
    place = partial(cluster.place, EngineHost, make)
    return [HostedEngine(place, adapters) for _ in range(2)]


@contextmanager
def engines_on(nodes: Nodes) -> Iterator[fleet.Harness]:
    """Engines of vLLM on nodes."""
    with bench_on(nodes, **TINY) as table:
        engines = [member.engine for member in table.sampler.fleet.members]
        yield fleet.harness_of(table, partial(strike, nodes, engines))


@contextmanager
def fakes_on(nodes: Nodes) -> Iterator[fleet.Harness]:
    """Engines without a model on nodes."""
    engines = placed(nodes, fleet.fake_engine)
    with fleet.fake_harness(engines, partial(strike, nodes, engines), PATIENCE) as harness:
        yield harness


# -- engines -----------------------------------------------------------------------------------------------------------


def strike(nodes: Nodes, engines: list[HostedEngine], number: int, fault: str) -> None:
    """Kill or add something; a node that is gone is replaced, so that its engine can come back."""
    if fault == "node added":
        return nodes.add_soon()
    node, process = place_of(engines[number].actor)
    print(f"  {fault}: engine {number} on node {node[:6]}, process {process}", flush=True)
    if fault == "actor":
        return os.kill(process, signal.SIGKILL)
    nodes.kill(node, raylet_alone=fault == "raylet alone")
    if not fault.endswith("none added"):
        nodes.add_soon()


def engines(quick: bool) -> dict[str, Any]:
    """The same steps without and with faults."""
    fleet.STEPS, began = STEPS, time.monotonic()
    with ray_nodes(2) as nodes, fakes_on(nodes) if quick else engines_on(nodes) as harness:
        print(f"  engines are up after {time.monotonic() - began:.0f} s", flush=True)
        whole = fleet.run_steps(harness, {})
        print(f"  undisturbed steps end after {time.monotonic() - began:.0f} s", flush=True)
        plan = {step: {DRAWN: (number % 2, fault)} for number, (step, fault) in enumerate(FAULTS.items())}
        struck = fleet.run_steps(harness, plan)
        members = harness.sampler.fleet.members
        fleet.attended(harness, {policy: harness.publish(policy) for policy in Policy}, _all_up(harness.sampler.fleet))
        aside = sum(member.state is State.ASIDE for member in members)
    return {
        **{name: getattr(struck, name) for name in WRONG[:-1]},
        "differing": sum(struck.ids.get(key) != ids for key, ids in whole.ids.items()),
        "completions": len(whole.ids),
        "faults": dict(struck.struck),
        "restarts": struck.restarts,
        "put_aside": aside,
        "seconds": round(time.monotonic() - began),
    }


async def _all_up(engines: Fleet) -> None:
    for member in engines.members:
        await fleet.up(engines, member.number)


def engines_hold(found: dict[str, Any]) -> bool:
    return not any(found[name] for name in WRONG) and not found["put_aside"] and found["restarts"] >= 3


# -- verifiers ---------------------------------------------------------------------------------------------------------


def verifiers(quick: bool) -> dict[str, Any]:
    """Verdicts of actors against those of a verifier in this process, and against how the rows were made."""
    from math_poison import SAFE, clean_rows, poisoned

    count = ROWS // 10 if quick else ROWS
    clean, truth = clean_rows(count, seed=0)
    toxic, places = poisoned(clean, POISON, seed=1)
    rows = [
        (Problem("row", question, gold), Completion(f"<think>so</think>\n<answer>{answer}</answer>", BASE, 0, 0))
        for question, gold, answer in toxic
    ]
    with load_verifier("math", workers=2) as here:
        expected = here.verify_many(rows)
    with ray_nodes(2) as nodes:
        cluster = nodes.connect()
        with NodeVerifier(partial(cluster.place, VerifierHost, "math", None), 2) as verifier:
            verifier.verify_many(rows[:2])
            doomed = place_of(verifier._seats[0].actor)[0]
            threading.Timer(2.0, lambda: (nodes.kill(doomed), nodes.add_soon())).start()
            judged = verifier.verify_many(rows)
            counters = verifier.counters
        programs = _programs(cluster)
    infra = sum(verdict.reason is Reason.INFRA for verdict in judged)
    other = [(a, b) for a, b in zip(expected, judged, strict=True) if a != b and b.reason is not Reason.INFRA]
    healthy = [number for number in range(count) if number not in places and truth[number] is not None]
    wrong = sum(judged[n].correct != truth[n] for n in healthy if judged[n].reason is not Reason.INFRA)
    unsafe = sum(judged[n].reason not in SAFE | {Reason.INFRA} for n in places)
    return {
        **{"rows": count, "poison": len(places), "moved": counters["moved"], "infra": infra, "differing": len(other)},
        **{"mislabelled": wrong, "unsafe": unsafe, "programs": programs},
    }


def _programs(cluster: Any) -> str | list[str]:
    """What an actor with the code verifier gets wrong about known programs; on a busy machine it is asked again."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not here"
    sandbox = SandboxSettings(workers=1, memory="per_process")
    with NodeVerifier(partial(cluster.place, VerifierHost, "code", sandbox), 1) as verifier:
        for _ in range(PROGRAM_TRIES):
            wrong = verifier.self_test()
            if not any(" is infra" in sentence for sentence in wrong):
                break
        return wrong


def verifiers_hold(found: dict[str, Any]) -> bool:
    return not (
        found["mislabelled"]
        or found["differing"]
        or found["infra"]
        or (isinstance(found["programs"], list) and found["programs"])
    )


# -- matrix ------------------------------------------------------------------------------------------------------------


def matrix(quick: bool) -> dict[str, Any]:
    """Two arms by the local launcher, and on two nodes of which one is killed twice."""
    seeds = "0" if quick else "0,1"
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch, ray_nodes(2) as nodes:
        here, there = Path(scratch, "here"), Path(scratch, "there")
        codes = [_matrix(here, seeds).wait()]
        process = _matrix(there, seeds, "--launcher", "ray", "--address", nodes.address)
        kills = _kill_twice(nodes, there, process)
        codes.append(process.wait())
        runs = sorted(path.name for path in here.glob("*-s*"))
        same = [name for name in runs if (here / name / STEPS_FILE).read_bytes() == _bytes(there / name / STEPS_FILE)]
        log = (there.parent / "there.log").read_text()[-2000:]
    if len(same) < len(runs) or any(codes):
        print(log)
    return {"runs": len(runs), "equal": len(same), "kills": kills, "exit_codes": codes}


def _matrix(out: Path, seeds: str, *words: str) -> subprocess.Popen[bytes]:
    config = str(ROOT / "configs" / "tabletop" / "base.yaml")
    cells = ["--arms", "grpo,agon", "--seeds", seeds, "--slots", "2", "--out", str(out)]
    sizes = [*SIZES, "sampler.engine=hf", "cluster.gpus=0", f"sampler.network={NETWORK}"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with out.with_suffix(".log").open("wb") as log:
        command = [sys.executable, "-m", "agon", "matrix", config, *sizes, *cells, *words]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def _kill_twice(nodes: Nodes, out: Path, process: subprocess.Popen[bytes]) -> list[str]:
    """Kill the node that trains, with everything on it, once its run has two steps, then four; another joins."""
    kills: list[str] = []
    while process.poll() is None and len(kills) < 2:
        for node_id, node in list(nodes.nodes.items()):
            trained = [word for word in _commands(node) if word in ("grpo", "agon")]
            wanted = 2 * (1 + len(kills))
            if trained and any(_bytes(p).count(b"\n") >= wanted for p in out.glob(f"{trained[0]}-s*/{STEPS_FILE}")):
                kills.append(f"{trained[0]}: {nodes.kill(node_id)} processes")
                nodes.add()
                break
        time.sleep(0.1)
    return kills


def _commands(node: Any) -> list[str]:
    """Words of the commands that run on a node."""
    processes = descendants(node.all_processes["raylet"][0].process.pid)
    lines = [_bytes(Path(f"/proc/{process}/cmdline")).decode(errors="replace") for process in processes]
    return [word for line in lines if "agon.cli.cell" in line for word in line.split("\0")]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def matrix_hold(found: dict[str, Any]) -> bool:
    return found["runs"] == found["equal"] > 0 and len(found["kills"]) == 2 and not any(found["exit_codes"])


# -- cost --------------------------------------------------------------------------------------------------------------


class Batched:
    """An engine that also draws many at once: what is called inside its process, with one call from outside."""

    def __init__(self, base: str, context: int) -> None:
        self._engine: Any = make_engine(base, context)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """Draw once; INSIDE stands for as many draws as its seed says, of all versions in turn, EMPTY for none."""
        if draw.version == EMPTY:
            await self._engine._llm.reset_prefix_cache()
            return DrawResult((0,), (0.0,), "stop")
        if draw.version != INSIDE:
            return await self._engine.draw(draw, stop)
        versions = sorted(self._engine._adapters)
        draws = [replace(draw, version=versions[n % 2], seed=n) for n in range(draw.seed)]
        drawn = await asyncio.gather(*(self._engine.draw(one, stop) for one in draws))
        return drawn[0]


def cost(quick: bool) -> dict[str, Any]:
    """The same draws inside the engines' processes and through sampler, fleet and Ray, in turn."""
    pairs, rows = 2 if quick else PAIRS, list[tuple[float, float, float, float, float, float]]()
    with ray_nodes(2) as nodes, bench_on(nodes, Batched, **(TINY if quick else SMALL)) as table:
        engines = [member.engine for member in table.sampler.fleet.members]
        versions = [table.publish(policy) for policy in Policy]
        daemons = [
            entry.process.pid for node in nodes.nodes.values() for kind in node.all_processes.values() for entry in kind
        ]
        actors = [place_of(engine.actor)[1] for engine in engines]
        for number in range(pairs + 1):
            order = (inside, through) if number % 2 else (through, inside)
            found = {way: _measure(way, table, engines, versions, actors, daemons) for way in order}
            if number:  # the first pair warms up
                rows.append((*found[inside], *found[through]))
    columns = list(zip(*rows, strict=True))
    cpu, wall = ratio_interval(columns[0], columns[3]), ratio_interval(columns[1], columns[4])
    own = [1000 * (row[5] - row[2]) / (2 * DRAWS) for row in rows]
    return {
        "cpu_inside_over_through": [round(value, 3) for value in cpu],
        "wall_inside_over_through": [round(value, 3) for value in wall],
        "ray_cpu_ms_per_row": round(statistics.mean(own), 2),
        "pairs": pairs,
        "load": round(os.getloadavg()[0], 1),
    }


def _measure(
    way: Any, table: Bench, engines: list[HostedEngine], versions: Any, actors: list[int], daemons: list[int]
) -> tuple[float, float, float]:
    """(CPU of all processes, wall, CPU of all but the engines) in seconds, from an empty prefix cache."""
    table.sampler.submit(_emptied(engines)).result()
    cores = [process for actor in actors for process in descendants(actor)]
    others = [os.getpid(), *actors, *daemons]
    before = cpu_seconds(cores), cpu_seconds(others), time.perf_counter()
    way(table, engines, versions)
    core, other = cpu_seconds(cores) - before[0], cpu_seconds(others) - before[1]
    return core + other, time.perf_counter() - before[2], other


async def _emptied(engines: list[HostedEngine]) -> None:
    await asyncio.gather(*(engine.draw(Draw((1,), EMPTY, 0, Sampling(1.0, 1.0, 1)), frozenset()) for engine in engines))


def inside(table: Bench, engines: list[HostedEngine], versions: list[Version]) -> None:
    """One call to each engine, which draws its rows in its own process."""
    sampling = Sampling(1.0, 1.0, TOKENS)

    async def both() -> None:
        asked = Draw(PROMPT, INSIDE, DRAWS, sampling)
        await asyncio.gather(*(engine.draw(asked, frozenset()) for engine in engines))

    table.sampler.submit(both()).result()


def through(table: Bench, engines: list[HostedEngine], versions: list[Version]) -> None:
    """The same number of draws, one by one, by the sampler."""
    sampling = Sampling(1.0, 1.0, TOKENS)
    draws = [Draw(PROMPT, versions[n % 2], n, sampling) for n in range(DRAWS) for _ in range(2)]
    asyncio.run(table.sampler.draw_together(draws))


def cost_holds(found: dict[str, Any]) -> bool:
    return bool(found["cpu_inside_over_through"][0] >= 0.97 and found["ray_cpu_ms_per_row"] <= 2.5)


# -- main --------------------------------------------------------------------------------------------------------------


def main() -> None:
    args = arguments(__doc__, PARTS)
    work: dict[str, Part] = {
        "engines": (engines, engines_hold),
        "verifiers": (verifiers, verifiers_hold),
        "matrix": (matrix, matrix_hold),
        "cost": (cost, cost_holds),
    }
    verdict_of_parts(
        "engines, verifiers and runs on a Ray cluster whose nodes are killed lose, double and change nothing",
        work,
        args,
        quick=PARTS[:1],
    )


if __name__ == "__main__":
    main()
