"""Between play and update: which streams are learnt from, and whether they may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from agon.errors import EngineError, VerifierError
from agon.game.rules import Game
from agon.rundir.records import SystemCounts
from agon.types import Played, Policy, Reason, Stream, Version
from agon.verify.given import is_given


def trained_streams(played: Played, game: Game) -> list[Stream]:
    """The streams that somebody learns from."""
    return [stream for stream in played.streams if game.learns(stream.policy)]


def check_versions(streams: Iterable[Stream], versions: Mapping[Policy, Version]) -> None:
    """Refuse a row that was drawn by a different version than the one that plays its step."""
    for stream in streams:
        for row in stream.rollouts():
            if row.completion.version != versions[stream.policy]:
                raise EngineError(
                    f"a row of problem {row.problem.id} was drawn by {row.completion.version}, "
                    f"and {versions[stream.policy]} plays this step",
                    fix="nothing was learnt from this step; report this, then resume with: agon train RUN --resume",
                )


def check_counted(counts: Mapping[str, SystemCounts], failures: Counter[str], run: Path, verifier: str) -> None:
    """Stop before a point is written if most answers have no verdict: it is measured again after a resume."""
    failed = sum(each.ungraded for each in counts.values())
    asked = failed + sum(each.n for each in counts.values())
    if 2 * failed > asked:
        why = next((detail for detail, _ in failures.most_common(1)), "")
        raise VerifierError(
            f"{failed} of {asked} answers of this evaluation have no verdict, most often: "
            f"{why or 'a broken verifier, or bad references'}",
            fix=f"nothing was chosen by it; {_repair(verifier, run)}, then: agon train {run} --resume",
        )


def check_verdicts(streams: Iterable[Stream], run: Path, verifier: str) -> None:
    """Stop before the update if the verifier failed on most rows: the step is then played again after a resume."""
    verdicts = [row.verdict for stream in streams for row in stream.rollouts()]
    failed = [verdict for verdict in verdicts if verdict.reason is Reason.INFRA]
    if 2 * len(failed) > len(verdicts):
        raise VerifierError(
            f"the verifier failed on {len(failed)} of {len(verdicts)} rollouts of this step: {failed[0].detail}",
            fix=f"nothing was learnt from it; {_repair(verifier, run)}, then: agon train {run} --resume",
        )


def _repair(verifier: str, run: Path) -> str:
    """What shows why a verifier fails; no command knows one that Python code gave."""
    if is_given(verifier):
        return "correct the function"
    return f"run `agon doctor` and `agon data check {run}/config.yaml`"
