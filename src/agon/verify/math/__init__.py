"""Parse and compare mathematical answers."""
