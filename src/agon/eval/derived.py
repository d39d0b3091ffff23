"""What follows from the results of single systems: the cascade by its direction, single-pass means, the pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agon.eval.distance import adapter_distance
from agon.eval.evaluate import Evaluation, both_policies, chosen_cascade, post_hoc_cascade, single_pass
from agon.rundir.files import write_json
from agon.types import Policy

if TYPE_CHECKING:
    from agon.eval.target import Target

Results = dict[str, dict[str, Any]]


def derive(
    evaluation: Evaluation, measured: Results, target: Target, direction: str, divergence: bool
) -> tuple[Results, dict[str, Any] | None, list[str]]:
    """All results by name, what is known of the pair, and sentences that must be said."""
    results, notes = dict(measured), []
    if {"ab", "ba"} <= results.keys():
        notes = _cascade(evaluation, results, target, direction)
    elif {"ab", "ba"} & results.keys():
        notes = ["one direction only, as asked: the other was not measured"]
    if {"a", "b"} <= results.keys() and target.game is not None and not target.game.shown:
        results["single-pass"] = evaluation.write("single-pass", single_pass(results["a"], results["b"]))
    return results, _pair(evaluation, results, target, divergence), notes


def _cascade(evaluation: Evaluation, results: Results, target: Target, direction: str) -> list[str]:
    """The reported cascade under its own name. Both directions always stand beside it."""
    both = results["ab"], results["ba"]
    if direction == "post-hoc":
        results["cascade-post-hoc"] = evaluation.write("cascade-post-hoc", post_hoc_cascade(*both))
        return []
    chosen = target.pair.info.direction if target.pair else None
    if direction == "dev" and chosen is None:
        return ["this pair has no direction: dev never chose one (eval.points 0), so both are reported"]
    if direction == "dev" and chosen is not None:
        results["cascade"] = evaluation.write("cascade", chosen_cascade(*both, chosen))
    return []


def _pair(evaluation: Evaluation, results: Results, target: Target, divergence: bool) -> dict[str, Any] | None:
    """Complementarity of A and B, and how far apart they are; written to pair.json."""
    if target.pair is None or target.game is None or target.game.opponent != "rival":
        return None
    about: dict[str, Any] = {"schema": 1, "run": dict(evaluation.facts), "settings": dict(evaluation.settings)}
    if {"a", "b"} <= results.keys():
        about["complementarity"] = both_policies(results["a"], results["b"])
    about["weights"] = adapter_distance(target.pair.adapter(Policy.A), target.pair.adapter(Policy.B))
    if divergence:
        from agon.eval.machines import policy_kl

        about["policy_kl"] = policy_kl(target, evaluation.problems)
    write_json(evaluation.folder / "pair.json", about)
    return about
