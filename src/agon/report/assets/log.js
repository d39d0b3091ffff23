// The page of a log: filters, step slider, keys, theme, and the group in the address.

const state = { search: "", kinds: new Set(), marks: new Set(), step: null };
let store, list, view, sparked;

function apply() {
  const { found, byKind, byMark } = store.filter(state);
  showChips("outcomes", byKind, state.kinds);
  showChips("marks", byMark, state.marks);
  [...byId("marks").children].forEach((chip, k) => { chip.hidden = !store.bits.some((bits) => bits[k]); });
  tally(found);
  byId("count").textContent = found.length === store.size ? `${count(found.length)} groups` : `${count(found.length)} of ${count(store.size)} groups`;
  byId("step").value = state.step === null ? 0 : store.steps.indexOf(state.step) + 1;
  byId("step-name").textContent = state.step === null ? `all ${count(store.steps.length)}` : `${state.step} of ${store.steps.at(-1)}`;
  if (state.step !== sparked) spark();
  const kept = found.includes(list.current);
  list.show(found, kept || !found.length ? list.current : found[0]);
  if (found.length && !kept) choose(found[0], false);
}

function choose(g, open = true) {
  byId("main").dataset.bout = g;
  if (list.current !== g) list.select(g);
  view.show(g);
  if (open) byId("main").classList.add("open");
  try { history.replaceState(null, "", `#${g}`); } catch { /* some browsers refuse this for a file */ }
}

function flip(kind, name) {
  flipIn(state[kind], name);
  apply();
}

function clear() {
  Object.assign(state, { search: "", kinds: new Set(), marks: new Set(), step: null });
  byId("search").value = "";
  apply();
}

function toStep(place) {
  state.step = place > 0 ? store.steps[Math.min(place, store.steps.length) - 1] : null;
  apply();
}

function tally(found) {
  const rows = found.flatMap((g) => store.members(g)), { total, correct } = store.rows;
  const graded = rows.filter((i) => total[i] !== null), known = rows.filter((i) => correct[i] !== null);
  const live = found.filter((g) => store.groups.kind[g] === "live").length;
  const mean = graded.length ? graded.reduce((sum, i) => sum + total[i], 0) / graded.length : null;
  const item = (name, value, note, kind) => h("div", { class: kind || "" }, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null));
  const right = known.length ? item("right", percent(known.filter((i) => correct[i]).length, known.length), `of ${count(known.length)}`, "good") : null;
  byId("tally").replaceChildren(...[item("completions", count(rows.length), "", "wide"), right, item("mean reward", number(mean)),
    item("live groups", percent(live, found.length), `of ${count(found.length)}`)].filter(Boolean));
}

// Live groups above the line, dead ones below it.
function spark() {
  sparked = state.step;
  drawSpark(store.steps, state.step, (k) => [20 * store.perStep[k].live, 13 * store.perStep[k].dead]);
}

function countSteps() {
  const counts = new Map(store.steps.map((step) => [step, { n: 0, live: 0 }]));
  store.groups.step.forEach((step, g) => {
    const cell = counts.get(step);
    if (cell) { cell.n++; cell.live += store.groups.kind[g] === "live"; }
  });
  store.perStep = [...counts.values()].map(({ n, live }) => ({ live: live / n, dead: 1 - live / n }));
}

function again() {
  if (list.current !== null) view.show(list.current, true);
}

function setMath(on) {
  view.math = on;
  byId("math").setAttribute("aria-pressed", String(on));
  again();
}

function setOrder() {
  view.best = !view.best;
  byId("order").setAttribute("aria-pressed", String(view.best));
  again();
}

const KEYS = {
  j: () => list.step(1), k: () => list.step(-1), ArrowDown: () => list.step(1), ArrowUp: () => list.step(-1),
  "[": () => toStep(Math.max(0, +byId("step").value - 1)), "]": () => toStep(+byId("step").value + 1), 0: () => toStep(0),
  o: setOrder, x: clear, t: () => view.toggle("trace"), m: () => setMath(!view.math), d: () => byId("theme").click(),
  "/": () => byId("search").focus(), "?": () => byId("help").showModal(),
  Escape: () => { byId("main").classList.remove("open"); byId("list").focus(); },
};

function listen() {
  byId("search").addEventListener("input", (event) => { state.search = event.target.value; apply(); });
  byId("step").addEventListener("input", (event) => toStep(+event.target.value));
  byId("spark").addEventListener("click", (event) => toStep(1 + Math.floor(event.offsetX / event.target.clientWidth * store.steps.length)));
  byId("clear").addEventListener("click", clear);
  byId("math").addEventListener("click", () => setMath(!view.math));
  byId("order").addEventListener("click", setOrder);
  byId("keys").addEventListener("click", () => byId("help").showModal());
  listenToKeys(KEYS, () => list.current !== null);
  addEventListener("resize", spark);
}

async function start() {
  listenToTheme(() => { if (store) spark(); });
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: one from 2023 or later is needed");
  store = await GroupStore.open();
  byId("name").replaceChildren(...visible(store.name));
  byId("facts").replaceChildren(...visible(store.facts.join(" · ")));
  list = new GroupList(store, choose);
  view = new GroupView(store);
  makeChips("outcomes", store.kinds, (name) => flip("kinds", name));
  makeChips("marks", store.marks, (name) => flip("marks", name));
  byId("step").max = store.steps.length;
  byId("steps").hidden = store.steps.length < 2;
  countSteps();
  listen();
  const asked = /^#\d+$/.test(location.hash) ? Number(location.hash.slice(1)) : store.best;
  apply();
  choose(asked < store.size ? asked : store.best, /^#\d+$/.test(location.hash));
  document.documentElement.dataset.readyMs = performance.now().toFixed(1);
}

start().catch((error) => byId("bout").replaceChildren(h("p", { class: "wait" }, `This page could not open its log: ${error.message}`)));
