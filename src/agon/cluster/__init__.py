"""Work on other machines: actors and commands on the nodes of a Ray cluster. The only home of Ray (docs/scale.md)."""
