"""From a target to the machines that evaluate it: a sampler with both adapters live, and the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from agon.engine.backend import backend_of
from agon.engine.base import base_files, context_of, quieten
from agon.engine.render import Renderer
from agon.errors import ConfigError, RunDirError
from agon.eval.draw import Evaluator
from agon.eval.target import Target
from agon.game.cascade import System, peeks_in
from agon.game.peek import escape
from agon.game.prompts import draft_prompt
from agon.protocols import Sampler
from agon.rundir.pair import PairDir
from agon.rundir.results import PolicyKL
from agon.types import BASE, Problem, Sampling
from agon.verify import load_verifier

PROMPTS = 64
"""Problems whose drafts the KL between two policies is measured on."""
Note = Callable[[str], None]


@contextmanager
def open_evaluator(
    target: Target, systems: Iterable[System], url: str | None, names: Mapping[str, str], note: Note
) -> Iterator[Evaluator]:
    """An evaluator for some systems, whose machines are closed afterwards."""
    config = target.config
    sampler = served(target, url, names, note) if url else local(target, max([1, *map(peeks_in, systems)]))
    try:
        with load_verifier(config.verifier, sandbox=config.sandbox.settings(), right=config.reward.right) as verify:
            train = config.train
            shown = config.game.show_code
            yield Evaluator(sampler, verify, decoding(target), train.max_peek_tokens, train.seed, shown)
    finally:
        for sentence in getattr(sampler, "notes", list)():
            note(sentence)
        sampler.close()


def decoding(target: Target) -> Sampling:
    """How an evaluation draws, by its config."""
    settings = target.config.eval
    return Sampling(settings.temperature, settings.top_p, settings.max_completion_tokens)


def local(target: Target, peeks: int) -> Sampler:
    """An engine of our own, with the pair live in it and room for prompts that quote so many peeks."""
    config = target.config
    backend = backend_of(config)
    quieten(base_files(config.model))
    check_template(target.pair, backend.renderer())
    sampler = backend.sampler(context_of(config, peeks))
    for version, folder in target.adapters.values():
        sampler.publish(version, folder)
    return sampler


def check_template(pair: PairDir | None, renderer: Renderer) -> None:
    """A pair was trained under one chat template; under a different one it is a different pair."""
    if pair and renderer.hash != pair.info.chat_template_hash:
        message = f"{pair.info.base} has a different chat template than the pair was trained with"
        raise RunDirError(message, fix="use the revision of the base that it was trained on: model.revision")


def served(target: Target, url: str, names: Mapping[str, str], note: Note) -> Sampler:
    """Somebody else's server. Whether it takes token ids or text only is reported."""
    from agon.engine.openai import OpenAISampler

    renderer = _renderer(target, note)
    sampler = OpenAISampler(url, names.get(BASE, target.config.model.name), escape=escape, renderer=renderer)
    for policy, (version, folder) in target.adapters.items():
        sampler.publish(version, folder)
        sampler.rename(version, names.get(policy.value, version))
    sampler.check()
    if not sampler.ids:
        why = f" ({sampler.why_text})" if sampler.why_text else ""
        note(f"{url} takes text only{why}: quoted text is sent escaped, and prompts are rendered by the server")
    return sampler


def _renderer(target: Target, note: Note) -> Renderer | None:
    model = target.config.model
    try:
        renderer = Renderer.load(base_files(model, weights=False))
    except (OSError, ValueError, ConfigError):
        note(f"cannot load the tokenizer of {model.name}: peeks are capped by characters")
        return None
    check_template(target.pair, renderer)
    return renderer


def measure_kl(target: Target, problems: Sequence[Problem]) -> PolicyKL:
    """KL between A and B, and of each from the base, on completions of the plain prompts of these problems."""
    from agon.engine.distance import policy_kl

    prompts = [draft_prompt(problem) for problem in problems[:PROMPTS]]
    folders = {policy: folder for policy, (_, folder) in target.adapters.items()}
    return policy_kl(base_files(target.config.model), folders, prompts, decoding(target).max_tokens)
