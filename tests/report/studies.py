"""Runs with results in the very form that `agon eval` writes, made from invented records with known rates."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agon.eval.evaluate import both_policies, chosen_cascade, single_pass
from agon.eval.result import measured
from agon.types import Direction

RATES = {"zero-shot": 0.23, "grpo": 0.30, "coop": 0.46, "agon": 0.61, "shared-opponent": 0.32, "self-refine": 0.33}
N = 120


def record(problem: int, sample: int, right: bool, draft: bool | None, rng: random.Random) -> dict[str, Any]:
    def turn(correct: bool) -> dict[str, Any]:
        return {
            "policy": "a", "version": "a@000010-0", "text": "", "opened": False, "finish": "stop", "prompt_tokens": 60,
            "tokens": rng.randrange(200, 900), "seconds": 0.1, "correct": correct, "well_formed": True,
            "reason": "correct" if correct else "wrong", "detail": "",
        }  # fmt: skip

    found: dict[str, Any] = {"problem": f"p{problem}", "sample": sample, "question": "q", "answer": "4"}
    if draft is not None:
        found |= {"draft": turn(draft), "peek": "so" if problem % 9 else "", "leak": problem % 5 == 0}
    return found | {"final": turn(right)}


def result(name: str, system: str, arm: str, seed: int, rate: float, staged: bool) -> dict[str, Any]:
    """One system's result: a rate, problem by problem."""
    rng = random.Random(f"{arm} {seed} {system}")
    rows = [record(p, 0, rng.random() < rate, rng.random() < rate - 0.1 if staged else None, rng) for p in range(N)]
    head = {"schema": 1, "system": system, "complete": True, "done": N, "of": N, "records": f"{system}.jsonl"}
    head |= {"run": {"name": name, "seed": seed, "arm": arm}, "data": {"name": "held_out", "problems": N, "samples": 1}}
    return head | {"settings": {"temperature": 0.6, "top_p": 0.95}} | measured(rows)


def results(name: str, arm: str, seed: int) -> dict[str, dict[str, Any]]:
    """What an arm deploys, and the bare base."""

    def make(system: str, rate: float, staged: bool = False) -> dict[str, Any]:
        return result(name, system, arm, seed, rate, staged)

    rate = RATES[arm]
    found = {"base": make("base", RATES["zero-shot"])}
    if arm == "grpo":
        return found | {"a": make("a", rate), "self-cascade": make("self-cascade", 0.35, True)}
    if arm == "self-refine":
        return found | {"self-refine": make("self-refine", rate, True)}
    alone = {"a": make("a", rate - 0.1), "b": make("b", rate - 0.12)}
    if arm == "shared-opponent":
        return found | alone | {"single-pass": single_pass(alone["a"], alone["b"]) | {"system": "single-pass"}}
    both = {"ab": make("ab", rate, True), "ba": make("ba", rate - 0.02, True)}
    cascade = chosen_cascade(both["ab"], both["ba"], Direction.AB) | {"system": "cascade"}
    return found | alone | both | {"cascade": cascade}


def make_study(root: Path, arms: Mapping[str, int], base: str = "agon:tiny", data: str = "tabletop") -> list[Path]:
    """Some runs: arms with their number of seeds."""
    return [make_run(root, arm, seed, base, data) for arm, seeds in arms.items() for seed in range(seeds)]


def make_run(root: Path, arm: str, seed: int, base: str, data: str) -> Path:
    path = root / f"{arm}-s{seed}"
    found = results(path.name, arm, seed)
    (path / "evals" / "held_out").mkdir(parents=True)
    config = {
        "schema": 1, "arm": arm, "model": {"name": base}, "data": {"train": {"preset": data, "options": {}}},
        "train": {"seed": seed, "problems_per_step": 8}, "game": {"group_size": 8, "format_weight": 0.5},
    }  # fmt: skip
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    (path / "manifest.json").write_text(json.dumps({"schema": 1}))
    for system, raw in found.items():
        (path / "evals" / "held_out" / f"{system}.json").write_text(json.dumps(raw))
    if "b" in found:
        pair = {"schema": 1, "complementarity": both_policies(found["a"], found["b"])}
        (path / "evals" / "held_out" / "pair.json").write_text(json.dumps(pair))
    (path / "points.json").write_text(json.dumps([point(arm, seed, step) for step in (0, 10, 20, 30)]))
    ledger = {"draft/a": {"rollouts": 64, "generated": 4000, "prefilled": 900}}
    ledger |= {"challenge/b": {"rollouts": 64, "generated": 3000, "prefilled": 2000}}
    lines = [json.dumps({"step": step, "ledger": ledger}) for step in range(30)]
    (path / "steps.jsonl").write_text("\n".join(lines) + "\n")
    return path


def point(arm: str, seed: int, step: int) -> dict[str, Any]:
    """Dev at a step: a straight way from the base's rate to the arm's."""
    rng = random.Random(f"{arm} {seed} {step}")
    rate = RATES["zero-shot"] + (RATES[arm] - RATES["zero-shot"]) * step / 30
    names = {"grpo": ("a",), "self-refine": ("a", "aa"), "shared-opponent": ("a", "b")}.get(arm, ("a", "b", "ab", "ba"))
    systems = {}
    for name in names:
        correct = sum(rng.random() < rate for _ in range(100))
        counts = {"n": 100, "correct": correct, "pass": correct / 100, "ungraded": 0, "well_formed": 90}
        systems[name] = counts | {"tokens_final": 50_000, "tokens_all": 90_000}
    return {"step": step, "direction": None, "score": rate, "systems": systems}
