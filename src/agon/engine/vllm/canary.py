"""Checks that every engine of a fleet samples from the weights that the learner holds.

Engines have silently ignored adapters, swapped them and served old ones: rewards and losses look the same. Two checks:

- Every engine attests every version: the adapter in its slot equals the learner's file, to the bit (`worker.py`). This
  is asked after every publication, after a restart, and after the last draw of every step.
- A slot cannot show a different base, a different dtype, or kernels that ignore it. The distance of log-probs can:
  completions on fixed prompts are scored by the learner, and adapters with large random weights must be far from the
  base. It is measured before the first step and after a restart; for an engine that cannot attest, after every
  publication too.

An engine that fails a check between steps is put aside, and the others draw on; when none is left, the run stops with
what was found. After a step it stops at once: samples of that engine are among those of the step.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeVar

from agon.engine.protocol import Draw, EngineDown
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.errors import EngineError
from agon.pool import State, WorkerDown
from agon.protocols import Learner, Tokens
from agon.types import BASE, Message, Policy, Prompt, Quote, Sampling, Version, seed_for

T = TypeVar("T")
Versions = Mapping[Policy, Version]

LIMITS = {"float32": 0.01, "float16": 0.2, "bfloat16": 0.2}
"""Default of `sampler.canary_limit`, in nats per token. SmolLM2-135M on the CPU build is 1e-5 and 0.05 off; in
bfloat16 it is 0.26 off if its weights are off by 3%."""
PROMPTS, LENGTH, DRAWN = 12, 160, 16
"""Fixed prompts, their tokens (more than a block of the prefix cache: 128 on CPUs), and the tokens drawn from each. In
bfloat16 a few tokens make most of the distance, so that fewer prompts would misjudge it."""
NORMS = {"float32": 0.5, "float16": 0.1, "bfloat16": 0.5}
"""Standard deviation of the weights of a throw-away adapter: far beyond any trained one. In float16 products of larger
ones overflow, and an engine that draws from what is not finite dies."""
WEIGHTS = "adapter_model.safetensors"
SHOWN = 3
DESPITE = "to continue despite this, write sampler.canary=warn"
REPORT = (
    "nothing was learnt from it; resume with: agon train RUN --resume, which loads the adapters again; if it happens "
    f"again, report this with the versions of vLLM and of the base; {DESPITE}"
)
EXTENSION = "--worker-extension-cls agon.engine.vllm.worker.StrictAdapters"
STRICT = f"start the server with {EXTENSION}, and with --language-model-only if the base is a composite checkpoint; "
"""Without these a server ignores adapters of composites in silence."""


@dataclass(slots=True)
class Findings:
    """What one engine said and drew during one of its lives."""

    life: int
    attested: list[Version] = field(default_factory=list)
    differing: dict[Version, list[str]] = field(default_factory=dict)
    """Layers that differ from the learner's file, by version."""
    silent: bool = False
    """Whether the engine cannot attest."""
    drawn: dict[Version, list[Tokens]] = field(default_factory=dict)
    error: EngineError | None = None
    """Why the engine refused to be checked."""


class Canary:
    """Compares the engines of a fleet with the learner. Calls come from the thread that the learner computes in."""

    def __init__(
        self,
        sampler: VLLMSampler,
        learner: Learner,
        slots: int,
        *,
        mode: Literal["stop", "warn", "off"] = "stop",
        limit: float | None = None,
        temperature: float = 1.0,
        dtype: str = "bfloat16",
        served: str = "model.name",
    ) -> None:
        """`dtype` is that of the learner's base, and so of the engines'; `served` is what an engine has to load."""
        self.served = served
        self.sampler, self.learner, self.slots, self.mode, self.temperature = sampler, learner, slots, mode, temperature
        self.limit, self.norm = limit or LIMITS[dtype], NORMS[dtype]
        self.lives: dict[int, int] = {}
        """The life of each engine in which its check last held."""
        self._known: dict[int, set[Version]] = defaultdict(set)
        """What each engine attested in that life."""
        self._silent: set[int] = set()
        self._digests: dict[Version, str] = {}
        self._gaps: dict[str, float] = {}
        self._attested = 0
        sampler.fleet.gated = mode != "off"

    def check(self, versions: Versions) -> None:
        """Check every engine that runs; stop unless one at least agrees with the learner, which holds `versions`."""
        fleet = self.sampler.fleet
        while self.mode != "off":
            numbers = [member.number for member in fleet.members if member.runs]
            with self._throw_aways(numbers, versions) as thrown:
                found = self.sampler.submit(self._examine(numbers, versions, thrown)).result()
            if self._judge(found, versions):
                return
            self.sampler.submit(fleet.returned()).result()

    async def attend(self, work: Coroutine[Any, Any, T], versions: Versions) -> T:
        """Run `work`; engines that come back meanwhile are checked, and then draw for it too."""
        if self.mode == "off":
            return await work
        async with asyncio.TaskGroup() as tasks:
            checking = tasks.create_task(self._check_returned(versions))
            result = await work
            checking.cancel()
        return result

    def attest(self, versions: Iterable[Version]) -> list[str]:
        """Ask every engine, after the last draw of a step, whether it still holds the versions that drew it.

        Stop if one does not; return warnings.
        """
        if self.mode == "off":
            return []
        self._read_files()
        found = self.sampler.submit(self._attest_all(list(dict.fromkeys(versions)))).result()
        errors = [error for number, one in found.items() if (error := self._wrong_weights(number, one))]
        if errors and self.mode == "stop":
            raise errors[0]
        return [f"warning: {error.message}" for error in errors]

    def gaps(self) -> dict[str, float]:
        """The distances that were measured since the last call, in nats per token."""
        gaps, self._gaps = self._gaps, {}
        return gaps

    def attested(self) -> int:
        """How many adapters were found equal to the learner's files since the last call."""
        count, self._attested = self._attested, 0
        return count

    def notes(self) -> list[str]:
        """What happened to engines since the last call."""
        return self.sampler.notes()

    # -- on the fleet's loop -------------------------------------------------------------------------------------------

    async def _check_returned(self, versions: Versions) -> None:
        """Check engines as they come back, until cancelled."""
        while True:
            numbers = await asyncio.wrap_future(self.sampler.submit(self.sampler.fleet.returned()))
            with self._throw_aways(numbers, versions) as thrown:
                examining = self.sampler.submit(self._examine(numbers, versions, thrown))
                found = await asyncio.wrap_future(examining)
            self._judge(found, versions)

    async def _examine(
        self, numbers: Sequence[int], versions: Versions, thrown: Mapping[Version, Path]
    ) -> dict[int, Findings]:
        """What engines attest and draw, all at once; without those that fail meanwhile, which the fleet restarts."""
        found = await asyncio.gather(*(self._ask(number, versions, thrown) for number in numbers))
        return {number: one for number, one in zip(numbers, found, strict=True) if one}

    async def _ask(self, number: int, versions: Versions, thrown: Mapping[Version, Path]) -> Findings | None:
        member = self.sampler.fleet.members[number]
        found = Findings(member.life)
        is_new = self.lives.get(number) != member.life
        if is_new and not thrown:  # it was restarted a moment ago, and will be asked again
            return None
        try:
            known = set() if is_new else self._known[number]
            await self._attest(number, [version for version in self._digests if version not in known], found)
            if is_new:
                found.drawn = await self._draw(number, [BASE, *versions.values()], PROMPTS)
                found.drawn |= await self._draw_thrown(number, thrown)
            elif found.silent:
                found.drawn = await self._draw(number, list(versions.values()), PROMPTS)
            if member.life != found.life:
                raise EngineDown("the engine was restarted while it was checked")
        except WorkerDown:
            return None
        except EngineError as error:
            found.error = error
        return found

    async def _attest_all(self, versions: Collection[Version]) -> dict[int, Findings]:
        """What all engines that draw say of these versions."""

        async def ask(number: int) -> Findings:
            found = Findings(self.sampler.fleet.members[number].life)
            with suppress(WorkerDown):  # it is checked when it comes back; what it said until then stands
                await self._attest(number, versions, found)
            return found

        drawing = [member.number for member in self.sampler.fleet.members if member.state is State.UP]
        return dict(zip(drawing, await asyncio.gather(*map(ask, drawing)), strict=True))

    async def _attest(self, number: int, versions: Iterable[Version], found: Findings) -> None:
        """Ask one engine what it holds, of these versions that are live there and on disk."""
        fleet = self.sampler.fleet
        for version in versions:
            if version in fleet.members[number].held and version in self._digests:
                folder = self.sampler.live[version]
                differing = await fleet.attest(version, folder, self._digests[version], number)
                if differing is None:
                    found.silent = True
                    return
                found.attested.append(version)
                if differing:
                    found.differing[version] = differing

    async def _draw(self, number: int, versions: Sequence[Version], prompts: int) -> dict[Version, list[Tokens]]:
        """Completions of every version on the first fixed prompts, all in one batch, through the prefix cache."""
        sampling = Sampling(self.temperature, 1.0, DRAWN)
        draws = [
            Draw(self._prompt(n), version, seed_for("canary", version, n), sampling)
            for version in versions
            for n in range(prompts)
        ]
        rows = zip(draws, await self.sampler.draw_together(draws, number), strict=True)
        tokens = [Tokens(draw.ids, drawn.ids, drawn.logprobs) for draw, drawn in rows]
        return {version: tokens[n * prompts : (n + 1) * prompts] for n, version in enumerate(versions)}

    async def _draw_thrown(self, number: int, thrown: Mapping[Version, Path]) -> dict[Version, list[Tokens]]:
        """Completions of throw-away adapters, in all slots at once."""
        try:
            for version, folder in thrown.items():
                await self.sampler.fleet.load(version, folder, number)
            return await self._draw(number, list(thrown), PROMPTS // 3)
        finally:
            for version in thrown:
                await self.sampler.fleet.unload(version, number)

    def _prompt(self, number: int) -> tuple[int, ...]:
        """A fixed prompt that fills whole blocks of the prefix cache, as far as the context allows."""
        renderer = self.sampler.renderer
        words = renderer.clip(" ".join(str(n * (number + 2)) for n in range(LENGTH)), LENGTH)
        ids = renderer.render(Prompt((Message("user", (Quote(words),)),))).ids
        return ids[: self.sampler.fleet.context - DRAWN]

    # -- in the learner's thread ---------------------------------------------------------------------------------------

    def _read_files(self) -> None:
        """The digests of all live versions that are on disk; a version's is taken once, when it is published."""
        on_disk = {version: folder / WEIGHTS for version, folder in self.sampler.live.items()}
        self._digests = {
            version: self._digests.get(version) or hashlib.sha256(file.read_bytes()).hexdigest()
            for version, file in on_disk.items()
            if file.is_file()
        }

    @contextmanager
    def _throw_aways(self, numbers: Iterable[int], versions: Versions) -> Iterator[dict[Version, Path]]:
        """An adapter with large random weights for every slot, if an engine is new; beside the published ones, which a
        server sees too."""
        self._read_files()
        members = self.sampler.fleet.members
        if all(self.lives.get(number) == members[number].life for number in numbers):
            yield {}
            return
        pattern = self.sampler.live[next(iter(versions.values()))]
        names = [Version.of(Policy.A, n, f"canary{uuid.uuid4().hex[:8]}") for n in range(self.slots)]
        with tempfile.TemporaryDirectory(prefix="canary-", dir=pattern.parent) as scratch:
            yield {name: throw_away(pattern, Path(scratch, name), n, self.norm) for n, name in enumerate(names)}

    def _judge(self, found: Mapping[int, Findings], versions: Versions) -> bool:
        """Whether an engine agrees with the learner: those that do draw for the game, the others are put aside."""
        agreed, gaps, fleet = False, self._distances(found, versions), self.sampler.fleet
        for number, one in found.items():
            error = self._fault(number, one, gaps[number], versions)
            if error and self.mode == "stop":
                self.sampler.submit(fleet.put_aside(number, error)).result()
                continue
            if error:
                fleet.notes.append(f"warning: {error.message}")
            if one.silent and number not in self._silent:
                self._silent.add(number)
                fleet.notes.append(
                    f"{fleet.members[number]} cannot say what its adapters hold: only log-probs on fixed prompts are "
                    f"compared; to change that, start it with VLLM_SERVER_DEV_MODE=1 and {EXTENSION}"
                )
            if self.lives.get(number) != one.life:
                self._known[number].clear()
            self.lives[number] = one.life
            self._known[number].update(one.attested)
            self.sampler.submit(fleet.admit(number, one.life)).result()
            agreed = True
        return agreed

    def _distances(self, found: Mapping[int, Findings], versions: Versions) -> dict[int, dict[Version, float]]:
        """Mean absolute difference of log-probs in nats per token, by engine and version.

        Rows of all engines are scored together: one call for each policy, and one for the base and throw-away adapters.
        """
        gaps: dict[int, dict[Version, float]] = {number: {} for number in found}
        policies: dict[Version, Policy | None] = {version: policy for policy, version in versions.items()}
        for policy in (None, *versions):
            owners = [(n, v) for n, one in found.items() for v in one.drawn if policies.get(v) is policy]
            rows = [found[n].drawn[v] for n, v in owners]
            scores = iter(self.learner.score(policy, [row for some in rows for row in some]) if rows else ())
            for (number, version), some in zip(owners, rows, strict=True):
                pairs = [
                    abs(mine - theirs)
                    for row in some
                    for mine, theirs in zip(row.logprobs or (), next(scores), strict=True)
                ]
                gaps[number][version] = fmean(pairs)
        return gaps

    def _fault(
        self, number: int, found: Findings, gaps: Mapping[Version, float], versions: Versions
    ) -> EngineError | None:
        """What is wrong with an engine."""
        engine, limit = self.sampler.fleet.members[number], f"sampler.canary_limit is {self.limit:g}"
        several = len(self.sampler.fleet.members) > 1
        for name in (BASE, *versions.values()):
            if name in gaps:
                self._gaps[f"{name}, {engine}" if several else name] = gaps[name]
        if error := found.error or self._wrong_weights(number, found):
            return error
        higher = f"if rounding explains it, raise sampler.canary_limit; {DESPITE}"
        if not gaps.get(BASE, 0.0) <= self.limit:
            return EngineError(
                f"{engine} and the learner are {gaps[BASE]:.2g} nats per token apart on the bare base ({limit}): the "
                "engine has a different base, a different dtype or unprocessed log-probs",
                fix=f"serve {self.served} in model.dtype, and start a server with --logprobs-mode processed_logprobs; "
                + higher,
            )
        thrown = [gap for name, gap in gaps.items() if name not in (BASE, *versions.values())]
        strict = STRICT if isinstance(engine.engine, ServerEngine) else ""
        if ignored := [gap for gap in thrown if not gap > self.limit]:
            return EngineError(
                f"{engine} ignores adapters: {len(ignored)} of {len(thrown)} with large random weights change the "
                f"log-probs of the base by {min(ignored):.2g} nats per token ({limit})",
                fix=strict + REPORT,
            )
        for policy, version in versions.items():
            if not gaps.get(version, 0.0) <= self.limit:
                return EngineError(
                    f"{version} in {engine} is {gaps[version]:.2g} nats per token from the learner's "
                    f"{policy.value.upper()} ({limit}): it samples from a different policy",
                    fix=f"{strict}{higher}",
                )
        return None

    def _wrong_weights(self, number: int, found: Findings) -> EngineError | None:
        """What an engine says that it holds in the place of a version."""
        self._attested += len(found.attested) - len(found.differing)
        if not found.differing:
            return None
        version, layers = next(iter(found.differing.items()))
        more = f" and {len(layers) - SHOWN} more" if len(layers) > SHOWN else ""
        return EngineError(
            f"{self.sampler.fleet.members[number]} does not hold {version} as the learner wrote it: "
            f"{', '.join(layers[:SHOWN])}{more} (checked because sampler.canary is {self.mode})",
            fix=REPORT,
        )


def throw_away(pattern: Path, folder: Path, seed: int, norm: float) -> Path:
    """An adapter of the shape of `pattern` with large random weights."""
    import torch
    from safetensors.torch import load_file, save_file

    generator = torch.Generator().manual_seed(seed)
    folder.mkdir(parents=True)
    shutil.copy(pattern / "adapter_config.json", folder)
    shapes = load_file(pattern / WEIGHTS)
    weights = {name: norm * torch.randn(t.shape, generator=generator).to(t.dtype) for name, t in shapes.items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    return folder
