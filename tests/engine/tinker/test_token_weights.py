"""Weights of tokens: with whatever average a service takes, the gradient is that of the config's loss."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agon.config import Train
from agon.engine.synthetic import rollout, stream
from agon.engine.tinker.token_weights import Averaging, PassMetrics, rows_by_policy
from agon.errors import EngineError
from agon.protocols import Tokens
from agon.types import Policy

SHORT, LONG = Tokens((1, 2, 3), (4, 5), (-1.0, -1.0)), Tokens((1,), (2, 3, 4, 5, 6, 7), (-2.0,) * 6)
ROWS = [rollout(Policy.A, 0, SHORT, 1.0), rollout(Policy.A, 1, LONG, -0.5), rollout(Policy.A, 2, LONG, None)]
SUM = Averaging(over_positions=False, over_rows=False)
DENOMINATORS = {"grpo": (2 * 2, 6 * 2), "dapo": (8, 8), "dr_grpo": (2 * 50, 2 * 50)}


def train(**fields: Any) -> Train:
    return Train.model_validate({"max_completion_tokens": 50} | fields)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo"])
@pytest.mark.parametrize("averaging", [SUM, Averaging(True, True), Averaging(True, False), Averaging(False, True)])
def test_the_service_s_average_of_the_weights_is_the_config_s_loss(loss: str, averaging: Averaging) -> None:
    batch = rows_by_policy([stream(Policy.A, [ROWS])], train(loss=loss), averaging)[Policy.A]
    for row, advantage, denominator in zip(batch.rows, (1.0, -0.5), DENOMINATORS[loss], strict=True):
        positions = row.tokens.size - 1 if averaging.over_positions else 1
        rows = 2 if averaging.over_rows else 1
        averaged = [weight / positions / rows for weight in row.weights]
        assert averaged == pytest.approx([advantage / denominator] * len(row.tokens.completion_ids))


def test_masked_rows_are_counted_and_not_sent_and_streams_of_one_policy_are_one_batch() -> None:
    streams = [stream(Policy.A, [ROWS]), stream(Policy.A, [ROWS[:1]]), stream(Policy.B, [ROWS[2:]])]
    batches = rows_by_policy(streams, train(), SUM)
    assert {policy: (len(batch.rows), batch.masked) for policy, batch in batches.items()} == {
        Policy.A: (3, 1),
        Policy.B: (0, 1),
    }
    assert batches[Policy.A].tokens == 10


def test_a_row_without_log_probs_is_refused() -> None:
    row = rollout(Policy.A, 0, Tokens((1,), (2,)), 1.0)
    with pytest.raises(EngineError, match="no log-probs"):
        rows_by_policy([stream(Policy.A, [[row]])], train(), SUM)


def test_a_row_with_tool_results_is_refused() -> None:
    row = rollout(Policy.A, 0, Tokens((1,), (2, 3), (-1.0, -1.0), (True, False)), 1.0)
    with pytest.raises(EngineError, match="several turns"):
        rows_by_policy([stream(Policy.A, [[row]])], train(), SUM)


def test_metrics_compare_sampler_and_learner_token_by_token() -> None:
    batch = rows_by_policy([stream(Policy.A, [ROWS[:1]])], train(), SUM)[Policy.A]
    values = PassMetrics.of(batch, [[-1.0, -0.5]]).values()
    assert values["logp_diff_mean"] == pytest.approx(0.25)
    assert values["logp_diff_max"] == pytest.approx(0.5)
    assert values["importance_mean"] == pytest.approx((1 + math.exp(0.5)) / 2)
    assert values["loss"] == pytest.approx(-(1 + math.exp(0.5)) / 2)
