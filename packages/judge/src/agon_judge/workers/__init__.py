"""Killable processes for checks that may hang, crash or use too much memory."""
