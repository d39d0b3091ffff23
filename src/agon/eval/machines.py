"""From a target to the table its trials are held at: sampler with both adapters live, verifier, decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agon.engine.build import base_files, build_sampler, context_of
from agon.engine.render import Renderer
from agon.errors import ConfigError, InputError, RunDirError
from agon.eval.cascade import Table
from agon.eval.target import Target, adapters
from agon.game.prompts import draft_prompt
from agon.protocols import Sampler
from agon.types import BASE, Policy, Problem, Sampling

PROMPTS = 64
"""Problems whose drafts the KL between two policies is measured on."""


@contextmanager
def machines(target: Target, url: str | None, names: str, say: Callable[[str], None]) -> Iterator[Table]:
    """The table, with its machines closed afterwards."""
    from agon.verify import load_verifier

    sampler = served(target, url, names, say) if url else local(target)
    try:
        with load_verifier(target.config.verifier) as verify:
            config = target.config
            yield Table(sampler, verify, decoding(target), config.train.max_peek_tokens, config.train.seed)
    finally:
        sampler.close()


def decoding(target: Target) -> Sampling:
    """How an evaluation draws, by its config."""
    settings = target.config.eval
    return Sampling(settings.temperature, settings.top_p, settings.max_completion_tokens)


def local(target: Target) -> Sampler:
    """An engine of our own, with the pair live in it."""
    config = target.config
    path = base_files(config.model)
    check_template(target, Renderer.load(path))
    sampler = build_sampler(config.sampler, config.model, path, context_of(config))
    for policy, (version, folder) in adapters(target).items():
        sampler.publish(policy, version, folder)
    return sampler


def check_template(target: Target, renderer: Renderer) -> None:
    """A pair was trained under one chat template; under another it is a different policy."""
    if target.pair and renderer.hash != target.pair.info.chat_template_hash:
        message = f"{target.config.model.name} has another chat template than the pair was trained with"
        raise RunDirError(message, fix="use the revision of the base that it was trained on: model.revision")


def served(target: Target, url: str, names: str, say: Callable[[str], None]) -> Sampler:
    """Somebody else's server. What it takes, ids or text only, is said."""
    from agon.engine.openai import OpenAISampler
    from agon.game.peek import escape

    called = model_names(target, names)
    renderer = _renderer(target, say)
    sampler = OpenAISampler(url, called[BASE], escape=escape, renderer=renderer)
    for policy, (version, folder) in adapters(target).items():
        sampler.publish(policy, version, folder)
        sampler.rename(version, called[policy.value])
    sampler.check()
    if not sampler.ids:
        say(f"{url} takes text only: quoted text goes escaped, and the server renders the prompts, not we")
    return sampler


def _renderer(target: Target, say: Callable[[str], None]) -> Renderer | None:
    model = target.config.model
    try:
        renderer = Renderer.load(base_files(model, weights=False))
    except (OSError, ValueError, ConfigError):
        say(f"the tokenizer of {model.name} cannot be loaded: peeks are capped by characters")
        return None
    check_template(target, renderer)
    return renderer


def model_names(target: Target, names: str) -> dict[str, str]:
    """What the server calls the base and each policy: as told, else the base's name and the versions."""
    told: dict[str, str] = {}
    for word in filter(None, names.split(",")):
        seat, equals, name = word.partition("=")
        if not equals or seat not in (BASE, *Policy):
            raise InputError(f"--names {names} cannot be read", fix="write --names a=NAME,b=NAME,base=NAME")
        told[seat] = name
    versions = {policy.value: version for policy, (version, _) in adapters(target).items()}
    return {BASE: target.config.model.name} | versions | told


def policy_kl(target: Target, problems: Sequence[Problem]) -> Mapping[str, Any]:
    """KL between A and B, and of each from the base, on completions of the plain prompts of these problems."""
    from agon.engine.policy_kl import policy_divergence

    prompts = [draft_prompt(problem) for problem in problems[:PROMPTS]]
    folders = {policy.value: folder for policy, (_, folder) in adapters(target).items()}
    return policy_divergence(base_files(target.config.model), folders, prompts, decoding(target).max_tokens)
