"""A model card from what was measured: results with intervals, what was spent, and what is not known.

Every number comes from a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agon.config.rival import rival_of
from agon.eval.systems import TITLES
from agon.formatting import count, escape_markdown, interval, kilo, markdown_table, not_graded, share
from agon.report.collect import HELD_OUT, MeasuredRun
from agon.report.methods import limits
from agon.rundir.pair import PairInfo
from agon.rundir.results import Measures, passes_of, tokens_of
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
Each folder, `a` and `b`, is a complete model: the base with one adapter merged into its weights.

```python
from transformers import AutoModelForCausalLM

drafter = AutoModelForCausalLM.from_pretrained(FOLDER, subfolder="DRAFTER")
challenger = AutoModelForCausalLM.from_pretrained(FOLDER, subfolder="CHALLENGER")
```

The prompts that were measured are those of `agon.game.prompts`.""",
}
SHIPPED = ("from peft import PeftModel", "from agon.engine.shipped import folder_of\nfrom peft import PeftModel")
"""`agon:tiny` and its like are not on the Hub; they ship with the package."""
FOUR_BITS = {
    "import AutoModelForCausalLM\n": "import AutoModelForCausalLM, BitsAndBytesConfig\n",
    "base = AutoModelForCausalLM.from_pretrained(BASE)": """\
nf4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="bfloat16")
base = AutoModelForCausalLM.from_pretrained(BASE, quantization_config=nf4)""",
}
"""How the base is loaded that adapters learnt on in 4 bits."""
OURS = "agon:"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
"""What the Hub takes as `base_model`; it refuses a card that names a path there."""
ABOUT = """\
Two policies over one base, trained head to head: one drafts; the other reads the draft's summary, without its answer,
and answers. Alone, a policy is half of what was measured: the pair answers in two passes."""


def card(run: MeasuredRun, info: PairInfo, form: str) -> str:
    """The model card as Markdown, with the front matter that a hub reads; results of other steps are not the pair's."""
    import yaml

    run = replace(run, results={key: one for key, one in run.results.items() if one.run.step in (None, info.step)})
    library = "peft" if form == "peft" else "transformers"
    head = {"library_name": library, "tags": ["agon", "lora", "reasoning"]}
    if HUB_ID.fullmatch(info.base) and not Path(info.base).exists():
        head = {"base_model": info.base} | head
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    parts = [f"---\n{front}---", f"# {escape_markdown(run.name)}", ABOUT, _facts(run, info)]
    parts += ["## Results", results(run)]
    parts += ["## Caveats", "\n".join(f"- {line}" for line in caveats(run, info, form))]
    return "\n\n".join([*parts, "## Use", use(info, form)]) + "\n"


def use(info: PairInfo, form: str) -> str:
    """How to load it, the drafter first."""
    direction, text = info.direction or Direction.AB, USE[form]
    if info.quantize == "nf4" and form == "peft":
        for old, new in FOUR_BITS.items():
            text = text.replace(old, new)
    if info.base.startswith(OURS):
        text = text.replace(*SHIPPED).replace("BASE", f"folder_of({info.base!r})")
    names = {"BASE": repr(info.base), "DRAFTER": direction.drafter.value, "CHALLENGER": direction.challenger.value}
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def _facts(run: MeasuredRun, info: PairInfo) -> str:
    direction, spent = info.direction, run.spending
    at, bits = f" at {info.base_revision}" if info.base_revision else "", ", in 4 bits (NF4)"
    rows: list[tuple[str, object]] = [
        ("base", info.base + at + (bits if info.quantize == "nf4" else "")),
        ("arm", run.arm),
        ("rival", rival_of(info.rival).on_card),
        ("trained on", run.setting.data),
        ("adapter A", info.versions[Policy.A]),
        ("adapter B", info.versions[Policy.B]),
        ("direction, chosen on dev", TITLES[direction] if direction else "none chosen"),
        ("seed", run.seed),
        ("checkpoint", "not known" if info.step is None else f"step {info.step}"),
        (
            "training",
            f"{count(spent.steps)} steps, {count(spent.rollouts)} rollouts, {count(spent.generated)} tokens",
        ),
        ("prompts (SHA-256)", info.prompts_hash),
    ]
    return markdown_table(["fact", "value"], rows)


def results(run: MeasuredRun) -> str:
    """Every complete result of the run, the deployed system first."""
    order = [run.headline, *TITLES, *sorted(system for _, system in run.results)]
    ranked = sorted(run.results.items(), key=lambda item: (item[0][0], order.index(item[0][1])))
    rows = [[data, TITLES.get(system, system), *_result(result.measured)] for (data, system), result in ranked]
    if not rows:
        return "Nothing has been evaluated. `agon eval RUN` measures the pair on held-out problems."
    head = ["problems", "system", "pass@1, % [95%]", "n", "passes", "tokens per answer", "kept", "converted", "echoed"]
    return markdown_table(head, rows)


def _result(measures: Measures) -> list[str]:
    exchange = measures.exchange
    shares = [*map(share, (exchange.kept, exchange.conversion, exchange.echo))] if exchange else ["", "", ""]
    rate, price = interval(measures.pass_rate, sign=""), [str(passes_of(measures)), kilo(tokens_of(measures))]
    return [rate, str(measures.problems), *price, *shares]


def _not_better(run: MeasuredRun) -> Iterator[str]:
    """Where two passes are not shown to be better than one."""
    for (data, system), result in sorted(run.results.items()):
        both = result.measured.pass_rate
        alone = {one: run.results[data, one].measured.pass_rate for one in ("a", "b") if (data, one) in run.results}
        known = {one: rate for one, rate in alone.items() if rate}
        if system == "cascade" and both and known:
            best = max(known, key=lambda one: known[one].value)
            if limits(both)[0] <= limits(known[best])[1]:
                overlap = f"the pair's interval overlaps that of {best.upper()} alone, which needs one pass"
                yield f"On {escape_markdown(data)} {overlap}."


def caveats(run: MeasuredRun, info: PairInfo, form: str) -> Iterator[str]:
    """What a reader must know before trusting a number above."""
    yield "One training run, one seed: the intervals are over problems and say nothing about another training run."
    if not run.results:
        yield "The run has not been evaluated: nothing above says how good the pair is."
    elif not any(data == HELD_OUT for data, _ in run.results):
        yield "It was not evaluated on the held-out problems of its run."
    if info.direction is None:
        yield "No direction was chosen on dev: try both."
    if rival_of(info.rival).rivalry == "leaves":
        yield "Adapter B was never trained: use A alone."
    yield from _not_better(run)
    if any(passes_of(result.measured) > 1 for result in run.results.values()):
        yield "An answer in two passes costs both: tokens per answer are those of all its passes."
    for (data, system), result in sorted(run.results.items()):
        if missing := not_graded(result.measured):
            yield f"On {escape_markdown(data)}, {TITLES.get(system, system)}: {missing} and are not part of the rate."
    if form == "merged":
        yield "Merged weights were rounded once more than the measured adapters; measure again before you rely on them."
    if info.base.startswith(OURS):
        yield "The base is a toy of a million parameters that knows one kind of arithmetic."
    yield "The answer was asked for in `<answer>` tags under the prompts named above; other prompts were not measured."
