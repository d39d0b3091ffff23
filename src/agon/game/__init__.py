"""The game: arithmetic on verdicts and strings. Standard library and `agon.types` only, so that it can be checked by
reading.
"""
