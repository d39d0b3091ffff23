"""Keys of TRL: each is answered with a key that exists here."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.config.keys import names
from agon.config.trl_names import FIXED, KEYS, SHORT, trl_hint

from .helpers import MINIMAL, faults, write


@pytest.mark.parametrize("field", KEYS | SHORT)
def test_every_answer_is_a_key_of_the_config(field: str) -> None:
    assert (KEYS | SHORT)[field].split(" ")[0] in names()


def test_no_key_of_the_config_is_called_one_of_trl() -> None:
    assert not {name.split(".")[-1] for name in names()} & {*KEYS, *FIXED} - {"top_p"}  # of `eval`


def test_every_field_is_one_of_trl() -> None:
    fields = pytest.importorskip("trl").GRPOConfig.__dataclass_fields__
    assert {*KEYS, *FIXED} - fields.keys() <= {"warmup_ratio"}  # of transformers before 5


def test_a_key_of_the_same_section_comes_first() -> None:
    assert trl_hint(("max_completion_length",)) == "in Agon this is train.max_completion_tokens"
    assert trl_hint(("eval", "max_completion_length")) == "in Agon this is eval.max_completion_tokens"
    assert trl_hint(("train", "lr")) == "in Agon this is train.learning_rate"
    assert trl_hint(("train", "banana")) is None


def test_what_people_from_trl_type_is_answered_with_our_keys(tmp_path: Path) -> None:
    typed = """\
train:
  num_generations: 8
  per_device_train_batch_size: 4
  max_completion_length: 256
  epsilon: 0.2
learning_rate: 1e-5
beta: 0.04
temperature: 0.9
"""
    assert [fault.split(": ", 1)[1] for fault in faults(write(tmp_path, MINIMAL + typed))] == [
        "train.num_generations: in Agon this is game.group_size (half of it: as many drafts, then as many challenges)",
        "train.per_device_train_batch_size: in Agon this is train.problems_per_step (of all devices together)",
        "train.max_completion_length: in Agon this is train.max_completion_tokens",
        "train.epsilon: Agon has no such key: ratios are clipped at 0.2",
        "learning_rate: unknown key; did you mean train.learning_rate?",
        "beta: unknown key; did you mean train.beta?",
        "temperature: unknown key; did you mean train.temperature?",
    ]
