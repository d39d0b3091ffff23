"""`agon audit CONFIG.yaml`: the audit of the environment that a config trains on, as `agon-judge audit` takes it."""

from __future__ import annotations

from agon.errors import InputError


def words_for(words: list[str]) -> list[str]:
    """The words of an audit, with a config replaced by its environment, options and template; others as they are."""
    if len(words) < 2 or not words[1].endswith((".yaml", ".yml")):
        return words
    from agon.config import load_config
    from agon.config.models import ENVIRONMENTS

    source = load_config(words[1]).data.train
    if not (source.named or "").startswith(ENVIRONMENTS):
        fix = "audit its verifier with rows of yours: agon audit FILE.py:function --rows ROWS.jsonl"
        raise InputError(f"{words[1]} trains on no environment", fix=fix)
    told = [word for name, value in source.options.items() for word in ("--option", f"{name}={value}")]
    told += ["--template", source.template] if source.template and "--template" not in words else []
    return ["audit", str(source.named), *told, *words[2:]]
