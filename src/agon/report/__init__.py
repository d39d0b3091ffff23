"""What a run looks like: the match viewer, tables and figures. Reads files only, never an engine or a trainer."""
