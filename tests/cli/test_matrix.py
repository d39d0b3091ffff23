"""What `agon matrix` prints."""

from __future__ import annotations

from agon.report.matrix_report import MatrixReport


def test_the_terminal_gets_text_and_the_file_markdown() -> None:
    report = MatrixReport(arms=["grpo"], seeds=[0], cells=[], missing=["grpo-s0"], matched=True, comparison=None)
    assert "|" not in str(report)
    assert "grpo-s0" in str(report)
    assert report.markdown().startswith("# Matrix: 1 arms")
    assert "| grpo-s0 | missing |" in report.markdown()
