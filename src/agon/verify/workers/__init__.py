"""Killable processes for checks that may hang, crash or eat memory."""
