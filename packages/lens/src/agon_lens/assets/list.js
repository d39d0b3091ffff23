// The list of bouts: only visible rows are in the document.

const ROW = 56, SPARE = 6;

class List {
  constructor(store, choose) {
    this.store = store;
    this.choose = choose;
    this.box = byId("list");
    this.spacer = byId("spacer");
    this.rows = [];
    this.current = null;
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.height = this.box.clientHeight;
    new ResizeObserver(() => { this.height = this.box.clientHeight; this.select(this.current); }).observe(this.box);
  }
  show(rows, current) {
    this.rows = rows;
    this.spacer.style.height = `${rows.length * ROW}px`;
    this.box.scrollTop = 0;
    this.select(current);
  }
  select(i) {
    this.current = i;
    const place = this.rows.indexOf(i), at = this.box.scrollTop;
    if (place >= 0 && this.height) {
      const top = place * ROW, low = top + ROW - this.height;
      if (at > top) this.box.scrollTop = top;
      else if (at < low) this.box.scrollTop = low;
    }
    this.draw();
  }
  step(by) {
    const place = this.rows.indexOf(this.current);
    const to = place < 0 ? 0 : Math.max(0, Math.min(this.rows.length - 1, place + by));
    if (this.rows.length) this.choose(this.rows[to]);
  }
  draw() {
    const at = this.box.scrollTop;
    const first = Math.max(0, Math.floor(at / ROW) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((at + this.height) / ROW) + SPARE);
    const seen = [];
    for (let place = first; place < last; place++) seen.push(this.row(place));
    this.spacer.replaceChildren(...seen);
  }
  row(place) {
    const i = this.rows[place], { store } = this;
    const [, question] = store.problem(i);
    const kind = store.has(i, "converted") ? "converted" : store.has(i, "regressed") ? "regressed" : "";
    const where = store.rewarded ? [`step ${store.columns.step[i]}`, `#${store.columns.index[i]}`] : [`sample ${store.columns.index[i]}`];
    const advantage = store.value(i, store.hasChallenge(i) ? "challenge" : "draft", "advantage");
    if (advantage !== null) where.push(`adv ${signed(advantage)}`);
    where.push(...MARKS.filter((mark) => store.marked(i, mark)));
    const node = h("div", { class: `row ${kind}`, role: "option", "aria-selected": String(i === this.current), onclick: () => this.choose(i) },
      h("span", { class: "q" }, store.titles[store.columns.problem[i]]), h("span", { class: "w" }, where.join(" · ")),
      h("span", { class: "v" }, seat(store, i, "draft"), store.hasChallenge(i) ? ["→", seat(store, i, "challenge")] : null));
    node.style.top = `${place * ROW}px`;
    return node;
  }
}

function seat(store, i, side) {
  const policy = side === "draft" ? store.columns.drafter[i] : store.columns.challenger[i];
  const verdict = !store.value(i, side, "graded") ? "none" : store.value(i, side, "correct") ? "right" : "wrong";
  return h("span", { class: `seat ${policy} ${verdict}`, title: `${side}: ${verdict === "none" ? "no verdict" : verdict}` }, policy === "base" ? "∘" : capital(policy));
}
