// One bout: the problem, its group, the draft, what the challenger saw, the challenge.

class BoutView extends TextView {
  constructor(store, choose) {
    super(byId("bout"));
    this.store = store;
    this.choose = choose;
  }
  async show(i, keepPlace) {
    const texts = await this.store.texts(i);
    if (byId("main").dataset.bout !== String(i)) return;
    const { store } = this, two = store.hasChallenge(i), place = this.box.scrollTop;
    this.box.replaceChildren(this.head(i), this.problem(i), this.group(i),
      h("div", { class: two ? "pair" : "pair single" }, this.draft(i, texts), two ? this.challenge(i, texts) : null));
    this.box.scrollTop = keepPlace ? place : 0;
  }

  head(i) {
    const { store } = this;
    const badges = OUTCOMES.filter((name) => store.has(i, name)).map((name) => h("span", { class: `badge ${name}` }, name));
    const marks = MARKS.filter((name) => store.marked(i, name)).map((name) => h("span", { class: `badge ${name.split(" ")[0]}` }, name));
    return h("div", { class: "head" },
      h("button", { type: "button", class: "plain back", onclick: () => byId("main").classList.remove("open") }, "← All bouts"),
      h("span", { class: "where" }, `${store.rewarded ? `Step ${store.columns.step[i]} · bout` : "Sample"} ${store.columns.index[i]} · problem ${store.problem(i)[0]}`), badges, marks);
  }
  problem(i) {
    const [, question, answer] = this.store.problem(i);
    const gold = !answer ? ["Judged by tests"] : isProgram(answer) ? ["Reference answer  ", program(answer)] : ["Reference answer  ", h("b", {}, bare(answer, this.math))];
    return h("section", { class: "problem" }, this.long(question), h("div", { class: "gold" }, gold));
  }
  group(i) {
    const { store } = this, members = store.group(i);
    if (members.length < 2) return h("div", { class: "group" });
    return h("nav", { class: "group", "aria-label": "Bouts of this group" }, `Group of ${members.length}`, members.map((k) => this.member(k, i)));
  }
  member(k, i) {
    const { store } = this, sides = store.hasChallenge(k) ? ["draft", "challenge"] : ["draft"];
    const advantage = store.value(k, sides.at(-1), "advantage");
    const dot = (side) => h("i", { class: !store.value(k, side, "graded") ? "none" : store.value(k, side, "correct") ? "right" : "" });
    return h("button", { type: "button", "aria-current": String(k === i), title: `bout ${store.columns.index[k]}: draft, challenge, advantage of the challenge`, onclick: () => this.choose(k) },
      h("span", { class: "dots" }, sides.map(dot)), advantage === null ? "–" : signed(advantage));
  }

  draft(i, texts) {
    return this.card(i, "draft", "drafts", texts, null);
  }
  challenge(i, texts) {
    return this.card(i, "challenge", "challenges", texts, this.seen(i, texts));
  }
  card(i, side, verb, texts, seen) {
    const { store } = this, policy = side === "draft" ? store.columns.drafter[i] : store.columns.challenger[i];
    const [trace, after, detail] = texts[side];
    return h("section", { class: `card ${policy}` },
      h("header", {}, h("h2", {}, `${capital(policy)} ${verb}`), this.verdict(i, side), h("span", { class: "version" }, store.versions[store.value(i, side, "version")])),
      this.finding(i, side, detail), seen, this.trace(i, side, trace), this.after(after), this.reward(i, side, detail));
  }
  verdict(i, side) {
    const { store } = this, right = store.value(i, side, "correct"), graded = store.value(i, side, "graded");
    const word = store.reasons[store.value(i, side, "reason")].replace("_", " ");
    return h("span", { class: `badge ${right ? "right" : graded ? "wrong" : ""}` }, `${right ? "✓" : graded ? "✗" : "?"} ${word}`);
  }
  // Which test failed: what a reader looks for first.
  finding(i, side, detail) {
    const failed = !this.store.value(i, side, "correct") && detail.startsWith("test ");
    return failed ? h("p", { class: "finding failed" }, detail) : null;
  }
  trace(i, side, trace) {
    const { store } = this, truncated = store.value(i, side, "truncated");
    const tokens = `${count(store.value(i, side, "tokens"))} tokens in all, ${count(store.value(i, side, "prompt_tokens"))} in the prompt${truncated ? ", truncated at the limit" : ""}`;
    if (!trace) return h("div", { class: "part" }, h("h3", {}, "Reasoning"), h("p", { class: "none-said" }, `none · ${tokens}`));
    return this.folded("trace", "Reasoning", tokens, () => this.long(trace, "trace"));
  }
  after(after) {
    const said = after.trim() ? this.long(after.trim()) : h("p", { class: "none-said" }, "nothing: the reasoning never ended");
    return h("div", { class: "part" }, h("h3", {}, "Summary and answer"), said);
  }
  seen(i, texts) {
    const policy = this.store.columns.drafter[i], own = policy === this.store.columns.challenger[i];
    const peek = texts.peek ? this.long(texts.peek, `peek ${policy}`)
      : h("p", { class: "none-said" }, texts.peek === null ? "nothing: drafts are hidden in this arm" : "the draft left no summary");
    const rival = this.store.columns.rival[i], index = this.store.columns.index[i];
    const paid = rival !== null && rival !== index ? h("p", { class: "why" }, `Paid on the outcome of draft ${rival}, not of this one.`) : null;
    return h("div", { class: "seen" }, h("div", { class: "part" }, h("h3", {}, own ? "What it saw of its own draft" : `What it saw of ${capital(policy)}'s draft`), peek, paid),
      texts.prompt === null ? null : this.folded("prompt", "The whole prompt", "exactly as it was given", () => this.prompt(texts, policy)));
  }
  prompt(texts, policy) {
    const at = texts.peek ? texts.prompt.lastIndexOf(texts.peek) : -1;
    if (at < 0) return h("div", { class: "text ours" }, texts.prompt);
    return h("div", { class: "text ours" }, texts.prompt.slice(0, at), h("span", { class: `peek ${policy}` }, texts.peek), texts.prompt.slice(at + texts.peek.length));
  }
  reward(i, side, detail) {
    const { store } = this, total = store.value(i, side, "reward"), advantage = store.value(i, side, "advantage");
    const prefix = `${side}_reward_`, names = Object.keys(store.columns).filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
    const parts = names.map((name) => [name, store.value(i, side, `reward_${name}`)]).filter(([name, x]) => x !== null && (x !== 0 || name === "correctness" || name === "format"));
    const sum = total === null ? [h("span", { class: "nil" }, this.store.rewarded ? "no reward: not graded" : "no reward: an evaluation")]
      : [...parts.flatMap(([name, x], k) => [k ? "+" : null, h("span", { class: x ? "" : "nil" }, number(x), " ", h("small", {}, name))]), "=", h("span", { class: "total" }, number(total))];
    const kind = advantage === null ? "none" : advantage > 0 ? "up" : "down";
    const worth = this.store.rewarded ? h("span", { class: `adv ${kind}` }, advantage === null ? "no advantage" : `advantage ${signed(advantage)}`) : null;
    return h("div", { class: "part" }, h("h3", {}, "Reward"), h("div", { class: "sum" }, sum, worth), this.why(i, side, detail));
  }
  why(i, side, detail) {
    const formed = this.store.value(i, side, "well_formed") ? "well formed" : "not well formed";
    return h("p", { class: "why" }, detail ? `${formed} · ${detail}` : formed);
  }
}
