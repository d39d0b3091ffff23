// One group: the prompt, the rewards of its completions term by term, and the completions side by side.

const STRIP = 16;

class GroupList extends List {
  row(place) {
    const g = this.rows[place], { store } = this, mean = store.mean(g), step = store.groups.step[g];
    const where = [step === null ? null : `step ${step}`, `${store.groups.size[g]} rows`, `mean ${number(mean)}`, store.groups.kind[g] === "live" ? null : store.groups.kind[g]];
    const rows = store.members(g).slice(0, STRIP);
    const node = h("div", { class: `row ${store.groups.kind[g] === "live" ? "" : "dead"}`, role: "option", "aria-selected": String(g === this.current), onclick: () => this.choose(g) },
      h("span", { class: "q" }, plain(store.groups.title[g]) || `group ${g}`), h("span", { class: "w" }, where.filter(Boolean).join(" · ")),
      h("span", { class: "v strip", title: "one square per completion: its reward, from the least of the log to the greatest" }, rows.map((i) => square(store, i))));
    node.style.top = `${place * ROW}px`;
    return node;
  }
}

function square(store, i) {
  const node = h("i", { class: store.rows.total[i] === null ? "none" : "" });
  node.style.setProperty("--v", store.place(store.rows.total[i], store.range).toFixed(2));
  return node;
}

class GroupView extends TextView {
  constructor(store) {
    super(byId("bout"));
    this.store = store;
    this.best = false;
  }
  async show(g, keepPlace) {
    const texts = await this.store.texts(g);
    if (byId("main").dataset.bout !== String(g)) return;
    const place = this.box.scrollTop, rows = this.ordered(g);
    this.box.replaceChildren(...[this.found(g), this.head(g), this.asked(texts), this.table(rows), h("div", { class: "cards" }, rows.map((i) => this.card(i, g, texts)))].filter(Boolean));
    this.box.scrollTop = keepPlace ? place : 0;
    if (this.toGroup) this.box.querySelector(".head").scrollIntoView(); // from a finding to the group that shows it
    this.toGroup = false;
  }
  ordered(g) {
    const rows = this.store.members(g), { total } = this.store.rows;
    return this.best ? rows.sort((a, b) => (total[b] ?? -Infinity) - (total[a] ?? -Infinity)) : rows;
  }
  head(g) {
    const { store } = this, step = store.groups.step[g], kind = store.groups.kind[g];
    const marks = store.marks.filter((_, k) => store.bits[g][k]).map((mark) => h("span", { class: "badge" }, mark));
    return h("div", { class: "head" },
      h("button", { type: "button", class: "plain back", onclick: () => byId("main").classList.remove("open") }, "← All groups"),
      h("span", { class: "where" }, `${step === null ? "Group" : `Step ${step} · group`} ${g} · ${store.groups.size[g]} completions`),
      h("span", { class: `badge ${kind === "live" ? "right" : "truncated"}` }, kind === "live" ? "live" : kind), marks);
  }
  asked(texts) {
    const gold = texts.gold ? h("div", { class: "gold" }, "Reference answer  ", isProgram(texts.gold) ? program(texts.gold) : h("b", {}, bare(texts.gold, this.math))) : null;
    return h("section", { class: "problem" }, texts.prompt ? this.long(texts.prompt, "asked") : h("p", { class: "none-said" }, "the log has no prompts"), gold);
  }

  // A column that does not vary in this group is grey: the group's mean cancels it.
  table(rows) {
    const { store } = this, { terms, total, advantage } = store.rows;
    const flat = (values) => { const [low, high] = extent(rows.map((i) => values[i])); return high - low < 1e-6; };
    const head = h("tr", {}, h("th", {}, "row"), h("th", {}, "total"), h("th", {}, "advantage"), store.terms.map((name, k) => h("th", { class: flat(terms[k]) ? "flat" : "" }, name)));
    const line = (i) => h("tr", { onclick: () => this.goTo(i) }, h("td", {}, `#${i - store.first[this.group()]}`, this.mark(i)),
      this.cell(total[i], store.range, flat(total), "total"), h("td", { class: `adv ${sign(advantage[i])}` }, advantage[i] === null ? "–" : signed(advantage[i])),
      terms.map((values, k) => this.cell(values[i], store.ranges[k], flat(values))));
    return h("div", { class: "scroll" }, h("table", { class: "terms" }, h("thead", {}, head), h("tbody", {}, rows.map(line))));
  }
  cell(value, range, flat, kind) {
    return h("td", { class: `${flat ? "flat" : ""} ${kind || ""}` }, h("span", {}, value === null ? "not graded" : number(value)), range[0] < range[1] ? this.bar(value, range) : null);
  }
  // From zero, to the left where it is negative; the line is at zero.
  bar(value, range) {
    const scale = [Math.min(0, range[0]), Math.max(0, range[1])], percent = (x) => 100 * this.store.place(x, scale);
    const [left, right] = [0, value === null ? 0 : value].sort((a, b) => a - b).map(percent);
    const bar = h("i"), zero = h("i", { class: "zero" });
    Object.assign(bar.style, { left: `${left.toFixed(1)}%`, width: `${(right - left).toFixed(1)}%` });
    zero.style.left = `${percent(0).toFixed(1)}%`;
    return h("i", { class: "track" }, bar, zero);
  }
  mark(i) {
    const right = this.store.rows.correct[i];
    return right === null ? null : h("span", { class: `badge ${right ? "right" : "wrong"}` }, right ? "✓" : "✗");
  }
  group() { return Number(byId("main").dataset.bout); }
  goTo(i) {
    byId(`row-${i}`).scrollIntoView({ behavior: "smooth", block: "nearest", inline: "center" });
  }

  card(i, g, texts) {
    const { store } = this, whole = texts.completions[i - store.first[g]];
    const turns = typeof whole === "string" ? null : whole, text = turns ? turns.map(([, said]) => said).join("\n") : whole;
    if (turns) return this.frame(i, g, text, h("div", { class: "turns" }, turns.map(([role, said]) => h("div", { class: `turn ${role === "assistant" ? "own" : ""}` }, h("small", {}, role), said ? this.long(said) : null))));
    const end = text.lastIndexOf("</think>"), after = end < 0 ? text : text.slice(end + 8);
    const trace = end < 0 ? null : this.folded("trace", "Reasoning", `${count(end)} characters`, () => this.long(text.slice(0, end + 8), "trace"));
    const said = after.trim() ? this.long(after.trim()) : h("p", { class: "none-said" }, text ? "nothing after the reasoning" : "the log has no completion here");
    return this.frame(i, g, text, trace, h("div", { class: "part" }, said));
  }
  frame(i, g, text, ...parts) {
    const { store } = this, { total, advantage, truncated } = store.rows;
    return h("section", { class: `card ${sign(advantage[i])}`, id: `row-${i}` },
      h("header", {}, h("h2", {}, `#${i - store.first[g]}`), this.mark(i), truncated[i] ? h("span", { class: "badge truncated" }, "truncated") : null,
        h("span", { class: "version" }, `${count(text.length)} characters`)),
      h("div", { class: "part" }, this.sum(i, total[i]), h("div", { class: `adv ${sign(advantage[i])}` }, advantage[i] === null ? "no advantage" : `advantage ${signed(advantage[i])}`)),
      parts);
  }
  sum(i, total) {
    const { store } = this;
    if (total === null) return h("div", { class: "sum" }, h("span", { class: "nil" }, "not graded"));
    const parts = store.terms.map((name, k) => [name, store.rows.terms[k][i]]);
    const added = parts.flatMap(([name, x], k) => [k ? (x < 0 ? "−" : "+") : null, h("span", { class: x ? "" : "nil" }, number(k && x < 0 ? -x : x), " ", h("small", {}, name))]);
    return h("div", { class: "sum" }, added, "=", h("span", { class: "total" }, number(total)));
  }
  // What was found comes first; it stays closed once a reader has closed it.
  found(g) {
    const { findings } = this.store;
    if (!findings.length) return null;
    const box = h("details", { class: "found", open: this.foundOpen !== false },
      h("summary", {}, findingsTitle(findings)),
      h("ol", {}, findings.map((finding) => this.finding(finding, g))));
    box.addEventListener("toggle", () => { this.foundOpen = box.open; });
    return box;
  }
  finding({ sentence, fix, page, cost, first, example }, g) {
    const show = example === null ? null : h("button", { type: "button", class: "plain", disabled: example === g, onclick: () => { this.toGroup = true; choose(example); } }, example === g ? "shown below" : "show a group");
    return h("li", { class: cost ? "cost" : "" }, prose(sentence), " ", fix ? h("span", { class: "fix" }, first ? "Change first: " : "", prose(fix)) : null, " ", show,
      h("a", { href: page, rel: "noreferrer", target: "_blank" }, "what this means"));
  }
}

function findingsTitle(findings) {
  const costs = findings.filter((finding) => finding.cost).length;
  return `${findings.length} finding${findings.length === 1 ? "" : "s"}; ${costs || "none"} on lost signal`;
}

const sign = (x) => (x === null || x === 0 ? "none" : x > 0 ? "up" : "down");
