"""The run directory: an API of plain files, described file by file and column by column in docs/rundir.md."""

from agon.rundir.directory import RunDir, read_bouts

__all__ = ["RunDir", "read_bouts"]
