"""The base that ships with the package, and its pretraining."""
