"""`agon audit CONFIG.yaml`: the audit of the environment that a config trains on, as `agon-judge audit` takes it."""

from __future__ import annotations

from agon.errors import InputError


def words_for(words: list[str]) -> list[str]:
    """The words of an audit, with a config replaced by its environment, options and template; others as they are."""
    config = next((word for word in words[1:] if word.endswith((".yaml", ".yml"))), None)
    if config is None:
        return words
    from agon.config import load_config
    from agon.config.models import ENVIRONMENTS

    source = load_config(config).data.train
    if not (source.named or "").startswith(ENVIRONMENTS):
        fix = "audit its verifier with rows of yours: agon audit FILE.py:function --rows ROWS.jsonl"
        raise InputError(f"{config} trains on no environment", fix=fix)
    told = [word for name, value in source.options.items() for word in ("--option", f"{name}={value}")]
    told += ["--template", source.template] if source.template and "--template" not in words else []
    place = words.index(config)
    return [*words[:place], str(source.named), *told, *words[place + 1 :]]
