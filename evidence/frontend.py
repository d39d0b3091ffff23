"""What engines cost the learner's interpreter: CPU per token in its process, and how late a finished row arrives there.

Eight engines without a model, each in a process of its own, return rows at 36,000 tokens per second in all, which is
what eight GPUs draw of a 0.6B base at the start of a step. A thread of this process runs forward passes meanwhile, as
a learner does that plays ahead. Measured are the CPU of everything in this process but that thread, per token, and the
delay of each row between its last token and its arrival.

Then a real vLLM on the CPU, with its front end in a process of its own and with its front end in this process.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from _engine import RANK, TINY, random_checkpoint
from _lib import Part, arguments, mean_interval, percentile, ratio_interval, verdict_of_parts
from _paced_engine import PacedEngine
from agon.engine.fleet import Fleet
from agon.engine.protocol import Draw, Engine
from agon.engine.vllm.host import in_own_process
from agon.engine.vllm.sampler import VLLMSampler
from agon.types import BASE, Sampling

ENGINES, ROWS, RATE = 8, 16, 281.25
"""Engines, rows in flight in each, tokens per second of a row: 36,000 tokens per second."""
SHORTEST, LONGEST = 2000, 6000
"""Tokens of a row. The recipe's have up to 15,000, of which a plan takes 40% as the mean."""
LOAD = 30_000
"""Tokens per second that must have arrived: on busy cores fewer do than are drawn."""
AIM = 1.0
"""Microseconds of CPU per token."""
LATE = 0.1
"""Seconds by which half of the rows may be late; one in a hundred by ten times that. A row takes 14 s on average."""
PROMPT = tuple(range(7, 39))


def main() -> None:
    args = arguments(__doc__, ("queue", "vllm"))
    work: dict[str, Part] = {"queue": (queue, queue_holds), "vllm": (vllm, vllm_holds)}
    verdict_of_parts(
        f"engines take less than {AIM:g} us of CPU per token in the learner's process, and rows arrive without a queue",
        work,
        args,
        quick=("queue",),
    )


@contextmanager
def sampler_over(base: Path, *engines: Engine) -> Iterator[VLLMSampler]:
    sampler = VLLMSampler(str(base), Fleet(*engines))
    try:
        yield sampler
    finally:
        sampler.close()


# -- eight engines without a model -------------------------------------------------------------------------------------


class Learner:
    """Forward passes of 28 small layers in a thread: bound by the interpreter, as on a GPU."""

    def __init__(self) -> None:
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM

        torch.set_num_threads(1)
        sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 28, "head_dim": 8}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
        self._model = Qwen3ForCausalLM(Qwen3Config(**sizes, **heads)).eval()
        self._ids, self._ended, self.passes = torch.zeros(1, 8, dtype=torch.long), False, 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        import torch

        with torch.no_grad():
            while not self._ended:
                self._model(self._ids)
                self.passes += 1

    def cpu(self) -> float:
        """Seconds of CPU that the thread has used."""
        assert self._thread.ident
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def __enter__(self) -> Learner:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        self._thread.join()


def queue(quick: bool) -> dict[str, Any]:
    """Rows at 36,000 tokens per second beside a learner."""
    seconds = 20 if quick else 120
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        base = random_checkpoint(Path(scratch, "base"), **TINY)
        engines = [in_own_process(partial(PacedEngine, RATE)) for _ in range(ENGINES)]
        with sampler_over(base, *engines) as sampler, Learner() as learner:
            found = asyncio.run(drawn_for(sampler, learner, seconds))
    return {**found, "quick": quick}


async def drawn_for(sampler: VLLMSampler, learner: Learner, seconds: float) -> dict[str, Any]:
    """Keep all engines full for some seconds; cost per second of it, and the delay of every row."""
    delays, marks = list[tuple[float, float]](), list[tuple[float, float, int]]()
    tokens, rng, ended = 0, random.Random(0), time.monotonic() + seconds

    async def slot() -> None:
        nonlocal tokens
        count = rng.randint(SHORTEST, LONGEST)
        before = rng.randrange(count)
        while time.monotonic() < ended:
            row = await sampler.draw(Draw(PROMPT, BASE, before, Sampling(1.0, 1.0, count)))
            now = time.monotonic()
            delays.append((now, now + row.logprobs[0]))
            tokens, count, before = tokens + count, rng.randint(SHORTEST, LONGEST), 0

    async def mark() -> None:
        while True:
            marks.append((time.monotonic(), time.process_time() - learner.cpu(), tokens))
            await asyncio.sleep(1.0)

    marking = asyncio.create_task(mark())
    await asyncio.gather(*(slot() for _ in range(ENGINES * ROWS)))
    marking.cancel()
    inside = [mark for mark in marks[1:] if mark[0] < ended]
    spans = list(itertools.pairwise(inside))
    mean, low, high = ratio_interval([1e6 * (b[1] - a[1]) for a, b in spans], [b[2] - a[2] for a, b in spans])
    ordered = [delay for _, delay in sorted(delays)]
    third = len(ordered) // 3
    return {
        "us per token": round(mean, 3),
        "interval": [round(low, 3), round(high, 3)],
        "n": len(spans),
        "tokens per second": round((inside[-1][2] - inside[0][2]) / (inside[-1][0] - inside[0][0])),
        "rows": len(ordered),
        "delay": {
            "median": round(percentile(ordered, 50), 4),
            "p99": round(percentile(ordered, 99), 4),
            "largest": round(max(ordered), 4),
            "median of the first third": round(percentile(ordered[:third], 50), 4),
            "median of the last third": round(percentile(ordered[-third:], 50), 4),
        },
        "forward passes per second": round(learner.passes / seconds, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def queue_holds(found: dict[str, Any]) -> bool:
    """Where a queue grows, rows get later and later. In a short measurement one pause of the machine is many rows."""
    delay = found["delay"]
    bounded = delay["median"] < LATE and (found["quick"] or delay["p99"] < 10 * LATE)
    return bool(found["interval"][1] < AIM and bounded and found["tokens per second"] > LOAD)


# -- vLLM --------------------------------------------------------------------------------------------------------------


def vllm(quick: bool) -> dict[str, Any]:
    """CPU per token with the front end elsewhere, and with it in this process."""
    from agon.engine.vllm.local import LocalEngine

    rounds = 2 if quick else 8
    settings: dict[str, Any] = {"dtype": "float32", "context": 2048, "rank": RANK, "max_loras": 2, "memory": 0.4}
    found = dict[str, Any]()
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as scratch:
        base = random_checkpoint(Path(scratch, "base"), **TINY)
        make = partial(LocalEngine, str(base), **settings)
        for name, engine in (("elsewhere", partial(in_own_process, make)), ("here", make)):
            with sampler_over(base, engine()) as sampler:
                drawn(sampler, 64)  # kernels are warm, and modules imported
                costs = [drawn(sampler, 1500) for _ in range(rounds)]
            mean, low, high = mean_interval(costs)
            found[name] = {"us per token": round(mean, 3), "interval": [round(low, 3), round(high, 3)], "n": rounds}
            found[name]["imported here"] = "vllm" in sys.modules
            print(f"  front end {name}: {mean:.2f} us per token ({low:.2f} to {high:.2f}, n {rounds})", flush=True)
    return found


def drawn(sampler: VLLMSampler, tokens: int) -> float:
    """Microseconds of CPU in this process per token of 16 rows."""
    draws = [Draw(PROMPT, BASE, seed, Sampling(1.0, 1.0, tokens)) for seed in range(16)]
    sampler.renderer.stop = frozenset()  # every row has its full length
    before = time.process_time()
    rows = sampler.draw_all(draws)
    return 1e6 * (time.process_time() - before) / sum(len(row.ids) for row in rows)


def vllm_holds(found: dict[str, Any]) -> bool:
    elsewhere, here = found["elsewhere"], found["here"]
    apart = not elsewhere["imported here"] and here["imported here"]
    return bool(apart and elsewhere["interval"][1] < AIM < here["interval"][0])


if __name__ == "__main__":
    main()
