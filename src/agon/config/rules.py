"""Rules that span several fields of the config, each with its reason.

A table instead of validators: a rule is checked when its own fields are valid, even if others are not. Here are those
of the kernel; a backend and a rival bring their own (`agon.doors`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agon.config.rival import Rival
from agon.doors import door, places


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds` is called with the values of `keys`, in that order; the first key is the one reported."""

    keys: tuple[str, ...]
    holds: Callable[..., bool]
    reason: str


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


SPLITS = ("train", "dev", "held_out")
OF_ENVIRONMENTS = ("environment", "reasoning-gym")
"""The verifier of environments, and its name in older configs."""


def _judges_of(preset: str) -> set[str]:
    """The verifiers of ours that can judge a preset."""
    if preset == "codecontests-easy":
        return {"code"}
    return set(OF_ENVIRONMENTS) if preset.startswith("reasoning-gym:") else {"math", "math-verify"}


def _source_rules(split: str) -> tuple[Rule, ...]:
    """Rules between the fields of one source."""
    fields = ("columns", "options", "take", "preset", "env")
    columns, options, take, preset, env = (f"data.{split}.{field}" for field in fields)
    return (
        Rule(
            (columns, preset, env),
            lambda columns, preset, env: not columns or (preset is None and env is None),
            "presets and environments bring their own columns; remove one of the two",
        ),
        Rule(
            (options, preset, env),
            lambda options, preset, env: not options or preset is not None or env is not None,
            "options belong to presets and environments; a file has none",
        ),
        Rule(
            (take, preset, env),
            lambda take, preset, env: (
                take is not None or not str(preset or env).startswith(("tabletop", "reasoning-gym:"))
            ),
            "a generated source makes any number of problems: set take",
        ),
    )


RULES = (
    Rule(
        ("train.staleness", "train.importance"),
        lambda steps, importance: not steps or importance != "none",
        "makes samples older than the weights that learn from them, which only a ratio corrects: "
        "write train.importance token_truncate",
    ),
    Rule(
        ("game.show_draft", "game.opponent"),
        lambda show, opponent: show or opponent != "self",
        "must be true when game.opponent is self: refining one's own draft means reading it",
    ),
    Rule(
        ("game.stack", "game.opponent"),
        lambda stack, opponent: stack == "coop" or opponent == "rival",
        "adv and margin pay on a rival's outcome, so they need game.opponent rival; write coop",
    ),
    Rule(
        ("game.tiebreak_weight", "game.opponent"),
        lambda weight, opponent: weight == 0 or opponent == "rival",
        "a tiebreak needs a rival to be shorter than: game.opponent rival, or weight 0",
    ),
    Rule(
        ("game.wait_for_all_drafts", "game.opponent"),
        lambda wait, opponent: not wait or opponent != "none",
        "there is no second stage to delay when game.opponent is none",
    ),
    Rule(
        ("sampler.urls",),
        lambda urls: not any("@" in url for url in urls),
        "holds a password, which the run would store; put a key in AGON_API_KEY instead",
    ),
    Rule(
        ("sampler.network",),
        lambda network: network is None or _is_network(network),
        "is not a network; write it like 10.0.0.0/8",
    ),
    Rule(
        ("sampler.max_model_len", "train.max_completion_tokens", "train.max_peek_tokens"),
        lambda length, completion, peek: length is None or length > completion + peek,
        "must exceed train.max_completion_tokens + train.max_peek_tokens, or a challenge cannot fit; null derives it",
    ),
    Rule(
        ("sampler.max_model_len", "eval.max_completion_tokens", "train.max_peek_tokens"),
        lambda length, completion, peek: length is None or length > completion + peek,
        "must exceed eval.max_completion_tokens + train.max_peek_tokens, or a challenge cannot fit; null derives it",
    ),
    Rule(
        ("eval.direction", "game.opponent"),
        lambda direction, opponent: opponent == "rival" or direction in {"dev", "ab"},
        "one policy has no second direction; leave it out",
    ),
    Rule(
        ("reward.weights", "reward.terms"),
        lambda weights, terms: len(weights) in (0, len(terms)),
        "needs one weight for each of reward.terms, or none",
    ),
    Rule(
        ("verifier", *(f"data.{split}.columns" for split in SPLITS)),
        lambda name, *columns: ":" in name or all(each.get("answer") != "" for each in columns),
        "compares with an answer, and columns.answer is empty: a function of yours can judge without one",
    ),
    Rule(
        ("verifier", *(f"data.{split}.env" for split in SPLITS)),
        lambda name, *envs: not any(envs) or ":" in name or name in OF_ENVIRONMENTS,
        "problems of an environment are scored by it: write environment",
    ),
    Rule(
        ("verifier", *(f"data.{split}.{field}" for split in SPLITS for field in ("path", "preset"))),
        lambda name, *sources: (
            name not in OF_ENVIRONMENTS
            or not any(path and not preset for path, preset in zip(sources[::2], sources[1::2], strict=True))
        ),
        "environment scores problems of environments, not of a file: write what judges its rows, such as math, code or "
        "FILE.py:function",
    ),
    Rule(
        ("verifier", *(f"data.{split}.preset" for split in SPLITS)),
        lambda name, *presets: (
            name not in {"math", "math-verify", "code", *OF_ENVIRONMENTS}
            or all(each is None or each in places("agon.presets") or name in _judges_of(each) for each in presets)
        ),
        "programs are judged by code, problems of reasoning-gym by environment, all others by math or math-verify; "
        "a mismatch would reject right answers",
    ),
    *(rule for split in SPLITS for rule in _source_rules(split)),
)


def broken_rules(config: Mapping[str, Any], valid: Callable[[str], bool] = lambda key: True) -> list[Rule]:
    """The rules that a complete config breaks, among those whose fields are all valid: ours, and those of the backend
    and the rival that it chooses."""
    chosen = all(map(valid, CHOICES))
    rules = (*RULES, *_rules_of_doors(config)) if chosen else RULES
    return [r for r in rules if all(map(valid, r.keys)) and not r.holds(*(_at(config, key) for key in r.keys))]


CHOICES = ("sampler.engine", "rival.kind")
"""Keys that choose a backend and a rival."""
FILLED = {"rival.every": Rival.model_fields["every"].default}
"""Defaults of unused keys, where they are not empty: a run stores them."""


def _rules_of_doors(config: Mapping[str, Any]) -> Iterator[Rule]:
    backend = door("agon.backends", _at(config, "sampler.engine"))
    rival = door("agon.rivals", _at(config, "rival.kind"))
    yield from backend.rules
    yield from rival.rules
    for key, owner in {**backend.unused, **rival.unused}.items():
        yield Rule(
            (key,),
            partial(_is_unset, FILLED.get(key)),
            f"belongs to {owner}, which this config does not choose: leave it out",
        )


def _is_unset(default: Any, value: Any) -> bool:
    return value is None or value in ([], {}, 0, default)


def _at(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value
