"""Verdicts on probes, for the tests of the math verifier."""

from __future__ import annotations

from agon.types import Reason
from agon.verify.math.probes import Probe, row
from agon.verify.math.verifier import MathVerifier


def reasons(verifier: MathVerifier, *probes: Probe) -> list[Reason]:
    return [verdict.reason for verdict in verifier.verify_many(row(*probe) for probe in probes)]
