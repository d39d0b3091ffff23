"""Rules that span several fields of the config, each with its reason.

A table instead of validators: a rule is checked when its own fields are valid, even if others are not.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


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


ENGINE_OPTIONS = (
    "async_scheduling",
    "attention_backend",
    "block_size",
    "cpu_offload_gb",
    "disable_cascade_attn",
    "enable_chunked_prefill",
    "enforce_eager",
    "kv_cache_dtype",
    "max_num_batched_tokens",
    "max_num_seqs",
    "num_gpu_blocks_override",
    "performance_mode",
    "pipeline_parallel_size",
    "tensor_parallel_size",
)
"""What `sampler.options` may name. vLLM has others that load code, files or a different model."""


PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size")


def _is_host_and_port(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon and "/" not in host and port.isdecimal() and 0 < int(port) < 65536)


CODE_PRESETS = ("codecontests-easy", "tabletop-code")
SPLITS = ("train", "dev", "held_out")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in url
    except ValueError:
        return False


def _source_rules(split: str) -> tuple[Rule, ...]:
    """Rules between the fields of one source."""
    columns, options, take, preset = (f"data.{split}.{field}" for field in ("columns", "options", "take", "preset"))
    return (
        Rule(
            (columns, preset),
            lambda columns, preset: not columns or preset is None,
            "a preset brings its own columns; remove one of the two",
        ),
        Rule(
            (options, preset),
            lambda options, preset: not options or preset is not None,
            "options belong to presets; a file has none",
        ),
        Rule(
            (take, preset),
            lambda take, preset: take is not None or not str(preset).startswith(("tabletop", "reasoning-gym:")),
            "a generated preset makes any number of problems: set take",
        ),
    )


STALENESS_RULES = (
    Rule(
        ("train.staleness", "sampler.engine"),
        lambda steps, engine: not steps or engine != "tinker",
        "must be 0 with engine tinker: the loss on a service has no clipped ratio of ours",
    ),
    Rule(
        ("train.staleness", "sampler.sleep"),
        lambda steps, sleep: not steps or sleep is not True,
        "plays while the learner computes, and an engine that sleeps then cannot: write sampler.sleep false",
    ),
    Rule(
        ("train.staleness", "train.importance"),
        lambda steps, importance: not steps or importance != "none",
        "makes samples older than the weights that learn from them, which only a ratio corrects: "
        "write train.importance token_truncate",
    ),
)
RIVAL_RULES = (
    Rule(
        ("rival.kind", "game.opponent"),
        lambda kind, opponent: kind == "policy" or opponent == "rival",
        "is for arms with a rival, such as agon or coop; this one has none: leave it out",
    ),
    Rule(
        ("rival.kind", "game.roles"),
        lambda kind, roles: kind == "policy" or roles == "rotate",
        "leaves only A to learn, and with game.roles fixed A always drafts, so the rival would teach it nothing: "
        "write game.roles rotate",
    ),
    Rule(
        ("rival.kind", "game.show_draft", "game.stack", "game.tiebreak_weight"),
        lambda kind, show, stack, tiebreak: kind == "policy" or show or stack != "coop" or tiebreak > 0,
        "leaves only A to learn, and A neither reads the rival's drafts nor is paid against them: "
        "write game.show_draft true, or choose the arm agon",
    ),
    Rule(
        ("rival.url", "rival.kind"),
        lambda url, kind: (url is not None) == (kind == "endpoint"),
        "belongs to rival.kind endpoint, which needs it",
    ),
    Rule(
        ("rival.model", "rival.kind"),
        lambda model, kind: (model is not None) == (kind == "endpoint"),
        "belongs to rival.kind endpoint, which needs it",
    ),
    Rule(
        ("rival.url",),
        lambda url: url is None or _is_address(url),
        "is not an address like https://host/v1, without a password: put a key in AGON_RIVAL_KEY",
    ),
    Rule(
        ("eval.direction", "rival.kind"),
        lambda direction, kind: kind in ("policy", "frozen") or direction in {"dev", "ab"},
        "a league or an endpoint leaves no pair, so there is no second direction; leave it out",
    ),
)

TWO_BASES_RULES = (
    Rule(
        ("model.b.name", "game.opponent"),
        lambda name, opponent: name is None or opponent == "rival",
        "is for arms with a rival, such as agon or coop; this one trains A alone: leave it out",
    ),
    Rule(
        ("model.b.name", "model.name"),
        lambda name, base: name != base,
        "is A's base already: leave it out",
    ),
    Rule(
        ("model.b.revision", "model.b.name"),
        lambda revision, name: revision is None or name is not None,
        "belongs to model.b.name, which is not written",
    ),
    Rule(
        ("model.b.name", "rival.kind"),
        lambda name, kind: name is None or kind in ("policy", "frozen"),
        "is the base of policy B, and in a league or with an endpoint no policy B plays: leave it out",
    ),
    Rule(
        ("train.staleness", "model.b.name"),
        lambda steps, name: not steps or name is None,
        "must be 0 with two bases: leave out train.staleness or model.b",
    ),
    Rule(
        ("model.b.name", "sampler.engine"),
        lambda name, engine: name is None or engine == "hf",
        "two bases train with sampler.engine hf alone: neither the canary of vllm nor tinker knows a second base yet",
    ),
)

RULES = (
    *RIVAL_RULES,
    *STALENESS_RULES,
    *TWO_BASES_RULES,
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
        ("sampler.urls", "sampler.engine"),
        lambda urls, engine: not urls or engine == "vllm" or (engine == "tinker" and len(urls) == 1),
        "only engine vllm samples from servers, and engine tinker from one",
    ),
    Rule(
        ("sampler.replicas", "sampler.engine"),
        lambda replicas, engine: replicas is None or engine == "vllm",
        "only engine vllm starts several engines",
    ),
    Rule(
        ("sampler.replicas", "sampler.urls"),
        lambda replicas, urls: replicas is None or not urls,
        "a run starts engines or samples from sampler.urls; remove one of the two",
    ),
    Rule(
        ("sampler.options",),
        lambda options: set(options) <= set(ENGINE_OPTIONS),
        f"may hold these arguments of vLLM: {', '.join(ENGINE_OPTIONS)}",
    ),
    Rule(
        ("sampler.options", "sampler.urls"),
        lambda options, urls: bool(urls) or all(options.get(name, 1) == 1 for name in PARALLEL),
        f"{' and '.join(PARALLEL)} must be 1, as an engine of a run has one GPU; to split a base over several, start "
        "`vllm serve BASE --tensor-parallel-size 2 ...` (docs/engines.md) and name it in sampler.urls",
    ),
    Rule(
        ("sampler.options", "sampler.urls", "sampler.engine"),
        lambda options, urls, engine: not options or (not urls and engine == "vllm"),
        "are arguments of an engine that the run starts; give them to your servers, or leave out sampler.urls",
    ),
    Rule(
        ("cluster.address", "cluster.engine"),
        lambda address, engine: (address is not None) == (engine == "ray"),
        "belongs to cluster.engine ray, which needs it: write HOST:PORT, or local; RAY_ADDRESS is not read",
    ),
    Rule(
        ("cluster.address",),
        lambda address: address is None or address == "local" or _is_host_and_port(address),
        "is HOST:PORT, or local to start a cluster on this machine; auto would join whatever runs here",
    ),
    Rule(
        ("cluster.samplers", "cluster.engine", "sampler.engine"),
        lambda samplers, cluster, engine: not samplers or cluster == "none" or engine == "vllm",
        "only engine vllm runs on a cluster; write 0",
    ),
    Rule(
        ("cluster.samplers", "cluster.engine", "sampler.replicas", "sampler.urls"),
        lambda samplers, cluster, replicas, urls: not samplers or cluster == "none" or (replicas is None and not urls),
        "engines are on the cluster, on this machine or at sampler.urls; choose one",
    ),
    Rule(
        ("cluster.verifiers", "cluster.engine", "verifier"),
        lambda verifiers, cluster, name: not verifiers or (cluster == "ray" and name in ("math", "code")),
        "belongs to cluster.engine ray and to the verifiers math and code; otherwise write 0",
    ),
    Rule(
        ("sampler.max_loras", "sampler.engine", "game.opponent"),
        lambda loras, engine, opponent: loras >= 2 or engine != "vllm" or opponent != "rival",
        "must be at least 2: both policies are live at once",
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
        ("sandbox.url", "sandbox.backend"),
        lambda url, backend: (url is not None) == (backend == "http"),
        "belongs to backend http, which needs it",
    ),
    Rule(
        ("verifier", "data.train.preset"),
        lambda name, preset: preset is None or ":" in name or (preset in CODE_PRESETS) == (name == "code"),
        "programs are judged by code, everything else by math; a mismatch would reject every answer",
    ),
    *(rule for split in SPLITS for rule in _source_rules(split)),
)


def broken_rules(config: Mapping[str, Any], valid: Callable[[str], bool] = lambda key: True) -> list[Rule]:
    """The rules that a complete config breaks, among those whose fields are all valid."""
    return [r for r in RULES if all(map(valid, r.keys)) and not r.holds(*(_at(config, key) for key in r.keys))]


def _at(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value
