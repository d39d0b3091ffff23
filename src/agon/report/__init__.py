"""The match viewer, tables, figures and model cards: everything that shows a run. Reads files; imports no engine."""
