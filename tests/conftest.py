"""For all tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings

settings.register_profile("agon", deadline=None)
"""An example may take as long as a busy machine needs."""
settings.load_profile("agon")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """A test in quarantine runs, and its failure is reported by name without failing the build."""
    for item in items:
        if mark := item.get_closest_marker("quarantine"):
            if not mark.kwargs.get("reason"):
                raise pytest.UsageError(f'{item.nodeid}: say why: @pytest.mark.quarantine(reason="...")')
            item.add_marker(pytest.mark.xfail(reason=f"quarantine: {mark.kwargs['reason']}", strict=False))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The seconds that each folder of tests took, over all workers, the slowest first."""
    seconds = dict[str, float]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = report.nodeid.partition("::")[0].rpartition("/")[0]
                seconds[folder] = seconds.get(folder, 0.0) + report.duration
    if len(seconds) > 1:
        terminalreporter.section("seconds by folder")
        for folder, spent in sorted(seconds.items(), key=lambda pair: -pair[1]):
            terminalreporter.line(f"{spent:8.1f}  {folder}")
