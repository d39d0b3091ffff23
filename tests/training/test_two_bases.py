"""A pair over two bases trains, resumes to the bit, and is asked: each policy on its own base and template."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agon import RunDir, evaluate, train
from agon.config import Config, load_config
from agon.deploy.ask import Pair
from agon.engine.render import Renderer
from agon.engine.shipped import folder_of
from agon.engine.two_bases.learner import TwoBaseLearner
from agon.errors import AgonError, ConfigError, InputError, RunDirError
from agon.protocols import Tokens
from agon.rundir import read_bouts
from agon.rundir.files import weights_hash
from agon.rundir.pair import read_pair
from agon.types import Policy, Rollout, Stream

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[2] / "configs" / "tabletop" / "agon.yaml"
BASES = {Policy.A: "agon:tiny", Policy.B: "agon:relay"}
"""One architecture, so that either base would load the other's adapter, and two tokenizers."""
WORDS = [
    *("data.train.take=8", "data.dev.take=2", "data.held_out.take=2", "data.train.options.difficulty=2"),
    *("train.problems_per_step=2", "game.group_size=4", "train.max_steps=2", "train.schedule=constant"),
    *("train.warmup=0", "train.max_completion_tokens=48", "train.max_peek_tokens=16", "model.lora.rank=4"),
    *("eval.points=1", "eval.max_completion_tokens=32", "save.every=1", "save.keep=5"),
    "verifier=tests.training.helpers.coin:odd",
    *(f"model.name={BASES[Policy.A]}", f"model.b.name={BASES[Policy.B]}"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDir, list[Rollout]]:
    """A run, and what its learner was given."""
    rows, update = list[Rollout](), TwoBaseLearner.update

    def recording(self: TwoBaseLearner, streams: Sequence[Stream], *more: Any) -> Any:
        rows.extend(row for stream in streams for row in stream.rollouts())
        return update(self, streams, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TwoBaseLearner, "update", recording)
        patch.setenv("HF_HUB_OFFLINE", "1")
        run = train(CONFIG, *WORDS, out=tmp_path_factory.mktemp("runs"), name="two", show="nothing")
    return run, rows


def content(run: RunDir) -> Any:
    adapters = {p: weights_hash(run.path / "checkpoints" / "step_000002" / p.value) for p in Policy}
    return read_bouts(run).to_pylist(), (run.path / "steps.jsonl").read_bytes(), adapters


def test_each_policy_is_drawn_from_its_own_base_under_its_own_template(trained: tuple[RunDir, list[Rollout]]) -> None:
    """A policy that is drawn from the wrong base has other ids, and log-probs that its learner does not have."""
    run, rows = trained
    renderers = {policy: Renderer.load(str(folder_of(name))) for policy, name in BASES.items()}
    assert {row.policy for row in rows} == {*Policy}
    for row in rows:
        tokens = row.completion.tokens
        assert row.policy is not None
        assert isinstance(tokens, Tokens)
        assert tokens.prompt_ids == renderers[row.policy].render(row.prompt).ids
        assert tokens.prompt_ids != renderers[row.policy.rival].render(row.prompt).ids
    gaps = {policy: [r.update[policy].get("logp_diff_max") for r in run.steps.records()] for policy in Policy}
    for policy in Policy:
        known = [gap for gap in gaps[policy] if gap is not None]
        assert known, f"no group of {policy} was live, so nothing was compared"
        assert max(known) < 1e-3


def test_both_learn_and_a_resumed_run_is_the_same_to_the_bit(trained: tuple[RunDir, list[Rollout]]) -> None:
    run, _ = trained
    before = content(run)
    state = run.saved_state(2).run
    assert all(state.versions[policy] != state.first[policy] for policy in Policy)
    shutil.rmtree(run.path / "checkpoints" / "step_000002")
    train(run.path, resume=True, show="nothing")
    assert content(run) == before


def test_the_files_say_which_base_is_whose(trained: tuple[RunDir, list[Rollout]]) -> None:
    run, _ = trained
    info = read_pair(run.path).info
    assert {policy: base.name for policy, base in info.bases.items()} == BASES
    hashes = {policy: weights_hash(folder_of(name)) for policy, name in BASES.items()}
    assert {policy: base.hash for policy, base in info.bases.items()} == hashes
    assert (run.manifest.base_hash, run.manifest.base_hash_b) == tuple(hashes.values())
    for policy, name in BASES.items():
        assert name in (run.path / "pair" / policy.value / "adapter_config.json").read_text()
    assert "two frozen bases" in (run.path / "pair" / "README.md").read_text()


def test_it_is_evaluated_and_asked(trained: tuple[RunDir, list[Rollout]]) -> None:
    run, _ = trained
    results = evaluate(run.path, system=["cascade"], limit=1, show="nothing")
    settings = results.headline.settings
    assert (settings.base, settings.base_b and settings.base_b.name) == tuple(BASES.values())
    assert results.pair is not None
    assert results.pair.weights.cosine is None
    with Pair.load(run.path, engine="hf", max_tokens=8) as pair:
        answer = pair.answer("What is 2 + 2?")
    assert {answer.draft.version.policy, answer.final.version.policy} == {*Policy}


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (lambda run, out: evaluate(run, system="base", out=out, show="nothing"), InputError, "--system base"),
        (lambda run, out: evaluate(run, system="moa", out=out, show="nothing"), InputError, "--system moa"),
        (
            lambda run, out: evaluate(run, url="http://[::1]:9", limit=1, out=out, show="nothing"),
            InputError,
            "--url",
        ),
        (lambda run, out: Pair.load(run, engine="vllm"), RunDirError, "engine vllm"),
    ],
)
def test_what_two_bases_cannot_do_is_refused_by_name(
    refused: Callable[[Path, Path], object],
    error: type[AgonError],
    message: str,
    trained: tuple[RunDir, list[Rollout]],
    tmp_path: Path,
) -> None:
    with pytest.raises(error, match=message) as caught:
        refused(trained[0].path, tmp_path)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sampler.engine=vllm"], "canary"),
        (["sampler.engine=tinker"], "tinker"),
        (["arm=grpo"], "model.b.name"),
        (["rival.kind=league"], "model.b.name"),
        (["model.name=agon:relay"], "A's base already"),
    ],
)
def test_a_config_that_cannot_train_is_refused_before_anything_is_loaded(words: list[str], message: str) -> None:
    own = [word for word in WORDS if not any(word.startswith(other.partition("=")[0] + "=") for other in words)]
    with pytest.raises(ConfigError, match=message):
        load_config(CONFIG, [*own, *words])


def test_a_model_of_two_bases_gives_each_policy_its_own() -> None:
    config = load_config(CONFIG, [*WORDS, "model.init.a=agon:halves/a"])
    one, two = config.model.of(Policy.A), config.model.of(Policy.B)
    assert (one.name, two.name) == tuple(BASES.values())
    assert (one.two_bases, two.two_bases) == (False, False)
    assert (one.init.a, two.init.a) == ("agon:halves/a", "zero")
    plain = Config.model_validate(config.model_dump(by_alias=True) | {"model": {"name": "x"}})
    assert plain.model.of(Policy.B) is plain.model
