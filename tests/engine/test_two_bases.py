"""Each policy is drawn by the sampler of its own base, and a peek fits both tokenizers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agon.engine.two_bases.sampler import TwoBaseSampler
from agon.errors import EngineError
from agon.types import BASE, Policy, Prompt, Request, Version

A1, B1 = Version.of(Policy.A, 1, "ab12"), Version.of(Policy.B, 1, "cd34")


class Sampler:
    """Says what it was asked for; clips to so many characters per token."""

    def __init__(self, name: str, width: int) -> None:
        self.name, self.width, self.calls = name, width, list[Any]()

    async def sample(self, request: Request) -> Any:
        return self.name, request.seat

    def publish(self, version: Version, folder: Path) -> None:
        self.calls.append(("publish", version))

    def pin(self, version: Version, folder: Path) -> None:
        self.calls.append(("pin", version))

    def clip(self, text: str, max_tokens: int) -> str:
        return text[: self.width * max_tokens]

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def parts() -> dict[Policy, Sampler]:
    return {Policy.A: Sampler("of a", 4), Policy.B: Sampler("of b", 3)}


@pytest.mark.parametrize("seat", [Policy.A, Policy.B, A1, B1])
def test_a_policy_and_its_versions_are_drawn_on_its_own_base(seat: Any, parts: dict[Policy, Sampler]) -> None:
    drawn = asyncio.run(TwoBaseSampler(parts).sample(Request(Prompt(()), seat, 0)))  # type: ignore[arg-type]
    assert drawn == (f"of {seat.policy}", seat)


def test_the_bare_base_would_be_either_of_two(parts: dict[Policy, Sampler]) -> None:
    with pytest.raises(EngineError, match="different bases") as caught:
        asyncio.run(TwoBaseSampler(parts).sample(Request(Prompt(()), BASE, 0)))  # type: ignore[arg-type]
    assert "agon eval BASE" in (caught.value.fix or "")


def test_versions_go_to_the_base_of_their_policy_and_both_are_closed(parts: dict[Policy, Sampler]) -> None:
    sampler = TwoBaseSampler(parts)  # type: ignore[arg-type]
    sampler.publish(A1, Path())
    sampler.pin(B1, Path())
    sampler.close()
    assert parts[Policy.A].calls == [("publish", A1), "close"]
    assert parts[Policy.B].calls == [("pin", B1), "close"]


def test_a_peek_fits_both_tokenizers(parts: dict[Policy, Sampler]) -> None:
    assert TwoBaseSampler(parts).clip("x" * 100, 5) == "x" * 15  # type: ignore[arg-type]
