"""What a word means: a metric, a config key, a symptom of a run, an error, a word of the game.

No text lives here twice: metrics are explained by the docstrings of their records, keys by those of the config models,
symptoms by those of their checks, errors by the tree in errors.py, columns, kinds and causes of
`agon diagnose` where they are printed, arms by their table, other words by assets/vocabulary.md. `agon explain` prints
them and docs/metrics.md is written from them.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from itertools import pairwise

from agon import errors
from agon.config.arms import ARMS
from agon.config.explain import explain as explain_key
from agon.config.explain import names as config_keys
from agon.config.trl_names import trl_hint
from agon.errors import InputError
from agon.game.budget import Entry
from agon.game.exchange import Exchange
from agon.rundir.health import CHECKS, dev_still
from agon.rundir.records import Point, StepRecord, StreamStats, SystemCounts, Timing
from agon.rundir.results import Measures
from agon_lens import terms
from agon_lens.findings import COLUMNS, MEANING, TREND

METRICS: dict[str, tuple[type, ...]] = {
    "steps.jsonl": (StepRecord, StreamStats, Exchange, Entry),
    "timings.jsonl": (Timing,),
    "points.json": (Point, SystemCounts),
    "evals/<data>/<system>.json": (Measures,),
}
"""Where a metric is written, and the records that hold it."""
UPDATE = {
    "loss": "The policy loss of the step, summed over its micro-batches.",
    "grad_norm": "The norm of the gradient before clipping.",
    "learning_rate": "The learning rate of the step; 0 in the first one when there is warmup.",
    "entropy": "Mean entropy of the policy over the tokens it learns from, in nats.",
    "kl": "Mean KL from the base over the same tokens; only with train.beta above 0.",
    "clip_low": "Share of tokens whose ratio was clipped from below.",
    "clip_high": "Share of tokens whose ratio was clipped from above.",
    "logp_diff_mean": "Mean distance between the sampler's log-probabilities and the learner's, per token.",
    "logp_diff_max": "The largest such distance: a large one indicates a stale or swapped adapter.",
    "importance_mean": "Mean truncated importance ratio between learner and sampler.",
    "rows": "Rollouts that reached the learner.",
    "masked_rows": "Rollouts of dead groups or without a verdict: they teach nothing.",
    "tokens": "Tokens that the loss was computed on.",
    "micro_batches": "Forward and backward passes of the step.",
    "updated": "1 if a row carried signal, so that the optimizer took a step; at a rate of 0 it moves nothing.",
}
"""What the learner reports for each policy, under `update` in steps.jsonl."""
HEALTHY = {
    "pass_rate": "between 0.1 and 0.9, rising slowly",
    "reward_mean": "rising; if only the format rises, pass_rate stays at 0",
    "live_groups": "a quarter of the groups or more",
    "well_formed": "more than nine in ten after a few dozen steps",
    "truncated": "below 0.1",
    "tokens_mean": "stable, or rising with pass_rate",
    "conversions": "more than regressions",
    "regressions": "fewer than conversions",
    "empty_peeks": "below one in five",
    "leaks": "few; short numbers also occur by chance",
    "echoes": "fewer than half of the wrong drafts",
    "bonus_weight": "1.4 to 1.5; 2.2 to 2.4 at weight 4",
    "bonus_groups": "one group in ten or more; else the bonus teaches nothing",
    "ungraded": "0",
    "grad_norm": "finite, without long rises",
    "entropy": "falling slowly, not to 0",
    "kl": "below a few tenths of a nat",
    "logp_diff_mean": "below 0.05 in bfloat16, 1e-5 in float32",
    "importance_mean": "near 1",
    "updated": "1, unless every group is dead",
    "tokens_per_second": "stable",
}
"""What a metric looks like in a run that goes well: our experience, not a law."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A word, what kind of thing it is and where it is found, and what it means."""

    word: str
    kind: str
    text: str
    healthy: str = ""
    facts: Mapping[str, str | list[str]] = field(default_factory=dict)
    """Of a config key: type, default, values, rules across keys; of a section: its keys."""

    def __str__(self) -> str:
        lines = [
            f"{self.word}  ({self.kind})",
            *textwrap.wrap(self.text, 98, initial_indent="  ", subsequent_indent="  "),
        ]
        lines += [f"  healthy: {self.healthy}"] if self.healthy else []
        for name, fact in self.facts.items():
            lines += (
                [f"  {name}: {fact}"] if isinstance(fact, str) else [f"  {name}:", *(f"    {each}" for each in fact)]
            )
        return "\n".join(lines)


def explain_word(word: str) -> list[Explanation]:
    """Everything that a word means, what is written in full first; or an error that names similar words.

    A name of TRL or of another trainer is explained by the key that it has here."""
    known = list(explanations())
    for wanted in _spellings(word):
        found = [entry for entry in known if wanted in (_plain(entry.word), _plain(entry.word.rsplit(".", 1)[-1]))]
        if found:
            return sorted(found, key=lambda entry: _plain(entry.word) != wanted)
    if hint := trl_hint(tuple(word.replace("-", "_").split("."))):
        theirs = Explanation(word, "name in other trainers", f"{hint[0].upper()}{hint[1:]}.")
        return [theirs, *(entry for entry in known if f"this is {entry.word} " in f"{hint} ")]
    raise InputError(f"{word!r} is not a metric, key, symptom, error or word of ours", fix=_hint(_plain(word), known))


def _spellings(word: str) -> Iterator[str]:
    """A label as it is written; without what follows a comma, colon or bracket; without its plural."""
    head = re.split(r"[,:(\[]", word)[0]
    for spelling in (word, head, head.strip().removesuffix("s")):
        yield _plain(spelling)


def _hint(wanted: str, known: list[Explanation]) -> str:
    """Words that are written alike, or whose explanation uses the word."""
    written = {_plain(entry.word): entry.word for entry in known}
    near = get_close_matches(wanted, written, n=3, cutoff=0.65)
    using = [_plain(entry.word) for entry in known if wanted in re.findall(r"[\w-]+", entry.text.lower())]
    if found := [written[name] for name in dict.fromkeys([*near, *using])][:3]:
        return f"did you mean {' or '.join(found)}? Type: agon explain {found[0]}"
    return "explain a word as it is written on the screen, in a file of the run, or in a config"


def explanations() -> Iterator[Explanation]:
    """Every word that can be explained."""
    yield from symptoms()
    yield from metrics()
    yield from words()
    yield from arms()
    yield from diagnose_labels()
    for key in config_keys():
        entry = explain_key(key)
        names = ("type", "default", "values", "ablations", "rules", "keys")
        facts = {name: entry[name] for name in names if entry.get(name)}
        yield Explanation(key, "config key", entry["description"], facts=facts)
    yield from error_kinds()


def symptoms() -> Iterator[Explanation]:
    """What the health checks of a run may find."""
    for name, check in (CHECKS | {"dev-still": dev_still}).items():
        yield Explanation(name, "symptom of a run", " ".join((check.__doc__ or "").split()))


def metrics() -> Iterator[Explanation]:
    """Every number that a run or an evaluation writes."""
    for place, records in METRICS.items():
        for record in records:
            for name, text in field_texts(record).items():
                yield Explanation(name, f"metric in {place}, {record.__name__}", text, HEALTHY.get(name, ""))
    for name, text in UPDATE.items():
        yield Explanation(name, "metric in steps.jsonl, update of a policy", text, HEALTHY.get(name, ""))


def words() -> Iterator[Explanation]:
    """The words of the game and of its code, from the vocabulary."""
    page = (files("agon") / "assets" / "vocabulary.md").read_text(encoding="utf-8")
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) > 2 and cells[0] != "word":
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cells[-1])
            for name in cells[0].split(", "):
                yield Explanation(name, "word", f"{text[0].upper()}{text[1:]}.")


def arms() -> Iterator[Explanation]:
    """The arms, from their table."""
    for arm in ARMS.values():
        yield Explanation(arm.name, "arm", f"{arm.about[0].upper()}{arm.about[1:]}.")


def diagnose_labels() -> Iterator[Explanation]:
    """What `agon diagnose` prints: columns, kinds of terms, causes of dead groups."""
    for name, text in (COLUMNS | TREND).items():
        yield Explanation(name, "column of agon diagnose", text)
    for name, text in re.findall(r"^    (\S+) {2,}(.+)$", terms.__doc__ or "", re.MULTILINE):
        yield Explanation(name, "kind of a reward term", f"{text[0].upper()}{text[1:]}.")
    for cause, text in MEANING.items():
        yield Explanation(cause.value, "cause of a dead group", f"{text[0].upper()}{text[1:]}.")


def error_kinds() -> Iterator[Explanation]:
    """The kinds of errors, from the tree in errors.py."""
    for name, text in re.findall(r"(\w+Error) {2,}(.+)", errors.__doc__ or ""):
        about = getattr(errors, name)
        yield Explanation(name, "error", f"{text[0].upper()}{text[1:]}. The command exits with {about.exit_code}.")


def field_texts(record: type) -> dict[str, str]:
    """The docstring under every field of a record; empty where there is none."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    texts: dict[str, str] = {}
    for node, below in pairwise([*getattr(tree, "body", []), None]):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            described = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            texts[node.target.id] = " ".join(str(below.value.value).split()) if described else ""
    return texts


def _plain(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")
