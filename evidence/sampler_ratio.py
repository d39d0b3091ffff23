"""What the sampler costs: completion tokens per second through `VLLMSampler`, divided by vLLM called bare.

One engine, the same prompts, seeds and adapters, half the rows from A and half from B in one batch. Bare is vLLM's own
`generate`, called in the engine's process with prompts that are token ids already. Ours renders prompts, crosses
threads and processes, watches for hangs, decodes text and keeps log-probs. The two alternate, take turns at going
first, and both begin with an empty prefix cache.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from _engine import SMALL, Bench, ask, ask_host, bench
from _lib import arguments, ratio_interval, verdict
from agon.engine.protocol import Draw
from agon.types import Policy, Request, Sampling, seed_for

AIM = 0.97
ROWS = 32
SAMPLING = Sampling(max_tokens=48)


def main() -> None:
    args = arguments(__doc__)
    pairs = 3 if args.quick else 40
    with bench(SMALL, context=512) as table:
        for policy in Policy:
            table.publish(policy)
        table.sampler.renderer.stop = frozenset()  # every completion has its full length
        times = [both(table, n) for n in range(-1, pairs)][1:]  # the first warms up
    ours, bare = ([pair[n] for pair in times] for n in (0, 1))
    ratio, low, high = ratio_interval(bare, ours)  # equal tokens: rates divide as times do, upside down
    rate = ROWS * SAMPLING.max_tokens * pairs / sum(bare)
    print(f"{pairs} pairs of {ROWS} rows of {SAMPLING.max_tokens} tokens, both adapters; bare vLLM {rate:.0f} tokens/s")
    print(f"through the sampler {ratio:.3f} of bare (95% interval {low:.3f} to {high:.3f})")
    verdict(
        "tokens per second through the sampler, both adapters in one batch, against vLLM called bare, on a CPU",
        round(ratio, 4),
        f"lower end of the interval at least {AIM}",
        holds=low >= AIM,
        interval=[round(low, 4), round(high, 4)],
        n=pairs,
        rows=f"{ROWS} of {SAMPLING.max_tokens} tokens",
        base=f"random, {SMALL['num_hidden_layers']} layers of {SMALL['hidden_size']}",
    )


def both(table: Bench, n: int) -> tuple[float, float]:
    """Seconds through the sampler and seconds bare, for the same work."""
    requests = [
        Request(ask(f"Problem {i % 8} of round {n}: count to ten."), policy, seed_for("ratio", n, policy, i), SAMPLING)
        for i in range(ROWS // 2)
        for policy in Policy
    ]
    runs = [lambda: cold(table, through, requests), lambda: cold(table, bare, requests)]
    if n % 2:
        second, first = runs[1](), runs[0]()
    else:
        first, second = runs[0](), runs[1]()
    return first, second


def cold(table: Bench, run: Callable[[Bench, list[Request]], float], requests: list[Request]) -> float:
    """Seconds of one run over prompts that are in no prefix cache."""
    ask_host(table, "vllm", "reset_prefix_cache")
    return run(table, requests)


def through(table: Bench, requests: list[Request]) -> float:
    async def together() -> None:
        completions = await asyncio.gather(*(table.sampler.sample(request) for request in requests))
        assert all(completion.generated_tokens == SAMPLING.max_tokens for completion in completions)

    began = time.perf_counter()
    asyncio.run(together())
    return time.perf_counter() - began


def bare(table: Bench, requests: list[Request]) -> float:
    sampler = table.sampler
    draws = []
    for request in requests:
        version = sampler._versions.resolve(request.seat)
        draws.append(Draw(sampler.renderer.render(request.prompt).ids, version, request.seed, SAMPLING))
    return float(ask_host(table, "bare", draws))


if __name__ == "__main__":
    main()
