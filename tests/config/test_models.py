"""The tree itself: frozen, described, filled from the arm, and bound by its rules."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from pydantic import BaseModel, ValidationError

from agon import data
from agon.config import PRESETS, Config, GameConfig, Source, diff, resolved
from agon.config.arms import ARMS, ROOT, resolve
from agon.config.keys import names, sections
from agon.config.rules import RULES, Rule
from agon.doors import doors
from agon.game.rules import Game

from .helpers import config, description


def models(model: type[BaseModel] = Config) -> list[type[BaseModel]]:
    return [model, *(inner for section in sections(model).values() for inner in models(section))]


def test_every_field_says_what_it_is() -> None:
    bare = [
        f"{model.__name__}.{name}"
        for model in models()
        for name, info in model.model_fields.items()
        if not info.description or not info.description.rstrip().endswith(".")
    ]
    assert not bare


def test_ours_comes_with_a_reason() -> None:
    ours = [info.description or "" for model in models() for info in model.model_fields.values()]
    marked = [text for text in ours if re.match("our", text, re.IGNORECASE)]
    assert len(marked) > 15
    assert all(text.startswith("Our choice: ") and len(text.split()) >= 6 for text in marked)


def test_the_names_of_presets_are_those_of_the_data() -> None:
    assert set(PRESETS) == {*data.PRESETS, "tabletop"}
    assert all(f"`{name}`" in description("data.train.preset") for name in PRESETS)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        config().train.seed = 3  # type: ignore[misc]


@pytest.mark.parametrize("arm", ARMS)
def test_the_arm_fills_the_game(arm: str) -> None:
    game = config(arm=arm).game.model_dump()
    assert {field: game[field] for field in ROOT} == resolve(arm)


def test_what_is_written_beats_the_arm() -> None:
    game = config(arm="coop", game={"roles": "fixed", "tiebreak_weight": 0.25}).game
    assert (game.stack, game.roles, game.tiebreak_weight) == ("coop", "fixed", 0.25)


def test_a_game_given_as_an_object_still_takes_its_open_fields_from_the_arm() -> None:
    game = config(arm="coop", game=GameConfig(group_size=4)).game
    assert (game.group_size, game.stack) == (4, "coop")


def test_defaults_of_the_game_are_the_root_arm() -> None:
    assert config(arm="agon").game == GameConfig()


@pytest.mark.parametrize("changes", [{"arm": "agno"}, {"model": {}}, {"verifier": "maths"}, {"games": {}}])
def test_what_is_not_a_config_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        config(**changes)


@pytest.mark.parametrize("value", ["16", 16.5, True, 0, None])
def test_a_whole_number_is_nothing_else(value: object) -> None:
    with pytest.raises(ValidationError):
        config(model={"name": "x", "lora": {"rank": value}})


@pytest.mark.parametrize("value", ["1e-3", True, float("nan"), float("inf"), 0])
def test_a_learning_rate_is_a_finite_number_above_zero(value: object) -> None:
    with pytest.raises(ValidationError):
        config(train={"learning_rate": value})


def test_a_server_is_named_once() -> None:
    with pytest.raises(ValidationError, match="names a server twice"):
        config(sampler={"urls": ["http://localhost:8000", "http://localhost:8000/"]})


def test_training_never_narrows_the_sampling() -> None:
    with pytest.raises(ValidationError):
        config(train={"top_p": 0.95})


TINKER: dict[str, object] = {"sampler": {"engine": "tinker"}}
NF4 = {"model": {"name": "x", "quantize": "nf4", "dtype": "bfloat16"}}
BROKEN: list[tuple[str, dict[str, object]]] = [
    ("game.show_draft", {"game": {"opponent": "self", "show_draft": False, "stack": "coop"}}),
    ("game.stack", {"game": {"opponent": "self"}}),
    ("game.tiebreak_weight", {"arm": "grpo", "game": {"tiebreak_weight": 0.5}}),
    ("game.wait_for_all_drafts", {"arm": "grpo", "game": {"wait_for_all_drafts": True}}),
    ("train.staleness", {"train": {"staleness": 1, "importance": "none"}}),
    ("reward.weights", {"reward": {"terms": ["a.py:f", "a.py:g"], "weights": [1.0]}}),
    ("sampler.urls", {"sampler": {"urls": ["http://user:secret@localhost"]}}),
    ("sampler.network", {"sampler": {"network": "10.0.0.1/8"}}),
    ("sampler.max_model_len", {"sampler": {"max_model_len": 4096}, "eval": {"max_completion_tokens": 100}}),
    ("sampler.max_model_len", {"sampler": {"max_model_len": 4096}, "train": {"max_completion_tokens": 100}}),
    ("eval.direction", {"arm": "grpo", "eval": {"direction": "both"}}),
    ("verifier", {"verifier": "code"}),
    ("verifier", {"verifier": "reasoning-gym"}),
    # vllm
    ("train.staleness", {"train": {"staleness": 1}, "sampler": {"sleep": True}}),
    ("sampler.replicas", {"sampler": {"replicas": 2, "urls": ["http://localhost"]}}),
    ("sampler.options", {"sampler": {"options": {"worker_cls": "a.stranger.Worker"}}}),
    ("sampler.options", {"sampler": {"options": {"tensor_parallel_size": 0}}}),
    ("sampler.options", {"sampler": {"options": {"pipeline_parallel_size": 2}}}),
    ("sampler.options", {"sampler": {"urls": ["http://localhost"], "options": {"max_num_seqs": 4}}}),
    ("sampler.max_loras", {"sampler": {"max_loras": 1}}),
    ("sampler.options", {"sampler": {"options": {"quantization": "bitsandbytes"}}}),
    ("sampler.options", NF4 | {"sampler": {"options": {"quantization": "bitsandbytes", "tensor_parallel_size": 2}}}),
    # hf
    ("sampler.urls", {"sampler": {"engine": "hf", "urls": ["http://localhost"]}}),
    ("sampler.replicas", {"sampler": {"engine": "hf", "replicas": 2}}),
    # tinker
    ("train.staleness", TINKER | {"train": {"staleness": 1}}),
    ("sampler.urls", {"sampler": {"engine": "tinker", "urls": ["http://localhost", "http://other"]}}),
    ("model.quantize", TINKER | {"model": {"name": "x", "quantize": "nf4"}}),
    ("train.gpus", TINKER | {"train": {"gpus": 2}}),
    ("train.beta", TINKER | {"train": {"beta": 0.1}}),
    ("train.temperature", TINKER | {"train": {"temperature": 0.9}}),
    ("train.importance", TINKER | {"train": {"importance": "none"}}),
    ("model.lora.targets", TINKER | {"model": {"name": "x", "lora": {"targets": ["q_proj"]}}}),
    ("model.lora.layers", TINKER | {"model": {"name": "x", "lora": {"layers": 1}}}),
    ("model.init.a", TINKER | {"model": {"name": "x", "init": {"a": "somewhere"}}}),
    ("model.init.b", TINKER | {"model": {"name": "x", "init": {"b": "somewhere"}}}),
    # rivals
    ("rival.kind", {"arm": "grpo", "rival": {"kind": "frozen"}}),
    ("rival.kind", {"arm": "fixed-roles", "rival": {"kind": "league"}}),
    ("rival.kind", {"arm": "plain-pair", "rival": {"kind": "frozen"}}),
    ("rival.every", {"rival": {"every": 5}}),
    ("rival.every", {"rival": {"kind": "frozen", "every": 5}}),
    ("eval.direction", {"rival": {"kind": "league"}, "eval": {"direction": "both"}}),
]


def with_source(split: str, **source: object) -> dict[str, object]:
    plain = {"preset": "gsm8k", "take": 100}
    return {"data": {"train": plain, "dev": plain, "held_out": plain, split: source}}


BROKEN.append(("verifier", with_source("train", preset="reasoning-gym:chain_sum", take=10)))
BROKEN.append(("verifier", with_source("train", path="x.jsonl") | {"verifier": "environment"}))
GYM = {"env": "reasoning-gym:chain_sum", "take": 10}
FILE = {"train": GYM, "dev": {"path": "x.jsonl"}, "held_out": GYM}
BROKEN.append(("verifier", {"data": FILE, "verifier": "environment"}))
BROKEN.append(("verifier", with_source("train", path="x.jsonl", columns={"question": "q", "answer": ""})))
for part in ("train", "dev", "held_out"):
    BROKEN += [
        (f"data.{part}.columns", with_source(part, preset="gsm8k", columns={"question": "q"})),
        (f"data.{part}.options", with_source(part, path="x.jsonl", options={"difficulty": 3})),
        (f"data.{part}.take", with_source(part, preset="tabletop")),
        ("verifier", with_source(part, **GYM)),
    ]


@pytest.mark.parametrize("source", [{"path": "x.jsonl"}, {"preset": "gsm8k"}, {"template": "#### 1"}])
def test_an_environment_brings_its_problems_and_a_template_has_a_place_for_the_answer(source: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="remove path, or remove env" if "path" in source else ""):
        Source.model_validate(GYM | source)
    with pytest.raises(ValidationError, match="template"):
        Source.model_validate({"preset": "gsm8k", "template": "{}"})
    assert Source.model_validate(GYM | {"template": "#### {}"}).named == "reasoning-gym:chain_sum"


@pytest.mark.parametrize(("key", "values"), BROKEN, ids=[f"{n}-{key}" for n, (key, _) in enumerate(BROKEN)])
def test_a_broken_rule_is_reported_at_its_key_alone(key: str, values: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**values)
    message = str(caught.value.errors()[0]["ctx"]["error"])
    assert message.startswith(f"{key} ")
    assert ";" not in message or message.count("; ") == message.partition(" ")[2].count("; ")


def all_rules() -> list[Rule]:
    brought = [kind.rules for kind in (*doors("agon.backends"), *doors("agon.rivals"))]
    return [*RULES, *(rule for rules in brought for rule in rules)]


def test_every_rule_has_a_config_that_breaks_it() -> None:
    reasons = set()
    for _, values in BROKEN:
        with pytest.raises(ValidationError) as caught:
            config(**values)
        reasons.add(str(caught.value.errors()[0]["ctx"]["error"]).partition(" ")[2])
    unbroken = [rule.keys for rule in all_rules() if rule.reason not in reasons]
    assert not unbroken


def test_the_kernel_has_few_rules_and_names_no_engine() -> None:
    assert len([rule for rule in RULES if len(rule.keys) > 1]) <= 25
    assert not {"sampler.engine", "rival.kind"} & {key for rule in RULES for key in rule.keys}


@pytest.mark.parametrize("size", ["2", 0, -2, 2.0, True])
def test_an_engine_is_split_over_a_whole_number_of_gpus(size: object) -> None:
    assert config(sampler={"options": {"tensor_parallel_size": 2}}).sampler.options == {"tensor_parallel_size": 2}
    with pytest.raises(ValidationError, match="a whole number, 1 or more"):
        config(sampler={"options": {"tensor_parallel_size": size}})


@pytest.mark.parametrize("size", [2, "2", 0])
def test_an_engine_is_not_split_into_stages(size: object) -> None:
    assert config(sampler={"options": {"pipeline_parallel_size": 1}}).sampler.options == {"pipeline_parallel_size": 1}
    with pytest.raises(ValidationError, match="pipeline_parallel_size must be 1"):
        config(sampler={"options": {"pipeline_parallel_size": size}})


@pytest.mark.parametrize("key", sorted({key for rule in all_rules() for key in rule.keys}))
def test_rules_speak_of_keys_that_exist(key: str) -> None:
    assert key in names()


def test_diff_names_the_changed_keys() -> None:
    old, new = config(arm="agon"), config(arm="coop", train={"seed": 1}, report_to=["wandb"])
    assert diff(old, new) == ["arm", "game.stack", "report_to", "train.seed"]
    assert diff(old, old) == []


def test_diff_sees_a_key_that_only_one_side_has() -> None:
    source = {"preset": "tabletop", "take": 10}
    data = {"train": source, "dev": source, "held_out": source}
    with_option = {**data, "train": {**source, "options": {"difficulty": 2}}}
    assert diff(config(data=data), config(data=with_option)) == [
        "data.train.options",
        "data.train.options.difficulty",
    ]


def test_resolved_is_a_config_again() -> None:
    before = config(arm="shared-opponent", train={"clip_norm": None})
    assert Config.model_validate(resolved(before)) == before


def test_the_game_and_its_config_share_one_list_of_fields() -> None:
    """An arm's field is written in two places, under one name, with one default."""
    rules = {field.name: field for field in fields(Game)}
    shared = {name: (str(info.annotation), info.default) for name, info in GameConfig.model_fields.items()}
    assert shared.keys() <= rules.keys()
    assert {name: rules[name].default for name in shared} == {name: default for name, (_, default) in shared.items()}
    assert rules.keys() - shared.keys() == {"max_peek_tokens", "sampling", "seed", "rival"}
    assert set(ROOT) <= shared.keys()
