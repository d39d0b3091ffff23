"""A model card from what was measured: results with intervals, what was spent, and what is not known.

Nothing is claimed that no file says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agon.report.cells import Number
from agon.report.collect import Run
from agon.report.escape import escape
from agon.report.extra_tables import share
from agon.report.tables import kilo, markdown
from agon.rundir.pair import PairInfo
from agon.types import Direction, Policy

USE = {
    "peft": """\
Each folder, `a` and `b`, is a plain PEFT adapter over the base:

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained(BASE)
pair = PeftModel.from_pretrained(base, FOLDER, subfolder="DRAFTER", adapter_name="DRAFTER")
pair.load_adapter(FOLDER, subfolder="CHALLENGER", adapter_name="CHALLENGER")
pair.set_adapter("DRAFTER")  # drafts; then set_adapter("CHALLENGER") answers
```

`agon eval FOLDER --config CONFIG` plays both passes with the prompts that were measured.""",
    "merged": """\
Each folder, `a` and `b`, is a whole model: the base with one adapter merged into its weights.

```python
from transformers import AutoModelForCausalLM

drafter = AutoModelForCausalLM.from_pretrained(FOLDER, subfolder="DRAFTER")
challenger = AutoModelForCausalLM.from_pretrained(FOLDER, subfolder="CHALLENGER")
```

The prompts that were measured are those of `agon.game.prompts`.""",
}
TINY = ("from peft import PeftModel", "from agon.engine.tiny.checkpoint import tiny_base\nfrom peft import PeftModel")
"""The toy is no name on a hub: it ships with the package."""
SYSTEMS = {
    "cascade": "the pair, in its direction",
    "ab": "A drafts, B answers",
    "ba": "B drafts, A answers",
    "single-pass": "A and B alone, their mean",
    "a": "A alone",
    "b": "B alone",
    "base": "the base alone",
    "self-cascade": "A twice",
    "self-refine": "A twice",
    "moa": "the base twice (MoA)",
}
ABOUT = """\
Two policies over one base, trained head to head: one drafts; the other reads the draft's summary, without its answer,
and answers. Alone, a policy is half of what was measured: the pair answers in two passes."""


def card(run: Run, info: PairInfo, form: str) -> str:
    """The whole card, ready for a hub."""
    import yaml

    library = "peft" if form == "peft" else "transformers"
    head = {"base_model": info.base, "library_name": library, "tags": ["agon", "lora", "reasoning"]}
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    parts = [f"---\n{front}---", f"# {escape(run.name)}", ABOUT, _facts(run, info), "## Results", results(run)]
    parts += [
        "## Caveats",
        "\n".join(f"- {line}" for line in caveats(run, info, form)),
        "## Use",
        use(info, form),
    ]
    return "\n\n".join(parts) + "\n"


def use(info: PairInfo, form: str) -> str:
    """How to load it, the drafter first."""
    way, text = info.direction or Direction.AB, USE[form]
    if info.base == "agon:tiny":
        text = text.replace(*TINY).replace("BASE", "tiny_base()")
    named = {"BASE": repr(info.base), "DRAFTER": way.drafter.value, "CHALLENGER": way.challenger.value}
    for word, value in named.items():
        text = text.replace(word, value)
    return text


def _facts(run: Run, info: PairInfo) -> str:
    way = info.direction
    rows: list[list[object]] = [
        ["base", info.base + (f" at {info.base_revision}" if info.base_revision else "")],
        ["arm", run.arm],
        ["trained on", run.setting.data],
        ["adapter A", info.versions[Policy.A]],
        ["adapter B", info.versions[Policy.B]],
        [
            "direction, chosen on dev",
            f"{way.drafter.name} drafts, {way.challenger.name} answers" if way else "none chosen",
        ],
        ["seed", run.seed],
        [
            "training",
            f"{run.spent['steps']:,} steps, {run.spent['rollouts']:,} rollouts, {run.spent['generated']:,} tokens",
        ],
        ["prompts (SHA-256)", info.prompts_hash],
    ]
    return markdown(["fact", "value"], rows)


def results(run: Run) -> str:
    """Every finished evaluation of the run."""
    order = [*SYSTEMS, *sorted({system for _, system in run.results} - SYSTEMS.keys())]
    found = sorted(run.results.items(), key=lambda item: (item[0][0], order.index(item[0][1])))
    rows = [[data, SYSTEMS.get(system, system), *_result(raw)] for (data, system), raw in found]
    if not rows:
        return "Nothing has been evaluated. `agon eval RUN` measures the pair on held-out problems."
    return markdown(["problems", "system", "pass@1, % [95%]", "n", "final tokens", "converted", "regressed"], rows)


def _result(raw: Mapping[str, Any]) -> list[str]:
    rate, exchange = raw["pass"], raw.get("exchange") or {}
    number = Number(rate["value"], rate["low"], rate["high"]) if rate["value"] is not None else "no verdicts"
    moved = [share(exchange[name]) if name in exchange else "" for name in ("conversion", "regression")]
    return [str(number), str(raw["problems"]), kilo(raw["length"]["final"]["all"]["mean"]), *moved]


def _not_better(run: Run) -> Iterator[str]:
    """Where two passes did not show more than one."""
    for (data, system), raw in sorted(run.results.items()):
        alone = [(run.results[data, one]["pass"], one) for one in ("a", "b") if (data, one) in run.results]
        known = [(rate["value"], rate["high"], one) for rate, one in alone if rate["value"] is not None]
        if system == "cascade" and known and raw["pass"]["value"] is not None and raw["pass"]["low"] <= max(known)[1]:
            yield f"On {data} the pair's interval overlaps that of {max(known)[2].upper()} alone, which needs one pass."


def caveats(run: Run, info: PairInfo, form: str) -> Iterator[str]:
    """What a reader must know before trusting a number above."""
    yield "One training run, one seed: the intervals are over problems and say nothing about another training run."
    if not run.results:
        yield "No evaluation stands in the run directory: nothing above says how good the pair is."
    elif not any(data == "held_out" for data, _ in run.results):
        yield "It was not evaluated on the held-out problems of its run."
    if info.direction is None:
        yield "Dev never chose a direction: try both."
    yield from _not_better(run)
    if any(raw.get("ungraded") for raw in run.results.values()):
        yield "Some trials had no verdict; they are left out of the rates, and counted in the results on disk."
    if form == "merged":
        yield "Merged weights were rounded once more than the measured adapters; measure again before you rely on them."
    if info.base == "agon:tiny":
        yield "The base is a toy of a million parameters that knows one kind of arithmetic."
    yield "The answer was asked for in `<answer>` tags under the prompts named above; other prompts were not measured."
