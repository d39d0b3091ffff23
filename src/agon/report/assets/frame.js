// What the pages share: rows that pass the filters, the step slider, the row in the address, the tally, keys, the start.
// A page has `state`, `KEYS`, `apply`, `clear`, `spark` and `countSteps`.

let store, list, view, sparked;

// Show the rows that passed; the open one stays open if it is among them.
function showRows(rows, noun) {
  byId("count").textContent = `${rows.length === store.size ? "" : `${count(rows.length)} of `}${count(store.size)} ${noun}`;
  byId("step").value = state.step === null ? 0 : store.steps.indexOf(state.step) + 1;
  byId("step-name").textContent = state.step === null ? `all ${count(store.steps.length)}` : `${count(state.step)} of ${count(store.steps.at(-1))}`;
  if (state.step !== sparked) spark();
  const kept = rows.includes(list.current);
  list.show(rows, kept || !rows.length ? list.current : rows[0]);
  if (rows.length && !kept) choose(rows[0], false);
}

function choose(i, open = true) {
  byId("main").dataset.bout = i;
  if (list.current !== i) list.select(i);
  view.show(i);
  if (open) byId("main").classList.add("open");
  try { history.replaceState(null, "", `#${i}`); } catch { /* some browsers refuse this for a file */ }
}

function flip(kind, name) {
  flipIn(state[kind], name);
  apply();
}

function toStep(place) {
  state.step = place > 0 ? store.steps[Math.min(place, store.steps.length) - 1] : null;
  apply();
}

function showAgain() {
  if (list.current !== null) view.show(list.current, true);
}

function setMath(on) {
  view.math = on;
  byId("math").setAttribute("aria-pressed", String(on));
  showAgain();
}

function tallyItem(name, value, note, kind, about) {
  return h("div", { class: kind || "", title: about || "" }, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null));
}

const COMMON_KEYS = {
  j: () => list.step(1), k: () => list.step(-1), ArrowDown: () => list.step(1), ArrowUp: () => list.step(-1),
  "[": () => toStep(Math.max(0, +byId("step").value - 1)), "]": () => toStep(+byId("step").value + 1), 0: () => toStep(0),
  x: () => clear(), t: () => view.toggle("trace"), m: () => setMath(!view.math), d: () => byId("theme").click(),
  "/": () => byId("search").focus(), "?": () => byId("help").showModal(),
  Escape: () => { byId("main").classList.remove("open"); byId("list").focus(); },
};

function listen() {
  byId("search").addEventListener("input", (event) => { state.search = event.target.value; apply(); });
  byId("step").addEventListener("input", (event) => toStep(+event.target.value));
  byId("spark").addEventListener("click", (event) => toStep(1 + Math.floor(event.offsetX / event.target.clientWidth * store.steps.length)));
  byId("clear").addEventListener("click", clear);
  byId("math").addEventListener("click", () => setMath(!view.math));
  byId("keys").addEventListener("click", () => byId("help").showModal());
  listenToKeys({ ...COMMON_KEYS, ...KEYS }, () => list.current !== null);
  addEventListener("resize", spark);
}

// `open` gives the store; `build` makes the list, the view and the chips of a page from it.
async function start(open, build, noun) {
  listenToTheme(() => { if (store) spark(); });
  if (!("DecompressionStream" in window)) throw new Error("this browser is too old: one from 2023 or later is needed");
  store = await open();
  byId("name").replaceChildren(...visible(store.name));
  byId("facts").replaceChildren(...visible(store.facts.join(" · ")));
  byId("facts").title = byId("facts").textContent; // the header may have no room for all of them
  build();
  byId("step").max = store.steps.length;
  byId("steps").hidden = store.steps.length < 2;
  countSteps();
  listen();
  const asked = /^#\d+$/.test(location.hash) ? Number(location.hash.slice(1)) : store.size;
  apply();
  if (asked < store.size) choose(asked);
  else if (store.best !== null) choose(store.best, false);
  if (!store.size) byId("bout").replaceChildren(h("p", { class: "wait" }, `There are no ${noun} here.`));
  document.documentElement.dataset.readyMs = performance.now().toFixed(1);
}

function failed(error) {
  byId("bout").replaceChildren(h("p", { class: "wait" }, `This page could not open its data: ${error.message}`));
}
