"""Would the tests notice? Hand-made mutations of `engine/` and `training/`, each of which must make a test fail.

These are errors that a run would not show: rewards and losses look the same while the wrong weights are served, the
wrong rows are weighed, or half of the gradient is lost. Every mutation runs the nearest tests only.
"""

from __future__ import annotations

from _lib import arguments, verdict
from _mutations import Mutation, edits, judged

EXTRA_SOURCES = ("src/agon/engine", "src/agon/training", "tests/engine", "tests/training")

TRL = "tests/engine/trl/test_"
LOSS = TRL + "learner.py::test_loss_and_gradient_equal_hand_written_autograd_over_live_rows"
PROCESSES = TRL + "collectives.py::test_two_processes_learn_what_one_would"
DEAD = TRL + "collectives.py::test_a_policy_that_is_dead_on_both_processes_gets_no_gradient"
RESUME = TRL + "learner.py::test_resume_is_exact_to_the_bit"
SCHEDULE = TRL + "learner.py::test_warmup_and_decay_are_the_stock_schedule"
SCORES = TRL + "trainer.py::test_scores_are_those_of_peft_alone"
ADAPTERS, BATCH, TRAPS = "tests/engine/test_adapters.py", TRL + "batch.py", TRL + "traps.py"
HF, SERVER, LOCAL = "tests/engine/test_hf.py", "tests/engine/vllm/test_server.py", "tests/engine/vllm/test_local.py"
FLEET = ["tests/engine/test_member.py", "tests/engine/test_fleet.py"]
CANARY = "tests/engine/vllm/test_canary.py"
LOOP, PUBLISH, RUNS = "tests/training/test_loop.py", "tests/training/test_publish.py", "tests/training/test_resume.py"
MACHINES, CHECKS = "tests/training/test_machines.py", "tests/training/test_canary_checks.py"
MEETINGS, RECORD = "tests/training/test_processes.py", "tests/training/test_step_record.py"

LIGHT: list[Mutation] = [
    *edits(
        "engine/versions.py", ["tests/engine/test_versions.py"],
        ("reload under an old name", "if version in {BASE, *self._used.values()} or folder in self._used:", "if version == BASE:"),
        ("reload from an old folder", " or folder in self._used:", ":"),
        ("requests go to the first version", "self._history[policy][-1] if", "self._history[policy][0] if"),
        ("pinned versions are evicted", "self._pinned | {*in_use} |", "{*in_use} |"),
        ("versions in use are evicted", "self._pinned | {*in_use} |", "self._pinned |"),
        ("a name is free again when its version failed", "self._used[folder] = version\n        self._load(version, folder)",
         "self._load(version, folder)\n        self._used[folder] = version"),
    ),
    *edits(
        "training/publish.py", [PUBLISH],
        ("publication skipped", "self.machines.sampler.publish(version, self.folder / version)", "pass"),
        ("publication not checked", "self.machines.check(current)", "pass"),
        ("first versions not pinned", "self.machines.sampler.pin(version, self.folder / version)", "pass"),
        ("a policy that moved keeps its name", "if policy not in names or names[policy].digest != digest:", "if policy not in names:"),
        ("a policy that did not move gets a new name", "if policy not in names or names[policy].digest != digest:", "if True:"),
        ("the step before is removed", "kept = {*current.values(), *rivals}.union(*self._past)", "kept = {*current.values(), *rivals}"),
        ("rivals that stay are removed", "kept = {*current.values(), *rivals}", "kept = {*current.values()}"),
        ("every process exports", "if learner.rank == 0:", "if True:"),
    ),
    *edits(
        "training/streams.py", [MACHINES, CHECKS],
        ("rows of the version before are learnt from", "if row.completion.version != versions[stream.policy]:",
         "if row.completion.version.policy != stream.policy:"),
    ),
    *edits(
        "training/machines.py", [MACHINES, CHECKS],
        ("slots are not asked after a step", "self.canary.attest(versions) if self.canary else []", "[]"),
        ("a restart is not checked", "(self.canary.attend(work, versions) if self.canary else work)", "work"),
    ),
    *edits(
        "plan/schedule.py", [LOOP],
        ("the last step is not saved", " or done == self.total", ""),
        ("points are not saved", " or done in self.points", ""),
        ("one step too many", "per_epoch = problems // train.problems_per_step", "per_epoch = -(-problems // train.problems_per_step)"),
        ("max_steps ignored", "min(per_epoch * train.epochs, train.max_steps or per_epoch * train.epochs)", "per_epoch * train.epochs"),
    ),
    *edits(
        "training/step_record.py", [RECORD],
        ("dead groups counted as live", "any(rollout.advantage is not None for rollout in group)", "any(True for rollout in group)"),
        ("ungraded rows lower the pass rate", "_mean(rollout.verdict.correct for rollout in graded)", "_mean(rollout.verdict.correct for rollout in rows)"),
        ("challenges counted as drafts", "competitive=_stream(competitive)", "competitive=_stream([g for p in plays for g in p.standalone.groups])"),
        ("one process is written down", "for played in plays for bout in played.bouts]", "for played in plays[:1] for bout in played.bouts]"),
    ),
    *edits(
        "training/processes.py", [MEETINGS],
        ("the error of another process is ignored", 'raise PeerError(f"process {report.rank} failed: {report.error}", fix=report.fix)', "continue"),
        ("a signal to another process is ignored", "if any(report.stops for report in reports):", "if False:"),
        ("different phases meet", "if len({report.phase for report in reports}) > 1:", "if False:"),
        ("a signal counts as an error", "failure = Interrupted() if self.interrupt.asked else error", "failure = error"),
        ("its own error is replaced by that of another", "        if failure is not None and not stops:\n            raise failure\n", ""),
        ("reports are never deleted", 'store.delete_key(f"{self._meetings - 2}/{self.rank}")', "pass"),
    ),
    *edits(
        "training/loop.py", [LOOP],
        ("processes play the same problems", "problems[self.drawing.index(self.machines.learner.rank) :: len(self.drawing)]", "problems"),
        ("every epoch has the same order", 'seed_for(seed, "order", epoch, problem.id)', 'seed_for(seed, "order", problem.id)'),
        ("the newest pair is deployed for the best", "best_point(self.state.points) if", "self.state.points[-1] if"),
        ("the best pair is never replaced", "best_point(self.state.points) if", "self.state.points[0] if"),
        ("new versions are not published", "if version not in before.values()]", "if version in before.values()]"),
    ),
    *edits(
        "training/loop.py", [CHECKS],
        ("a restarted engine is trusted", "self.processes.watching(self.machines.attend(work, self.state.versions))", "self.processes.watching(work)"),
        ("slots are not asked before the update", "for warning in self.machines.attest(self._flight(step).versions.values()):", "for warning in ():"),
    ),
    *edits(
        "training/loop.py", [MACHINES],
        ("versions of rows are not compared", "            check_versions(streams, self._flight(played.step).versions)\n", ""),
    ),
    *edits(
        "training/loop.py", [f"{RUNS}::test_{name}" for name in (
            "a_run_that_died_and_resumed_equals_one_that_did_not", "weights_in_the_middle_of_a_move_are_not_saved",
            "an_error_of_any_kind_loses_no_finished_step", "processes_that_start_from_different_adapters_are_refused")],
        ("a resumed run forgets its state", "            self.state = resume.state\n", "            self._set(versions=self.publisher.name({}, 0))\n"),
        ("a resumed run starts from fresh weights", "            self.machines.learner.load(resume.folder)\n", ""),
        ("a point is evaluated again after a resume", "and all(point.step != done for point in self.state.points)", "and True"),
        ("nothing is saved after an error", "        except Exception:\n            self._keep()\n", "        except Exception:\n"),
        ("weights in the middle of a move are saved", "self.is_main_process and learner.consistent and", "self.is_main_process and"),
        ("processes may start from different adapters", "[learner.hash(policy) for policy in Policy])}) > 1:", "[learner.hash(policy) for policy in Policy])}) > 9:"),
    ),
]  # fmt: skip
"""Their tests need no model."""

HEAVY: list[Mutation] = [
    *edits(
        "engine/trl/batch.py", [BATCH, LOSS, PROCESSES],
        ("live rows per rank", "[row for each in everyone for row in each[policy].live]", "mine[policy]"),
        ("a row is dealt to nobody", "    for policy, row in sorted(rows, key", "    for policy, row in sorted(rows[1:], key"),
        ("every process computes every row", "hands[least][policy].append(row)", "[hand[policy].append(row) for hand in hands]"),
        ("rows are dealt in turn", "least = held.index(min(held))", "least = sum(map(bool, held)) % len(held)"),
        ("rows of the rival", "rows[stream.policy] += map", "rows[stream.policy.rival] += map"),
        ("a second stream replaces the first", "rows[stream.policy] += map(_row, stream.rollouts())", "rows[stream.policy] = [*map(_row, stream.rollouts())]"),
        ("masked rows counted as live", "[row for row in rows if row.advantage is not None]", "list(rows)"),
        ("advantages of other rows", "[row.advantage or 0.0 for row in rows]", "[row.advantage or 0.0 for row in rows[::-1]]"),
        ("labels shifted", "(row.completion)] = row.completion\n", "(row.completion)] = np.roll(row.completion, 1)\n"),
        ("tool results are learnt", "drawn[n, : len(row.sampled)] = row.sampled\n", "pass\n"),
        ("missing pad mask of prompts", "np.zeros((size, prompt), np.int64)", "np.ones((size, prompt), np.int64)"),
        ("missing pad mask of completions", "np.zeros((size, width), np.int64)", "np.ones((size, width), np.int64)"),
        ("prompts padded on the right", "ids[n, prompt - len(row.prompt) :], mask", "ids[n, : len(row.prompt)], mask"),
        ("old log-probs of other tokens", "= row.logprobs\n", "= row.logprobs[::-1]\n"),
        ("one column", "WIDTH = 2\n", "WIDTH = 1\n"),
    ),
    *edits(
        "engine/trl/pack.py", [TRL + "pack.py"],
        ("a row is lost between micro-batches", "            parts.append([])\n            used = 0\n", "            parts.append([])\n            used = 0\n            continue\n"),
        ("positions of a pack do not start again", "(mask.cumsum(1) - 1)[real]", "torch.arange(int(real.sum()), device=ids.device)"),
        ("tokens are scored by themselves", "wanted.nonzero().squeeze(1) - 1", "wanted.nonzero().squeeze(1)"),
        ("a pack is one row", "lengths = real.sum(1).tolist()", "lengths = [int(real.sum())]"),
        ("a row begins inside the one before", "torch.tensor([0, *accumulate(self.lengths)]", "torch.tensor([0, *self.lengths]"),
        ("a hook outlives its pass", "            hook.remove()\n", "            pass\n"),
    ),
    *edits(
        "engine/trl/row_attention.py", [TRL + "pack.py"],
        ("attention looks ahead", "is_causal=True, enable_gqa=shared", "is_causal=False, enable_gqa=shared"),
        ("no sliding window", "if window is None or query.size(2) <= window:", "if True:"),
        ("a window is one token short", "(back < window)", "(back < window - 1)"),
        ("a block does not see the one before", "mask = (back >= 0) & (back < window)", "mask = (back >= 0) & (place >= window)"),
        ("a state leaks from row to row", "torch.cat([forward(part) for part in hidden_states.split(rows, 1)], 1)", "forward(hidden_states)"),
    ),
    *edits(
        "engine/trl/trainer.py", [LOSS, PROCESSES, DEAD, SCORES, TRL + "trainer.py::test_scores_follow_the_weights_of_their_policy_and_the_base_stays"],
        ("window without processes", "batch.live / (self.accelerator.num_processes * len(rows))", "batch.live / len(rows)"),
        ("window of one micro-batch", "batch.live / (self.accelerator.num_processes * len(rows))", "1.0"),
        ("dapo divided by rows", "torch.tensor(float(batch.tokens), device", "torch.tensor(float(batch.live), device"),
        ("dapo has a window", '1.0 if self.loss_type == "dapo" else window', "window"),
        ("wrong adapter active", "self.pair.activate(micro.policy)", "self.pair.activate(micro.policy.rival)"),
        ("adapter never switched", "        self.pair.activate(micro.policy)\n", ""),
        ("score under the rival", "            self.pair.activate(policy)\n", "            self.pair.activate(policy.rival)\n"),
        ("score of the base has an adapter", "        if policy is None:\n            logps = self._reference(inputs)",
         "        if policy is None:\n            logps = self._logps(inputs)"),
        ("ratio inverted", "torch.exp(gap).clamp", "torch.exp(-gap).clamp"),
        ("ratio not truncated", ".clamp(max=self.args.vllm_importance_sampling_clip_max)", ""),
        ("ratio of the whole sequence", "ratio = torch.exp(gap).clamp", "ratio = torch.exp(gap.sum(1, keepdim=True).expand_as(gap)).clamp"),
        ("correction never applied", 'if self.train_config.importance == "token_truncate":', "if False:"),
                ("tokens without log-probs spoil the loss", "gap = torch.where(known, gap, torch.zeros_like(gap))", "pass"),
        ("old log-probs from the wrong version", "self._correct(self._current, logps.detach())", "self._correct(self._current, self._reference(self._current.inputs))"),
        ("KL against the policy itself", "with self.pair.base_only():\n            return self._logps(inputs)", "with torch.no_grad():\n            return self._logps(inputs)"),
        ("beta lost", "self.beta = self.args.beta = train.beta", "self.beta = self.args.beta = 0.0"),
        ("gradients of two processes are not averaged", "average_gradients(self.accelerator, self.pair.parameters(policy))", "pass"),
        ("only A's gradients are averaged", "average_gradients(self.accelerator, self.pair.parameters(policy))",
         "average_gradients(self.accelerator, self.pair.parameters(Policy.A))"),
        ("a dead policy gets zeros", "            if metrics.batch.live:  # a policy that nobody learnt from gets no gradient\n", "            if True:\n"),
    ),
    *edits(
        "engine/trl/trainer.py", [TRAPS + "::test_trap_9_one_policy_s_gradient_does_not_shrink_the_other_s", TRAPS + "::test_trap_9_each_adapter_is_clipped_to_its_own_norm"],
        ("joint clip", "clip_grad_norm_(self.pair.parameters(policy), self", "clip_grad_norm_([p for each in Policy for p in self.pair.parameters(each)], self"),
        ("no clip", "self.pair.parameters(policy), self.args.max_grad_norm)", "self.pair.parameters(policy), 1e9)"),
    ),
    *edits(
        "engine/trl/trainer.py", [TRAPS + "::test_trap_15_metrics_are_kept_by_policy", TRAPS + "::test_trap_19_a_masked_micro_batch_is_wider_than_one_column"],
        ("metrics of the rival", "self.step_metrics[micro.policy].add_trl(caught", "self.step_metrics[micro.policy.rival].add_trl(caught"),
        ("TRL's metrics are not caught", "self.step_metrics[micro.policy].add_trl(caught, micro.tokens)", "pass"),
    ),
    *edits(
        "engine/trl/trainer.py", [TRAPS + "::test_trap_18_the_run_is_reported_to_nobody", TRL + "collectives.py::test_an_update_sends_nothing_before_its_end"],
        ("telemetry", "    def _send_telemetry(self) -> None:", "    def _send_no_telemetry(self) -> None:"),
        ("a message in every micro-batch", "with no_collectives(self.accelerator), self._metrics_of(micro):", "with self._metrics_of(micro):"),
    ),
    *edits(
        "engine/trl/trainer.py", [TRL + "learner.py::test_without_importance_log_probs_are_measured_and_correct_nothing"],
        ("correction cannot be switched off", 'if self.train_config.importance == "token_truncate":', "if True:"),
    ),
    *edits(
        "engine/trl/collectives.py", [TRL + "collectives.py"],
        ("gradients summed", 'for gradient in gradients]), "mean")', 'for gradient in gradients]), "sum")'),
        ("a process without live rows keeps none", "if p.grad is not None else torch.zeros_like(p) for p in parameters]", "for p in parameters if p.grad is not None]"),
    ),
    *edits(
        "engine/trl/metrics.py", [PROCESSES, TRL + "learner.py::test_metrics_tell_the_gap_between_sampler_and_learner"],
        ("metrics of one process", "world.sum(0).tolist()", "world[0].tolist()"),
        ("the largest difference of one process", "float(world[:, -1].max())", "float(world[0, -1])"),
        ("the sign of a difference cancels", '(gap.abs() * known).sum()', '(gap * known).sum()'),
        ("loss of all processes added up", 'self.sums["loss"] / len(world)', 'self.sums["loss"]'),
    ),
    *edits(
        "engine/trl/setup.py", [SCHEDULE, SCORES, LOSS, TRL + "contract.py"],
        ("learning-rate schedule off by one", "args.get_warmup_steps(args.max_steps), args.max_steps)", "args.get_warmup_steps(args.max_steps), args.max_steps + 1)"),
        ("no warmup", "warmup_steps=train.warmup", "warmup_steps=0"),
        ("temperature lost", "temperature=train.temperature", "temperature=1.0"),
        ("weight decay", "weight_decay=0.0", "weight_decay=0.1"),
        ("always grpo's loss", "loss_type=train.loss", 'loss_type="grpo"'),
        ("dr_grpo divides by another length", "max_completion_length=train.max_completion_tokens", "max_completion_length=256"),
    ),
    *edits(
        "engine/trl/state.py", [RESUME],
        ("resume loses the optimizer's state", "    _load_moments(load_file(folder / OPTIMIZER), pair, optimizer)\n", ""),
        ("resume loses the schedule", '    scheduler.load_state_dict(state["schedule"] | {"lr_lambdas": [None] * len(optimizer.param_groups)})\n', ""),
        ("resume loses the rate", '        group["lr"] = rate\n', "        pass\n"),
        ("moments of A for B", "state.setdefault(order.index(name), {})", 'state.setdefault(order.index(name.replace("b/", "a/", 1).replace(".b.", ".a.")), {})'),
    ),
    *edits(
        "engine/trl/learner.py", [RESUME, TRL + "learner.py::test_fit_stops_on_request_and_resumes_where_it_stopped"],
        ("resume swaps the adapters", "self.pair.load(policy, folder / policy.value)", "self.pair.load(policy, folder / policy.rival.value)"),
        ("resume from step 0", "self.step = load_state(", "load_state("),
        ("a step is one late", "return Update(step,", "return Update(step + 1,"),
    ),
    *edits(
        "engine/adapters.py", [ADAPTERS],
        ("B's noise not applied", "        _add_noise(pair, init.b_noise_std)\n", ""),
        ("noise in A", "pair.named_parameters(Policy.B).items():\n            if", "pair.named_parameters(Policy.A).items():\n            if"),
        ("noise of another size", "dtype=torch.float32) * std", "dtype=torch.float32) * std * 2"),
        ("A and B share their start", 'seed_for(seed, "lora", Policy.B)', 'seed_for(seed, "lora", Policy.A)'),
        ("alpha lost", '"lora_alpha": lora.alpha', '"lora_alpha": lora.rank'),
        ("dropout", '"lora_dropout": 0.0', '"lora_dropout": 0.1'),
        ("the hash does not see weights", "        digest.update(tensor.view(torch.uint8).numpy().tobytes())\n", ""),
        ("an inactive adapter is frozen", "                parameter.requires_grad_(True)", "                parameter.requires_grad_(policy.value in self.model.active_adapters)"),
        ("the head carries an adapter", " and module is not head", ""),
        ("export writes the rival", "        state = self._state(policy)\n        save_file", "        state = self._state(policy.rival)\n        save_file"),
    ),
    *edits(
        "engine/hf/sampler.py", [HF + "::test_log_probs_are_those_of_the_version_that_was_asked", HF + "::test_every_completion_says_which_version_made_it",
                         HF + "::test_the_same_seed_gives_the_same_completion_whatever_shares_the_batch", HF + "::test_top_p_draws_from_the_nucleus_only",
                         HF + "::test_a_completion_ends_at_its_stop_token_or_at_its_cap",
                         HF + "::test_drawing_leaves_the_weights_of_the_base_as_they_were_to_the_bit",
                         HF + "::test_a_policy_draws_from_its_own_adapter_whatever_was_loaded_last"],
        ("hf serves the latest slot", "self._peft.set_adapter(self._slots[version])", "self._peft.set_adapter([*self._slots.values()][-1])"),
        ("hf merges the latest slot", "with self._merged(self._slots[version]):", "with self._merged([*self._slots.values()][-1]):"),
        ("hf: rows share a seed", "manual_seed(seed) for seed in seeds]", "manual_seed(seeds[0]) for seed in seeds]"),
        ("hf: the stop token is not learnt", "length = room if end is None else end + 1", "length = room if end is None else max(end, 1)"),
        ("hf: log-probs of the noise", "logps.gather(1, noisy.argmax", "noisy.gather(1, noisy.argmax"),
        ("hf: temperature ignored", "logits.float() / (sampling.temperature or 1.0)", "logits.float()"),
        ("hf: versions mixed in a batch", " if _kind(job) == _kind(self._pending[0])]", "]"),
        ("hf: a merged adapter stays in the base", "                layer.get_base_layer().weight.data = weight\n", ""),
    ),
    *edits(
        "engine/member.py", FLEET,
        ("a restarted engine has no versions", "                        await self.in_time(self.engine.load(version, folder))\n", "                        pass\n"),
        ("what becomes live during a restart is missed", "while missing := [", "if missing := ["),
        ("a version is asked for where it is not", "return version in self.held or version not in self._live", "return True"),
        ("what cannot be a completion is used", "        drawn.check(draw, vocabulary)\n", ""),
    ),
    *edits(
        "engine/fleet.py", FLEET,
        ("an unloaded version comes back", "            self._live.pop(version, None)\n        await self._do", "            pass\n        await self._do"),
        ("failures are never forgiven", "member.failures, member.forgiven = 0, member.done", "pass"),
        ("failures are forgiven without a draw", " or member.done > member.forgiven", " or True"),
        ("a draw goes back to the engine that failed", ", avoid=failed)", ")"),
    ),
    *edits(
        "pool.py", ["tests/test_pool.py", *FLEET],
        ("the busiest worker is asked", "return min(able, key=lambda", "return max(able, key=lambda"),
        ("a restarted worker works unchecked", "State.CHECKING if self.gated else State.UP", "State.UP"),
        ("a check of an earlier life lets a worker in", "worker.state is State.CHECKING and worker.life == life", "worker.state is State.CHECKING"),
        ("a worker that is put aside comes back", "if worker.state is State.DOWN:  # else it was put aside meanwhile", "if True:"),
        ("workers start while nothing may", "                await self.may_start.wait()\n", ""),
        ("a failure of an earlier life counts", "if worker.runs and worker.life == life:", "if worker.runs:"),
        ("a worker without work is taken down", "if not worker.has_work or slack", "if slack"),
        ("work waits for a worker that is gone", "if not task.done() and down.result().gone:", "if False:"),
        ("a worker is restarted without end", "            if worker.failures > self.most:\n", "            if False:\n"),
        ("workers that start together do not share", "asyncio.get_running_loop().call_soon(self._hand_out)", "self._hand_out()"),
        ("work that waits outlives the pool", "            self._look_again(worker)\n        for task", "        for task"),
        ("a cancelled task keeps its slot", "                    self._release(found.result())\n", "                    pass\n"),
    ),
    *edits(
        "engine/vllm/door.py", ["tests/engine/test_backend.py"],
        ("every process draws", 'return os.environ.get("RANK" if self.config.sampler.urls else "LOCAL_RANK", "0") == "0"', "return True"),
        ("every machine draws from the same servers", '"RANK" if self.config.sampler.urls else "LOCAL_RANK"', '"LOCAL_RANK"'),
        ("one process draws for all machines", '"RANK" if self.config.sampler.urls else "LOCAL_RANK"', '"RANK"'),
    ),
    *edits(
        "engine/vllm/canary.py", [CANARY],
        ("only the first engine is asked", "            numbers = [member.number for member in fleet.members if member.runs]\n",
         "            numbers = [member.number for member in fleet.members if member.runs][:1]\n"),
        ("restarted engines draw unchecked", "        sampler.fleet.gated = mode != \"off\"\n", ""),
        ("a wrong engine draws on", "if error and self.mode == \"stop\":\n                self.sampler", "if False:\n                self.sampler"),
        ("what an engine attests is ignored", "                if differing:\n", "                if False:\n"),
        ("a slot is not asked after the step", "        if errors and self.mode == \"stop\":\n", "        if False:\n"),
        ("a restarted engine is trusted", "        is_new = self.lives.get(number) != member.life\n", "        is_new = number not in self.lives\n"),
        ("a new version is not asked about", "[version for version in self._digests if version not in known]", "list(versions.values()) if is_new else []"),
        ("the file is read anew each time", "self._digests.get(version) or hashlib", "hashlib"),
        ("a different base is accepted", "if not gaps.get(BASE, 0.0) <= self.limit:", "if False:"),
        ("an adapter that is applied differently is accepted", "if not gaps.get(version, 0.0) <= self.limit:", "if False:"),
        ("adapters may be ignored", "if not gap > self.limit]:", "if False]:"),
        ("one dead slot is accepted", "if ignored := [gap", "if len(thrown) == 1 and [gap"),
        ("each engine is scored by itself", "scores = iter(self.learner.score(policy, [row for some in rows for row in some]) if rows else ())",
         "scores = iter([score for some in rows for score in self.learner.score(policy, some)])"),
        ("an engine that cannot attest is never compared again", "            elif found.silent:\n", "            elif False:\n"),
        ("off still checks", "        while self.mode != \"off\":\n", "        while True:\n"),
    ),
    *edits(
        "engine/vllm/worker.py", ["tests/engine/vllm/test_worker.py"],
        ("any file will do", "        wrong = [] if same_file else", "        wrong = [] if True else"),
        ("layers are compared with themselves", "vars(filled).update({attribute: _cloned(value) for attribute, value in vars(layer).items()})", "vars(filled).update(vars(layer))"),
        ("a layer without weights may hold any", "            filled.reset_lora(index)\n", ""),
        ("almost equal is equal", "torch.equal(one.flatten().view(torch.uint8), other.flatten().view(torch.uint8))", "torch.allclose(one, other, atol=0.01)"),
        ("an adapter must be in a slot already", "        workers.add_adapter(REQUESTS[name])  # as before every batch: into a slot, if it is in none\n", ""),
    ),
    *edits(
        "engine/vllm/sampler.py", ["tests/engine/vllm/test_sampler.py"],
        ("all requests share a seed", "Draw(rendered.ids, version, request.seed, request.sampling, watch)", "Draw(rendered.ids, version, 0, request.sampling, watch)"),
        ("completions do not fit in the context", "min(draw.sampling.max_tokens, self.fleet.context - len(draw.ids))", "draw.sampling.max_tokens"),
        ("requests of both policies go to one", "version = self._versions.resolve(request.seat)", "version = [*self._versions.live][0]"),
    ),
    *edits(
        "engine/vllm/server.py", [f"{SERVER}::test_{name}" for name in (
            "ids_go_in_and_out_and_every_setting_is_said_aloud", "a_resumed_run_never_reuses_a_name_on_a_live_server",
            "a_servers_failure_is_retried_with_the_same_versions", "a_server_with_log_probs_of_another_distribution_is_refused",
            "a_server_that_was_started_again_while_idle_gets_its_adapters_back")],
        ("server: a name is used again", 'name = f"{version}+{self._nonce}"', "name = str(version)"),
        ("server: the adapter is not asked for", '"model": self._names.get(draw.version, self._model)', '"model": self._model'),
        ("server: the checkpoint's settings apply", "            **NEUTRAL,\n", ""),
        ("server: seeds are not sent", '"seed": draw.seed', '"seed": 0'),
        ("server: raw log-probs accepted", "if median(drawn.logprobs) < -1e-3:", "if False:"),
    ),
    *edits(
        "engine/vllm/local.py", [LOCAL + "::test_log_probs_are_those_of_the_tokens_that_were_drawn",
                                 LOCAL + "::test_a_draw_names_its_adapter_its_seed_and_its_distribution"],
        ("vLLM: the adapter is not asked for", "uuid.uuid4().hex, lora_request=adapter)", "uuid.uuid4().hex, lora_request=None)"),
        ("vLLM: adapters share a number", "LoRARequest(str(version), next(self._numbers), str(folder))", "LoRARequest(str(version), 1, str(folder))"),
        ("vLLM: seeds are not sent", "seed=draw.seed", "seed=0"),
        ("vLLM: temperature ignored", "temperature=draw.sampling.temperature", "temperature=1.0"),
        ("vLLM: log-probs of other tokens", "if tuple(flat.token_ids) != ids:", "if False:"),
    ),
]  # fmt: skip
"""Their tests run models, or stand-ins for engines."""

QUICK = [mutation for mutation in LIGHT if mutation.tests in ((PUBLISH,), (RECORD,))][::2]
IMPORTS = ("agon.engine.trl.learner", "transformers.models.qwen3.modeling_qwen3", "vllm.v1.engine.exceptions")


def main() -> None:
    args = arguments(__doc__)
    chosen = QUICK if args.quick else [*HEAVY, *LIGHT]
    verdict(**judged("engine/ and training/", chosen, 100, args.quick, () if args.quick else IMPORTS))


if __name__ == "__main__":
    main()
