"""How a run directory is written: durable files, lock, logs, bouts, pair, provenance. Start at `agon.rundir`."""
