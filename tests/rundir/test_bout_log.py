"""The bouts of an evaluation come back from their lines, and a torn line is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agon.rundir.bout_log import BoutLog, key
from agon.rundir.bouts import bout_of, row
from agon.types import Bout, Prompt
from tests.rundir.test_bouts import bout


def bare(given: Bout) -> Bout:
    """What a reader gets back: no prompts, rewards or advantages."""
    rollouts = [replace(each, prompt=Prompt(()), reward=None, advantage=None) for each in given.rollouts]
    return replace(given, draft=rollouts[0], challenge=rollouts[1] if len(rollouts) > 1 else None)


def test_one_codec_serves_training_and_evaluation() -> None:
    for given in (bout(), Bout(bout().draft), replace(bout(), other_peek="theirs")):
        values = row(given, step=3, arm="agon") | {"other_peek": given.other_peek}
        assert bout_of(values) == bare(given)


def test_bouts_come_back_in_order_and_the_first_of_two_counts(tmp_path: Path) -> None:
    log = BoutLog(tmp_path / "ab.jsonl")
    one = replace(bout("one"), rival=None, other_peek="theirs")
    two = replace(one, draft=replace(one.draft, index=1, seconds=1.234))
    log.append([one, two], "ab")
    log.append([replace(one, peek="changed")], "ab")
    back = log.read()
    assert list(back) == [key(one), key(two)]
    assert back[key(one)] == bare(one)
    assert back[key(two)].draft.seconds == 1.234


def test_a_torn_last_line_is_skipped_and_then_cut(tmp_path: Path) -> None:
    log = BoutLog(tmp_path / "ab.jsonl")
    log.append([bout()], "ab")
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + whole[:-5])
    assert len(log.read()) == 1
    log.truncate()
    assert log.path.read_bytes() == whole
