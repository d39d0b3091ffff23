"""What a run shows while it lives: one plain line per step."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Mapping, Sequence
from typing import Any


class Lines:
    """Plain lines on stderr, or records as JSON lines on stdout."""

    def __init__(self, total: int, json: bool) -> None:
        self.total, self.json = total, json

    def step(self, record: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        if self.json:
            print(json_module.dumps({"step": record, "timing": timing}), flush=True)
            return
        alone, against = record["standalone"], record["competitive"] or {}
        print(
            f"step {record['step'] + 1}/{self.total}  {record['drafter']} drafts {alone['solo_rate']:.2f}"
            f"  {record['challenger']} challenges {against.get('solo_rate') or 0:.2f}"
            f"  reward {alone['reward_mean']:.2f}  live {alone['live_groups']}/{alone['groups']}",
            file=sys.stderr,
            flush=True,
        )

    def point(self, point: Mapping[str, Any]) -> None:
        if self.json:
            print(json_module.dumps({"point": point}), flush=True)
            return
        rates = "  ".join(f"{name} {result['pass']:.2f}" for name, result in point["systems"].items())
        print(f"dev at step {point['step']}: {rates}", file=sys.stderr, flush=True)

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


def scoreboard(total: int, *, json: bool, trackers: Sequence[str], name: str) -> Lines:
    """Whoever looks on."""
    return Lines(total, json)
