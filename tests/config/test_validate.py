"""From files and overrides to a config, or to every mistake at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from agon.config import load_config, resolved
from agon.errors import ConfigError, InputError

from .helpers import MINIMAL, faults, write


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    return write(tmp_path, MINIMAL)


def test_a_minimal_file(minimal: Path) -> None:
    config = load_config(minimal)
    assert (config.model.lora.rank, config.game.stack, config.train.learning_rate) == (16, "adv", 5e-5)


def test_a_resolved_config_can_be_loaded_again(tmp_path: Path, minimal: Path) -> None:
    config = load_config(minimal, ["arm=grpo", "train.clip_norm=null", "train.learning_rate=1e-6"])
    again = write(tmp_path, yaml.safe_dump(resolved(config)), "again.yaml")
    assert load_config(again) == config


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("train.seed=7", "seed", 7),
        ("train.learning_rate=1e-5", "learning_rate", 1e-5),
        ("train.max_steps=null", "max_steps", None),
        ("train.max_steps=", "max_steps", None),
        ("train.gradient_checkpointing=false", "gradient_checkpointing", False),
        ("train.loss=dapo", "loss", "dapo"),
        (" train.epochs = 3", "epochs", 3),
    ],
)
def test_overrides_are_typed(minimal: Path, override: str, key: str, value: object) -> None:
    assert getattr(load_config(minimal, [override]).train, key) == value


def test_an_override_replaces_a_whole_section(minimal: Path) -> None:
    config = load_config(minimal, ["data.train={path: mine.jsonl, columns: {question: q}}", "report_to=[wandb]"])
    assert (config.data.train.preset, config.data.train.take) == (None, None)
    assert (config.data.train.columns, config.report_to) == ({"question": "q"}, ["wandb"])


def test_an_arm_from_the_command_line_fills_what_the_file_leaves_open(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "game: {roles: fixed}\n")
    game = load_config(path, ["arm=coop"]).game
    assert (game.stack, game.roles) == ("coop", "fixed")


def test_a_mistake_is_placed_where_it_was_typed(minimal: Path) -> None:
    assert faults(minimal, "trian.max_steps=2") == ["command line: trian: unknown key; did you mean train?"]
    (fault,) = faults(minimal, "rival.every=5")
    assert fault.startswith("command line: rival.every")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    text = """\
schema: 2
arm: cop
model:
  nam: some/base
  lora: {rank: "16", alpha: 0, targets: 3}
data:
  train: {take: 30}
  dev: {preset: gsm8kk}
learning_rate: 1e-5
verifier: maths
game:
  grop_size: 8
  show_draft: no
  stack: advv
train:
  tokens_per_pass: 0
  warmup: .inf
  banana: 1
sampler: {engine: hf, urls: ["http://localhost"]}
save:
eval: 4
report_to: [wandbb]
"""
    arms = "agon, coop, self-refine, grpo, margin, fixed-roles, tiebreak, hidden-drafts, shared-opponent, mispaired"
    arms += ", plain-pair"
    assert faults(write(tmp_path, text), "train.epochs=many", "save.every") == [
        "run.yaml:1: schema: should be 1, not 2",
        f"run.yaml:2: arm: there is no arm 'cop'; choose one of: {arms}; did you mean coop?",
        "run.yaml:3: model.name: is required",
        "run.yaml:4: model.nam: unknown key; did you mean model.name?",
        "run.yaml:5: model.lora.alpha: should be greater than or equal to 1, not 0",
        "run.yaml:5: model.lora.rank: should be a valid integer, not '16'",
        "run.yaml:5: model.lora.targets: should be a valid string, not 3",
        "run.yaml:6: data.held_out: is required",
        "run.yaml:7: data.train: needs a preset, a path or an env",
        "run.yaml:8: data.dev.preset: there is no preset 'gsm8kk'; did you mean gsm8k?",
        "run.yaml:9: learning_rate: unknown key; did you mean train.learning_rate?",
        "run.yaml:10: verifier: should be math, math-verify, code, environment, reasoning-gym, FILE.py:function or "
        "package.module:function, not 'maths'; did you mean math?",
        "run.yaml:12: game.grop_size: unknown key; did you mean game.group_size?",
        "run.yaml:13: game.show_draft: should be a valid boolean, not 'no'; write true or false",
        "run.yaml:14: game.stack: should be 'coop', 'adv' or 'margin', not 'advv'; did you mean adv?",
        "run.yaml:16: train.tokens_per_pass: should be greater than or equal to 1, not 0",
        "run.yaml:17: train.warmup: should be a finite number, not inf",
        "run.yaml:18: train.banana: unknown key",
        "run.yaml:19: sampler.urls: belongs to sampler.engine vllm, which this config does not choose: leave it out",
        "run.yaml:21: eval: should be a section of keys and values, not 4",
        "run.yaml:22: report_to.0: should be 'trackio', 'wandb' or 'tensorboard', not 'wandbb'; did you mean wandb?",
        "command line: 'save.every' should look like section.key=value",
        "command line: train.epochs: should be a valid integer, not 'many'",
    ]


def test_files_that_do_not_exist_are_listed_with_the_other_mistakes(tmp_path: Path) -> None:
    text = MINIMAL.replace("train: {preset: gsm8k, take: 100}", "train: {path: words.jsonl}") + "trian: {}\n"
    assert faults(write(tmp_path, text)) == [
        "run.yaml:6: data.train.path: words.jsonl does not exist",
        "run.yaml:10: trian: unknown key; did you mean train?",
    ]
    (tmp_path / "words.jsonl").touch()
    assert len(faults(tmp_path / "run.yaml")) == 1


def test_the_error_shows_its_list_and_says_what_to_do(minimal: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_config(minimal, ["train.seed=-1", "train.sed=1"])
    error = caught.value
    assert isinstance(error, ConfigError)
    assert error.exit_code == 2
    assert str(error).splitlines()[0].endswith("run.yaml: 2 mistakes, nothing was started")
    assert [line.strip() for line in str(error).splitlines()[1:]] == list(error.faults)


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("train.seed", "'train.seed' should look like section.key=value"),
        ("=3", "'=3' should look like section.key=value"),
        ("train..seed=3", "'train..seed=3' should look like section.key=value"),
        ("arm.x=3", "arm.x: arm is a value, not a section"),
        ("train.seed=[1", "train.seed: is not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("report_to={a: 1, a: 2}", "report_to: report_to.a: written twice, first on line 1"),
        ("train.sede=3", "train.sede: unknown key; did you mean train.seed?"),
        ("extends=base.yaml", "extends: unknown key"),
        ("arm=", "arm: should be a valid string, not None"),
    ],
)
def test_overrides_that_cannot_be_meant(minimal: Path, override: str, fault: str) -> None:
    assert f"command line: {fault}" in faults(minimal, override)


@pytest.mark.parametrize("given", [{"train.max_steps": 2}, ["train.max_steps=2"]])
def test_an_override_that_is_no_text_is_answered_with_one(minimal: Path, given: object) -> None:
    with pytest.raises(InputError, match=r"train\.max_steps.* is not an override") as caught:
        load_config(minimal, [given])  # type: ignore[list-item]
    assert "'train.max_steps=2'" in caught.value.fix


def test_an_override_set_twice_is_a_mistake(minimal: Path) -> None:
    assert faults(minimal, "train.seed=1", "train.seed=2") == ["command line: train.seed: set twice"]


def test_a_rule_broken_by_the_arm_is_reported_at_what_was_written(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "game:\n  opponent: self\n")
    assert faults(path) == [
        "run.yaml:11: game.stack: adv and margin pay on a rival's outcome, so they need game.opponent rival; write coop"
    ]


def test_a_rule_waits_for_its_own_fields_only(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL + "train: {seed: x}\ngame: {stack: adv, opponent: nobody}\n")
    assert faults(path) == [
        "run.yaml:10: train.seed: should be a valid integer, not 'x'",
        "run.yaml:11: game.opponent: should be 'rival', 'self' or 'none', not 'nobody'",
    ]


def test_an_empty_section_has_its_defaults(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, MINIMAL + "train:\n  # seed: 3\n")).train.seed == 0


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("sampler.network=banana", "is not a network"),
        ("sampler.network=10.0.0.1/8", "is not a network"),
        ("sampler.urls=[http://user:secret@127.0.0.1:8000]", "holds a password"),
        ("train.seed=" + "9" * 5000, "should be a valid integer"),
    ],
)
def test_values_that_would_fail_later_are_refused_now(minimal: Path, override: str, reason: str) -> None:
    (fault,) = faults(minimal, override)
    assert reason in fault
    assert "secret" not in fault
    assert len(fault) < 400


@pytest.mark.parametrize("overrides", [["\udc80=1"], []])
def test_a_key_that_is_not_unicode_is_a_mistake(tmp_path: Path, overrides: list[str]) -> None:
    text = MINIMAL if overrides else MINIMAL + '"\\ud800": 1\n'
    assert len(faults(write(tmp_path, text), *overrides)) == 1


def test_thousands_of_unknown_keys_are_listed_in_no_time(tmp_path: Path) -> None:
    text = MINIMAL + "".join(f"unknown_{n}: 1\n" for n in range(5000))
    started = time.process_time()
    assert len(faults(write(tmp_path, text))) == 5000
    assert time.process_time() - started < 6
