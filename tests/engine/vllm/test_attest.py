"""A real engine says what its slots hold, in the recipe's dtype; evidence/stale_adapter.py does it at length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from _engine import Bench, ask_host, bench
from agon.engine.vllm.canary import Canary
from agon.errors import EngineError
from agon.types import Policy, Version

pytestmark = pytest.mark.slow
STEP = 5e-5
"""About one optimizer step at the recipe's peak rate."""


@pytest.fixture(scope="module")
def table() -> Iterator[Bench]:
    with bench(dtype="bfloat16", worker_extension_cls="_tamper.Tampering") as made:
        yield made


def tamper(table: Bench, method: str, *args: Any) -> None:
    plain = tuple(str(arg) if isinstance(arg, Version) else arg for arg in args)  # vLLM encodes plain types alone
    ask_host(table, "vllm", "collective_rpc", method, None, plain)


def test_a_slot_that_is_one_optimizer_step_late_stops_the_run_and_a_right_one_does_not(table: Bench) -> None:
    canary = Canary(table.sampler, table, slots=4)  # type: ignore[arg-type]
    before = {policy: table.publish(policy) for policy in Policy}
    canary.check(before)
    table.move(Policy.B, STEP, seed=1)
    now = {**before, Policy.B: table.publish(Policy.B)}
    canary.check(now)
    assert canary.attest(now.values()) == []
    assert canary.attested() == 5
    tamper(table, "overwrite", now[Policy.B], before[Policy.B])
    with pytest.raises(EngineError, match=rf"engine 0 does not hold {now[Policy.B]} .*model\.layers\.0"):
        canary.attest(now.values())


def test_kernels_that_ignore_right_slots_are_found_by_the_distance(table: Bench) -> None:
    for _ in range(2):  # the version that was changed above is live until then
        versions = {policy: table.publish(policy) for policy in Policy}
    canary = Canary(table.sampler, table, slots=4, mode="warn")  # type: ignore[arg-type]
    tamper(table, "ignore", True)
    canary.check(versions)
    tamper(table, "ignore", False)
    assert canary.attested() == 4
    assert "engine 0 ignores adapters: 4 of 4" in canary.notes()[0]
